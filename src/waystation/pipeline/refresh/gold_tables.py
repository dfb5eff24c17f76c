"""Every answer: how its rows are made from the history, and how they get into their table.

A table by the hour is made anew for the hours in which something happened; the others are small and
are made anew as a whole. Making them twice changes nothing.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial

import msgspec
from deltalake import (
    DeltaTable,
    write_deltalake,  # pyright: ignore[reportUnknownVariableType]
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.events import Line
from waystation.pipeline.gold.capacity import TARGET_WAIT_MS, capacity
from waystation.pipeline.gold.failures import failures
from waystation.pipeline.gold.hourly import hourly
from waystation.pipeline.gold.ledger import arrival, ledger
from waystation.pipeline.history import History, Hours
from waystation.pipeline.products import answers_of_all_lines
from waystation.pipeline.products.facts import LineAnswer
from waystation.pipeline.products.room_places import places
from waystation.pipeline.products.waitingroom import VISITS
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.refresh.checks import quality
from waystation.pipeline.refresh.missing import missing
from waystation.pipeline.refresh.snapshot import Look
from waystation.pipeline.silver.steps import WHO, steps
from waystation.pipeline.silver.workers import workers
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.keeping import taken
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
    unsettled: Hours
    """The hours that the ledger is made anew for."""
    lines: Collection[str]
    """The lines that something was told about: in those hours, or ever."""
    look: Look | None = None
    target_ms: int = TARGET_WAIT_MS


class Answer(msgspec.Struct, frozen=True):
    """One table and how its rows are made."""

    table: Table
    rows: Callable[[Answering], DataFrame]
    line: str | None = None
    """The one line that it is about; None: all of them."""


def every() -> Iterator[Answer]:
    """Every answer, in the order in which they can be made."""
    yield Answer(WORKERS, lambda asked: workers(asked.history.attempts(asked.hours)))
    yield Answer(HOURLY, _hourly)
    yield Answer(FAILURES, lambda asked: failures(asked.history.attempts()))
    yield Answer(LEDGER, _ledger)
    yield Answer(CAPACITY, _capacity)
    for line, each in answers_of_all_lines():
        rows = partial(_of_line, each)
        yield Answer(each.table, rows, line)
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
    todo = stale_hours.read(history.root)
    hours = todo.hours
    lines = _lines_told_of(history, None if everything else hours)
    asked = Answering(history, hours, _unsettled(history, hours), lines, look, target_ms)
    for answer in every():
        told(answer.table.name)
        is_silent = answer.line is not None and answer.line not in lines
        # What nothing was told about has not changed; what can be seen may have.
        is_new = bool(hours) and not is_silent
        if not (is_new or everything or answer.table is LEDGER):
            continue
        if is_silent and not _is_there(history, answer.table):
            continue
        rows = history.read(answer.table).limit(0) if is_silent else answer.rows(asked)
        put(history, answer.table, rows, asked.unsettled if answer.table is LEDGER else hours)
    stale_hours.settle(history.root, todo)


def put(history: History, table: Table, rows: DataFrame, hours: Hours) -> None:
    """Let a table hold these rows, for these hours where it has hours."""
    place = table.place(history.root)
    delta.opened(place, table.schema, table.partitions)
    if "hour" not in table.key:
        _write(place, taken(rows.select(*table.names)), mode="overwrite")
    elif hours:
        mine = taken(rows.where(hours.hold(F.col("hour"))).select(*table.names))
        _write(place, mine, mode="overwrite", predicate=hours.predicate("hour"))


def _lines_told_of(history: History, hours: Hours | None) -> set[str]:
    """The lines in which something happened: ever, or in some hours."""
    if hours is not None and not hours:
        return set()
    rows = history.events(hours).select("line").distinct().collect()
    return {row["line"] for row in rows}


def _of_line(answer: LineAnswer, asked: Answering) -> DataFrame:
    return answer.rows(asked.history, asked.hours)


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
    hours = asked.unsettled
    items = asked.history.items(hours.days).select(*ACCOUNTED)
    # Whoever has no waiting room need not read all that was ever told.
    if Line.WAITINGROOM.value in asked.lines or _is_there(asked.history, VISITS):
        items = items.unionByName(places(asked.history.events()).select(*ACCOUNTED))
    items = items.where(hours.hold(arrival()))
    gaps = asked.history.read(GAPS).where(hours.hold(F.col("before_at")))
    if asked.look is None:
        return ledger(items, gaps, None)
    return ledger(items, gaps, missing(items, asked.look))


def _is_there(history: History, table: Table) -> bool:
    return DeltaTable.is_deltatable(table.place(history.root))


def _unsettled(history: History, hours: Hours) -> Hours:
    """The hours touched, those that open work came in, those of gaps, and those not clean yet."""
    ledger = delta.read_here(history.root, LEDGER, ("hour", "visible", "clean"))
    gaps = delta.read_here(history.root, GAPS, ("before_at",))
    # Whose birth was not seen counts as come at the beginning of its day.
    days = {start.replace(hour=0) for start in hours.starts}
    more = {
        row["hour"] for row in ledger.to_pylist() if row["visible"] != 0 or not row["clean"]
    } | {row["before_at"].replace(minute=0, second=0, microsecond=0) for row in gaps.to_pylist()}
    return Hours(tuple(sorted({*hours.starts, *days, *more})))
