"""Refresh of the gold tables and of the tables that single products have.

Most are kept by sums, from the changes that the last fold has left. A batch that was missed,
because the tables are older or were deleted, cannot be added any more: then all rows of silver are
counted once, by the same rules. The ledger is written for the hours that are not settled, and what
a waiting room learns from all of its visits as a whole. A refresh that runs twice changes nothing.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.events import Product
from waystation.pipeline.gold import sums
from waystation.pipeline.gold.cells import CELLS, FILE, LEFT, MINUTE, ROUTE, Changed
from waystation.pipeline.gold.files import files_by
from waystation.pipeline.gold.staffing import DEFAULT_TARGET_MS
from waystation.pipeline.history import History
from waystation.pipeline.products import folded_tables
from waystation.pipeline.products.files import ADDED_FILES
from waystation.pipeline.products.room_places import PLACES, ROOM_EVENTS, room_events
from waystation.pipeline.products.routing import ROUTED_JOBS
from waystation.pipeline.products.waitingroom import (
    CALIBRATED_DAYS,
    ETA_CALIBRATION,
    FAIRNESS,
    VISITS,
    eta_calibration,
    fairness,
)
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import fold as folds
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.refresh.checks import refresh_quality
from waystation.pipeline.refresh.cron_days import refresh_slots
from waystation.pipeline.refresh.fold import folded_version
from waystation.pipeline.refresh.ledger import refresh_ledger, unsettled
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.refresh.subjects import (
    CHANGES_NOTE,
    added_rows,
    changed_tables,
    removed_rows,
)
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS, STEPS
from waystation.pipeline.silver.steps import steps, with_context
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.storage.task_files import replace
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

SHARED = (HOURLY, CAPACITY, WORKERS, SLOTS, FAILURE_DAYS, FAILURES)
"""The tables by sums that every history has."""
_OF = {
    "attempts": (ATTEMPTS, OPEN_ATTEMPTS),
    "items": (ITEMS, OPEN_ITEMS),
    "failed_items": (FAILED_ITEMS, OPEN_FAILURES),
}
_COUNTED = {PLACES: (MINUTE, LEFT), ROUTED_JOBS: (ROUTE,), ADDED_FILES: (FILE,)}
"""Tables of single products, and kinds of cells that are counted from them."""
_ADDED = ("queue", "job_id", "date", "directory", "type", "size")


Files: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""The files with changes, by what they hold."""


def fold_after_counting(history: History, *, target_ms: int = DEFAULT_TARGET_MS) -> None:
    """Fold the new events, once what a run before has folded, or begun to fold, is counted.

    Each fold leaves its own changes alone. Where all is counted again, that waits for the fold,
    which knows what was deleted meanwhile.
    """
    if _is_used(history):
        catch_up(history, target_ms=target_ms, only_next=True)
        if folds.finish(history):
            catch_up(history, target_ms=target_ms, only_next=True)
    folds.fold(history)


def _is_used(history: History) -> bool:
    """Whether the last fold has left what sums are counted from."""
    seen, folded = (
        delta.last_batch(table.path(history.root), folds.APPLICATION)
        for table in (OPEN_ITEMS, STEPS)
    )
    # One that was interrupted may have written further than it counts.
    return folded is None or (seen is not None and seen >= folded)


def catch_up(
    history: History, *, target_ms: int, everything: bool = False, only_next: bool = False
) -> None:
    """Add what the last fold has changed, unless it was added before; or count everything again.

    With `only_next` nothing is counted again: another fold comes first.
    """
    root = history.root
    folded, done = folds.folded_version(history), _added(root)
    if folded is None or (done == folded and not everything):
        return
    batch = BatchId(sums.APPLICATION, folded)

    def silver(name: str, days: Sequence[dt.date] | None) -> DataFrame:
        found = _rows(history, name, days)
        assert found is not None  # noqa: S101 (rows of it have changed)
        return found

    files = None if everything else _next(root, batch, done)
    if files is None and only_next:
        return
    rows = delta.count(EVENTS.path(root)) if files is None else _size(files)
    with sized(history.spark, rows) as spark:
        if files is None:
            sums.count_all(spark, root, _everything(history, batch), target_ms=target_ms)
        elif rows:
            changed = _changed(history, batch, files)
            sums.add(spark, root, changed, silver, target_ms=target_ms)
        else:
            # Old rows were rewritten, or none of them is counted.
            delta.commit(CELLS.path(root), CELLS.schema, [], batch, partitions=CELLS.partitions)
    for table in SHARED:
        if table_log.version(table.path(root)) is None:
            # Nothing has happened that it counts.
            delta.open_table(table.path(root), table.schema, table.partitions)


def _added(root: str) -> int | None:
    """The last batch that was added; None when there is none, or none that can be added to: the
    cells were deleted since, or an older version has written them."""
    path = CELLS.path(root)
    is_there = delta.count(path) and not delta.has_other_columns(path, CELLS)
    return delta.last_batch(path, sums.APPLICATION) if is_there else None


def _next(root: str, batch: BatchId, done: int | None) -> Any:
    """The files with the changes of a batch; None when it is not the next one to add."""
    if done is None and table_log.version(CELLS.path(root)) is not None:
        # The cells were deleted since, or are of another form.
        return None
    found: dict[str, Any] = {}
    for table in (STEPS, *(table for table in _COUNTED if _exists(root, table))):
        noted: Any = table_log.last_note(table.path(root), CHANGES_NOTE)
        if not noted or noted["batch"] != batch.batch:
            return None
        after = noted.get("after")
        if after != done and (after is not None or _is_counted(root, table)):
            return None
        found |= noted["files"]
    # What is known of a file has changed, and with it what its items have added.
    return None if found.get(removed_rows(ADDED_FILES.name)) else found


def _is_counted(root: str, table: Table) -> bool:
    """Whether cells were counted from a table: else all of its rows are new."""
    kinds = _COUNTED.get(table)
    return kinds is None or any(files_by(CELLS, root, None, kind.name) for kind in kinds)


def _exists(root: str, table: Table) -> bool:
    return table_log.version(table.path(root)) is not None


def _size(files: Files) -> int:
    return sum(part["rows"] for parts in files.values() for part in parts)


def _changed(history: History, batch: BatchId, files: Files) -> Changed:
    """The changes of a batch, from the files that its fold has left."""
    apart = {**folds.APART, **_of_products()}

    def read(column: str, sign: int) -> DataFrame:
        table = apart[column]
        names = [row["path"] for row in files.get(column, ())]
        rows = delta.read_with_spark(history.spark, table.path(history.root), table, names)
        return rows.withColumn("sign", F.lit(sign))

    def both(name: str) -> DataFrame | None:
        if not (files.get(added_rows(name)) or files.get(removed_rows(name))):
            return None
        return read(added_rows(name), 1).unionByName(read(removed_rows(name), -1))

    items = both("items")
    return Changed(
        batch=batch,
        steps=read(added_rows("steps"), 1) if files.get(added_rows("steps")) else None,
        attempts=both("attempts"),
        items=items,
        failed_items=both("failed_items"),
        places=both(PLACES.name),
        room=read(added_rows(ROOM_EVENTS.name), 1)
        if files.get(added_rows(ROOM_EVENTS.name))
        else None,
        routed=both(ROUTED_JOBS.name),
        files=None if items is None else _files(history, items, _days_of_items(files)),
    )


def _of_products() -> dict[str, Table]:
    found: dict[str, Table] = {}
    for each in folded_tables():
        found |= changed_tables(each)
    return found


def _days_of_items(files: Files) -> list[dt.date]:
    """The days between the first and the last on which changed items were added."""
    found = [
        stats[f"{end}Values"]["date"]
        for name in (added_rows("items"), removed_rows("items"))
        for part in files.get(name, ())
        for stats in [msgspec.json.decode(part["stats"])]
        for end in ("min", "max")
    ]
    first, last = (dt.date.fromisoformat(pick(found)) for pick in (min, max))
    return [first + dt.timedelta(days=n) for n in range((last - first).days + 1)]


def _files(history: History, items: DataFrame, days: Sequence[dt.date] | None) -> DataFrame | None:
    """Items that are files, with what is known of each."""
    if not _exists(history.root, ADDED_FILES):
        return None
    theirs = items.where(F.col("product") == Product.FILES.value)
    known = history.read(ADDED_FILES, days=days, columns=_ADDED)
    return theirs.join(known, ["queue", "job_id", "date"])


def _everything(history: History, batch: BatchId) -> Changed:
    """All rows of silver, as if one batch had added them."""
    place = EVENTS.path(history.root)
    # Those that came after the fold are in its next changes.
    names = [each.path for each in table_log.new_files(place, after=None, until=batch.batch)]
    events = delta.read_with_spark(history.spark, place, EVENTS, names)
    frames = {name: _rows(history, name, None) for name in (*_OF, *_FURTHER)}
    frames["steps"] = with_context(steps(events))
    if frames["places"] is not None:
        frames["room"] = room_events(events, frames["places"])
    signed: dict[str, Any] = {
        name: rows.withColumn("sign", F.lit(1)) for name, rows in frames.items() if rows is not None
    }
    # Which files these are was read table by table, and a fold commits to one after the other.
    folds.require_folded(history, batch.batch)
    return Changed(batch=batch, **signed)


_FURTHER = {"places": PLACES, "routed": ROUTED_JOBS, "files": ADDED_FILES}


def _rows(history: History, name: str, days: Sequence[dt.date] | None) -> DataFrame | None:
    """The rows of a table, or those of some days, and those of open work; None: no table."""
    if name == "files":
        return _files(history, _kept(history, "items", days), days)
    if name in _OF:
        return _kept(history, name, days)
    table = _FURTHER[name]
    return history.read(table, days=days) if _exists(history.root, table) else None


def _kept(history: History, name: str, days: Sequence[dt.date] | None) -> DataFrame:
    kept, unfinished = _OF[name]
    found = history.read(kept, days=days).unionByName(history.read(unfinished))
    # Those of open work are not kept by the day.
    return found if days is None else found.where(F.col("date").isin(list(days)))


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
    progress.begin("refreshing gold tables")
    folded = folded_version(history) or 0
    catch_up(history, target_ms=target_ms, everything=everything)
    stale = stale_hours.read(history.root, until=folded)
    hours = stale.hours
    refresh_slots(history, everything=everything)
    if _has_visitors(history, None if everything else hours):
        refresh_rooms(history, None if everything else hours)
    refresh_ledger(history, snapshot, _unsettled(history, hours))
    if hours or everything:
        # Last: it checks all others.
        refresh_quality(history, hours)
    stale_hours.clear(history.root, stale)


def _has_visitors(history: History, hours: Hours | None) -> bool:
    """Whether there are events of waiting rooms: ever, or in some hours."""
    if hours is not None and not hours:
        return False
    product = Product.WAITINGROOM.value
    days, path = None if hours is None else hours.days, EVENTS.path(history.root)
    return bool(delta.count(path, days=days, within=("product", product, product)))


def _unsettled(history: History, hours: Hours) -> Hours:
    """The hours that changed, and those that are not settled."""
    more = unsettled(history.root)
    # An item whose addition was not seen counts at the start of its day.
    days = {start.replace(hour=0) for start in hours.starts}
    return Hours(tuple(sorted({*hours.starts, *days, *more})))


_WAITS = ("queue", "ahead", "rate", "called_at", "gone_at", "waited_s", "outcome", "date")
"""Columns of a visit that tell how long it was estimated to wait, and how long it did."""
_CALLS = ("queue", "lane", "seq", "called_at", "call_order", "waited_s")
"""Columns of a visit that tell in which order it was admitted."""
_EVER = dt.datetime.fromtimestamp(0, dt.UTC)


def refresh_rooms(history: History, hours: Hours | None) -> None:
    """Write both tables anew, from the visits that these hours concern or from all."""
    root = history.root
    first = _EVER if hours is None else hours.bounds[0]
    with sized(history.spark, delta.count(VISITS.path(root))):
        since = None if hours is None else first.date()
        replace(_calibration(history, since), root, ETA_CALIBRATION)
        # Whoever is admitted in an hour may have overtaken visitors admitted in later ones.
        before = history.read(FAIRNESS).where(f"hour < timestamp_micros({_micros(first)})")
        admitted = history.rows_since(VISITS, "called_at", first, _CALLS)
        replace(fairness(admitted, before), root, FAIRNESS)


def _calibration(history: History, first: dt.date | None) -> DataFrame:
    """The calibration of rooms with visits about this day or later, and of the others as it was."""
    if first is None:
        return eta_calibration(history.read(VISITS, columns=_WAITS))
    weeks, days = dt.timedelta(days=CALIBRATED_DAYS), delta.days_of(VISITS.path(history.root))
    # Every ratio changes with the share of visitors who leave, and that with every visit.
    lately, before = ([day for day in days if day >= first - n * weeks] for n in (1, 2))
    rooms = history.read(VISITS, days=lately, columns=("queue",)).distinct()
    visits = history.read(VISITS, days=before, columns=_WAITS).join(rooms, "queue", "left_semi")
    others = history.read(ETA_CALIBRATION).join(rooms, "queue", "left_anti")
    return eta_calibration(visits).unionByName(others)


def _micros(instant: dt.datetime) -> int:
    return (instant - _EVER) // dt.timedelta(microseconds=1)
