"""Rewriting: files of tables written anew by the tasks of one job, without some rows, or as fewer.

The driver chooses files by what the log says of them, and commits what the tasks have written. Such
a commit carries no batch, because its rows are not new. It is refused where an old file has left
its table meanwhile.
"""

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from waystation.core.errors import Overtaken
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import Batch, pa, pc
from waystation.pipeline.storage.delta import Within
from waystation.pipeline.storage.parts import (
    BATCH_ROWS,
    PART,
    Part,
    PartWriter,
    dataset_of,
    values_of,
)
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.storage.table_log import files_of
from waystation.pipeline.storage.task_files import map_in_arrow
from waystation.pipeline.tables import Table

TRIES = 5
"""Times that rows are looked for whose files others rewrite meanwhile."""
SHARES = 4
"""Tasks for each core: files differ in size."""
_ROWS = StructType(
    [StructField("work", LongType()), StructField("gone", LongType()), StructField("part", PART)]
)
_PARTITION = "partition."


class HasTables(Protocol):
    """A history."""

    root: str

    @property
    def spark(self) -> SparkSession:
        """Its session, started when somebody asks for it."""
        ...


class Change(Protocol):
    """What is done to rows of a table; it travels to the tasks."""

    def among(self, files: Any) -> Any:
        """Those of a table's files, with their statistics, that may hold rows that it concerns."""
        ...

    def of(self, file: str) -> "FileChange":
        """What is done to the rows of one file."""
        ...


class FileChange(Protocol):
    """What is done to rows of a file."""

    @property
    def looked_at(self) -> Sequence[str]:
        """The columns that are read first, to leave a file alone that it does not concern."""
        ...

    def concerns(self, rows: Any) -> bool:
        """Whether it may concern one of these rows; only the columns that it looks at are there."""
        ...

    def changed(self, rows: Any) -> Any:
        """The rows as they are from now on; the same object where nothing changes."""
        ...


class Where(NamedTuple):
    """Deletes the rows for which an expression holds."""

    expression: Any
    looked_at: Sequence[str] = ()
    """The columns in it."""
    within: Within | None = None
    """What such rows have in a column, at least and at most."""

    def among(self, files: Any) -> Any:
        """The files with such rows, by partitions and statistics."""
        if self.within is not None:
            files = delta.files_within(files, self.within)
        if not self.takes_whole(files):
            return files
        by = [f"{_PARTITION}{name}" for name in self.looked_at]
        named = files.select(["path", *by]).rename_columns(["path", *self.looked_at])
        return files.filter(pc.is_in(files["path"], named.filter(self.expression)["path"]))

    def takes_whole(self, files: Any) -> bool:
        """Whether it holds for all rows of a file or for none: it looks only at partitions."""
        return {f"{_PARTITION}{name}" for name in self.looked_at} <= set(files.column_names)

    def of(self, file: str) -> FileChange:
        """The same for every file."""
        return self

    def concerns(self, rows: Any) -> bool:
        """Whether it holds for one of these rows."""
        return bool(rows.filter(self.expression).num_rows)

    def changed(self, rows: Any) -> Any:
        """The rows for which it does not hold, or for which nobody knows."""
        return _kept(rows, rows.filter(~pc.coalesce(self.expression, False)))


EVERY = Where(pc.scalar(True))
"""Deletes all rows."""


class Rows(NamedTuple):
    """Deletes the rows that are equal to one of these in some columns."""

    columns: Sequence[str]
    rows: frozenset[tuple[Any, ...]]

    def among(self, files: Any) -> Any:
        """The files whose statistics leave room for such a row."""
        if not self.rows:
            return files.slice(0, 0)
        for name, values in self._values():
            # Of other types, not every bound in a log can be compared.
            if all(isinstance(each, str) for each in values):
                files = _with_text(files, name, sorted(values))
        return files

    def of(self, file: str) -> FileChange:
        """The same for every file."""
        # What has most values tells rows apart best.
        nothing = "", set[Any]()
        name, values = max(self._values(), key=lambda each: len(each[1]), default=nothing)
        return _Equal(self.columns, self.rows, name, list(values))

    def _values(self) -> Iterator[tuple[str, set[Any]]]:
        yield from zip(self.columns, map(set, zip(*self.rows, strict=True)), strict=False)


class _Equal(NamedTuple):
    """Deletes the rows of a file that are equal to one of these in some columns."""

    columns: Sequence[str]
    rows: frozenset[tuple[Any, ...]]
    name: str
    """The column that is looked at first."""
    values: Sequence[Any]

    @property
    def looked_at(self) -> Sequence[str]:
        """The column that is looked at first."""
        return [self.name] if self.name else []

    def concerns(self, rows: Any) -> bool:
        """Whether one has one of these values."""
        return bool(self.name) and pc.any(self._candidates(rows)).as_py()

    def changed(self, rows: Any) -> Any:
        """The rows that are equal to none of these."""
        places = pc.indices_nonzero(self._candidates(rows))
        values = (rows[name].take(places).to_pylist() for name in self.columns)
        gone = [
            place
            for place, row in zip(places.to_pylist(), zip(*values, strict=True), strict=True)
            if row in self.rows
        ]
        if not gone:
            return rows
        numbers = pa.array(range(rows.num_rows), pa.int64())
        return rows.filter(pc.invert(pc.is_in(numbers, pa.array(gone, pa.int64()))))

    def _candidates(self, rows: Any) -> Any:
        column = rows[self.name]
        # Nothing is equal to nothing, too.
        return pc.is_in(column, pa.array(self.values, column.type))


class SameAs(msgspec.Struct, frozen=True):
    """Deletes the rows that files next to a table hold, too: equal in all columns."""

    path: str
    table: Table
    parts: Sequence[Part]

    def among(self, files: Any) -> Any:
        """The files of the days of these rows."""
        bounds: list[Any] = [msgspec.json.decode(each.stats) for each in self.parts]
        spans = [(each["minValues"]["date"], each["maxValues"]["date"]) for each in bounds]
        days = files[f"{_PARTITION}date"].to_pylist()
        here = [any(first <= str(day) <= last for first, last in spans) for day in days]
        return files.filter(pa.array(here, pa.bool_()))

    def of(self, file: str) -> FileChange:
        """The rows of the day of a file."""
        day = pc.field("date") == pa.scalar(dt.date.fromisoformat(str(values_of(file)["date"])))
        names = [each.path for each in self.parts]
        found = delta.read_files(self.path, self.table, names, where=day).to_pylist()
        columns = self.table.names
        rows = frozenset(tuple(row[name] for name in columns) for row in found)
        return Rows(columns, rows).of(file)


def delete(history: HasTables, gone: Mapping[Table, Change]) -> dict[str, int]:
    """Change rows of tables, or delete them; returns how many were deleted, by table."""
    counts = {table.name: 0 for table in gone}
    left = dict(gone)
    for turn in range(1, TRIES + 1):
        work = list(_plan(history.root, left))
        done = _done(history, [each for each in work if not each.is_gone])
        failed: dict[Table, Change] = {}
        for table in left:
            mine = [done.get(each.number) or each.whole for each in work if each.table == table]
            changed = [each for each in mine if each is not None]
            try:
                _commit(history.root, table, changed, is_same=False)
            except (CommitFailedError, Overtaken):
                if turn == TRIES:
                    raise
                failed[table] = left[table]
            else:
                counts[table.name] += sum(each.gone for each in changed)
        left = failed
        if not left:
            break
    return counts


def compact(history: HasTables, groups: Mapping[Table, Sequence[Sequence[str]]]) -> None:
    """Write each group of files as one; a table that others change meanwhile stays as it is."""
    listed = [(table, names) for table, some in groups.items() for names in some]
    work = [_Work(number, table, names) for number, (table, names) in enumerate(listed)]
    done = _done(history, work)
    for table in groups:
        changed = [done[each.number] for each in work if each.table == table]
        try:
            _commit(history.root, table, changed, is_same=True)
        except (CommitFailedError, Overtaken):
            # The next compaction tries again.
            continue


class _Done(msgspec.Struct):
    """Files that others take the place of."""

    old: Sequence[str]
    gone: int = 0
    """Rows that were deleted."""
    parts: list[Part] = []


class _Work(NamedTuple):
    """Files that become one."""

    number: int
    table: Table
    names: Sequence[str]
    change: Change | None = None
    rows: int = 0
    is_gone: bool = False
    """Whether all rows go."""

    @property
    def whole(self) -> _Done | None:
        """What becomes of files that no task has changed."""
        return _Done(self.names, self.rows) if self.is_gone else None

    def done(self, root: str) -> Iterator[dict[str, Any]]:
        """Write the rows anew; nothing where none has changed."""
        path, columns = self.table.path(root), schema_of(self.table.schema)
        files = dataset_of(path, columns, self.names, self.table.partitions)
        change = None if self.change is None else self.change.of(self.names[0])
        if change is not None and not any(map(change.concerns, _read(files, change.looked_at))):
            return
        with PartWriter.of(root, self.table) as writer:
            gone = _write(files, columns, writer, change)
        if gone is None:
            writer.discard()
            return
        yield {"work": self.number, "gone": gone, "part": None}
        for part in writer.parts:
            yield {"work": self.number, "gone": 0, "part": part.row}


def _read(files: Any, columns: Sequence[str]) -> Iterator[Any]:
    for batch in files.to_batches(columns=list(columns), batch_size=BATCH_ROWS):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _write(files: Any, columns: Any, writer: PartWriter, change: FileChange | None) -> int | None:
    """Write rows, changed; returns how many were deleted, None where all are as they were."""
    gone, is_same = 0, change is not None
    for rows in _read(files, columns.names):
        changed = rows if change is None else change.changed(rows)
        gone += rows.num_rows - changed.num_rows
        is_same = is_same and changed is rows
        for batch in changed.select(columns.names).to_batches():
            writer.write(batch)
    return None if is_same else gone


def _done(history: HasTables, work: Sequence[_Work]) -> dict[int, _Done]:
    """What the tasks of one job have made of files, by the number of the work."""
    if not work:
        return {}
    names = {each.number: each.names for each in work}
    done: dict[int, _Done] = {}
    with sized(history.spark, 0) as spark:
        tasks = min(len(work), SHARES * spark.sparkContext.defaultParallelism)
        shares = spark.range(0, tasks, 1, tasks)
        writing = partial(_written, history.root, [work[first::tasks] for first in range(tasks)])
        for row in map_in_arrow(shares, writing, _ROWS).collect():
            mine = done.setdefault(row["work"], _Done(names[row["work"]]))
            mine.gone += row["gone"]
            if row["part"]:
                mine.parts.append(Part.of(row["part"]))
    return done


def _written(
    root: str, shares: Sequence[Sequence[_Work]], batches: Iterable[Batch]
) -> Iterator[Batch]:
    for batch in batches:
        mine: list[int] = batch.column(0).to_pylist()
        for share in mine:
            for each in shares[share]:
                if rows := list(each.done(root)):
                    yield pa.RecordBatch.from_pylist(rows, schema=schema_of(_ROWS))


def _plan(root: str, wanted: Mapping[Table, Change]) -> Iterator[_Work]:
    number = 0
    for table, change in wanted.items():
        found = files_of(table.path(root))
        if found is None or not found.num_rows:
            continue
        mine = change.among(found)
        # Nobody need read them.
        is_gone = isinstance(change, Where) and change.takes_whole(found)
        for file in mine.select(["path", "num_records"]).to_pylist():
            yield _Work(number, table, [file["path"]], change, file["num_records"] or 0, is_gone)
            number += 1


def _commit(root: str, table: Table, changed: Sequence[_Done], *, is_same: bool) -> None:
    if changed:
        parts = [part for each in changed for part in each.parts]
        old = [name for each in changed for name in each.old]
        delta.rewrite(table.path(root), table, parts, old, is_same=is_same)


def _kept(rows: Any, kept: Any) -> Any:
    return rows if kept.num_rows == rows.num_rows else kept


def _with_text(files: Any, name: str, values: Sequence[str]) -> Any:
    """The files that may have one of some texts, in their order, in a column."""
    spans = (
        files[bound].to_pylist() if bound in files.column_names else [None] * files.num_rows
        for bound in (f"min.{name}", f"max.{name}")
    )
    may_hold = [_hold(values, *span) for span in zip(*spans, strict=True)]
    return files.filter(pa.array(may_hold, pa.bool_()))


def _hold(values: Sequence[str], least: str | None, most: str | None) -> bool:
    first = 0 if least is None else bisect_left(values, least)
    return first < len(values) and (most is None or values[first] <= most)
