"""`waystation pipeline` as people call it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.conftest import JAVA, SMALL
from tests.pipeline.drill import command_line, descendants
from tests.pipeline.events_of_all import events_of_products
from tests.pipeline.raw_streams import write_events
from tests.pipeline.rounds import keep
from tests.pipeline.turn_stories import events_of_turns
from waystation.cli import root
from waystation.core.errors import SparkNotStarted
from waystation.pipeline.commands import session as commands_session
from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.maintenance import compaction
from waystation.pipeline.products import product_tables
from waystation.pipeline.silver.moves import OPEN
from waystation.pipeline.spark import session
from waystation.pipeline.spark.session import SessionOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pq
from waystation.pipeline.tables import DEPLOYS, every

PATIENCE_S = 240
SETTINGS = [f"--conf={name}={value}" for name, value in SMALL.conf.items() if ".sql." in name]
"""What makes a session fast with little, as words of a command."""


def command(*words: str, url: str, home: Path) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "waystation", "pipeline", *words],
        "env": {**os.environ, **_environment(url, home), "JDK_JAVA_OPTIONS": JAVA},
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


def the_java_of(pid: int) -> int | None:
    """The process that Spark runs in, among those that a command has started."""
    javas = [each for each in descendants(pid) if "org.apache.spark" in command_line(each)]
    return javas[0] if javas else None


def called(*words: str) -> int:
    """Call a command in this process; what it ends with."""
    with pytest.raises(SystemExit) as ended:
        root.run(["pipeline", *words])
    return int(ended.value.code or 0)


def asked(capsys: pytest.CaptureFixture[str], question: str) -> Any:
    """The one row that answers a question."""
    capsys.readouterr()
    assert called("sql", question, "--json", "--no-live") == 0
    return json.loads(capsys.readouterr().out)


def traces(history: Path, *words: str) -> list[str]:
    """The files that hold one of some words: as they lie there, or when they are unpacked."""
    wanted = [word.encode() for word in words]
    return [
        str(file.relative_to(history))
        for file in history.rglob("*")
        if file.is_file() and any(word in held for held in _contents(file) for word in wanted)
    ]


def _contents(file: Path) -> Iterator[bytes]:
    yield file.read_bytes()
    if file.suffix == ".parquet":
        rows, unpacked = pq.read_table(file), pa.BufferOutputStream()
        with pa.ipc.new_stream(unpacked, rows.schema) as stream:
            stream.write_table(rows)
        yield unpacked.getvalue().to_pybytes()


def add(store: Redis, job: str, data: str = "{}") -> None:
    store.xadd("bull:mail:events", {"event": "added", "jobId": job, "name": "send"})
    store.hset(f"bull:mail:{job}", mapping={"name": "send", "data": data})
    store.rpush("bull:mail:wait", job)


def left_by_a_killed_task(history: Path, word: str) -> None:
    file = history / "bronze/events/date=2026-01-01/part-0.parquet"
    file.parent.mkdir()
    pq.write_table(pa.table({"job_id": [word]}), file)
    os.utime(file, (1, 1))


@pytest.mark.slow
def test_a_history_is_kept_asked_made_smaller_reported_and_forgets_whom_it_must(
    home: Path,
    store: Redis,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history, stream, person = home / "history", "bull:mail:events", "zz-ada-1815"
    reasons = {
        person: f"{person} broke it",
        "1": "ada@example.org is unknown",
        "2": "ada@example.organ is another",
        "3": "no mention",
    }
    # The one that is known by what it was, and the one whose events say so.
    data = {person: f'{{"who":"{person}"}}', "3": '{"to":"ada@example.org"}'}
    for subject in reasons:
        add(store, subject, data.get(subject, "{}"))
    assert called("run", "--once") == 0
    assert "4 events stored" in capsys.readouterr().err
    for subject, reason in reasons.items():
        store.xadd(stream, {"event": "active", "jobId": subject})
        store.xadd(stream, {"event": "failed", "jobId": subject, "failedReason": reason})
    store.xadd(stream, {"event": "paused", "by": "ada@example.org"})
    assert called("run", "--once") == 0
    assert called("sql", "select count(*) as n from items", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"n": 4}

    counted = ("sql", "select count(*) as n from items", "--json")
    assert called(*counted, "--engine", "spark") == 0
    assert json.loads(capsys.readouterr().out) == {"n": 4}
    assert called("sql", "select state, count(*) as n from jobs group by 1", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"state": "wait", "n": 4}
    assert called("sql", "select count(*) as n from visits", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"n": 0}
    capsys.readouterr()
    assert called("status") == 0
    status = capsys.readouterr().out
    assert "13 events stored; the last one happened" in status
    assert "bull:mail:events" in status

    assert called("compact") == 0
    assert "events            2 files → 1" in capsys.readouterr().out
    assert called("retain", "2") == 0
    assert asked(capsys, "select count(*) as n from events") == {"n": 13}

    # A table's log says what its files hold at least and at most.
    assert any("events/_delta_log" in name for name in traces(history, person))
    assert any("bronze/payloads" in name for name in traces(history, person))
    assert called("find", person, "--json") == 0
    assert json.loads(json.loads(capsys.readouterr().out)["data"]) == {"who": person}
    left_by_a_killed_task(history, person)
    assert called("forget", person) == 0
    assert traces(history, person) == []

    capsys.readouterr()
    assert called("forget", "ada@example.org", "--mentioned") == 0
    gone = dict(line.split()[:2] for line in capsys.readouterr().out.splitlines())
    assert (gone["events"], gone["attempts"], gone["items"]) == ("7", "2", "2")
    assert gone["payloads"] == "4"
    assert traces(history, "ada@example.org is") == []
    assert traces(history, 'ada@example.org"') == []

    # And the run goes on where it was, and tidies up after itself once new files are worth it.
    monkeypatch.setattr(compaction, "MANY", 1)
    for id in ("4", "5"):
        add(store, id)
        assert called("run", "--once") == 0
    files = DeltaTable(str(history / "bronze/events")).file_uris()
    assert len(files) == len({Path(file).parent.name for file in files})
    left = "select list_sort(list(job_id)) as ids from items"
    assert asked(capsys, left) == {"ids": ["2", "4", "5"]}
    assert asked(capsys, "select count(*) as n from events") == {"n": 5}

    assert called("report", "--to", "report.html") == 0
    assert "Ledger" in capsys.readouterr().out
    assert (home / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_a_folder_is_scanned_and_a_receipt_given(
    home: Path, store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.txt", "b.pdf", "c.log"):
        file = home / "in" / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
        os.utime(file, (1, 1))
    assert called("scan", "in", "--queue", "low", "--exclude", "*.log") == 0
    output = capsys.readouterr().out
    assert "2 files found: 2 added, 0 were added before" in output
    assert "1 skipped: excluded" in output
    assert "receipt scan-" in output
    assert store.llen("jobqueue:high_priority") == store.llen("jobqueue:low_priority") == 1


WITHOUT_DUCKDB = """
import sys
sys.modules["duckdb"] = None
with open("{started}", "a") as file:
    print(*sys.orig_argv, file=file)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_without_duckdb_writes_every_table_before_ctrl_c_ends_it(
    store: Redis, redis_url: str, tmp_path: Path
) -> None:
    history, started = str(tmp_path / "history"), tmp_path / "started"
    keep(history, [*events_of_products(), *events_of_turns()], 0)
    write_events(store, 20, queue="trimmed")
    store.xtrim("bull:trimmed:events", maxlen=5, approximate=False)
    add(store, "1", '{"tenant":"acme"}')
    (tmp_path / "waystation.yaml").write_text(
        "pipeline: {payloads: {fields: {tenant: $.tenant}}}\n"
    )
    given = command("run", "--every", "1", *SETTINGS, url=redis_url, home=tmp_path)
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_DUCKDB.format(started=started))
    given["env"]["PYTHONPATH"] = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    lines: list[str] = []
    with subprocess.Popen(**given, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        for line in running.stderr:
            lines.append(line)
            # In the middle of the batch.
            if line.startswith("folding events"):
                running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_S) == 0, "".join(lines)
    assert "stopped; all events that were read are stored" in lines[-1]
    assert not any("Traceback" in line for line in lines)
    assert any("worker_daemon" in line for line in started.read_text().splitlines())
    # Deploys are marked by another command.
    tables = [each for each in (*every(), *OPEN, CELLS, *product_tables()) if each is not DEPLOYS]
    assert [each.name for each in tables if not delta.count(each.path(history))] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_run_whose_java_is_killed_says_so_and_what_to_do(
    store: Redis, redis_url: str, tmp_path: Path
) -> None:
    write_events(store, 10)
    given = command("run", "--every", "1", url=redis_url, home=tmp_path)
    lines: list[str] = []
    with subprocess.Popen(**given, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        for line in running.stderr:
            lines.append(line)
            if line.startswith("reading events") and (java := the_java_of(running.pid)):
                os.kill(java, signal.SIGKILL)
        assert running.wait(PATIENCE_S) == 5, "".join(lines)
    assert "Java, which Spark runs in, was killed by signal 9" in lines[-1]
    assert "pipeline.driver_memory" in lines[-1]
    assert not any("Traceback" in line for line in lines), "".join(lines)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("sql", "select nothing from nowhere", "--no-live"), "nowhere"),
        (("retain", "0"), "at least one day"),
        (("report", "--to", "/no/such/folder/report.html"), "can be written"),
        (("report", "--to", "."), ". cannot be written: Is a directory"),
        (("forget", ""), "the id of a job, file or visitor"),
        (("forget", "ada", "--mentioned"), "at least 4 characters"),
        (("scan", "nowhere"), "wanted a directory, or a listing"),
        (("scan", ".", "--queue", "none"), "default_priority must be one of high, low"),
        (("run", "--once", "--history", "ftp://lake/history"), "a URL with s3, gs, abfs"),
        (("sql", "select 1", "--no-live", "--history", "ftp://lake/history"), "a URL with s3, gs"),
        (("compact", "--conf", "spark.ui.port"), "wanted --conf NAME=VALUE"),
        (("compact", "--conf", "ui.port=1"), "a setting of Spark"),
        (("compact", "--conf", "spark.sql.session.timeZone=CET"), "must be UTC here, got CET"),
        (("sql", "drop table items", "--no-live"), "wanted one SELECT"),
        (("sql", "select nope from items", "--engine", "spark", "--no-live"), "nope"),
    ],
)
def test_bad_input_is_one_line_and_two(
    home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    assert called(*words) == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]
    assert list(home.iterdir()) == []


def test_a_place_from_the_settings_that_is_no_directory_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYSTATION_PIPELINE__HISTORY", "ftp://lake/history")
    assert called("run", "--once") == 2
    assert "a history must be a directory, or a URL with s3" in capsys.readouterr().err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "many", "few"),
    [
        (("run", "--once"), 8, True),
        (("run", "--once"), 9, False),
        (("run",), 8, False),
        (("sql", "select 1", "--engine", "spark", "--no-live"), 8, True),
        (("sql", "select 1", "--engine", "spark"), 8, False),
    ],
)
def test_java_compiles_less_where_spark_is_known_to_get_few_rows(
    store: Redis,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    many: int,
    few: bool,
) -> None:
    for name, value in _environment(redis_url, tmp_path).items():
        monkeypatch.setenv(name, value)
    asked: list[bool] = []

    def start(options: SessionOptions) -> None:
        asked.append(options.few_rows)
        raise SparkNotStarted("not now")

    monkeypatch.setattr(session, "open_session", start)
    monkeypatch.setattr(commands_session, "FEW_ROWS", 8)
    write_events(store, many)
    assert called(*words) != 0
    assert asked == [few]
