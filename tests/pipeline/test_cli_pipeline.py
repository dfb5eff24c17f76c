"""`waystation pipeline` as people call it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.streams import tell
from waystation.interfaces.cli import root

PATIENCE_S = 240


def command(*words: str, url: str, home: Path) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "waystation", "pipeline", *words],
        "env": {**os.environ, **_environment(url, home)},
        "cwd": home,
        "text": True,
    }


def _environment(url: str, home: Path) -> dict[str, str]:
    return {
        "WAYSTATION_STORE__URL": url,
        "WAYSTATION_PIPELINE__HISTORY": str(home / "history"),
    }


@pytest.fixture
def home(
    spark: SparkSession, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder to call commands in; they find a session that runs, which saves its start."""
    monkeypatch.chdir(tmp_path)
    for name, value in _environment(redis_url, tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def called(*words: str) -> int:
    """Call a command in this process; what it ends with."""
    with pytest.raises(SystemExit) as ended:
        root.run(["pipeline", *words])
    return int(ended.value.code or 0)


def test_a_run_a_question_a_report_and_a_key_forgotten(
    home: Path, store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(store, 40)
    assert called("run", "--once") == 0
    assert "rows read" in capsys.readouterr().err

    question = "select count(*) as n, max(subject) as last from items"
    assert called("sql", question, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"n": 40, "last": "9"}

    assert called("forget", "9") == 0
    left = [path.read_bytes() for path in home.rglob("events/**/*.parquet")]
    assert len(left) == 1
    assert called("sql", question, "--json", "--no-live") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"n": 39, "last": "8"}

    assert called("report", "--to", "report.html") == 0
    assert "The ledger" in capsys.readouterr().out
    assert (home / "report.html").read_text().startswith("<!doctype html>")


def test_a_person_is_forgotten_wherever_they_are_mentioned(
    home: Path, store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = "bull:mail:events"
    reasons = {
        "1": "ada@example.org is unknown",
        "2": "ada@example.organ is another",
        "3": "no mention",
    }
    for subject, reason in reasons.items():
        store.xadd(stream, {"event": "added", "jobId": subject, "name": "send"})
        store.xadd(stream, {"event": "active", "jobId": subject})
        store.xadd(stream, {"event": "failed", "jobId": subject, "failedReason": reason})
    store.xadd(stream, {"event": "paused", "by": "ada@example.org"})
    assert called("run", "--once") == 0
    assert called("forget", "ada@example.org", "--mentioned") == 0
    gone = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines())
    assert (gone["events"], gone["attempts"], gone["items"]) == ("4", "1", "1")
    question = "select array_sort(collect_list(subject)) as left from items"
    assert called("sql", question, "--json", "--no-live") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"left": ["2", "3"]}
    assert called("sql", "select signature from failures", "--json", "--no-live") == 0
    assert "ada@example.org " not in capsys.readouterr().out


def test_compacting_and_retaining_lose_nothing_that_is_young(
    home: Path, store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        tell(store, 5)
        assert called("run", "--once") == 0
    assert called("compact") == 0
    told = capsys.readouterr().out
    assert "events            2 files → 1" in told
    assert called("retain", "2") == 0
    assert called("sql", "select count(*) as n from events", "--json", "--no-live") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"n": 10}


def test_a_folder_is_scanned_and_a_receipt_given(
    home: Path, store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.txt", "b.pdf", "c.log"):
        file = home / "in" / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
        os.utime(file, (1, 1))
    assert called("scan", "in", "--queue", "low", "--exclude", "*.log") == 0
    told = capsys.readouterr().out
    assert "2 files found: 2 put in line, 0 were there before" in told
    assert "1 left out: excluded" in told
    assert "receipt scan-" in told
    assert store.llen("jobqueue:high_priority") == store.llen("jobqueue:low_priority") == 1


@pytest.mark.timeout(600)
def test_ctrl_c_ends_a_run_after_its_batch(store: Redis, redis_url: str, tmp_path: Path) -> None:
    tell(store, 10)
    given = command("run", "--every", "1", "--answer-every", "1", url=redis_url, home=tmp_path)
    told: list[str] = []
    with subprocess.Popen(**given, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        for line in running.stderr:
            told.append(line)
            if line.startswith("reading events"):
                running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 0, "".join(told)
    assert "stopped; everything that was read is kept" in told[-1]
    assert not any("Traceback" in line for line in told)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("sql", "select nothing from nowhere", "--no-live"), "nowhere"),
        (("retain", "0"), "at least one day"),
        (("report", "--to", "/no/such/folder/report.html"), "can be written"),
        (("forget", ""), "the key of a subject"),
        (("forget", "ada", "--mentioned"), "at least 4 characters"),
        (("scan", "nowhere"), "wanted a directory, or a listing"),
        (("scan", ".", "--queue", "none"), "default_priority must be one of high, low"),
    ],
)
def test_bad_input_is_one_line_and_two(
    home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    assert called(*words) == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]
