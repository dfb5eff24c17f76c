"""Gold by sums: what a batch has changed is added to what is stored.

Two jobs. The first one turns every changed row of silver into its cells and adds them up. The
second one adds these sums to the stored ones of the same hours and days; its tasks derive the rows
of gold from them and write the files. A file is replaced as a whole, so a commit takes the old
files out of a table and puts the new ones in. `cells` is committed last: until then the batch can
be repeated, and gives the same files again.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from waystation.pipeline.gold import derived
from waystation.pipeline.gold.cells import (
    BUCKET,
    BY_DAY,
    CELLS,
    EXTREMES,
    FAILURE,
    FAILURE_DAY,
    FILE,
    FILE_DAY,
    KINDS,
    ROUTE,
    ROUTE_DAY,
    SLOT,
    WORKER,
    Changed,
    added_up,
    cells,
    extremes_of,
    shaken_by,
    together,
    with_all_time,
    without_shaken,
)
from waystation.pipeline.gold.derived import Known
from waystation.pipeline.gold.files import (
    by_day,
    by_hour,
    due,
    files_by,
    meeting,
    span_of,
    written,
)
from waystation.pipeline.gold.forecast import LAST_DAY, first_slot
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import Batch, pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PART, Part
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.table_log import files_of
from waystation.pipeline.storage.task_files import map_in_arrow
from waystation.pipeline.tables import SLOTS, Table

APPLICATION = "gold-2"
"""With the number of the cells' form: the next round counts those of another one anew."""
WRITTEN = StructType([StructField("table", StringType()), *PART])
"""What a task says about each file that it has written."""
_TABLES: Mapping[str, Table] = {
    CELLS.name: CELLS,
    **{each.table.name: each.table for each in derived.DERIVED},
}


Silver: TypeAlias = Callable[[str, Sequence[dt.date] | None], DataFrame]
"""All rows of silver, open work included, or those of some days, by a name of `Changed`."""


def add(
    spark: SparkSession, root: str, changed: Changed, silver: Silver, *, target_ms: int
) -> bool:
    """Add a batch to the tables of gold; False when it was added before."""
    done = delta.last_batch(CELLS.path(root), APPLICATION)
    if done is not None and done >= changed.batch.batch:
        return False
    fresh = added_up(cells(changed)).persist()
    try:
        touched = _touched(fresh)
        since = _first_slot(root, touched)
        replaced = _Replaced.of(root, touched, since)
        stored = delta.read_with_spark(spark, CELLS.path(root), CELLS, replaced.names(CELLS))
        known = _known(root, touched, since, target_ms)
        new = _recent(fresh, since)
        parts = [new, stored]
        # The kinds that are missing there never lose an extreme.
        shaken = [row for row in touched if row["shaken"] and KINDS[row["kind"]] in _COUNTED_FROM]
        if shaken:
            others = delta.read_with_spark(
                spark, CELLS.path(root), CELLS, _other_days(root, shaken, replaced)
            )
            parts = _recounted(new, stored, others, shaken, silver)
        files = _written_by_tasks(root, together(*parts), known)
    finally:
        fresh.unpersist()
    _commit(root, changed.batch, files, replaced)
    return True


def count_all(spark: SparkSession, root: str, everything: Changed, *, target_ms: int) -> None:
    """Replace the tables of gold by what all rows of silver add up to."""
    fresh = added_up(cells(everything)).persist()
    try:
        touched = _touched(fresh)
        since = _first_slot(root, touched)
        known = _known(root, touched, since, target_ms)
        total = together(_recent(fresh, since))
        new = _written_by_tasks(root, total, known)
    finally:
        fresh.unpersist()
    # Those of which nothing is left, too.
    there = {name for name, table in _TABLES.items() if files_of(table.path(root)) is not None}
    _commit(root, everything.batch, {**{name: [] for name in there}, **new}, None)


def _written_by_tasks(root: str, total: DataFrame, known: Known) -> dict[str, list[Part]]:
    """The files that tasks have written of each table."""
    found: dict[str, list[Part]] = {}
    for row in map_in_arrow(total, partial(_write, root, known), WRITTEN).collect():
        found.setdefault(row["table"], []).append(Part.of(row.asDict()))
    return found


def _first_slot(root: str, touched: Sequence[Row]) -> dt.datetime:
    """The first hour whose slots are counted: forecasts look at the last day only."""
    hours = [row["at"].astimezone(dt.UTC) for row in touched if row["kind"] == SLOT.name]
    hours += (each.span.last for each in files_by(SLOTS, root, "hour"))
    return first_slot(max(due(hours), default=dt.datetime.now(dt.UTC)))


def _recent(fresh: DataFrame, since: dt.datetime) -> DataFrame:
    return fresh.where((F.col("kind") != SLOT.name) | (F.col("at") >= F.lit(since)))


def _touched(fresh: DataFrame) -> list[Row]:
    """The kinds, and the hours or days of each, that a batch has touched."""
    per_minute = F.col("kind") == "minute"
    hour = F.when(per_minute, F.date_trunc("hour", "at")).otherwise(F.col("at"))
    return (
        fresh.groupBy("kind", hour.alias("at"))
        .agg(
            F.max("last").alias("last"),
            F.array_distinct(F.flatten(F.collect_set("shaken"))).alias("shaken"),
        )
        .collect()
    )


_COUNTED_FROM = {
    WORKER: "attempts",
    FAILURE_DAY: "failed_items",
    FAILURE: "failed_items",
    ROUTE_DAY: "routed",
    ROUTE: "routed",
    FILE_DAY: "files",
    FILE: "files",
}
"""The rows of silver with the extremes of a kind; those of other kinds are never taken back."""


_FROM_DAYS = {ROUTE: {*EXTREMES}, FILE: {"last"}}
"""Extremes of all time that are those of their days: files that are open are in no day yet."""


def _recounted(
    fresh: DataFrame,
    stored: DataFrame,
    others: DataFrame,
    shaken: Sequence[Row],
    silver: Silver,
) -> list[DataFrame]:
    """What is new and what is stored, with shaken extremes found anew: those of days in silver,
    those of all time in these and other days."""
    days: dict[str, set[dt.date] | None] = {}
    for row in shaken:
        kind, at = KINDS[row["kind"]], row["at"]
        if {*row["shaken"]} <= _FROM_DAYS.get(kind, set()):
            continue
        known = days.setdefault(_COUNTED_FROM[kind], set())
        if at is None or known is None:
            days[_COUNTED_FROM[kind]] = None
        else:
            known.add(at.astimezone(dt.UTC).date())
    rows: dict[str, Any] = {
        name: silver(name, None if some is None else sorted(some)).withColumn("sign", F.lit(1))
        for name, some in days.items()
    }
    # Those of other keys are what they were.
    again = extremes_of(added_up(cells(Changed(batch=BatchId(APPLICATION, 0), **rows))))
    of_days = [without_shaken(fresh), without_shaken(shaken_by(stored, fresh)), again]
    return [*map(with_all_time, of_days), with_all_time(others).where("`at` is null")]


def _other_days(root: str, shaken: Sequence[Row], replaced: "_Replaced") -> list[str]:
    """The files of other days with extremes of which those for all time are shaken."""
    files, again = files_of(CELLS.path(root)), {*replaced.names(CELLS)}
    rows: list[dict[str, Any]] = [] if files is None else files.to_pylist()
    wanted = {row["kind"]: row["shaken"] for row in shaken if row["at"] is None}
    names = {day.name: wanted.get(every.name, ()) for day, every in BY_DAY.items()}
    return [
        row["path"]
        for row in rows
        if row["path"] not in again
        and any(
            row.get(f"null_count.{name}") != row["num_records"]
            for name in names.get(row["partition.kind"], ())
        )
    ]


def _known(root: str, touched: Sequence[Row], since: dt.datetime, target_ms: int) -> Known:
    instants = (row["at"].astimezone(dt.UTC) for row in touched if row["at"] is not None)
    return Known(
        target_ms=target_ms,
        # All that is new may be of days before.
        today=max([since + LAST_DAY, *due(instants)]).date(),
        last_routed=_last_routed(root, touched),
    )


def _last_routed(root: str, touched: Sequence[Row]) -> dt.datetime | None:
    """The last event of a routed job: in this batch, or as the statistics of the cells know it."""
    found = [row["last"].astimezone(dt.UTC) for row in touched if row["kind"] == ROUTE.name]
    files = files_of(CELLS.path(root))
    if files is not None and "max.last" in files.column_names:
        mine = files.filter(pc.equal(files["partition.kind"], ROUTE.name))
        found += [each for each in mine["max.last"].to_pylist() if each is not None]
    return max(found, default=None)


class _Replaced(msgspec.Struct, frozen=True):
    """The files that a batch replaces, by table."""

    files: Mapping[str, list[str]]
    """Those whose rows are in the new files, too."""
    dropped: Mapping[str, list[str]] = {}
    """Those with slots that are too old."""

    @property
    def gone(self) -> dict[str, list[str]]:
        """All of them."""
        names = {*self.files, *self.dropped}
        return {name: [*self.files.get(name, ()), *self.dropped.get(name, ())] for name in names}

    @classmethod
    def of(cls, root: str, touched: Sequence[Row], since: dt.datetime) -> "_Replaced":
        """All files with hours or days that a batch has touched.

        A file with other hours, too, is replaced with all of them, and so are all files of these.
        """
        found: dict[str, list[str]] = {CELLS.name: []}
        dropped: dict[str, list[str]] = {}
        for kind in sorted({row["kind"] for row in touched}):
            there = {CELLS.name: files_by(CELLS, root, "at", kind)}
            for each in derived.of_kind(kind):
                there[each.table.name] = files_by(each.table, root, each.by)
            spans = [span_of(row["at"], KINDS[kind].per) for row in touched if row["kind"] == kind]
            if kind == SLOT.name:
                spans = [span for span in spans if span.first >= since]
            for name, paths in meeting(spans, there).items():
                found.setdefault(name, []).extend(paths)
            if kind == SLOT.name:
                last = since - LAST_DAY
                old = {n: [f.path for f in some if f.span.last < last] for n, some in there.items()}
                dropped = {n: [p for p in some if p not in found[n]] for n, some in old.items()}
        return cls(found, dropped)

    def names(self, table: Table) -> list[str]:
        """The files of one table."""
        return self.files.get(table.name, [])


NOTHING = _Replaced({})


def _write(root: str, known: Known, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Write the sums of one task and the rows of gold that are derived from them."""
    found = [each for each in batches if each.num_rows]
    if not found:
        return
    sums = pa.Table.from_batches(found)
    rows: list[dict[str, Any]] = []
    for kind in pc.unique(sums["kind"]).to_pylist():
        mine = sums.filter(pc.equal(sums["kind"], kind))
        for some in map(_with_each_bucket_once, _in_files(mine, KINDS[kind].per, known.today)):
            rows += written(root, CELLS, some)
            places = list(derived.grouped(some))
            for each in derived.of_kind(kind):
                made = [row for cells in places for row in each.rows(cells, known)]
                rows += written(root, each.table, _table(each, made))
    yield pa.RecordBatch.from_pylist(rows, schema=schema_of(WRITTEN))


def _with_each_bucket_once(sums: Any) -> Any:
    """The same sums, their buckets in order: what was stored and what is new, added up."""
    parts, by = sums["parts"].combine_chunks(), ["row", *BUCKET]
    each = pa.Table.from_struct_array(parts.flatten())
    each = each.append_column("row", pc.list_parent_indices(parts))
    added = each.group_by(by).aggregate([("many", "sum")]).filter(pc.field("many_sum") != 0)
    added = added.sort_by([(name, "ascending") for name in by]).rename_columns([*by, "many"])
    sizes = {
        found["values"]: found["counts"] for found in pc.value_counts(added["row"]).to_pylist()
    }
    ends = accumulate((sizes.get(row, 0) for row in range(sums.num_rows)), initial=0)
    buckets = added.drop_columns("row").to_struct_array().combine_chunks()
    once = pa.ListArray.from_arrays(list(ends), buckets)
    return sums.set_column(sums.schema.get_field_index("parts"), "parts", once)


def _in_files(rows: Any, per: str, today: dt.date) -> Iterable[Any]:
    """Rows as they go into files of their own."""
    if per == "all":
        return (rows,)
    return by_day(rows) if per == "day" else by_hour(rows, today)


def _table(of: derived.Derived, rows: list[dict[str, Any]]) -> Any:
    for row in rows:
        if of.by is not None:
            at = row["at"]
            row[of.by] = at if of.by in ("hour", "minute") else at.date()
    schema = schema_of(of.table.schema)
    return pa.Table.from_pylist(rows, schema=schema)


def _commit(
    root: str, batch: BatchId, new: Mapping[str, Sequence[Part]], replaced: _Replaced | None
) -> None:
    """Commit all tables, the cells last: with them the batch counts."""
    gone = NOTHING.gone if replaced is None else replaced.gone
    for name in (*sorted({*new, *gone} - {CELLS.name}), CELLS.name):
        table = _TABLES[name]
        delta.commit(
            table.path(root),
            table.schema,
            new.get(name, ()),
            BatchId(APPLICATION, batch.batch),
            partitions=table.partitions,
            gone=gone.get(name, ()),
            replace=replaced is None,
            again=replaced is None,
            renaming=replaced is None and delta.has_other_columns(table.path(root), table),
        )
