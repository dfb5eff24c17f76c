"""The report as one page that needs nothing else: plots, tables, light and dark."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

from waystation.pipeline.gold.failures import label
from waystation.pipeline.report.facts import Facts, QueueFacts
from waystation.pipeline.report.plots import Level, share, strip
from waystation.pipeline.report.queue import anchor, section
from waystation.pipeline.report.words import (
    duration,
    instant,
    moment,
    number,
    part,
    sums,
)

STYLE = resources.files("waystation.pipeline.report").joinpath("page.css").read_text()


def page(facts: Facts) -> str:
    """The whole page."""
    body = [
        "<h1>What happened in the queues</h1>",
        f'<p class="soft">{_span(facts)}</p>',
        _verdict(facts),
        _tiles(facts),
        "<h2>The ledger</h2>",
        "<p>What was acknowledged has ended, can be seen, or was taken out; else it is lost.</p>",
        _ledger(facts.queues),
        *(section(queue, n) for n, queue in enumerate(facts.queues) if queue.hours),
        "<h2>Failures</h2>",
        "<p>Failures that say the same, but for numbers and names, are one failure.</p>",
        _failures(facts),
        "<h2>Workers</h2>",
        _workers(facts),
    ]
    if facts.gaps:
        body += ["<h2>Gaps</h2>", _gaps(facts)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>What happened in the queues</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _span(facts: Facts) -> str:
    if facts.first_at is None:
        return "Nothing was told yet."
    return (
        f"From {instant(facts.first_at)} to {instant(facts.last_at)} UTC, "
        f"written {instant(facts.made_at)}."
    )


def _verdict(facts: Facts) -> str:
    kind = {True: "good", False: "bad", None: ""}[facts.clean]
    return (
        f'<div class="verdict {kind}"><b>{escape(facts.verdict)}</b>'
        f'<span class="soft">{escape(_sums(facts))}</span></div>'
    )


def _tiles(facts: Facts) -> str:
    def total(name: str) -> int:
        return sum(getattr(queue, name) or 0 for queue in facts.queues)

    tiles = [
        (number(facts.events), "events"),
        (number(total("added")), "came in"),
        (number(total("completed")), "completed"),
        (number(total("retried")), "tried again"),
        (number(total("failed")), "failed for good"),
        (number(total("stalled")), "ended in silence"),
        (number(facts.corrupt), "odd events, kept"),
    ]
    shown = "".join(f'<div class="tile"><b>{n}</b>{escape(what)}</div>' for n, what in tiles)
    return f'<div class="tiles">{shown}</div>'


def _sums(facts: Facts) -> str:
    return sums([str(check) for check in facts.checks if not check.well], len(facts.checks))


def _ledger(queues: Sequence[QueueFacts]) -> str:
    rows = [
        [
            _name(each, n),
            _whole(each),
            number(each.acknowledged),
            number(each.terminal),
            number(each.visible),
            number(each.removed),
            _bad_unless_zero(each.lost),
            _bad_unless_zero(each.duplicated),
            _bad_unless_zero(each.gaps),
        ]
        for n, each in enumerate(queues)
    ]
    heads = ["queue", "", "came", "ended", "still there", "removed", "lost", "done twice"]
    return _table([*heads, "events not seen"], rows, numbers=range(2, 9))


def _name(queue: QueueFacts, n: int) -> str:
    name = f"{escape(queue.line)} / <b>{escape(queue.queue)}</b>"
    lost = ", ".join(f"<code>{escape(i)}</code>" for i in queue.lost_ids)
    linked = f'<a href="#{anchor(n)}">{name}</a>' if queue.hours else name
    return f'{linked}<br><span class="bad">lost:</span> {lost}' if lost else linked


def _whole(queue: QueueFacts) -> str:
    parts = (
        ("ended", "good", queue.terminal),
        ("still there", "blue", queue.visible),
        ("removed", "idle", queue.removed),
        ("lost", "bad", queue.lost),
    )
    return strip([Level(name, colour, n or 0, number(n)) for name, colour, n in parts])


def _failures(facts: Facts) -> str:
    most = max((row["attempts"] for row in facts.failures), default=0)
    rows = [
        [
            _signature(row),
            escape(f"{row['line']} / {row['queue']}"),
            share(row["attempts"], most, "bad"),
            number(row["attempts"]),
            number(row["subjects"]),
            part(row["retry_helps"]),
            moment(row["first_at"]),
            moment(row["last_at"]),
        ]
        for row in facts.failures
    ]
    heads = ["what it says", "queue", "", "attempts", "jobs", "trying again helped", "first"]
    return _table([*heads, "last"], rows, numbers=range(3, 8))


def _signature(row: dict[str, Any]) -> str:
    examples = ", ".join(f"<code>{escape(i)}</code>" for i in row["examples"])
    said = f"<code>{escape(label(row))}</code>"
    return f'{said}<br><span class="soft">for example {examples}</span>' if examples else said


def _workers(facts: Facts) -> str:
    most = max((row["busy_ms"] for row in facts.workers), default=0)
    rows = [
        [
            f"<code>{escape(row['worker'])}</code>",
            escape(f"{row['line']} / {row['queue']}"),
            share(row["busy_ms"], most, "teal"),
            duration(row["busy_ms"]),
            number(row["attempts"]),
            number(row["completed"]),
            number(row["failed"]),
            _bad_unless_zero(row["stalled"]),
            moment(row["last_at"]),
        ]
        for row in facts.workers
    ]
    heads = ["worker", "queue", "", "time in hand", "took", "completed", "failed", "fell silent"]
    return _table([*heads, "last seen"], rows, numbers=range(3, 9))


def _gaps(facts: Facts) -> str:
    rows = [
        [
            f"<code>{escape(row['stream'])}</code>",
            number(row["lost"]),
            escape(row["reason"]),
            f"<code>{escape(row['after'])}</code>",
            f"<code>{escape(row['before'])}</code>",
            moment(row["before_at"]),
        ]
        for row in facts.gaps
    ]
    return _table(["stream", "entries", "why", "after", "before", "until"], rows, numbers=[1])


def _bad_unless_zero(value: int | None) -> str:
    kind = "" if value is None else "good" if value == 0 else "bad"
    return f'<span class="{kind}">{number(value)}</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int]) -> str:
    right = set(numbers)

    def cells(kind: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{kind}{' class=n' if i in right else ''}>{value}</{kind}>"
            for i, value in enumerate(values)
        )

    listed = [f"<tr>{cells('td', row)}</tr>" for row in rows]
    if not listed:
        return '<p class="soft">None.</p>'
    return (
        f'<div class="card"><table><thead><tr>{cells("th", list(heads))}</tr></thead>'
        f"<tbody>{''.join(listed)}</tbody></table></div>"
    )
