"""Refresh of the gold tables and of the tables that single products have.

A table by the hour is rewritten for the hours in which something happened; the others are small and
are rewritten as a whole. A refresh that runs twice changes nothing.
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
from waystation.pipeline.gold.capacity import DEFAULT_TARGET_MS, capacity
from waystation.pipeline.gold.failures import failures
from waystation.pipeline.gold.hourly import hourly
from waystation.pipeline.gold.ledger import arrival, ledger
from waystation.pipeline.history import History
from waystation.pipeline.hours import Hours
from waystation.pipeline.products import tables_by_product
from waystation.pipeline.products.facts import ProductTable
from waystation.pipeline.products.room_places import places
from waystation.pipeline.products.waitingroom import VISITS
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.refresh.checks import quality
from waystation.pipeline.refresh.missing import missing
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.silver.attempts import workers
from waystation.pipeline.silver.steps import SUBJECT, steps
from waystation.pipeline.storage import delta
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

ACCOUNTED = (*SUBJECT, "state", "added_at", "last_told_at", "duplicates", "date")
"""Columns that the ledger needs of an item, or of a place in a waiting room."""

_write: Callable[..., None] = write_deltalake


class RefreshContext(msgspec.Struct, frozen=True):
    """What gold tables are computed from."""

    history: History
    hours: Hours
    unsettled: Hours
    """The hours that the ledger is rewritten for."""
    products: Collection[str]
    """The products that have events: in those hours, or ever."""
    snapshot: Snapshot | None = None
    target_ms: int = DEFAULT_TARGET_MS


class GoldTable(msgspec.Struct, frozen=True):
    """One table, and how its rows are computed."""

    table: Table
    rows: Callable[[RefreshContext], DataFrame]
    product: str | None = None
    """The one product that has it; None: all of them."""


def every() -> Iterator[GoldTable]:
    """All tables, in the order in which they can be computed."""
    yield GoldTable(WORKERS, lambda context: workers(context.history.attempts(context.hours)))
    yield GoldTable(HOURLY, _hourly)
    yield GoldTable(FAILURES, lambda context: failures(context.history.attempts()))
    yield GoldTable(LEDGER, _ledger)
    yield GoldTable(CAPACITY, _capacity)
    for product, each in tables_by_product():
        yield GoldTable(each.table, partial(_of_product, each), product)
    # The last one checks all others.
    yield GoldTable(QUALITY, lambda context: quality(context.history, context.hours))


def refresh(
    history: History,
    snapshot: Snapshot | None = None,
    *,
    target_ms: int = DEFAULT_TARGET_MS,
    everything: bool = False,
    progress: Progress | None = None,
) -> None:
    """Bring every gold table up to what silver holds.

    Without new events only the ledger is rewritten, for the snapshot; with `everything`, all are.
    """
    progress = progress or NoProgress()
    tables = list(every())
    progress.begin("refreshing gold tables", len(tables))
    stale = stale_hours.read(history.root)
    hours = stale.hours
    products = _products_with_events(history, None if everything else hours)
    context = RefreshContext(
        history, hours, _unsettled(history, hours), products, snapshot, target_ms
    )
    for done, each in enumerate(tables):
        progress.reach(done)
        is_silent = each.product is not None and each.product not in products
        # Without events nothing has changed; what the snapshot holds may have.
        is_new = bool(hours) and not is_silent
        if not (is_new or everything or each.table is LEDGER):
            continue
        if is_silent and not _is_there(history, each.table):
            continue
        rows = history.read(each.table).limit(0) if is_silent else each.rows(context)
        changed = context.unsettled if each.table is LEDGER else hours
        _write_table(history, each.table, rows, changed)
    stale_hours.clear(history.root, stale)
    progress.reach(len(tables))


def _write_table(history: History, table: Table, rows: DataFrame, hours: Hours) -> None:
    """Replace the rows of a table, or those of these hours where it has hours."""
    path = table.path(history.root)
    delta.open_table(path, table.schema, table.partitions)
    if "hour" not in table.key:
        _write(path, delta.to_arrow(rows.select(*table.names)), mode="overwrite")
    elif hours:
        mine = delta.to_arrow(rows.where(hours.contain(F.col("hour"))).select(*table.names))
        _write(path, mine, mode="overwrite", predicate=hours.delta_predicate("hour"))


def _products_with_events(history: History, hours: Hours | None) -> set[str]:
    """The products with events: ever, or in some hours."""
    if hours is not None and not hours:
        return set()
    rows = history.events(hours).select("line").distinct().collect()
    return {row["line"] for row in rows}


def _of_product(table: ProductTable, context: RefreshContext) -> DataFrame:
    return table.rows(context.history)


def _hourly(context: RefreshContext) -> DataFrame:
    return hourly(
        steps(context.history.events(context.hours)), context.history.attempts(context.hours)
    )


def _capacity(context: RefreshContext) -> DataFrame:
    return capacity(
        steps(context.history.events(context.hours)),
        context.history.attempts(context.hours),
        context.history.read(HOURLY).where(context.hours.contain(F.col("hour"))),
        target_ms=context.target_ms,
    )


def _ledger(context: RefreshContext) -> DataFrame:
    hours = context.unsettled
    items = context.history.items(hours.days).select(*ACCOUNTED)
    # Without a waiting room there is no need to read all events.
    if Line.WAITINGROOM.value in context.products or _is_there(context.history, VISITS):
        items = items.unionByName(places(context.history.events()).select(*ACCOUNTED))
    items = items.where(hours.contain(arrival()))
    gaps = context.history.read(GAPS).where(hours.contain(F.col("before_at")))
    if context.snapshot is None:
        return ledger(items, gaps, None)
    return ledger(items, gaps, missing(items, context.snapshot))


def _is_there(history: History, table: Table) -> bool:
    return DeltaTable.is_deltatable(table.path(history.root))


def _unsettled(history: History, hours: Hours) -> Hours:
    """The hours that changed, that open work arrived in, of gaps, and that are not clean yet."""
    ledger = delta.read_arrow(history.root, LEDGER, ("hour", "visible", "clean"))
    gaps = delta.read_arrow(history.root, GAPS, ("before_at",))
    # An item whose addition was not seen counts at the start of its day.
    days = {start.replace(hour=0) for start in hours.starts}
    more = {
        row["hour"] for row in ledger.to_pylist() if row["visible"] != 0 or not row["clean"]
    } | {row["before_at"].replace(minute=0, second=0, microsecond=0) for row in gaps.to_pylist()}
    return Hours(tuple(sorted({*hours.starts, *days, *more})))
