"""Delta tables without a jar: tasks write Parquet files, the driver commits them.

A commit carries (application, batch), so a batch that is written again after a crash adds nothing.
Files that are in no commit are invisible.
"""

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Never, TypeAlias, cast

import msgspec
from deltalake import (
    CommitProperties,
    DeltaTable,
    Field,
    PostCommitHookProperties,
    Schema,
    Transaction,
)
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from waystation.core.errors import Overtaken, WrongSchema
from waystation.pipeline import tables
from waystation.pipeline.storage.arrow import fs, pa, pc, pq
from waystation.pipeline.storage.parts import (
    Part,
    Parts,
    dataset_of,
    fsync,
    require_visible,
    values_of,
)
from waystation.pipeline.storage.places import filesystem, is_remote, missing_connector
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sessions import prepared
from waystation.pipeline.storage.table_log import (
    COMMITS_TO_REPLAY,
    VERSION_NOTE,
    files_of,
    metadata,
    noted,
    opened,
)
from waystation.pipeline.tables import Layer, Table

FIRST_DAYS = 2
"""Days in which subjects are looked for first."""
_KEEPING_LOG = PostCommitHookProperties(cleanup_expired_logs=False)
"""For commits before which nobody has seen to it that old notes are written again."""


class BatchId(NamedTuple):
    """Identity of a commit: the batch of an application."""

    application: str
    batch: int


def commit(
    path: str,
    columns: StructType,
    parts: Iterable[Part],
    batch: BatchId,
    *,
    partitions: Sequence[str] = (),
    notes: Mapping[str, Any] | None = None,
    replace: bool | Sequence[dt.date] = False,
    gone: Iterable[str] = (),
    again: bool = False,
    check: Callable[[DeltaTable], Iterable[BatchId]] = lambda _: (),
    keep_files: bool = False,
    renaming: bool = False,
) -> bool:
    """Commit files to a table, all or none; False when this batch was committed before.

    Files that are not committed are deleted, unless another commit may need them (`keep_files`).
    They replace all others, or those of some days. Files that are `gone`, because the new ones were
    computed from them, leave the table with it; it is refused where they have left before. Whoever
    computes a batch `again` replaces it. `check` may refuse the commit, and names other batches
    that it stands for; if one of those is committed meanwhile, it fails. `renaming` gives a table
    that is replaced these columns, whatever it had.
    """
    parts = list(parts)
    unneeded = [] if keep_files else parts
    try:
        table = DeltaTable(path) if renaming else open_table(path, columns, partitions)
        if again or not _has_batch(table, batch):
            require_visible(path, parts)
            batches = [batch, *check(table)]
            left = _leaving(table, list(gone), replace)
            hooks = _KEEPING_LOG if renaming else None
            _add(table, columns, parts, batches, partitions, notes, replace is True, left, hooks)
            return True
    except CommitFailedError:
        discard(path, unneeded)
        # Another driver may have committed the same batch first.
        if not _has_batch(DeltaTable(path), batch):
            raise
    except Exception:
        discard(path, unneeded)
        raise
    discard(path, unneeded)
    return False


def rewrite(
    path: str, table: Table, parts: Iterable[Part], gone: Iterable[str], *, is_same: bool
) -> None:
    """Commit files that hold rows of others, which leave the table; all rows, or not all of them.

    Refused where one of those has left it before. Without a batch: nobody must take these rows for
    new ones.
    """
    parts = list(parts)
    try:
        require_visible(path, parts)
        stored = open_table(path, table.schema, table.partitions)
        left = _leaving(stored, list(gone), False)
        _add(stored, table.schema, parts, (), table.partitions, None, False, left, is_same=is_same)
    except Exception:
        discard(path, parts)
        raise
    make_durable(path, parts)


def make_durable(path: str, parts: Iterable[Part]) -> None:
    """Let the last commit of a table on this machine survive a power cut, with these files.

    delta-rs syncs nothing, and streams are trimmed behind what is committed.
    """
    files, root = filesystem(path)
    if not isinstance(files, fs.LocalFileSystem):
        return
    log = f"{root}/_delta_log"
    fsync(f"{log}/{DeltaTable(path).version():020}.json")
    folders = {f"{root}/{each.path}".rpartition("/")[0] for each in parts}
    for folder in sorted({*folders, log, root}):
        fsync(folder)


def open_table(path: str, columns: StructType, partitions: Sequence[str] = ()) -> DeltaTable:
    """Open the table at a path; create it if there is none, and add columns that it lacks."""
    if not DeltaTable.is_deltatable(path):
        if not is_remote(path):
            Path(path).mkdir(parents=True, exist_ok=True)
        DeltaTable.create(
            path,
            _delta_schema(columns),
            mode="ignore",
            partition_by=list(partitions) or None,
            configuration={"delta.checkpointInterval": str(COMMITS_TO_REPLAY)},
        )
    table = DeltaTable(path)
    if lacking := _lacking(table, columns):
        table.alter.add_columns(lacking, post_commithook_properties=_KEEPING_LOG)
        return DeltaTable(path)
    return table


def has_other_columns(path: str, table: Table) -> bool:
    """Whether a table has columns that it is not declared with any more."""
    stored = opened(path)
    return stored is not None and not {each.name for each in stored.schema().fields} <= {
        *table.names
    }


def discard(path: str, parts: Iterable[Part]) -> None:
    """Delete files that were written and are in no commit."""
    parts = list(parts)
    if not parts:
        return
    files, root = filesystem(path)
    known = files_of(path)
    held: set[str] = set() if known is None else set(known["path"].to_pylist())
    for part in parts:
        if part.path not in held:
            with suppress(FileNotFoundError):
                files.delete_file(f"{root}/{part.path}")


def overtaken(path: str) -> Overtaken:
    """The refusal of what was computed from rows that another run has changed meanwhile."""
    return Overtaken(
        f"another run has changed {path} meanwhile: what this one has computed from it is out of "
        "date. Nothing was written; start again"
    )


def unless_overtaken(
    application: str, before: int | None
) -> Callable[[DeltaTable], Iterable[Never]]:
    """A check that refuses a commit once another driver has made one since this batch."""

    def check(table: DeltaTable) -> Iterable[Never]:
        if table.transaction_version(application) != before:
            raise overtaken(table.table_uri)
        return ()

    return check


def _leaving(table: DeltaTable, gone: list[str], replace: bool | Sequence[dt.date]) -> list[str]:
    """The files that leave a table with a commit."""
    if not gone and isinstance(replace, bool):
        return []
    there: Any = pa.table(cast(Any, table.get_add_actions(flatten=True)))
    if not set(gone) <= set(there["path"].to_pylist()):
        raise overtaken(table.table_uri)
    if not isinstance(replace, bool) and there.num_rows:
        gone += _of_days(there, replace)["path"].to_pylist()
    return gone


def _has_batch(table: DeltaTable, batch: BatchId) -> bool:
    before = table.transaction_version(batch.application)
    return before is not None and before >= batch.batch


def _add(
    table: DeltaTable,
    columns: StructType,
    parts: Iterable[Part],
    batches: Sequence[BatchId],
    partitions: Sequence[str],
    notes: Mapping[str, Any] | None,
    replace: bool,
    gone: Iterable[str],
    hooks: PostCommitHookProperties | None = None,
    *,
    is_same: bool = False,
) -> None:
    now, gone = int(time.time() * 1000), list(gone)
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=part.path,
            size=part.size,
            partition_values=dict(part.partition),
            modification_time=now,
            data_change=not is_same,
            stats=part.stats,
        )
        for part in parts
    ]
    actions += [RemoveAction(path, not is_same, now, None, values_of(path)) for path in gone]
    table.create_write_transaction(
        actions=cast(Any, actions),
        mode="overwrite" if replace else "append",
        schema=_delta_schema(columns),
        partition_by=list(partitions) or None,
        commit_properties=CommitProperties(
            app_transactions=[Transaction(each.application, each.batch) for each in batches],
            custom_metadata=metadata(notes or {}),
            # delta-rs sees no conflict where files that leave were compacted meanwhile.
            max_commit_retries=0 if gone or replace else None,
        ),
        post_commithook_properties=hooks,
    )


def _lacking(table: DeltaTable, columns: StructType) -> list[Field]:
    """The columns that a table does not have yet; refuses unknown columns and other types."""
    wanted = {field.name: field for field in _delta_schema(columns).fields}
    there = {field.name: field for field in table.schema().fields}
    if unknown := sorted(there.keys() - wanted.keys()):
        raise _unknown_columns(table, unknown)
    for field in there.values():
        if field.type != wanted[field.name].type:
            name, rebuilding = _name_and_remedy(table.table_uri)
            raise WrongSchema(
                f"the table {name} has the column {field.name} as {_shown(field)}, wanted "
                f"{_shown(wanted[field.name])}; {rebuilding}"
            )
    return [field for field in wanted.values() if field.name not in there]


def _unknown_columns(table: DeltaTable, unknown: Sequence[str]) -> WrongSchema:
    """The refusal to write to a table with columns that would be null from now on."""
    name, rebuilding = _name_and_remedy(table.table_uri)
    has = f"the table {name} has the column {', '.join(unknown)}"
    written_by = noted(table, VERSION_NOTE) or 0
    if written_by > tables.VERSION:
        return WrongSchema(
            f"{has}, which this version of waystation does not know: a newer version has written "
            f"it (tables of version {written_by}, known up to {tables.VERSION}); use that version"
        )
    return WrongSchema(
        f"{has}, which no version of waystation up to this one writes: something else has added "
        f"it, and it would get no values; {rebuilding}"
    )


def _name_and_remedy(path: str) -> tuple[str, str]:
    layer, _, name = path.rstrip("/").rpartition("/")
    if layer.endswith(f"/{Layer.BRONZE}"):
        return name, "it cannot be computed again, so copy it elsewhere and begin a new history"
    return name, "`waystation pipeline rebuild` computes it again from the events"


def _shown(field: Field) -> str:
    kind = msgspec.json.decode(field.to_json())["type"]
    return kind if isinstance(kind, str) else msgspec.json.encode(kind).decode()


def last_batch(path: str, application: str) -> int | None:
    """The last batch of an application that was committed to a table."""
    table = opened(path)
    return None if table is None else table.transaction_version(application)


def read(
    spark: SparkSession,
    root: str,
    table: Table,
    *,
    days: Sequence[dt.date] | None = None,
    columns: Sequence[str] | None = None,
    within: "Within | None" = None,
) -> DataFrame:
    """A table of the history at `root`; empty when it does not exist yet.

    With `days`, only files of these partitions are read, with `within`, only those with such rows.
    """
    names = file_names(root, table, days=days, within=within)
    return read_with_spark(spark, table.path(root), table, names, columns=columns)


def file_names(
    root: str,
    table: Table,
    *,
    days: Sequence[dt.date] | None = None,
    within: "Within | None" = None,
) -> list[str]:
    """Names of a table's files, within its place; with `days`, of those of these partitions."""
    found = _described(table.path(root), days, within)
    return [] if found is None else found["path"].to_pylist()


def read_with_spark(
    spark: SparkSession,
    path: str,
    table: Table,
    names: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Files of a table, or some columns of them, as a DataFrame."""
    wanted = table.schema
    if columns is not None:
        wanted = StructType([wanted[name] for name in columns])
    if not names:
        # Known to be empty, so that Spark plans nothing for it.
        return spark.emptyDataFrame(wanted)
    if missing_connector(path) is None:
        paths = [f"{path}/{name}" for name in names]
        rows = spark.read.schema(table.schema).option("basePath", path).parquet(*paths)
        return rows if columns is None else rows.select(*columns)
    # Its tasks read with Arrow what Spark itself has no connector for.
    partitions = [name for name in table.partitions if name in wanted.names]
    return (
        prepared(spark, Parts)
        .read.format(Parts.name())
        .schema(wanted)
        .option("table", path)
        .option("files", msgspec.json.encode(names).decode())
        .option("partitions", ",".join(partitions))
        .load()
    )


Within: TypeAlias = tuple[str, Any, Any]
"""A column, and the least and the greatest value that is wanted of it; None: no bound."""


def read_arrow(
    root: str,
    table: Table,
    columns: Sequence[str],
    where: Any = None,
    *,
    by: Sequence[str] | None = None,
    days: Sequence[dt.date] | None = None,
    within: Within | None = None,
) -> Any:
    """Some columns of a table as an Arrow table, which for few rows is faster than a Spark job.

    `by` names the columns that `where` looks at, so that others need not be read. `within` only
    spares reading files, and parts of them: it leaves out those that hold no such row.
    """
    path = table.path(root)
    found = _described(path, days, within)
    names: list[str] = [] if found is None else found["path"].to_pylist()
    return read_files(path, table, names, columns=columns, where=where, by=by, within=within)


def read_files(
    path: str,
    table: Table,
    names: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    where: Any = None,
    by: Sequence[str] | None = None,
    within: Within | None = None,
) -> Any:
    """Files of a table as an Arrow table."""
    wanted = schema_of(table.schema)
    columns = list(wanted.names if columns is None else columns)
    if not names:
        return wanted.empty_table().select(columns)
    parts = dataset_of(path, wanted, names, table.partitions)
    rough = _rough_filter(within)
    if where is None:
        return parts.to_table(columns=columns, filter=rough)
    # Not filtered by the dataset: it cannot compare texts with statistics that delta-rs has
    # written as another type of text.
    needed = dict.fromkeys((*columns, *(wanted.names if by is None else by)))
    batches = parts.to_batches(columns=list(needed), filter=rough)
    found = (pa.Table.from_batches([each]).filter(where) for each in batches)
    kept = [each.select(columns) for each in found if each.num_rows]
    return pa.concat_tables(kept) if kept else wanted.empty_table().select(columns)


def _rough_filter(within: Within | None) -> Any:
    """The filter by which parts of files are left out; only instants can be compared."""
    column, *bounds = within or ("",)
    known = [each for each in bounds if each is not None]
    if not known or not all(isinstance(each, dt.datetime) for each in known):
        return None
    field, (least, most) = pc.field(column), bounds
    is_late = pc.scalar(True) if least is None else field >= least
    is_early = pc.scalar(True) if most is None else field <= most
    return field.is_null() | (is_late & is_early)


def count(
    path: str,
    *,
    days: Sequence[dt.date] | None = None,
    within: Within | None = None,
    of: str = "",
) -> int:
    """The most rows that a read can find, or values of a column, from the statistics in the log."""
    found = _described(path, days, within)
    if found is None:
        return 0
    rows = pc.sum(found["num_records"]).as_py() or 0
    nulls = f"null_count.{of}"
    return rows - (pc.sum(found[nulls]).as_py() or 0) if nulls in found.column_names else rows


class Summary(NamedTuple):
    """Figures about all rows of a table."""

    rows: int = 0
    counted: int = 0
    """Rows in which one column is not null."""
    least: Any = None
    most: Any = None
    """The least and the greatest value of another column."""


def summary(path: str, *, counted: str, spanned: str) -> Summary:
    """Figures about a table from the statistics in its log; files without them are read."""
    files = files_of(path)
    if files is None:
        return Summary()
    names = (f"null_count.{counted}", f"min.{spanned}", f"max.{spanned}", "num_records")
    rows = nulls = 0
    found: list[Any] = []
    for file in files.to_pylist():
        if all(file.get(name) is not None for name in names):
            rows, nulls = rows + file["num_records"], nulls + file[names[0]]
            found += [file[names[1]], file[names[2]]]
            continue
        part = _read_file(path, file["path"], [counted, spanned])
        rows, nulls = rows + part.num_rows, nulls + part[counted].null_count
        found += [pc.min(part[spanned]).as_py(), pc.max(part[spanned]).as_py()]
    known = [each for each in found if each is not None]
    return Summary(rows, rows - nulls, min(known, default=None), max(known, default=None))


def _read_file(path: str, name: str, columns: list[str]) -> Any:
    """Some columns of a file in the types that its table declares, whatever has written it."""
    files, root = filesystem(path)
    rows = pq.read_table(f"{root}/{name}", columns=columns, filesystem=files, partitioning=None)
    declared: Any = pa.schema(cast(Any, DeltaTable(path).schema().to_arrow()))
    return rows.cast(pa.schema([declared.field(each) for each in rows.column_names]))


def greatest(path: str, column: str, *, among: tuple[str, Any]) -> Any:
    """The greatest value of a column in rows that have a value in another one.

    The newest files are looked at first, and only those are read that have other rows, too.
    """
    name, value = among
    found = _described(path, None, (name, value, value))
    if found is None:
        return None
    wanted = ("path", f"min.{name}", f"max.{name}", f"max.{column}")
    files = found.select([each for each in wanted if each in found.column_names]).to_pylist()
    unknown = [file for file in files if file.get(f"max.{column}") is None]
    known = [file for file in files if file.get(f"max.{column}") is not None]
    known.sort(key=lambda file: file[f"max.{column}"], reverse=True)
    best: Any = None
    for file in (*unknown, *known):
        most = file.get(f"max.{column}")
        if best is not None and most is not None and most <= best:
            break
        if most is None or not file.get(f"min.{name}") == file.get(f"max.{name}") == value:
            rows = _read_file(path, file["path"], [name, column])
            most = pc.max(rows.filter(pc.field(name) == value)[column]).as_py()
        best = max((each for each in (best, most) if each is not None), default=None)
    return best


def newest_days(path: str) -> Iterator[tuple[list[dt.date], bool]]:
    """The newest days of a table, then four times as many, and whether these are all.

    Whoever looks for subjects finds most of them in the newest days.
    """
    days, many = sorted(days_of(path), reverse=True), FIRST_DAYS
    while days:
        yield days[:many], many >= len(days)
        if many >= len(days):
            return
        many *= 4


def days_of(path: str) -> list[dt.date]:
    """The days that a table has files of."""
    found = files_of(path)
    if found is None or "partition.date" not in found.column_names:
        return []
    return pc.unique(found["partition.date"]).to_pylist()


def _described(path: str, days: Sequence[dt.date] | None, within: Within | None) -> Any:
    """The files of a table that may hold wanted rows, with their statistics; None: no table."""
    found = files_of(path)
    if found is None or not found.num_rows:
        return found
    if days is not None:
        found = _of_days(found, days)
    return found if within is None else files_within(found, within)


def files_within(files: Any, within: Within) -> Any:
    """Those of some files, with their statistics, that may hold rows between two bounds."""
    column, least, most = within
    tests = ((f"min.{column}", most, pc.greater), (f"max.{column}", least, pc.less))
    for statistic, bound, is_beyond in tests:
        # A partition has one value.
        name = statistic if statistic in files.column_names else f"partition.{column}"
        if bound is not None and name in files.column_names:
            limit = pa.scalar(bound, files[name].type)
            # A file without the statistic may hold such rows.
            beyond = pc.fill_null(is_beyond(files[name], limit), False)
            files = files.filter(pc.invert(beyond))
    return files


def _of_days(files: Any, days: Sequence[dt.date]) -> Any:
    return files.filter(pc.is_in(files["partition.date"], pa.array(days, pa.date32())))


def names_without(path: str, column: str, value: Any) -> set[str]:
    """The files of a table that do not hold a value, as their statistics say."""
    # One look: a file that is compacted before another one would seem not to hold it.
    found = files_of(path)
    if found is None:
        return set()
    some = files_within(found, (column, value, value))
    return set(found["path"].to_pylist()) - set(some["path"].to_pylist())


def _delta_schema(columns: StructType) -> Schema:
    return Schema.from_arrow(schema_of(columns))
