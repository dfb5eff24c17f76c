"""`waystation simulate`: over a history, and over a file."""

import datetime as dt
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.ask import lakes
from tests.pipeline.test_report import charts
from waystation.cli.root import run
from waystation.pipeline.tables import ATTEMPTS, PAYLOADS

NOW = dt.datetime.now(dt.UTC).replace(microsecond=0)
START = NOW - dt.timedelta(hours=6)


def attempt(
    number: int, *, ready_s: float, wait_ms: int, run_ms: int, queue: str = "mail"
) -> dict[str, Any]:
    ready = START + dt.timedelta(seconds=ready_s)
    started = ready + dt.timedelta(milliseconds=wait_ms)
    return {
        "product": "bullmq",
        "queue": queue,
        "job_id": str(number),
        "attempt": 1,
        "worker": "ada",
        "ready_at": ready,
        "started_at": started,
        "ended_at": started + dt.timedelta(milliseconds=run_ms),
        "wait_ms": wait_ms,
        "run_ms": run_ms,
        "outcome": "completed",
        "date": started.date(),
    }


@pytest.fixture
def history(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A hundred jobs of a second each at the same instant, which one worker did in a row."""
    monkeypatch.chdir(tmp_path)
    rows = [
        attempt(number, ready_s=0, wait_ms=1_000 * number, run_ms=1_000) for number in range(100)
    ]
    rows.append(attempt(1, ready_s=5, wait_ms=0, run_ms=10, queue="sms"))
    # It still runs, or its event is missing.
    rows.append({**attempt(200, ready_s=5, wait_ms=0, run_ms=0), "run_ms": None})
    rows.append({**attempt(201, ready_s=5, wait_ms=0, run_ms=0), "wait_ms": None})
    lakes.store(root, ATTEMPTS, rows, 0)
    return root


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run(["simulate", *words])
    return int(ended.value.code or 0)


def scenarios(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    assert called(*words, "--json") == 0
    rows = map(json.loads, capsys.readouterr().out.splitlines())
    return {row["name"]: row for row in rows}


def test_recorded_waits_are_compared_with_those_of_other_numbers_of_workers(
    history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = scenarios(capsys, "mail", "--history", history, "--workers", "5,20")
    assert {name: row["workers"] for name, row in found.items()} == {
        "recorded": 1,
        "replayed": 1,
        "with 5": 5,
        "with 20": 20,
        # All but five have started within a second.
        "fewest": 48,
    }
    assert found["recorded"]["wait_p95_ms"] == found["replayed"]["wait_p95_ms"] == 94_000
    assert found["with 5"]["wait_p95_ms"] == 18_000
    assert found["with 20"]["worker_hours"] == pytest.approx(20 * 5 / 3600)
    assert found["fewest"]["late"] <= 0.05


def test_the_target_the_evidence_and_the_answer_are_said(
    history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("mail", "--history", history, "--target", "10000") == 0
    out = capsys.readouterr().out
    assert "100 attempts of bullmq/mail" in out
    assert "9 at a time are the fewest with which 95 % of these jobs wait 10 s at most" in out
    assert (
        "at most 1 ran at a time: 95 % really waited 94 s at most, and replayed with 1 they wait "
        "94 s\n"
    ) in out


def test_limits_and_orders_can_be_tried(history: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("mail", "--history", history, "--workers", "100")
    found = scenarios(capsys, *asked, "--rate", "10/60s")
    assert found["with 100"]["wait_p99_ms"] == 540_000
    assert "fewest" not in found
    found = scenarios(capsys, *asked, "--workers", "10", "--order", "lifo")
    assert found["with 10"]["wait_p50_ms"] == 4_000


def test_priorities_come_from_what_the_jobs_were(
    history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    urgent = range(95, 100)
    payloads = [
        {
            "product": "bullmq",
            "queue": "mail",
            "job_id": str(number),
            "read_at": START,
            "ended": ended,
            "priority": 1 if number in urgent else 5,
            "date": START.date(),
        }
        for number in range(100)
        for ended in (False, True)
    ]
    lakes.store(history, PAYLOADS, payloads, 0)
    asked = ("mail", "--history", history, "--workers", "1", "--order", "priority")
    found = scenarios(capsys, *asked)
    assert found["with 1"]["wait_p50_ms"] == 49_000
    assert called(*asked) == 0


class Balance(HTMLParser):
    """Checks that every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_has_a_chart_and_the_figures(history: str, tmp_path: Path) -> None:
    page = tmp_path / "what-if.html"
    assert called("mail", "--history", history, "--workers", "5", "--to", str(page)) == 0
    text = page.read_text()
    checker = Balance()
    checker.feed(text)
    assert checker.open == []
    assert "Simulation of bullmq/mail" in text
    (chart,) = charts(text)
    labels = [each["name"] for each in chart["series"]]
    assert labels == ["1 workers, recorded", "5 workers", "48 workers, fewest"]


def test_what_is_not_there_is_named(history: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("male", "--history", history) == 2
    assert "no attempts of bullmq/male in that time; there are some of bullmq/mail, bullmq/sms" in (
        capsys.readouterr().err
    )
    assert called("mail", "--history", history, "--until", "24h") == 2
    assert called("--history", history) == 2
    assert "wanted the name of a queue" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "0"], "workers must be numbers from 1"),
        (["--workers", "many"], "workers must be numbers from 1"),
        (["--rate", "10"], "a rate is a number and a duration such as 100/60s, got '10'"),
        (["--rate", "0/1s"], "a rate is a number and a duration"),
        (["--rate", "1/0s"], "a rate needs a duration above 0"),
        (["--product", "waitingroom"], "product must be one of bullmq, routing, files"),
        (["--to", "/nowhere/page.html"], "wanted a file in a folder that can be written to"),
        (["--since", "monday"], "wanted an instant"),
        (["--from", "nothing.csv", "--workers", "3"], "wanted a queue or a file, got both"),
    ],
)
def test_mistakes_are_refused_with_a_sentence(
    history: str, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert called("mail", "--history", history, *words) == 2
    assert said in capsys.readouterr().err


def test_a_file_of_arrivals_serves_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"2026-03-01T12:00:{number:02},2" for number in range(30)]
    trace.write_text("\n".join(["ready,run", *rows]))
    found = scenarios(capsys, "--from", str(trace), "--workers", "1")
    # Nobody has said how long they waited.
    assert set(found) == {"with 1", "fewest"}
    assert called("--from", str(trace), "--rate", "1/60s") == 0
    assert "with no number of workers 95 % wait 1 s at most: the rate is too low" in (
        capsys.readouterr().out
    )
    assert found["fewest"]["workers"] == 2
    assert found["with 1"]["wait_p50_ms"] == 14_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("at,run\n1,2\n", "wanted a CSV file with the columns ready and run, got at, run"),
        ("ready,run\n1,2\n1,soon\n", "line 3 cannot be read"),
        ("ready,run\n1,-2\n", "line 2 cannot be read: wanted seconds, got -2"),
        ("ready,run\nyesterday,2\n", "line 2 cannot be read"),
        ("ready,run\n1\n", "line 2 cannot be read"),
        ("ready,run\n", "there is nothing to simulate"),
        ("", "got none"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(text)
    assert called("--from", str(trace)) == 2
    assert said in capsys.readouterr().err
