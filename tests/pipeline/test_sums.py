"""Gold by sums: batch after batch, it equals what all events at once give, table by table."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.pipeline import stories
from tests.pipeline.events_of_all import told_of_files
from tests.pipeline.rounds import in_parts, rows_of, visitors
from tests.pipeline.routing_stories import some_days
from waystation.pipeline.gold import sums
from waystation.pipeline.gold.capacity import capacity
from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.gold.changed import Changed
from waystation.pipeline.gold.failures import failures, kinds
from waystation.pipeline.gold.forecast import LAST_DAY, slots
from waystation.pipeline.gold.hourly import hourly
from waystation.pipeline.products import file_days, files, room_places, routed_jobs, waitingroom
from waystation.pipeline.silver import attempts as attempts_fold
from waystation.pipeline.silver import failed_items as failed_fold
from waystation.pipeline.silver import items as items_fold
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.silver.steps import IN_ORDER, MARKED, context, steps, with_lives
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sql import Frame, conform, query
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    EVENTS,
    FAILED_ITEMS,
    FAILURE_DAYS,
    FAILURES,
    HOURLY,
    ITEMS,
    SLOTS,
    WORKERS,
    Table,
)

TARGET_MS = 1000
_ROOM = """
select events.queue, event, `at`, fields['reason'] as reason,
       coalesce(places.lane, try_cast(fields['lane'] as int), 0) as lane
from {events} as events
left join {places} as places on events.queue = places.queue and events.subject = places.subject
where events.line = 'waitingroom' and events.subject is not null
"""
_FILES = """
select items.queue, state, run_ms, added_at, ended_at, directory, type, size, items.`date`
from {added} as added join {items} as items
  on added.subject = items.subject and added.queue = items.queue and added.`date` = items.`date`
where items.line = 'files'
"""

_IN_CONTEXT = f"""
select {", ".join(f"`{name}`" for name in STEPS.names)}, {", ".join(context(IN_ORDER))}
from (select *, {", ".join(MARKED)} from {{steps}})
"""


def plain(dice: random.Random) -> list[dict[str, Any]]:
    rows = stories.rows(stories.told_about(dice, 40))
    for row in rows:
        row["fields"] = list(row["fields"].items())
    return rows


def silver_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All rows of silver, open work included, from all events."""
    events = pa.Table.from_pylist(rows, schema=schema_of(EVENTS.schema))
    told_steps = steps(events)
    lives = with_lives(told_steps)
    tried = attempts_fold.attempts(lives)
    found = items_fold.items(lives, tried)
    places = conform(room_places.places(events), room_places.PLACES.schema)
    added = file_days.merged(file_days.told(events))
    return {
        "steps": query(_IN_CONTEXT, steps=told_steps),
        "attempts": conform(tried, ATTEMPTS.schema),
        "items": conform(found, ITEMS.schema),
        "failed_items": conform(failed_fold.failed_items(tried, found), FAILED_ITEMS.schema),
        "places": places,
        "events": events,
        "added": added,
        "room": query(_ROOM, events=events, places=places),
        "routed": conform(routed_jobs.routed_jobs(events), routed_jobs.ROUTED_JOBS.schema),
        "files": query(_FILES, added=added, items=found),
    }


def gold_of(silver: Mapping[str, Frame]) -> dict[Table, Any]:
    """The tables of gold, computed from all rows at once."""
    ended = query(
        f"select * from {{rows}} where {items_fold.HAS_ENDED}", rows=silver["failed_items"]
    )
    ended_items = query(
        f"select * from {{rows}} where {items_fold.HAS_ENDED}", rows=silver["items"]
    )
    hours = hourly(silver["steps"], silver["attempts"])
    days = routed_jobs.route_days(silver["routed"])
    left = waitingroom.abandonment_days(waitingroom.visits(silver["places"]))
    return {
        HOURLY: hours,
        CAPACITY: capacity(silver["steps"], silver["attempts"], hours, target_ms=TARGET_MS),
        WORKERS: attempts_fold.workers(silver["attempts"]),
        SLOTS: slots(silver["steps"]),
        FAILURE_DAYS: kinds(ended, by_day=True),
        FAILURES: failures(kinds(silver["failed_items"])),
        waitingroom.ABANDONMENT_DAYS: left,
        waitingroom.ABANDONMENT: waitingroom.abandonment(left),
        routed_jobs.ROUTE_DAYS: days,
        routed_jobs.ROUTES: routed_jobs.routes(days),
        waitingroom.FUNNEL: waitingroom.funnel(
            silver["events"], waitingroom.visits(silver["places"])
        ),
        file_days.FILE_DAYS: file_days.file_days(silver["added"], ended_items),
        files.FILES: files.by_kind(file_days.file_days(silver["added"], silver["items"])),
    }


def signed(before: Any, after: Any) -> Any:
    """The rows that are in one of two tables only, with their sign."""
    counted = Counter(map(_frozen, after.to_pylist()))
    counted.subtract(Counter(map(_frozen, before.to_pylist())))
    rows = [
        {**_thawed(row), "sign": 1 if many > 0 else -1}
        for row, many in counted.items()
        for _ in range(abs(many))
    ]
    schema = pa.schema([*after.schema, pa.field("sign", pa.int32())])
    return pa.Table.from_pylist(rows, schema=schema)


def _frozen(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        (name, tuple(cast(list[Any], v)) if isinstance(v, list) else v) for name, v in row.items()
    )


def _thawed(row: tuple[Any, ...]) -> dict[str, Any]:
    return {name: list(cast(tuple[Any], v)) if isinstance(v, tuple) else v for name, v in row}


def add(spark: SparkSession, root: str, batch: int, before: Any, after: Any) -> bool:
    frames: dict[str, Any] = {
        name: spark.createDataFrame(signed(before[name], after[name]))
        for name in after
        if name not in ("events", "added")
    }
    changed = Changed(batch=BatchId("silver", batch), **frames)

    def silver(name: str, days: Any) -> Any:
        rows = after[name]
        if days is not None:
            rows = rows.filter(pc.is_in(rows["date"], pa.array(days, pa.date32())))
        return spark.createDataFrame(rows)

    return sums.add(spark, root, changed, silver, target_ms=TARGET_MS)


def assert_equal(root: str, silver: Mapping[str, Any], scratch: str) -> None:
    for table, rows in gold_of(silver).items():
        delta.replace_days(scratch, table, conform(rows, table.schema), None)
        assert _rows_of(root, table) == _rows_of(scratch, table), table.name
    for row in delta.read_arrow(root, FAILURES, FAILURES.names).to_pylist():
        assert row["examples"] == _least_ids(silver["failed_items"], row)[:5]


def _rows_of(root: str, table: Table) -> list[Any]:
    """Rows without examples, of which the tables of all events at once have some twice."""
    columns = tuple(column for column in table.columns if column.name != "examples")
    rows = rows_of(root, msgspec.structs.replace(table, columns=columns))
    if table is not SLOTS or not rows:
        return rows
    # Slots are counted for the last day.
    hour = table.names.index("hour")
    last = max(row[hour] for row in rows)
    return [row for row in rows if row[hour] >= last - LAST_DAY]


def _least_ids(failed: Any, wanted: Mapping[str, Any]) -> list[str]:
    of = ("line", "queue", "fingerprint")
    return sorted(
        {
            row["subject"]
            for row in failed.to_pylist()
            if all(row[name] == wanted[name] for name in of)
        }
    )


TOLD: dict[str, Callable[[random.Random], list[dict[str, Any]]]] = {
    "jobs": lambda dice: [*plain(dice), *stories_of_dead_letters(dice)],
    "routing": lambda dice: some_days(dice, days=2, jobs=30),
    "files": lambda dice: told_of_files(dice, 30),
    "visitors": visitors,
}


def stories_of_dead_letters(dice: random.Random) -> list[dict[str, Any]]:
    """Jobs that fail and become dead letters in one instant, which are two events."""
    told = [
        stories.StoryEvent(at, "dead", str(number), event)
        for number in range(4)
        for at, event in _dying(dice.randrange(3_600_000))
    ]
    rows = stories.rows(sorted(told, key=lambda each: each.at_ms))
    for row in rows:
        row["fields"] = [("failedReason", "broken")] if row["event"] == "failed" else []
    return rows


def _dying(at: int) -> list[tuple[int, str]]:
    return [
        (at, "added"),
        (at, "waiting"),
        (at + 5, "active"),
        (at + 9, "failed"),
        (at + 9, "dead"),
    ]


@pytest.mark.parametrize("product", TOLD)
def test_sums_over_random_batches_are_the_tables_of_all_events_at_once(
    spark: SparkSession, root: str, tmp_path: Any, product: str
) -> None:
    dice = random.Random(f"{product} 7")
    known: list[dict[str, Any]] = []
    before = silver_of(known)
    for batch, part in enumerate(in_parts(dice, TOLD[product](dice), 3)):
        known += part
        after = silver_of(known)
        assert add(spark, root, batch, before, after)
        before = after
    assert_equal(root, before, f"{tmp_path}/scratch")


class Killed(Exception):
    """The driver has ended."""


def test_a_batch_that_was_cut_short_is_added_once(
    spark: SparkSession, root: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(5)
    first, second = in_parts(dice, plain(dice), 2)
    before, after = silver_of(first), silver_of([*first, *second])
    add(spark, root, 0, silver_of([]), before)
    commit, commits = delta.commit, 0

    def dying(*args: Any, **more: Any) -> bool:
        nonlocal commits
        commits += 1
        if commits == 4:
            raise Killed
        return commit(*args, **more)

    monkeypatch.setattr(delta, "commit", dying)
    with pytest.raises(Killed):
        add(spark, root, 1, before, after)
    assert delta.last_batch(CELLS.path(root), sums.APPLICATION) == 0
    assert add(spark, root, 1, before, after)
    assert not add(spark, root, 1, before, after)
    assert_equal(root, after, f"{tmp_path}/scratch")
