"""Refresh of the gold tables and of the tables that single products have.

A table by the hour is rewritten for the hours in which something happened; the others are small and
are rewritten as a whole. A refresh that runs twice changes nothing.
"""

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec
from deltalake import (
    DeltaTable,
    write_deltalake,  # pyright: ignore[reportUnknownVariableType]
)

from waystation.pipeline.bronze.reconciled_events import add_removals
from waystation.pipeline.gold.capacity import DEFAULT_TARGET_MS, capacity
from waystation.pipeline.gold.failures import failures
from waystation.pipeline.gold.forecast import slots
from waystation.pipeline.gold.hourly import hourly
from waystation.pipeline.gold.ledger import ARRIVAL, OF, ledger
from waystation.pipeline.history import History, frames_of
from waystation.pipeline.hours import Hours
from waystation.pipeline.products import day_tables, folded_tables, tables_by_product
from waystation.pipeline.products.facts import HistoryFrames, ProductTable
from waystation.pipeline.products.room_places import PLACES, accounts
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import failure_days, gold_sums, recent_slots, stale_hours
from waystation.pipeline.refresh.accounts import refresh_ledger, unsettled
from waystation.pipeline.refresh.checks import quality, refresh_quality
from waystation.pipeline.refresh.cron_days import refresh_slots
from waystation.pipeline.refresh.day_tables import refresh_days
from waystation.pipeline.refresh.gold_sums import SUMMED
from waystation.pipeline.refresh.missing import missing
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.silver.attempts import workers
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.silver.steps import SUBJECT, steps
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sql import Frame, conform, query
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    EVENTS,
    FAILED_ITEMS,
    FAILURES,
    GAPS,
    HOURLY,
    ITEMS,
    LEDGER,
    QUALITY,
    SLOTS,
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
    last_day: Hours
    """The hours that slots are rewritten for."""
    stale_failures: Mapping[dt.date, str | None]
    """The days whose failures are counted again."""
    products: Collection[str]
    """The products that have events: in those hours, or ever."""
    snapshot: Snapshot | None = None
    target_ms: int = DEFAULT_TARGET_MS

    @property
    def open_steps(self) -> int:
        """Steps of open work, which are part of every read of attempts or items."""
        return delta.count(STEPS.path(self.history.root))

    def rows_in_hours(self) -> int:
        """Rows of events and attempts of the hours that have changed."""
        days, within = self.hours.days, ("started_at", *self.hours.bounds)
        tried = delta.count(ATTEMPTS.path(self.history.root), days=days, within=within)
        return self._events_in(self.hours) + tried + self.open_steps

    def events_in_slots(self) -> int:
        """Rows of events of the hours that slots are rewritten for."""
        return self._events_in(self.last_day)

    def newly_failed(self) -> int:
        """Rows of jobs and files that failed, of the days that are counted again."""
        path = FAILED_ITEMS.path(self.history.root)
        return delta.count(path, days=list(self.stale_failures)) + self.open_steps

    def accounted(self) -> int:
        """Rows that the ledger counts."""
        tables, days = (ITEMS, PLACES), self.unsettled.dates
        known = (delta.count(table.path(self.history.root), days=days) for table in tables)
        return sum(known) + self.open_steps

    def _events_in(self, hours: Hours) -> int:
        path = EVENTS.path(self.history.root)
        return delta.count(path, days=hours.days, within=("at", *hours.bounds))


class GoldTable(msgspec.Struct, frozen=True):
    """One table, how its rows are computed, and from how many others."""

    table: Table
    rows: Callable[[RefreshContext, HistoryFrames], Frame]
    size: Callable[[RefreshContext], int]
    product: str | None = None
    """The one product that has it; None: all of them."""
    hours: Callable[[RefreshContext], Hours | None] = lambda context: context.hours
    """The hours that it is rewritten for, if it has hours; None: all of them."""

    def computed(self, context: RefreshContext) -> Frame:
        """Its rows, from Spark or from this process."""
        return self.rows(context, frames_of(context.history, rows=self.size(context)))


def every() -> Iterator[GoldTable]:
    """All tables, in the order in which they can be computed."""
    in_hours = RefreshContext.rows_in_hours
    yield GoldTable(WORKERS, lambda context, of: workers(of.attempts(context.hours)), in_hours)
    yield GoldTable(HOURLY, _hourly, in_hours)
    yield GoldTable(
        SLOTS,
        lambda context, of: slots(steps(of.events(context.last_day))),
        RefreshContext.events_in_slots,
        hours=lambda context: context.last_day,
    )
    yield GoldTable(FAILURES, _failures, RefreshContext.newly_failed)
    yield GoldTable(
        LEDGER, _ledger, RefreshContext.accounted, hours=lambda context: context.unsettled
    )
    yield GoldTable(CAPACITY, _capacity, in_hours)
    for product, each in tables_by_product():
        yield _of_product(product, each)
    # The last one checks all others.
    yield GoldTable(
        QUALITY,
        lambda context, of: quality(of, context.history.root, context.hours),
        lambda context: context.rows_in_hours() + context.newly_failed(),
    )


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
    by_sums = SUMMED if gold_sums.is_used(history) else ()
    tables = [each for each in every() if each.table not in by_sums]
    progress.begin("refreshing gold tables", len(tables))
    if by_sums:
        gold_sums.catch_up(history, target_ms=target_ms, everything=everything)
    stale = stale_hours.read(history.root)
    hours = stale.hours
    products = _products_with_events(history, None if everything else hours)
    context = RefreshContext(
        history=history,
        hours=hours,
        unsettled=_unsettled(history, hours),
        last_day=recent_slots.stale(history.root, hours),
        stale_failures={} if by_sums else failure_days.stale_days(history.root),
        products=products,
        snapshot=snapshot,
        target_ms=target_ms,
    )
    written = by_sums and {*by_sums, *(more.table for of in folded_tables() for more in of.beside)}
    for each in day_tables():
        if each.table in written:
            continue
        refresh_days(history, each, everything=everything)
    refresh_slots(history, everything=everything)
    for done, each in enumerate(tables):
        progress.reach(done)
        is_silent = each.product is not None and each.product not in products
        # Without events nothing has changed; what the snapshot holds may have.
        is_new = bool(hours) and not is_silent
        if not (is_new or everything or each.table is LEDGER):
            continue
        if is_silent and not _is_there(history, each.table):
            continue
        if by_sums and each.table is LEDGER:
            refresh_ledger(history, snapshot, context.unsettled)
            continue
        if by_sums and each.table is QUALITY:
            refresh_quality(history, hours)
            continue
        rows = _nothing(each.table) if is_silent else each.computed(context)
        if each.table is LEDGER and snapshot is not None:
            # First: an hour that the ledger has settled is not looked at again.
            add_removals(history.root, snapshot.removed, snapshot.at)
        _write_table(history.root, each.table, rows, each.hours(context))
    if not by_sums:
        recent_slots.drop_old(history.root)
    stale_hours.clear(history.root, stale)
    progress.reach(len(tables))


def _write_table(root: str, table: Table, rows: Frame, hours: Hours | None) -> None:
    """Replace the rows of a table, or those of these hours where it has hours."""
    there = delta.open_table(table.path(root), table.schema, table.partitions)
    found = conform(rows, table.schema)
    if hours is None or not {"hour", "minute"} & set(table.key):
        _write(there, found, mode="overwrite")
    elif hours and "minute" in table.key:
        _write(there, found, mode="overwrite", predicate=hours.delta_range("minute"))
    elif hours:
        mine = found.filter(hours.arrow_filter(pc.field("hour")))
        _write(there, mine, mode="overwrite", predicate=hours.delta_predicate("hour"))


def _nothing(table: Table) -> Frame:
    return schema_of(table.schema).empty_table()


def _products_with_events(history: History, hours: Hours | None) -> set[str]:
    """The products with events: ever, or in some hours."""
    if hours is not None and not hours:
        return set()
    return delta.values(
        EVENTS.path(history.root),
        "line",
        days=None if hours is None else hours.days,
        within=None if hours is None else ("at", *hours.bounds),
    )


def _of_product(product: str, each: ProductTable) -> GoldTable:
    def rows(context: RefreshContext, frames: HistoryFrames) -> Frame:
        return each.rows(frames, context.hours)

    def size(context: RefreshContext) -> int:
        if each.by_hours:
            return context.rows_in_hours()
        within = None if each.since is None else (each.since, context.hours.bounds[0], None)
        known = delta.count(each.reads.path(context.history.root), within=within)
        return known + context.open_steps

    def hours(context: RefreshContext) -> Hours | None:
        return context.hours if each.by_hours else None

    return GoldTable(each.table, rows, size, product, hours)


def _hourly(context: RefreshContext, frames: HistoryFrames) -> Frame:
    return hourly(steps(frames.events(context.hours)), frames.attempts(context.hours))


def _capacity(context: RefreshContext, frames: HistoryFrames) -> Frame:
    return capacity(
        steps(frames.events(context.hours)),
        frames.attempts(context.hours),
        delta.read_arrow(
            context.history.root,
            HOURLY,
            (*OF, "run_p95_ms"),
            context.hours.arrow_filter(pc.field("hour")),
            by=("hour",),
        ),
        target_ms=context.target_ms,
    )


def _failures(context: RefreshContext, frames: HistoryFrames) -> Frame:
    of_ended = failure_days.counted(context.history.root, frames, context.stale_failures)
    return failures(failure_days.with_open(of_ended, frames))


def _ledger(context: RefreshContext, frames: HistoryFrames) -> Frame:
    hours = context.unsettled
    columns = ", ".join(f"`{name}`" for name in ACCOUNTED)
    text = f"select {columns} from {{items}} union all select {columns} from {{places}}"
    starts = pa.table({"start": pa.array(hours.starts, pa.timestamp("us", tz="UTC"))})
    mine = query(
        f"select * from ({text}) where {ARRIVAL} in (select start from {{hours}})",
        items=frames.items(hours.dates, ACCOUNTED),
        places=accounts(frames.read(PLACES, days=hours.dates)),
        hours=starts,
    )
    gaps = query(
        "select * from {gaps} where date_trunc('hour', before_at) in (select start from {hours})",
        gaps=frames.read(GAPS),
        hours=starts,
    )
    absent = None if context.snapshot is None else missing(mine, context.snapshot)
    return ledger(mine, gaps, absent)


def _is_there(history: History, table: Table) -> bool:
    return DeltaTable.is_deltatable(table.path(history.root))


def _unsettled(history: History, hours: Hours) -> Hours:
    """The hours that changed, and those that are not settled."""
    more = unsettled(history.root)
    # An item whose addition was not seen counts at the start of its day.
    days = {start.replace(hour=0) for start in hours.starts}
    return Hours(tuple(sorted({*hours.starts, *days, *more})))
