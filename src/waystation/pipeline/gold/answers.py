"""Every answer: how its rows are made from the history, and how they get into their table.

A table by the hour is made anew for the hours in which something happened; the others are small and
are made anew as a whole. Making them twice changes nothing.
"""

from collections.abc import Callable, Iterator

import msgspec
from deltalake import write_deltalake  # pyright: ignore[reportUnknownVariableType]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline import delta, pending
from waystation.pipeline.gold.capacity import TARGET_WAIT_MS, capacity
from waystation.pipeline.gold.failures import failures
from waystation.pipeline.gold.hourly import hourly
from waystation.pipeline.gold.ledger import arrival, ledger
from waystation.pipeline.gold.missing import missing
from waystation.pipeline.gold.quality import quality
from waystation.pipeline.history import History, Hours, utc
from waystation.pipeline.keeping import taken
from waystation.pipeline.lines import answers_of_all_lines
from waystation.pipeline.lines.standing import places
from waystation.pipeline.look import Look
from waystation.pipeline.silver.steps import WHO, steps
from waystation.pipeline.silver.workers import workers
from waystation.pipeline.tables import (
    CAPACITY,
    FAILURES,
    GAPS,
    HOURLY,
    LEDGER,
    QUALITY,
    WORKERS,
    Table,
)

ACCOUNTED = (*WHO, "state", "added_at", "last_told_at", "duplicates", "date")
"""What the ledger has to know of an item, or of a place in line."""

_write: Callable[..., None] = write_deltalake


class Answering(msgspec.Struct, frozen=True):
    """What answers are made from."""

    history: History
    hours: Hours
    look: Look | None = None
    target_ms: int = TARGET_WAIT_MS


class Answer(msgspec.Struct, frozen=True):
    """One table and how its rows are made."""

    table: Table
    rows: Callable[[Answering], DataFrame]


def every() -> Iterator[Answer]:
    """Every answer, in the order in which they can be made."""
    yield Answer(WORKERS, lambda asked: workers(asked.history.attempts(asked.hours)))
    yield Answer(HOURLY, _hourly)
    yield Answer(FAILURES, lambda asked: failures(asked.history.attempts()))
    yield Answer(LEDGER, _ledger)
    yield Answer(CAPACITY, _capacity)
    for each in answers_of_all_lines():
        yield Answer(each.table, lambda asked, rows=each.rows: rows(asked.history, asked.hours))
    # The last one looks at all others.
    yield Answer(QUALITY, lambda asked: quality(asked.history, asked.hours))


def refresh(
    history: History,
    look: Look | None = None,
    *,
    target_ms: int = TARGET_WAIT_MS,
    everything: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> None:
    """Bring every answer up to what silver holds; `told` hears the name of each beforehand.

    Without news, only what depends on the look is made anew, unless `everything` is.
    """
    todo = pending.read(history.root)
    hours = todo.hours
    asked = Answering(history, hours, look, target_ms)
    for answer in every():
        told(answer.table.name)
        # What nothing was told about has not changed; what can be seen may have.
        if not (hours or everything or answer.table is LEDGER):
            continue
        put(history, answer.table, answer.rows(asked), _hours_of(asked, answer.table))
    pending.settle(history.root, todo)


def put(history: History, table: Table, rows: DataFrame, hours: Hours) -> None:
    """Let a table hold these rows, for these hours where it has hours."""
    place = table.place(history.root)
    delta.opened(place, table.schema, table.partitions)
    if "hour" not in table.key:
        _write(place, taken(rows.select(*table.names)), mode="overwrite")
    elif hours:
        mine = taken(rows.where(hours.hold(F.col("hour"))).select(*table.names))
        _write(place, mine, mode="overwrite", predicate=hours.predicate("hour"))


def _hours_of(asked: Answering, table: Table) -> Hours:
    """The hours that a table is made anew for."""
    return _unsettled(asked) if table.name == LEDGER.name else asked.hours


def _hourly(asked: Answering) -> DataFrame:
    return hourly(steps(asked.history.events(asked.hours)), asked.history.attempts(asked.hours))


def _capacity(asked: Answering) -> DataFrame:
    return capacity(
        steps(asked.history.events(asked.hours)),
        asked.history.attempts(asked.hours),
        asked.history.read(HOURLY).where(asked.hours.hold(F.col("hour"))),
        target_ms=asked.target_ms,
    )


def _ledger(asked: Answering) -> DataFrame:
    hours = _unsettled(asked)
    kept = asked.history.items(hours.days).select(*ACCOUNTED)
    items = kept.unionByName(places(asked.history.events()).select(*ACCOUNTED))
    items = items.where(hours.hold(arrival()))
    gaps = asked.history.read(GAPS).where(hours.hold(F.col("before_at")))
    if asked.look is None:
        return ledger(items, gaps, None)
    return ledger(items, gaps, missing(items, asked.look))


def _unsettled(asked: Answering) -> Hours:
    """The hours touched, those that open work came in, those of gaps, and those not clean yet."""
    history = asked.history
    open_hours = history.read(LEDGER).where(
        F.col("visible").isNull() | (F.col("visible") > 0) | ~F.col("clean")
    )
    gaps = history.read(GAPS).select(F.date_trunc("hour", "before_at").alias("hour"))
    more = open_hours.select("hour").union(gaps).distinct().collect()
    # Whose birth was not seen counts as come at the beginning of its day.
    days = {start.replace(hour=0) for start in asked.hours.starts}
    return Hours(tuple(sorted({*asked.hours.starts, *days, *(utc(r["hour"]) for r in more)})))
