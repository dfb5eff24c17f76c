"""What the history knows as a whole: its hours, its ledger, its state and its tables."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from waystation.console.past.history import CheckView, GapView, Hour, LedgerRow, TableView
from waystation.console.past.jobs import THREADS
from waystation.pipeline import health
from waystation.pipeline.ask.active_files import duckdb_type
from waystation.pipeline.ask.engine import Engine, quoted
from waystation.pipeline.products import product_tables
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import Offset
from waystation.pipeline.tables import GAPS, HOURLY, ITEMS, LEDGER, QUALITY, every

_AN_HOUR = timedelta(hours=1)
_MOST_GAPS = 50


def hours(root: str, product: str, queue: str, days: int) -> list[Hour]:
    """The hours of the last days, up to the present one, oldest first."""
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    since = until - timedelta(days=days) + _AN_HOUR
    places = (("product", product), ("queue", queue))
    conditions = [f"{name} = {quoted(value)}" for name, value in places if value]
    wanted = " and ".join(conditions) or "true"
    with Engine(root, threads=THREADS) as engine:
        engine.add_table(HOURLY)
        engine.add_table(ITEMS, name="ended_items")
        engine.add_open_work()
        counted = engine.ask(
            # Its only parts are quoted above.
            f"""select hour, sum(added) as added, sum(completed) as completed,
                       sum(failed) as failed, sum(retried) as retried,
                       max(wait_p95_ms) as wait_p95_ms, max(run_p95_ms) as run_p95_ms
                from hourly where hour >= {quoted(since.isoformat())}::timestamptz and {wanted}
                group by hour"""  # noqa: S608
        )
        changes = engine.ask(
            f"""select hour, sum(change) from (
                    select date_trunc('hour', added_at) as hour, count(*) as change from items
                    where added_at is not null and {wanted} group by all
                    union all
                    select date_trunc('hour', ended_at), -count(*) from items
                    where added_at is not null and ended_at is not null and {wanted} group by all
                ) group by hour order by hour"""  # noqa: S608
        )
    rows = [dict(zip(counted.names, row, strict=True)) for row in counted.rows]
    found = {row["hour"].astimezone(UTC): row for row in rows}
    steps = {row[0].astimezone(UTC): int(row[1]) for row in changes.rows}
    level = sum(change for hour, change in steps.items() if hour < since)
    hours: list[Hour] = []
    at = since
    while at <= until:
        level += steps.get(at, 0)
        hours.append(_hour(at, found.get(at, {}), level))
        at += _AN_HOUR
    return hours


def _hour(at: datetime, row: dict[str, Any], level: int) -> Hour:
    counts = ("added", "completed", "failed", "retried")
    numbers = {name: int(row.get(name) or 0) for name in counts}
    return Hour(
        at=at,
        wait_p95_ms=row.get("wait_p95_ms"),
        run_p95_ms=row.get("run_p95_ms"),
        open=max(0, level),
        **numbers,
    )


_LEDGER = """
    select product, queue, sum(acknowledged)::bigint as added,
           sum(terminal)::bigint as ended, sum(removed)::bigint as removed,
           sum(visible)::bigint as open, sum(lost)::bigint as lost,
           sum(duplicated)::bigint as twice, coalesce(sum(gaps), 0)::bigint as missed,
           bool_and(clean) as clean,
           coalesce(list_filter(flatten(list(lost_ids) filter (lost_ids is not null)),
                                lambda id: id is not null)[:10], []) as lost_ids
    from ledger group by product, queue order by product, queue
"""


def ledger(root: str) -> list[LedgerRow]:
    """A row for each queue."""
    with Engine(root, threads=THREADS) as engine:
        engine.add_table(LEDGER)
        found = engine.ask(_LEDGER)
    rows = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    return msgspec.convert(rows, list[LedgerRow])


class State(msgspec.Struct, kw_only=True):
    """What the history says of itself."""

    events: int
    last_at: datetime | None
    read_to: dict[str, Offset]
    checks: list[CheckView]
    checked_at: datetime | None
    gaps: list[GapView]


def state(root: str) -> State:
    """The state of a history."""
    with Engine(root, threads=THREADS) as engine:
        engine.add_table(GAPS)
        engine.add_table(QUALITY)
        gaps = engine.ask(
            "select product, queue, lost, reason, after_at, before_at from gaps "
            "order by before_at desc",
            _MOST_GAPS,
        )
        checks = engine.ask(
            'select "table", what, wanted, found, checked_at from quality order by 1, 2'
        )
    stored = health.stored(root)
    return State(
        events=stored.events,
        last_at=stored.last_at,
        read_to=dict(stored.read_to),
        checks=[
            CheckView(table=table, what=what, wanted=wanted, found=found)
            for table, what, wanted, found, _ in checks.rows
        ],
        checked_at=max((row[4] for row in checks.rows if row[4]), default=None),
        gaps=[GapView(**dict(zip(gaps.names, row, strict=True))) for row in gaps.rows],
    )


def behind(here: Offset, last_id: str, added: int | None) -> int | None:
    """Entries of a stream that are not stored yet."""
    return offsets.behind(here, Offset(last_id, added))


def tables(root: str) -> list[TableView]:
    """The tables that a SELECT may name; all histories have the same."""
    return [
        TableView(
            name=table.name,
            a_row_is=table.meaning,
            columns={
                each.name: f"{duckdb_type(each.type)}, {each.meaning}" for each in table.columns
            },
        )
        for table in (*every(), *product_tables())
    ]
