"""Incremental fold of bronze into silver: one job, whose tasks write the files of all tables.

The result is the same as folding all of bronze at once: an end is final until another event of the
job_id arrives; then its steps are read from bronze again, and what they had been folded into is
compared with what they are folded into now.
"""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.errors import HistoryCut, WrongSchema
from waystation.core.events import Product
from waystation.pipeline.bronze import commits
from waystation.pipeline.history import History
from waystation.pipeline.products import folded_tables
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.refresh.subjects import APPLICATION as OF_PRODUCTS
from waystation.pipeline.refresh.subjects import (
    CHANGES_NOTE,
    FOLDER,
    Files,
    change_files,
    fold_subjects,
    noted,
)
from waystation.pipeline.silver import lives
from waystation.pipeline.silver.lives import FOLDED, HOURS, RETURNED
from waystation.pipeline.silver.moves import NEW_STEPS, OPEN, STEPS
from waystation.pipeline.silver.steps import SUBJECT, hours, steps
from waystation.pipeline.storage import delta, places, rewriting, table_log, task_files
from waystation.pipeline.storage.arrow import fs, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, dataset_of, values_of
from waystation.pipeline.storage.rewriting import SameAs
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.tables import EVENTS, ITEMS, Layer, Table

APPLICATION = "silver"
BEGUN = "silver-begun"
"""The application whose batches are begun: rows may be deleted already."""
SINCE_NOTE = "since"
"""The note with the day since which a batch that was begun has read events again."""
MOST_PUSHED = 100
"""Ids that are looked for in the filters of files; of more, every filter lets some pass."""
OLD = dt.timedelta(days=1)
"""Age from which on a file is no longer needed that nothing names: longer than any fold takes."""


FIRST, *_ = FOLDED
"""The table that every batch is committed to first."""
_GONE = {f"gone_{table.name}": table for table in FOLDED}
_CHANGED = {f"{kind}_{table.name}": table for kind in ("added", "removed") for table in FOLDED} | {
    "added_steps": NEW_STEPS
}
APART = {
    name: change_files(name, table)
    for name, table in {**_GONE, **_CHANGED, "returned": RETURNED, "hours": HOURS}.items()
}
_NOTED = {name: APART[name] for name in _CHANGED}
_WRITTEN = {table.name: table for table in (*FOLDED, *OPEN)} | APART


class Folded(msgspec.Struct, frozen=True):
    """The result of a fold."""

    version: int
    """The version of bronze that is folded now."""
    hours: Hours
    """The hours that have changed."""


def folded_version(history: History) -> int | None:
    """The version of bronze that silver was folded from; None before the first fold."""
    return delta.last_batch(STEPS.path(history.root), APPLICATION)


def rows_to_fold(root: str) -> float:
    """The rows that a fold gets now: what is open, and the events that a run before left behind."""
    newest = table_log.version(EVENTS.path(root))
    if newest is None:
        return 0
    before = delta.last_batch(STEPS.path(root), APPLICATION)
    try:
        files = table_log.new_files(EVENTS.path(root), after=before, until=newest)
        return delta.count(STEPS.path(root)) + sum(each.rows for each in files)
    except (HistoryCut, WrongSchema):
        # Only a rebuild helps, which the fold says.
        return math.inf


def fold(history: History) -> Folded | None:
    """Fold the new events of bronze; None when there are none."""
    finished = finish(history)
    # Gaps and payloads that go with these events.
    commits.complete(history.root)
    newest = table_log.version(EVENTS.path(history.root))
    return finished if newest is None else _fold(history, newest) or finished


def finish(history: History) -> Folded | None:
    """Finish a fold that was interrupted, as it was begun: part of it is stored already."""
    begun, before = _begun(history), folded_version(history)
    if begun is None or (before is not None and before >= begun):
        return None
    commits.complete(history.root)
    return _fold(history, begun)


def _fold(history: History, until: int) -> Folded | None:
    """Fold the events up to a version of bronze; None when that was done before."""
    # First: the commit of `open_steps`, after which gold is counted, stands for all of them.
    for each in folded_tables():
        fold_subjects(history, each, until)
    before = folded_version(history)
    if before is not None and before >= until:
        return None
    return _fold_up_to(history, before, until)


def require_folded(history: History, version: int | None) -> None:
    """Refuse what was read of silver if it may hold some rows of a fold after this version."""
    if max(_begun(history) or 0, folded_version(history) or 0) > (version or 0):
        raise delta.overtaken(STEPS.path(history.root))


def _begun(history: History) -> int | None:
    """The newest version of bronze that a table of silver was folded from."""
    of_products = [(each.table, OF_PRODUCTS) for each in folded_tables()]
    of_jobs = [(table, name) for table in FOLDED for name in (APPLICATION, BEGUN)]
    found = [
        delta.last_batch(table.path(history.root), name) for table, name in of_products + of_jobs
    ]
    return max((each for each in found if each is not None), default=None)


def _fold_up_to(history: History, before: int | None, newest: int) -> Folded:
    root, batch = history.root, BatchId(APPLICATION, newest)
    files = table_log.new_files(EVENTS.path(root), after=before, until=newest)
    rows = delta.count(STEPS.path(root)) + sum(each.rows for each in files)
    _tidy(root)
    names = [each.path for each in files]
    if not names:
        # Old rows were rewritten, and no more: what is open stays as it is.
        unchanged = noted(root, {}, _NOTED, newest, before)
        delta.commit(STEPS.path(root), STEPS.schema, [], batch, notes=unchanged)
        return Folded(newest, Hours())
    with sized(history.spark, rows):
        written, since = _written(history, names, before, newest)
    hours = _touched(root, names, written)
    # Recorded first: after an interruption the gold tables are still refreshed.
    stale_hours.record(root, newest, hours)
    _commit(history, written, batch, before, since)
    return Folded(newest, hours)


def _written(
    history: History, names: Sequence[str], before: int | None, newest: int
) -> tuple[Files, dt.date | None]:
    """The files that the tasks have written for some files of new events, and the day since which
    events of subjects that have returned were read again."""
    spark, place = history.spark, EVENTS.path(history.root)
    new = steps(delta.read_with_spark(spark, place, EVENTS, names))
    known = history.read(STEPS)
    if folded_version(history) != before:
        # Another driver has folded some of these events into these steps.
        raise delta.overtaken(STEPS.path(history.root))
    written = _fold_steps(history, lives.rows(known, new), can_return=True)
    since: dt.date | None = None
    if returned := written.pop("returned", None):
        again, since = _again(history, new, returned, before, newest)
        for name, parts in _fold_steps(history, again, can_return=False).items():
            written[name] = [*written.get(name, ()), *parts]
    return written, since


def _fold_steps(history: History, steps: DataFrame, *, can_return: bool) -> dict[str, list[Part]]:
    folding = partial(lives.changes, can_return=can_return)
    return task_files.write_made(folding, steps, history.root, _WRITTEN)


def _again(
    history: History, new: DataFrame, parts: Sequence[Part], before: int | None, newest: int
) -> tuple[DataFrame, dt.date | None]:
    """The steps of subjects that had ended, or that nobody has heard of, and since which day."""
    root, spark, table = history.root, history.spark, APART["returned"]
    path, names = table.path(root), [part.path for part in parts]
    returned = delta.read_with_spark(spark, path, table, names)
    subjects: list[str] | None = None
    if sum(part.rows for part in parts) <= MOST_PUSHED:
        found = delta.read_files(path, table, names, columns=["job_id"])
        subjects = pc.unique(found["job_id"]).to_pylist()

    def theirs(rows: DataFrame) -> DataFrame:
        if subjects is not None:
            rows = rows.where(F.col("job_id").isin(subjects))
        return rows.join(F.broadcast(returned), list(SUBJECT))

    known = spark.createDataFrame([], STEPS.schema)
    found_days = _first_day(history, theirs, returned), _begun_since(root, newest)
    since = min((day for day in found_days if day is not None), default=None)
    if since is not None and before is not None:
        place = EVENTS.path(root)
        # By their files: an entry may be stored again, or after those that follow it.
        old = [
            name
            for name in table_log.old_files(place, after=before, until=newest)
            if str(values_of(name)["date"]) >= since.isoformat()
        ]
        known = theirs(steps(delta.read_with_spark(spark, place, EVENTS, old)))
        known = known.select(*STEPS.names)
    fresh = theirs(new).select(*STEPS.names)
    return lives.rows(known, fresh), since


def _begun_since(root: str, newest: int) -> dt.date | None:
    """The day that was found when this batch was begun: the rows that tell it may be deleted."""
    path = FIRST.path(root)
    if delta.last_batch(path, BEGUN) != newest:
        return None
    noted: dict[str, str | None] = table_log.last_note(path, SINCE_NOTE) or {}
    day = noted.get("day")
    return None if day is None else dt.date.fromisoformat(day)


def _first_day(
    history: History, theirs: Callable[[DataFrame], DataFrame], returned: DataFrame
) -> dt.date | None:
    """A day before the last life of any of these subjects began; None when none is known."""
    wanted: int | None = None
    for some, is_all in delta.newest_days(ITEMS.path(history.root)):
        known = history.read(ITEMS, days=some, columns=(*SUBJECT, "date"))
        last = theirs(known).groupBy(*SUBJECT).agg(F.max("date").alias("day"))
        row: Any = last.agg(F.count("*").alias("many"), F.min("day").alias("day")).first()
        day: dt.date | None = row.day
        if not is_all:
            wanted = returned.count() if wanted is None else wanted
        if is_all or row.many == wanted:
            return None if day is None else day - dt.timedelta(days=1)
    return None


def _commit(
    history: History, written: Files, batch: BatchId, before: int | None, since: dt.date | None
) -> None:
    root = history.root
    if any(written.get(name) for name in _GONE):
        # What is deleted now is added by this batch alone, so it must be finished as it is.
        noting = {SINCE_NOTE: {"day": None if since is None else since.isoformat()}}
        _claim(root, BatchId(BEGUN, batch.batch), before, (), noting)
    _delete_replaced(history, written, batch)
    for table in FOLDED:
        _append(root, table, written, batch, before)
    for table in OPEN:
        parts = written.get(table.name, ())
        # The last one makes the batch count as folded.
        more = noted(root, written, _NOTED, batch.batch, before) if table is STEPS else None
        delta.commit(table.path(root), table.schema, parts, batch, notes=more, replace=True)


def _claim(
    root: str,
    batch: BatchId,
    before: int | None,
    parts: Iterable[Part],
    noting: Mapping[str, Any] | None = None,
) -> None:
    """Commit to the first table, which refuses all but one of the drivers that fold on from here.

    Another one may fold the same events, but only up to the same version.
    """
    path = FIRST.path(root)

    def refuse_others(table: DeltaTable) -> Iterable[BatchId]:
        done = (table.transaction_version(each) or 0 for each in (APPLICATION, BEGUN))
        if any((before or 0) < each != batch.batch for each in done):
            raise delta.overtaken(path)
        return ()

    delta.commit(
        path,
        FIRST.schema,
        parts,
        batch,
        partitions=FIRST.partitions,
        notes=noting,
        check=refuse_others,
    )
    if delta.last_batch(path, batch.application) != batch.batch:
        raise delta.overtaken(path)


def _delete_replaced(history: History, written: Files, batch: BatchId) -> None:
    """Delete rows that newer ones replace, or whose items are open again."""
    root = history.root
    gone: dict[Table, SameAs] = {}
    for name, table in _GONE.items():
        if (parts := written.get(name)) and not _has_got(root, table, batch):
            # Whole rows: another driver may have added new ones with the same key.
            gone[table] = SameAs(APART[name].path(root), APART[name], parts)
    rewriting.delete(history, gone)


def _has_got(root: str, table: Table, batch: BatchId) -> bool:
    done = delta.last_batch(table.path(root), batch.application)
    return done is not None and done >= batch.batch


def _append(root: str, table: Table, written: Files, batch: BatchId, before: int | None) -> None:
    path, parts = table.path(root), written.get(table.name, ())
    if table is FIRST:
        _claim(root, batch, before, parts)
    elif parts or written.get(f"gone_{table.name}") or delta.last_batch(path, APPLICATION) is None:
        delta.commit(path, table.schema, parts, batch, partitions=table.partitions)


def drop_changes(root: str) -> None:
    """Delete the files with what the last fold has changed: gold is counted anew."""
    files, found = _files_of_changes(root)
    for each in found:
        files.delete_file(each.path)


def _tidy(root: str) -> None:
    """Delete old files of changes that the last fold does not name."""
    named: set[str] = set()
    for table in (STEPS, *(each.table for each in folded_tables())):
        last: Any = table_log.last_note(table.path(root), CHANGES_NOTE) or {"files": {}}
        named |= {part["path"] for parts in last["files"].values() for part in parts}
    # Those of another driver that folds at this moment are young.
    oldest = dt.datetime.now(dt.UTC) - OLD
    files, found = _files_of_changes(root)
    for each in found:
        if each.base_name not in named and each.mtime < oldest:
            files.delete_file(each.path)


def _files_of_changes(root: str) -> tuple[Any, list[Any]]:
    files, folder = places.filesystem(f"{root.rstrip('/')}/{Layer.SILVER}/{FOLDER}")
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=True)
    return files, [each for each in files.get_file_info(selector) if each.is_file]


def _touched(root: str, names: Sequence[str], written: Files) -> Hours:
    """The hours that have changed, and those of what visitors did."""
    place = APART[HOURS.name]
    ours = [part.path for part in written.get(HOURS.name, ())]
    starts: set[dt.datetime | None] = {
        *delta.read_files(place.path(root), place, ours)["hour"].to_pylist()
    }
    for each in _of_visitors(root, names):
        starts |= {*pc.unique(each).to_pylist()}
    return Hours(tuple(sorted(each for each in starts if each is not None)))


def _of_visitors(root: str, names: Sequence[str]) -> Iterable[Any]:
    place, product = EVENTS.path(root), Product.WAITINGROOM.value
    others = delta.names_without(place, "product", product)
    if theirs := [name for name in names if name not in others]:
        files = dataset_of(place, schema_of(EVENTS.schema), theirs, EVENTS.partitions)
        # A few rows at a time, whatever their number.
        for rows in files.to_batches(columns=["product", "at"]):
            yield hours(rows["at"].filter(pc.equal(rows["product"], product)))
