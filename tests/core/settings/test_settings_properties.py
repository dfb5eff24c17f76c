from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from waystation.cli.sections import SECTIONS
from waystation.core.app.settings import WorkerSettings
from waystation.core.durations import format_duration
from waystation.core.errors import InvalidSetting
from waystation.core.settings.load import load, together
from waystation.core.settings.section import rows, without_secrets
from waystation.core.settings.sources import variable_of

KEYS = sorted({part for setting in rows(together(SECTIONS)) for part in setting.key})
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.dates()
    | st.sampled_from(["redis://h", "30s", "on", "info", "replica", "0", "1", "-1", "inf", "1e400"])
)
NAMES = st.sampled_from(KEYS) | st.text()
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
NEAR_MISSES = st.fixed_dictionaries(
    {},
    optional={
        section: st.none() | st.dictionaries(NAMES, TREES, max_size=4)
        for section in ("store", "worker", "telemetry", "pipeline")
    },
)
VARIABLES = st.sampled_from([variable_of(setting.key) for setting in rows(together(SECTIONS))])
VALUES = st.text(st.characters(exclude_characters="\0"))
A_PASSWORD = st.text(min_size=1).map(lambda text: f"hunter2{text}hunter2")

quickly = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "waystation.yaml"


def loads_or_complains(file: Path, environ: Mapping[str, str]) -> None:
    complaint = "none"
    try:
        load(SECTIONS, file, environ=environ)
    except InvalidSetting as invalid:
        complaint = str(invalid)
    assert len(complaint.splitlines()) == 1


@quickly
@given(tree=TREES | NEAR_MISSES)
def test_any_tree_loads_or_gets_one_line(file: Path, tree: Any) -> None:
    file.write_text(yaml.safe_dump(tree), encoding="utf-8", errors="replace")
    loads_or_complains(file, {})


@quickly
@given(content=st.binary() | st.text().map(lambda text: text.encode(errors="replace")))
def test_any_file_loads_or_gets_one_line(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    loads_or_complains(file, {})


@quickly
@given(environ=st.dictionaries(VARIABLES | NAMES.map("WAYSTATION_STORE__{}".format), VALUES))
def test_any_environment_loads_or_gets_one_line(environ: dict[str, str]) -> None:
    loads_or_complains(Path("nowhere.yaml"), environ)


@quickly
@given(seconds=st.integers(1, 10**9))
def test_every_duration_that_can_be_written_is_read_back(seconds: int) -> None:
    environ = {"WAYSTATION_WORKER__LEASE": format_duration(seconds)}
    assert load(SECTIONS, Path("nowhere.yaml"), environ=environ)[WorkerSettings].lease == seconds


@quickly
@given(
    password=A_PASSWORD,
    url=st.sampled_from(
        [
            "redis://:{}@host:6379/0",
            "redis://me:{}@host",
            "rediss+sentinel://{}@one:1,two:2/main/0",
            "redis://host/0?password={}",
            "redis://:{}",
            "redis://host:{}",
            "unix://:{}@/run/server.sock",
            "{}",
            "{}://host",
            "redis:/{}",
        ]
    ),
)
def test_what_is_shown_or_complained_about_never_holds_the_password(
    password: str, url: str
) -> None:
    # Where nothing is written behind the password, what follows its last @ is the host.
    assume(not (url.endswith(":{}") and "@" in password))
    environ = {"WAYSTATION_STORE__URL": url.format(password)}
    try:
        shown = [row.value for row in load(SECTIONS, Path("nowhere.yaml"), environ=environ).shown()]
    except InvalidSetting as complaint:
        shown = [str(complaint)]
    assert not any("hunter2" in text for text in shown)


def test_a_collector_s_address_is_shown_without_its_password() -> None:
    environ = {"WAYSTATION_TELEMETRY__TRACING__ENDPOINT": "https://me:hunter2@collector:4318"}
    rows = {
        row.name: row.value for row in load(SECTIONS, Path("nowhere.yaml"), environ=environ).shown()
    }
    assert rows["telemetry.tracing.endpoint"] == "https://***@collector:4318"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me:hunter2@host:6379/0", "redis://***@host:6379/0"),
        ("redis://host", "redis://host"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("redis+sentinel://x@a:1,b:2/main/0", "redis+sentinel://***@a:1,b:2/main/0"),
        ("redis://host/0?password=hunter2", "redis://host/0?***"),
        ("redis://host/0?password=a@b", "redis://***"),
        ("redis://host:hunter2@hunter2", "redis://***"),
        ("redis://:hunter2@my-hunter2.example/0", "redis://***"),
        ("unix:///run/server.sock", "unix:///run/server.sock"),
        ("hunter2", "***"),
    ],
)
def test_an_address_is_shown_as_far_as_it_holds_no_secret(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
