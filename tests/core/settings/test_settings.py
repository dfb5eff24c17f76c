from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from waystation.cli.sections import SECTIONS
from waystation.core.app.settings import StoreSettings, TelemetrySettings, WorkerSettings
from waystation.core.durations import Seconds
from waystation.core.errors import InvalidSetting
from waystation.core.runtime.worker import WorkerOptions
from waystation.core.settings.load import Settings, load, text_of
from waystation.core.settings.section import Inherits, Section


class Lane(Section, frozen=True, kw_only=True):
    """A section such as a line may add."""

    queues: tuple[str, ...] = ()
    weights: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    prefix: str = "lane"
    pause: Seconds = 1.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "waystation.yaml"


def loaded(file: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    file.write_text(text)
    return load(SECTIONS, file, environ=environ or {})


def complaint(file: Path, text: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(InvalidSetting) as caught:
        loaded(file, text, environ)
    return str(caught.value)


def test_without_file_and_environment_the_defaults_count() -> None:
    settings = load(SECTIONS, Path("nowhere.yaml"), environ={})
    assert settings[StoreSettings].url is None
    assert settings[WorkerSettings].lease == 30.0


def test_a_file_that_was_asked_for_and_is_missing_is_reported_but_allowed() -> None:
    asked = load(SECTIONS, environ={"WAYSTATION_CONFIG": "nowhere.yaml"})
    assert asked.missing == Path("nowhere.yaml")


def test_the_environment_wins_over_the_file_and_each_value_knows_where_it_stood(file: Path) -> None:
    found = loaded(
        file,
        "worker:\n  lease: 10s\n  grace: 1m30s\n",
        {"WAYSTATION_WORKER__LEASE": "20s"},
    )
    assert found[WorkerSettings].lease == 20.0
    assert found[WorkerSettings].grace == 90.0
    assert found.origins["worker", "lease"] == "WAYSTATION_WORKER__LEASE"
    assert found.origins["worker", "grace"] == f"{file}:3"


def test_one_setting_can_be_read_without_its_section(file: Path) -> None:
    file.write_text("bullmq: {prefix: shop, worker: {concurrency: many}}")
    key = ("bullmq", "prefix")
    assert text_of(key, file, environ={}) == "shop"
    assert text_of(key, file, environ={"WAYSTATION_BULLMQ__PREFIX": "{till}"}) == "{till}"
    assert text_of(("bullmq", "worker"), file, environ={}) is None
    assert text_of(key, file.with_name("none.yaml"), environ={}) is None
    file.write_text("bullmq:\n  prefix: [bull, trial]")
    with pytest.raises(InvalidSetting, match=r"bullmq.prefix \(.*:2\) wants text, got a list"):
        text_of(key, file, environ={})


def test_an_empty_variable_sets_nothing(file: Path) -> None:
    found = loaded(file, "worker: {lease: 10s}", {"WAYSTATION_WORKER__LEASE": ""})
    assert found[WorkerSettings].lease == 10.0


def test_variables_that_are_not_settings_are_left_alone(file: Path) -> None:
    kubernetes = {"WAYSTATION_PORT": "tcp://10.0.0.1:80", "WAYSTATION_SERVICE_HOST": "10.0.0.1"}
    assert loaded(file, "", kubernetes).origins == {}


def test_the_file_is_found_through_the_environment_and_in_the_working_directory(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("worker: {concurrency: 3}")
    assert load(SECTIONS, environ={"WAYSTATION_CONFIG": str(file)})[WorkerSettings].concurrency == 3
    monkeypatch.chdir(file.parent)
    assert load(SECTIONS, environ={})[WorkerSettings].concurrency == 3


def test_words_that_yaml_takes_for_booleans_mean_what_the_setting_wants(file: Path) -> None:
    telemetry = loaded(file, "telemetry: {metrics_host: no, tracing: {enabled: on}}")[
        TelemetrySettings
    ]
    assert telemetry.metrics_host == "no"
    assert telemetry.tracing.enabled is True
    dated = loaded(file, "telemetry: {metrics_host: 2024-01-01}")[TelemetrySettings]
    assert dated.metrics_host == "2024-01-01"


def test_a_section_left_empty_means_its_defaults(file: Path) -> None:
    found = loaded(file, "store:\ntelemetry:\n  tracing:\n").shown()
    assert {row.name: row.value for row in found} == {
        row.name: row.value for row in load(SECTIONS, environ={}).shown()
    }


ALIAS = "FILE:1 is used a second time by an alias (*name); write the value out in both places"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "worker:\n  concurency: 3",
            "worker.concurency (FILE:2) is not a setting; did you mean worker.concurrency?",
        ),
        ("wroker: {lease: 3s}", "wroker (FILE:1) is not a setting; did you mean worker?"),
        ("\nlease: 3s", "lease (FILE:2) is not a setting; did you mean worker.lease?"),
        (
            "pipeline: {zzz: 1}",
            "pipeline.zzz (FILE:1) is not a setting; pipeline has "
            "history, master, driver_memory, prefixes, payloads, spark",
        ),
        (
            "worker: {concurrency: many}",
            "worker.concurrency (FILE:1) wants a whole number, got 'many'",
        ),
        ("worker: {concurrency: 0}", "worker.concurrency (FILE:1) must be at least 1, got 0"),
        (
            "telemetry: {tracing: {endpoint: collector}}",
            "telemetry.tracing.endpoint (FILE:1) must be an address such as http://collector:4318, "
            "got 'collector'",
        ),
        (
            "telemetry: {metrics_port: 65536}",
            "telemetry.metrics_port (FILE:1) wants at most 65535, got '65536'",
        ),
        (
            "worker: {concurrency: }",
            "worker.concurrency (FILE:1) wants a whole number, got nothing",
        ),
        (
            "worker: {lease: 30}",
            "worker.lease (FILE:1) wants a duration such as 500ms, 30s or 1h30m, got '30'",
        ),
        (
            "worker: {watchdog: 30ms}",
            "worker.watchdog (FILE:1) wants a duration of at least 1s, got '30ms'",
        ),
        (
            "telemetry: {log_format: xml}",
            "telemetry.log_format (FILE:1) wants 'auto', 'json' or 'console', got 'xml'",
        ),
        (
            "telemetry: {tracing: {enabled: maybe}}",
            "telemetry.tracing.enabled (FILE:1) wants true or false, got 'maybe'",
        ),
        (
            "routing: {server: active}",
            "routing.server (FILE:1) must be a name without spaces, colons and quotes, "
            "other than active and heartbeat, got 'active'",
        ),
        (
            "routing: {namespace: 'a:b'}",
            "routing.namespace (FILE:1) must be a name without colons, "
            "and braces around one part at most, got 'a:b'",
        ),
        ("store: 5", "store (FILE:1) wants a section with keys of its own, got a single value"),
        (
            "worker: {lease: [1s]}",
            "worker.lease (FILE:1) wants a duration such as 500ms, 30s or 1h30m, got a list",
        ),
        (
            "store:\n  url: a\n  url: b",
            "FILE:3 sets 'url' a second time; it was set at FILE:2",
        ),
        ("store: &x {}\nworker: *x", ALIAS),
        ("store: &x [*x]", ALIAS),
        ("store: !vault x", "FILE:1 wants a plain value, got the tag '!vault'"),
        (
            "store: {\n",
            "FILE:2 is not YAML: the text ends before a bracket or a quotation mark is closed",
        ),
        (
            "store:\n\turl: x",
            "FILE:2 is not YAML: lines are indented with spaces, not with tabs",
        ),
        ("store: a: b", "FILE:1 is not YAML: mapping values are not allowed in this context"),
        (
            "- store",
            "FILE:1 wants sections, a name with a colon and its keys below it, got a list",
        ),
        (
            "store",
            "FILE:1 wants sections, a name with a colon and its keys below it, got a single value",
        ),
        ("? [a]\n: b", "FILE:1 wants a name as key, got a collection"),
        (
            "worker: {lease: x, grace: y}",
            "worker.lease (FILE:1) wants a duration such as 500ms, 30s or 1h30m, got 'x'"
            " (and 1 more)",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(file: Path, text: str, sentence: str) -> None:
    assert complaint(file, text).replace(str(file), "FILE") == sentence


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        (
            "WAYSTATION_WORKER__LEESE",
            "worker.leese (WAYSTATION_WORKER__LEESE) is not a setting; did you mean worker.lease?",
        ),
        (
            "WAYSTATION_STOR__URL",
            "stor (WAYSTATION_STOR__URL) is not a setting; did you mean store?",
        ),
        (
            "WAYSTATION_STORE_URL",
            "WAYSTATION_STORE_URL is not a setting; did you mean WAYSTATION_STORE__URL?",
        ),
    ],
)
def test_a_misspelt_variable_is_refused(file: Path, variable: str, sentence: str) -> None:
    assert complaint(file, "", {variable: "5s"}) == sentence


def test_nesting_without_end_is_refused(file: Path) -> None:
    assert "nested more than" in complaint(file, "store: " + "[" * 900 + "]" * 900)


def test_bytes_that_are_no_text_are_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSetting, match="wants UTF-8 text"):
        load(SECTIONS, file, environ={})


def test_a_directory_is_no_settings_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="cannot read"):
        load(SECTIONS, tmp_path, environ={})


def test_a_name_no_file_can_have_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="cannot read"):
        load(SECTIONS, Path("x" * 5000), environ={})


@pytest.mark.parametrize(
    "text",
    [
        "worker: {lease: 'redis://me:hunter2@host'}",
        "worker: {lease: 'redis://host/0?password=hunter2'}",
        "store: 'redis://me:hunter2@host'",
        "store: hunter2",
        "store: {url: {password: hunter2}}",
        "store: {password: hunter2}",
    ],
)
def test_a_complaint_never_repeats_a_password(file: Path, text: str) -> None:
    assert "hunter2" not in complaint(file, text)


def lane(**variables: str) -> Lane:
    environ = {f"WAYSTATION_LANE__{name.upper()}": text for name, text in variables.items()}
    return load({"lane": Lane}, Path("nowhere.yaml"), environ=environ)[Lane]


def test_a_variable_can_hold_a_list_or_a_mapping() -> None:
    found = lane(queues="high, low", weights="{high: 8, low: 2}")
    assert found.queues == ("high", "low")
    assert found.weights == {"high": 8, "low": 2}
    assert lane(queues='["a", "b"]').queues == ("a", "b")


def test_text_in_braces_stays_text_where_text_is_wanted() -> None:
    assert lane(prefix="{bull}").prefix == "{bull}"


def test_a_list_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"lane.queues .* wants a list, got '\[a'"):
        lane(queues="[a")


def test_durations_may_be_zero_where_no_least_is_given() -> None:
    assert lane(pause="0s").pause == 0.0


class Own(WorkerOptions, frozen=True, kw_only=True):
    """The worker of one product."""

    limit: int = 0
    strategy: Callable[[int], int] | None = None


class Product(Section, frozen=True, kw_only=True):
    """A product whose workers start from the general ones."""

    worker: Annotated[Own, Inherits("worker")] = Own(concurrency=4)


def test_a_product_s_worker_takes_from_the_general_one_what_it_does_not_say(file: Path) -> None:
    sections = {"worker": WorkerSettings, "product": Product}
    file.write_text(
        "worker: {concurrency: 8, grace: 5s}\nproduct:\n  worker: {grace: 1s, limit: 2}"
    )
    found = load(sections, file, environ={})
    worker = found[Product].worker
    assert (worker.concurrency, worker.grace, worker.limit) == (8, 1.0, 2)
    assert found.origins["product", "worker", "concurrency"] == f"{file}:1"
    file.write_text("product: {worker: {limit: 2}}")
    assert load(sections, file, environ={})[Product].worker.concurrency == 4


def test_what_no_file_can_say_is_no_setting(file: Path) -> None:
    file.write_text("product: {worker: {strategy: double}}")
    with pytest.raises(InvalidSetting, match=r"product.worker.strategy .* is not a setting"):
        load({"product": Product}, file, environ={})


def test_the_check_of_an_option_names_the_setting_and_its_place(file: Path) -> None:
    file.write_text("product:\n  worker:\n    calls: 0\n")
    with pytest.raises(InvalidSetting) as caught:
        load({"product": Product}, file, environ={})
    assert str(caught.value) == f"product.worker.calls ({file}:3) must be at least 1, got 0"
