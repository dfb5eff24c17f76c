"""The hours of the past: how many jobs came, ended and waited, and for how long."""

from datetime import UTC, datetime, timedelta
from typing import Any

from waystation.console.past.jobs import THREADS
from waystation.console.past.views import Hour
from waystation.pipeline.ask.engine import Engine, quoted
from waystation.pipeline.tables import HOURLY, ITEMS

_AN_HOUR = timedelta(hours=1)


def read(root: str, product: str, queue: str, days: int) -> list[Hour]:
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
