"""Files of a table that new ones replace, by the hours and days in them.

A file is replaced as a whole: whoever writes an hour anew writes all hours anew that are in the
same file. So each task writes a file for each hour, and those of a day may become one once hardly
anything happens in it any more.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from waystation.pipeline.storage.arrow import Batch, pa, pc
from waystation.pipeline.storage.parts import PART, Part, PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.table_log import files_of
from waystation.pipeline.storage.task_files import map_in_arrow
from waystation.pipeline.tables import Table

AHEAD = dt.timedelta(days=1)
"""By how much clocks may be ahead of this one."""
SETTLES = dt.timedelta(hours=6)
"""Time after the end of a day in which what ran over midnight changes it again and again."""
EVER = dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, tzinfo=dt.UTC)


class Span(NamedTuple):
    """The first and the last instant of a file, or of what a batch has touched."""

    first: dt.datetime
    last: dt.datetime

    def meets(self, other: "Span") -> bool:
        """Whether both have an instant in common."""
        return self.first <= other.last and other.first <= self.last


class File(NamedTuple):
    """A file of a table, and the instants in it."""

    path: str
    span: Span
    size: int


def due(instants: Iterable[dt.datetime]) -> list[dt.datetime]:
    """Those that are not ahead of their time: one wrong clock must not make all others old."""
    latest = dt.datetime.now(dt.UTC) + AHEAD
    return [each for each in instants if each <= latest]


def settled(files: Sequence[File]) -> list[File]:
    """The files of days that are over for some time, by the newest of them."""
    now = dt.datetime.now(dt.UTC)
    # Clocks may be wrong, and a file may be of all time.
    newest = max((each.span.last for each in files if each.span.last <= now), default=now)
    return [each for each in files if each.span.last.date() < (newest - SETTLES).date()]


def meeting(spans: list[Span], files: Mapping[str, list[File]]) -> dict[str, list[str]]:
    """The files that have an instant in common with spans, or with one of these files."""
    left = {name: list(some) for name, some in files.items()}
    found: dict[str, list[str]] = {name: [] for name in files}
    is_more = True
    while is_more:
        is_more = False
        for name, some in left.items():
            mine = [each for each in some if any(each.span.meets(span) for span in spans)]
            if mine:
                is_more = True
                found[name] += [each.path for each in mine]
                spans = [*spans, *(each.span for each in mine)]
                left[name] = [each for each in some if each not in mine]
    return found


def span_of(at: dt.datetime | None, per: str) -> Span:
    """An hour, or a day; all time without one."""
    if at is None:
        return Span(*EVER)
    first = at.astimezone(dt.UTC)
    if per == "day":
        first = first.replace(hour=0)
        return Span(first, first + dt.timedelta(days=1, microseconds=-1))
    return Span(first, first + dt.timedelta(hours=1, microseconds=-1))


def files_by(table: Table, root: str, column: str | None, kind: str | None = None) -> list[File]:
    """The files of a table, or of a kind, with the instants of a column; None: all time."""
    files = files_of(table.path(root))
    if files is None or not files.num_rows:
        return []
    if kind is not None:
        files = files.filter(pc.equal(files["partition.kind"], kind))
    wanted = {"path", "size_bytes", *(f"{of}.{column}" for of in ("partition", "min", "max"))}
    rows = files.select([name for name in files.column_names if name in wanted]).to_pylist()
    return [File(row["path"], _span(row, column), row["size_bytes"]) for row in rows]


def names_in(
    table: Table, root: str, column: str, spans: Iterable[Span], kind: str | None = None
) -> list[str]:
    """The files of a table, or of a kind, with an instant in one of these spans."""
    wanted, files = list(spans), files_by(table, root, column, kind)
    return [each.path for each in files if any(each.span.meets(span) for span in wanted)]


def _span(file: Mapping[str, Any], column: str | None) -> Span:
    """The instants in a file, by its partition or its statistics; all time without them."""
    if (day := file.get(f"partition.{column}")) is not None:
        return span_of(_instant(day), "day")
    least, most = file.get(f"min.{column}"), file.get(f"max.{column}")
    if least is None or most is None:
        return Span(*EVER)
    if not isinstance(most, dt.datetime):
        return Span(_instant(least), span_of(_instant(most), "day").last)
    return Span(_instant(least), _instant(most))


def _instant(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return dt.datetime.combine(value, dt.time(), dt.UTC)


def by_hour(rows: Any, today: dt.date) -> Iterator[Any]:
    """Rows hour by hour; those of earlier days day by day, because hardly any come later."""
    days = pc.floor_temporal(rows["at"], unit="day")
    is_over = pc.less(days.cast(pa.date32()), pa.scalar(today))
    starts = pc.if_else(is_over, days, pc.floor_temporal(rows["at"], unit="hour"))
    return _apart(rows, starts)


def by_day(rows: Any, column: str = "at") -> Iterator[Any]:
    """Rows day by day."""
    return _apart(rows, pc.floor_temporal(rows[column], unit="day"))


def _apart(rows: Any, starts: Any) -> Iterator[Any]:
    for start in pc.unique(starts):
        yield rows.filter(pc.equal(starts, start))


def written(root: str, table: Table, rows: Any) -> Iterator[dict[str, Any]]:
    """Write rows to a file, or one for each partition; what is said of them, as rows."""
    with PartWriter.of(root, table) as writer:
        for batch in rows.to_batches():
            if batch.num_rows:
                writer.write(batch)
    for part in writer.parts:
        yield {"table": table.name, **part.row}


def write_days(rows: DataFrame, root: str, table: Table) -> list[Part]:
    """Write rows of a table with hours by tasks, each day to a file of its own."""
    wanted = map_in_arrow(rows.select(*table.names), partial(_write_days, root, table), PART)
    return [Part.of(row.asDict()) for row in wanted.collect()]


def _write_days(root: str, table: Table, batches: Iterable[Batch]) -> Iterator[Batch]:
    found = [each for each in batches if each.num_rows]
    if not found:
        return
    sums = pa.Table.from_batches(found).cast(schema_of(table.schema))
    for day in by_day(sums, "hour"):
        rows = [{name: row[name] for name in PART.names} for row in written(root, table, day)]
        yield pa.RecordBatch.from_pylist(rows, schema=schema_of(PART))
