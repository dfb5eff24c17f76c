"""The report as one page that needs nothing else: plots, tables, light and dark."""

from collections.abc import Iterable, Sequence
from html import escape

from waystation.pipeline.report.facts import Facts, QueueFacts
from waystation.pipeline.report.plots import Series, bars, lines
from waystation.pipeline.report.words import duration, instant, number, part, sums, verdict

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --paper: #fbfbf9; --card: #fff;
  --rule: #e2e4e1; --good: #1a7f4b; --bad: #c0352b; --warn: #b7791f; --blue: #3b6fb6;
  --teal: #2a9d8f; --plum: #8e5ea2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #98a2b3; --paper: #14171c;
  --card: #1c2027; --rule: #2d333d; --good: #4cc38a; --bad: #ff7a6e; --warn: #e0b252;
  --blue: #7aa8e6; --teal: #5cc8bb; --plum: #c39ad6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: .95rem; margin: 0 0 .5rem; color: var(--soft); font-weight: 600; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
.verdict { border-left: 4px solid var(--warn); padding: .75rem 1rem; background: var(--card);
  margin: 1.25rem 0; font-size: 1.05rem; border-radius: 0 6px 6px 0; }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(136px, 1fr)); gap: .75rem; }
.tile, .card { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; }
.tile { padding: .7rem .9rem; } .tile b { display: block; font-size: 1.2rem; }
.tile b, td.n, th.n { font-variant-numeric: tabular-nums; }
.card { padding: 1rem; margin: .75rem 0; overflow-x: auto; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: .75rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; } tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; white-space: nowrap; } code { font-size: .88em; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font: 10px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--rule); stroke-width: 1; }
figcaption { display: flex; gap: 1rem; flex-wrap: wrap; font-size: .82rem; color: var(--soft);
  margin-top: .4rem; }
figcaption i { display: inline-block; width: .7em; height: .7em; border-radius: 2px;
  margin-right: .4em; }
polyline { fill: none; stroke-width: 1.8; }
""" + "\n".join(
    f".fill-{c} {{ fill: var(--{c}); }} .line-{c} {{ stroke: var(--{c}); }} "
    f".key-{c} {{ background: var(--{c}); }}"
    for c in ("good", "bad", "warn", "blue", "teal", "plum")
)


def page(facts: Facts) -> str:
    """The whole page."""
    body = [
        "<h1>What happened in the queues</h1>",
        f'<p class="soft">{_span(facts)}</p>',
        _verdict(facts),
        f'<p class="soft">{escape(_sums(facts))}</p>',
        _tiles(facts),
        "<h2>The ledger</h2>",
        "<p>What was acknowledged has ended, can be seen, or was taken out; else it is lost.</p>",
        _ledger(facts.queues),
        *(_queue(queue) for queue in facts.queues),
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
    return f'<div class="verdict {kind}">{escape(verdict(facts.clean))}</div>'


def _tiles(facts: Facts) -> str:
    def total(name: str) -> int:
        return sum(getattr(queue, name) or 0 for queue in facts.queues)

    tiles = [
        (number(facts.events), "events"),
        (number(total("added")), "came in"),
        (number(total("completed")), "completed"),
        (number(total("retried")), "tried again"),
        (number(total("failed")), "failed for good"),
        (number(total("stalled")), "workers fell silent"),
        (number(facts.corrupt), "odd events, kept"),
    ]
    shown = "".join(f'<div class="tile"><b>{n}</b>{escape(what)}</div>' for n, what in tiles)
    return f'<div class="tiles">{shown}</div>'


def _sums(facts: Facts) -> str:
    return sums([str(check) for check in facts.checks if not check.well], len(facts.checks))


def _ledger(queues: Sequence[QueueFacts]) -> str:
    rows = [
        [
            f"{escape(each.line)} / <b>{escape(each.queue)}</b>",
            number(each.acknowledged),
            number(each.terminal),
            number(each.visible),
            number(each.removed),
            _bad_unless_zero(each.lost),
            _bad_unless_zero(each.duplicated),
            _bad_unless_zero(each.gaps),
            ", ".join(f"<code>{escape(i)}</code>" for i in each.lost_ids),
        ]
        for each in queues
    ]
    heads = ["queue", "acknowledged", "ended", "visible", "removed", "lost", "done twice"]
    return _table([*heads, "events not seen", "lost ids"], rows, numbers=range(1, 8))


def _queue(queue: QueueFacts) -> str:
    times = [row["hour"] for row in queue.hours]

    def of(name: str) -> list[float | None]:
        return [row[name] for row in queue.hours]

    flow = bars(
        times,
        [
            Series("completed", "good", of("completed")),
            Series("tried again", "warn", of("retried")),
            Series("failed for good", "bad", of("failed")),
        ],
    )
    waits = lines(
        times,
        [
            Series("half wait no longer", "teal", of("wait_p50_ms")),
            Series("19 of 20", "blue", of("wait_p95_ms")),
            Series("99 of 100", "plum", of("wait_p99_ms")),
        ],
        unit="ms",
    )
    runs = lines(
        times,
        [
            Series("half run no longer", "teal", of("run_p50_ms")),
            Series("19 of 20", "blue", of("run_p95_ms")),
            Series("99 of 100", "plum", of("run_p99_ms")),
        ],
        unit="ms",
    )
    staff = lines(
        [row["hour"] for row in queue.needed],
        [
            Series("kept busy", "teal", [row["busy_workers"] for row in queue.needed]),
            Series("needed", "blue", [row["workers_needed"] for row in queue.needed]),
        ],
    )
    return (
        f"<h2>{escape(queue.line)} / {escape(queue.queue)}</h2>"
        f"<p>{_times(queue)} {_forecast(queue)}</p>"
        f'<div class="pair">{_card("How attempts ended, by the hour", flow)}'
        f"{_card('How long they waited', waits)}{_card('How long they ran', runs)}"
        f"{_card(_staff_title(queue), staff)}</div>"
    )


def _times(queue: QueueFacts) -> str:
    return (
        f"Half waited at most {duration(queue.wait[0])}, 19 of 20 at most "
        f"{duration(queue.wait[1])}; half ran at most {duration(queue.run[0])}, 19 of 20 at most "
        f"{duration(queue.run[1])}."
    )


def _forecast(queue: QueueFacts) -> str:
    found = queue.forecast
    if found is None:
        return ""
    return (
        f"The {number(found.waiting)} that wait will be done in {duration(1000 * found.low_s)} to "
        f"{duration(1000 * found.high_s)}; {part(found.band.coverage)} of such forecasts held "
        f"when {found.band.checks} were checked."
    )


def _staff_title(queue: QueueFacts) -> str:
    target = queue.needed[-1]["target_wait_ms"] if queue.needed else None
    return f"Places to work at, for waits below {duration(target)}"


def _failures(facts: Facts) -> str:
    rows = [
        [
            f"<code>{escape(row['signature'] or 'without a reason')}</code>",
            escape(f"{row['line']} / {row['queue']}"),
            number(row["attempts"]),
            number(row["subjects"]),
            part(row["retry_helps"]),
            instant(row["first_at"]),
            instant(row["last_at"]),
            ", ".join(f"<code>{escape(i)}</code>" for i in row["examples"]),
        ]
        for row in facts.failures
    ]
    heads = ["what it says", "queue", "attempts", "jobs", "trying again helped", "first", "last"]
    return _table([*heads, "for example"], rows, numbers=range(2, 5))


def _workers(facts: Facts) -> str:
    rows = [
        [
            f"<code>{escape(row['worker'])}</code>",
            escape(f"{row['line']} / {row['queue']}"),
            number(row["attempts"]),
            number(row["completed"]),
            number(row["failed"]),
            _bad_unless_zero(row["stalled"]),
            duration(row["busy_ms"]),
            instant(row["last_at"]),
        ]
        for row in facts.workers
    ]
    heads = ["worker", "queue", "took", "completed", "failed", "fell silent", "time in hand"]
    return _table([*heads, "last seen"], rows, numbers=range(2, 7))


def _gaps(facts: Facts) -> str:
    rows = [
        [
            f"<code>{escape(row['stream'])}</code>",
            number(row["lost"]),
            escape(row["reason"]),
            f"<code>{escape(row['after'])}</code>",
            f"<code>{escape(row['before'])}</code>",
            instant(row["before_at"]),
        ]
        for row in facts.gaps
    ]
    return _table(["stream", "entries", "why", "after", "before", "until"], rows, numbers=[1])


def _bad_unless_zero(value: int | None) -> str:
    kind = "" if value is None else "good" if value == 0 else "bad"
    return f'<span class="{kind}">{number(value)}</span>'


def _card(title: str, content: str) -> str:
    return f'<div class="card"><h3>{escape(title)}</h3>{content}</div>'


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
