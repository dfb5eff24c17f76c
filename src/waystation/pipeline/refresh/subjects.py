"""Incremental fold of a product's events into one row for each of its subjects.

A row is what the events of a subject add up to, so that new events are merged with it, and older
ones are not read again. The days of these rows are written anew by the tasks of one job. Rows that
a fold adds to a table or takes back lie in files next to it, that gold is counted from; the commit
that makes a batch count names them in a note, and how far bronze was read.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.history import History
from waystation.pipeline.products.facts import FoldedTable
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.silver.steps import arrival_hours
from waystation.pipeline.storage import delta, table_log, task_files
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, require_visible
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.tables import EVENTS, Table

CHANGES_NOTE = "changes"
"""The note with the files that hold the changes of a batch, in the commit that makes it count."""
FOLDER = "_changes"

Files = Mapping[str, Sequence[Part]]


def added_rows(name: str) -> str:
    """The column of rows that a table has got."""
    return f"added_{name}"


def removed_rows(name: str) -> str:
    """The column of rows that it has no more."""
    return f"removed_{name}"


def change_files(name: str, table: Table) -> Table:
    """Files next to a table's, of rows that are about to change it."""
    return msgspec.structs.replace(table, name=f"{FOLDER}/{name}", partitions=())


def noted(
    root: str, written: Files, tables: Mapping[str, Table], batch: int, before: int | None
) -> dict[str, Any]:
    """The note on the changes of a batch: the version that it goes on from, and the files."""
    for name, table in tables.items():
        # No commit refuses them: without one that is missing, no round could go on.
        require_visible(table.path(root), written.get(name, ()), everywhere=True)
    files = {name: [part.row for part in written.get(name, ())] for name in tables}
    return {CHANGES_NOTE: {"batch": batch, "after": before, "files": files}}


APPLICATION = "subjects"


def fold_subjects(history: History, folded: FoldedTable, newest: int) -> None:
    """Merge the events of bronze up to a version with the rows of a table."""
    root, table, batch = history.root, folded.table, BatchId(APPLICATION, newest)
    before = delta.last_batch(table.path(root), APPLICATION)
    if before is not None and before >= newest:
        return
    place = EVENTS.path(root)
    others = delta.names_without(place, "product", folded.product.value)
    new = table_log.new_files(place, after=before, until=newest)
    files = [each for each in new if each.path not in others]
    if not files:
        if before is not None:
            _commit(root, folded, {}, {table: _Stored((), before)}, batch, before)
        return
    with sized(history.spark, sum(each.rows for each in files)) as spark:
        events = delta.read_with_spark(spark, place, EVENTS, [each.path for each in files])
        new = task_files.shaped(folded.merged(folded.rows_from_events(events)), table).persist()
        try:
            days = _days(history, folded, new)
            stored = {each: _stored(root, each, days) for each in _replaced_tables(folded)}
            if stored[table].batch != before:
                # Another driver has merged some of these events with these rows.
                raise delta.overtaken(table.path(root))
            known = delta.read_with_spark(spark, table.path(root), table, stored[table].files)
            written = _write(root, folded, events, new, known)
        finally:
            new.unpersist()
    if folded.arrived_at:
        _record_settled(root, folded, written, newest)
    _commit(root, folded, written, stored, batch, before)


class _Stored(NamedTuple):
    """What is there of a table, and is written anew."""

    files: Sequence[str]
    batch: int | None
    """The last one that has written to it."""


def _stored(root: str, table: Table, days: Sequence[dt.date]) -> _Stored:
    # Before the files: a commit in between is refused.
    batch = delta.last_batch(table.path(root), APPLICATION)
    return _Stored(delta.file_names(root, table, days=days), batch)


def _replaced_tables(folded: FoldedTable) -> list[Table]:
    """The tables that are written, the folded one last: with it a batch counts."""
    return [*(each.table for each in folded.beside), folded.table]


def _days(history: History, folded: FoldedTable, new: DataFrame) -> list[dt.date]:
    """The days of new rows, and of those that they continue."""
    continues = F.expr(folded.continues)
    found = new.groupBy("date").agg(F.max(continues).alias("continues")).collect()
    days: set[dt.date] = {row["date"] for row in found}
    if not any(row["continues"] for row in found):
        return sorted(days)
    asked = new.where(continues).select(*folded.who).distinct()
    wanted: int | None = None
    for some, is_all in delta.newest_days(folded.table.path(history.root)):
        rows = history.read(folded.table, days=some, columns=(*folded.who, "date"))
        theirs = rows.join(F.broadcast(asked), list(folded.who))
        row: Any = theirs.agg(F.collect_set("date"), F.count_distinct(*folded.who)).first()
        days.update(row[0])
        if is_all:
            break
        wanted = asked.count() if wanted is None else wanted
        if row[1] == wanted:
            break
    return sorted(days)


def _write(
    root: str, folded: FoldedTable, events: DataFrame, fresh: DataFrame, known: DataFrame
) -> dict[str, list[Part]]:
    """The files that tasks have written: all rows of these days, and those that have changed."""
    table = folded.table
    after = task_files.shaped(folded.merged(known.unionByName(fresh)), table)
    old = known.select(*folded.who, _struct(table).alias("before"))
    new = after.select(*folded.who, _struct(table).alias("after"), *_beside(folded))
    parts = [old, new]
    names = ["before", "after", *(each.table.name for each in folded.beside)]
    if folded.heard is not None:
        parts.append(folded.heard.rows_from_events(events).select(*folded.who, "heard"))
        names.append("heard")
    subjects = (
        reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
        .groupBy(*folded.who)
        .agg(*(F.collect_list(name).alias(name) for name in names))
    )
    columns = [
        F.col("after").alias(table.name),
        F.array_except("after", "before").alias(added_rows(table.name)),
        F.array_except("before", "after").alias(removed_rows(table.name)),
        *(F.col(each.table.name) for each in folded.beside),
    ]
    if folded.heard is not None:
        columns.append(F.expr(folded.heard.finished).alias(added_rows(folded.heard.table.name)))
    return task_files.write(subjects.select(*columns), root, _tables(folded))


def _struct(table: Table) -> Column:
    return F.expr(f"struct({', '.join(f'`{name}`' for name in table.names)})")


def _beside(folded: FoldedTable) -> list[Column]:
    """The rows of tables that are written beside, each made of a row of this one."""
    return [
        F.expr(f"case when {each.where} then struct({', '.join(each.columns)}) end").alias(
            each.table.name
        )
        for each in folded.beside
    ]


def _tables(folded: FoldedTable) -> dict[str, Table]:
    """The tables that are written, by the column of their rows."""
    table = folded.table
    tables = {each.name: each for each in (table, *(each.table for each in folded.beside))}
    return tables | changed_tables(folded)


def changed_tables(folded: FoldedTable) -> dict[str, Table]:
    """Files with what has changed in a table, by the column of their rows."""
    table = folded.table
    tables = {added_rows(table.name): table, removed_rows(table.name): table}
    if folded.heard is not None:
        tables[added_rows(folded.heard.table.name)] = folded.heard.table
    return {name: change_files(name, each) for name, each in tables.items()}


def _record_settled(root: str, folded: FoldedTable, written: Files, newest: int) -> None:
    """Record the hours that the ledger must look at again: it may have settled them."""
    column = removed_rows(folded.table.name)
    names = [part.path for part in written.get(column, ())]
    place = change_files(column, folded.table)
    rows = delta.read_files(place.path(root), place, names, columns=[folded.arrived_at, "date"])
    starts = pc.unique(arrival_hours(rows, folded.arrived_at)).to_pylist()
    if starts:
        # Recorded first, as every fold does.
        stale_hours.record(root, newest, Hours(tuple(sorted(starts))), of=f"-{folded.table.name}")


def _commit(
    root: str,
    folded: FoldedTable,
    written: Files,
    replaced: Mapping[Table, _Stored],
    batch: BatchId,
    before: int | None,
) -> None:
    """Put the new files of each table in the place of the old ones."""
    note = noted(root, written, changed_tables(folded), batch.batch, before)
    for table, old in replaced.items():
        delta.commit(
            table.path(root),
            table.schema,
            written.get(table.name, ()),
            batch,
            partitions=table.partitions,
            gone=old.files,
            notes=note if table is folded.table else None,
            check=delta.unless_overtaken(APPLICATION, old.batch),
        )
