"""A history that is damaged, or that is not there, is reported in one sentence with what to do."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from redis import Redis

from tests.pipeline.batches import run_round
from tests.pipeline.rounds import history_at
from waystation.cli import root as cli
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.sources.streams import EventOptions

Said: TypeAlias = Callable[..., str]
RULES = "pipeline: {{payloads: {{rules: [{}]}}}}"


@pytest.fixture
def said(
    tmp_path: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Said:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    monkeypatch.setenv("WAYSTATION_PIPELINE__HISTORY", str(tmp_path / "history"))

    def said(*words: str, code: int) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.run(list(words))
        output = capsys.readouterr().err
        assert (ended.value.code or 0) == code, output
        return output.splitlines()[-1] if output else ""

    return said


@pytest.fixture(scope="module")
def whole(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of one job."""
    root = tmp_path_factory.mktemp("history")
    with Redis.from_url(server_url) as store:
        store.flushdb()
        store.xadd("bull:mail:events", {"event": "added", "jobId": "7", "name": "send"})
        store.xadd("bull:mail:events", {"event": "completed", "jobId": "7"})
        run_round(history_at(str(root)), RunOptions(events=EventOptions(url=server_url)))
    return root


@pytest.fixture
def history(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return shutil.copytree(whole, tmp_path / "history")


@pytest.mark.slow
def test_silver_files_that_are_gone_are_told_and_can_be_built_again(
    said: Said, store: Redis, history: Path
) -> None:
    for file in history.glob("silver/items/**/*.parquet"):
        file.unlink()
    store.xadd("bull:mail:events", {"event": "removed", "jobId": "7"})
    output = said("pipeline", "find", "7", code=1)
    assert output.startswith("waystation: the history cannot be read or written: ")
    assert "`waystation pipeline rebuild`" in output
    said("pipeline", "rebuild", code=0)
    said("pipeline", "find", "7", "--no-live", code=0)


@pytest.mark.parametrize("command", [("run", "--once"), ("status",), ("sql", "from events")])
def test_a_log_that_is_damaged_is_told(said: Said, history: Path, command: tuple[str, ...]) -> None:
    for file in history.glob("bronze/events/_delta_log/*.json"):
        file.write_text("nonsense\n")
    output = said("pipeline", *command, code=1)
    assert output.startswith("waystation: the history ")
    assert "cannot be read or written: " in output


def test_a_file_that_is_cut_short_is_told(said: Said, history: Path) -> None:
    for file in history.glob("bronze/events/**/*.parquet"):
        file.write_bytes(file.read_bytes()[:100])
    output = said("pipeline", "sql", "select count(fields) from events", code=1)
    assert output.startswith("waystation: the history cannot be read or written: ")


def test_a_history_that_is_not_there_is_no_answer(said: Said, tmp_path: Path) -> None:
    elsewhere = str(tmp_path / "nowhere")
    undeclared = said("pipeline", "find", "--field", "to=ada", "--history", elsewhere, code=1)
    assert "to is not among pipeline.payloads.fields, so ask `--path '$.to=…'`" in undeclared
    assert said("pipeline", "find", "7", "--history", elsewhere, code=1) == (
        f"no history at {elsewhere}"
    )


def test_a_file_cannot_be_a_history(said: Said, tmp_path: Path) -> None:
    (tmp_path / "history").write_text("")
    assert said("pipeline", "run", "--once", code=2).startswith(
        "waystation: a history must be a directory that can be written, got "
    )


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("{action: drop, pattern: '(['}", "rules.0.pattern (waystation.yaml:1) must be a regular"),
        ("{action: drop, path: $email}", "rules.0 (waystation.yaml:1): wanted a path such as"),
        ("{action: drop}", "rules.0 (waystation.yaml:1): a rule needs either a path or a pattern"),
        ("{action: drop, paths: $.a}", "rules.0.paths (waystation.yaml:1) is not a setting; did"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_its_place(
    said: Said, rule: str, complaint: str
) -> None:
    Path("waystation.yaml").write_text(RULES.format(rule))
    assert complaint in said("pipeline", "status", code=2)
