"""The report: one page that needs nothing else, whatever the names in it."""

import datetime as dt
import re
from html.parser import HTMLParser
from io import StringIO
from typing import Any

import msgspec
from rich.console import Console

from waystation.pipeline.gold.forecast import Band, Forecast
from waystation.pipeline.reports.console import console_report
from waystation.pipeline.reports.facts import QueueReport, Report
from waystation.pipeline.reports.page import html_report
from waystation.pipeline.reports.parts import Level, chart, duration, levels, number, part

NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
HOURS = tuple(
    {
        "hour": NOW + dt.timedelta(hours=n),
        "completed": 10 * n,
        "retried": n,
        "failed": 1,
        **{f"{of}_p{p}_ms": float(p + n) for of in ("wait", "run") for p in (50, 95, 99)},
    }
    for n in range(5)
)
MAIL = QueueReport(
    product="bullmq",
    queue="mail",
    added=100,
    started=110,
    completed=95,
    failed=2,
    retried=10,
    stalled=1,
    wait_ms=(5.0, 50.0, 90.0),
    run_ms=(7.0, 70.0, None),
    acknowledged=100,
    terminal=97,
    removed=0,
    visible=3,
    lost=0,
    duplicated=0,
    gaps=0,
    lost_ids=(),
    clean=True,
    hours=HOURS,
    needed=(
        {
            "hour": NOW,
            "busy_workers": 1.5,
            "workers_needed": 4,
            "target_wait_ms": 1000,
            "busiest_per_s": 2.5,
            "service_mean_ms": 600.0,
        },
    ),
    forecast=Forecast(3, 10.0, 20.0, 90.0, Band(0.5, 4.5, 0.91, 300)),
)
FACTS = Report(
    made_at=NOW,
    events=500,
    corrupt=2,
    first_at=NOW,
    last_at=NOW,
    queues=(MAIL,),
    failures=(
        {
            "fingerprint": "f",
            "signature": "card <n> refused",
            "product": "bullmq",
            "queue": "mail",
            "attempts": 12,
            "jobs": 4,
            "retry_helps": 0.5,
            "first_at": NOW,
            "last_at": NOW,
            "examples": ["1", "2"],
            "kinds": 1,
        },
    ),
    workers=(),
    gaps=(),
)


class Balance(HTMLParser):
    """Checks that every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing_else() -> None:
    text = html_report(FACTS)
    checker = Balance()
    checker.feed(text)
    assert checker.open == []
    assert "<noscript>The chart needs JavaScript.</noscript>" in text
    assert not re.search(r"src=|href=(?!\"#)|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text


def test_the_page_says_what_the_ledger_says() -> None:
    assert "All jobs are accounted for" in html_report(FACTS)
    lost = msgspec.structs.replace(MAIL, lost=1, lost_ids=("4711",), clean=False)
    text = html_report(msgspec.structs.replace(FACTS, queues=(lost,)))
    assert "The ledger is not clean: 1 lost, none completed twice, no events missing." in text
    assert "<code>4711</code>" in text


def test_the_page_says_why_so_many_workers_are_needed_and_how_long_jobs_really_waited() -> None:
    text = html_report(FACTS)
    assert "Busiest hour: 1 Mar 12:00, up to 150 jobs in a minute, 600 ms each on average." in text
    assert (
        "4 at a time keep 95 % of such waits below 1 s. Really, 95 % waited less than 95 ms."
        in (text)
    )


def test_names_cannot_break_out_of_the_page() -> None:
    evil = "<img src=x onerror=alert(1)>"
    queue = msgspec.structs.replace(MAIL, queue=evil, lost_ids=(evil,))
    failure = {**FACTS.failures[0], "signature": evil, "queue": evil, "examples": [evil]}
    facts = msgspec.structs.replace(FACTS, queues=(queue,), failures=(failure,))
    assert "<img" not in html_report(facts)


def test_a_report_about_nothing_is_a_report() -> None:
    empty = msgspec.structs.replace(
        FACTS, queues=(), failures=(), events=0, first_at=None, last_at=None
    )
    assert "The history is empty" in html_report(empty)
    Console(file=StringIO()).print(console_report(empty))


def test_the_row_of_other_failures_says_how_many_kinds_it_stands_for() -> None:
    other = {**FACTS.failures[0], "fingerprint": "other", "signature": None, "kinds": 1_119}
    facts = msgspec.structs.replace(FACTS, failures=(other,))
    assert "1,119 other kinds of failure" in html_report(facts)
    console = Console(width=120, record=True, file=StringIO())
    console.print(console_report(facts))
    assert "1,119 other kinds of failure" in console.export_text()


def test_whatever_is_cut_says_how_much() -> None:
    lost = msgspec.structs.replace(MAIL, lost=40, lost_ids=("a", "b"))
    facts = msgspec.structs.replace(
        FACTS, queues=(lost,), failures_in_all=1_001, workers_in_all=77, gaps_in_all=9
    )
    console = Console(width=120, record=True, file=StringIO())
    console.print(console_report(facts))
    shown = console.export_text()
    for text in (html_report(facts), shown):
        assert "and 38 more" in text
        assert "and 1,000 more" in text
    assert "and 77 more" in html_report(facts)
    assert "of the last 14 days" in shown
    charted = msgspec.structs.replace(FACTS, queues=(MAIL,) * 12 + (lost, without_charts(lost)))
    assert "Charts are shown of the 13 busiest queues" in html_report(charted)


def charts(page: str) -> list[dict[str, Any]]:
    """What the charts of a page are drawn from."""
    return [
        msgspec.json.decode(values)
        for values in re.findall(r'<script type="application/json">(.+?)</script>', page)
    ]


def without_charts(queue: QueueReport) -> QueueReport:
    return msgspec.structs.replace(queue, hours=(), needed=())


def test_the_console_shows_the_same_verdict() -> None:
    console = Console(width=120, record=True, file=StringIO())
    console.print(console_report(FACTS))
    text = console.export_text()
    assert "All jobs are accounted for" in text
    assert "card <n> refused" in text


def test_the_tables_fit_a_terminal_of_eighty_columns() -> None:
    # Other programs put a margin around it, as the demo does.
    console = Console(width=76, record=True, file=StringIO())
    console.print(console_report(FACTS))
    (heads,) = (line for line in console.export_text().splitlines() if "started" in line)
    assert heads.split() == ["queue", "started", "retried", "failed", *("p50", "p95") * 2]


def test_nothing_at_all_is_no_chart() -> None:
    assert "None." in chart("Wait", [], [])


def test_an_hour_without_work_is_shown_as_one() -> None:
    nightly = msgspec.structs.replace(MAIL, hours=(HOURS[0], HOURS[1], HOURS[4]))
    text = html_report(msgspec.structs.replace(FACTS, queues=(nightly,)))
    ends, waits, *_ = charts(text)
    assert waits["series"][0]["values"] == [0.05, 0.051, None, None, 0.054]
    assert ends["series"][0]["values"] == [0, 10, 0, 0, 40]


def test_one_hour_is_told_in_values_and_not_as_a_course_of_time() -> None:
    short = msgspec.structs.replace(MAIL, hours=HOURS[4:])
    text = html_report(msgspec.structs.replace(FACTS, queues=(short,)))
    assert charts(text) == []
    assert "<span>completed</span>" in text
    assert "<b>90 ms</b>" in text


def test_nothing_has_no_bar_and_a_little_has_one() -> None:
    some, none = Level("some", "good", 1, "1"), Level("none", "bad", 0, "0")
    drawn = levels([Level("much", "good", 1e9, "a lot"), some, none])
    assert drawn.count('"good"') == 2
    assert '"bad"' not in drawn


def test_a_line_of_people_has_no_charts_of_work() -> None:
    people = msgspec.structs.replace(MAIL, product="waitingroom", hours=(), needed=())
    assert "Run time" not in html_report(msgspec.structs.replace(FACTS, queues=(people,)))


def test_numbers_are_said_as_people_say_them() -> None:
    assert [duration(ms) for ms in (None, 0, 12, 1_500, 90_000, 7_200_000)] == [
        "-", "0", "12 ms", "1.5 s", "1.5 min", "2 h",
    ]  # fmt: skip
    assert (number(1234567), part(0.125), part(None)) == ("1,234,567", "12.5 %", "-")
