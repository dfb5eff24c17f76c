"""DuckDB over the tables of a history: read-only, and without access to anything else.

Every table is a view of its active files. SQL of a caller may be one SELECT; files other than those
of the tables, settings, extensions and Python's variables are out of its reach.
"""

import datetime as dt
import re
import shutil
import tempfile
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import duckdb

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask import Answer
from waystation.pipeline.ask.active_files import (
    EVERYTHING,
    RowFilter,
    contents,
    duckdb_type,
    remote_files,
)
from waystation.pipeline.silver.moves import MOVES, OPEN, OPEN_ATTEMPTS, OPEN_ITEMS, STATES
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.places import is_remote, unreadable
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table, every

MACROS = (
    # What people know from Spark.
    "create macro percentile_approx(value, share) as approx_quantile(value, share)",
    "create macro collect_list(value) as list(value)",
    "create macro get_json_object(text, path) as text ->> path",
)

IN_MEMORY = ":memory:"


class Engine:
    """Answers questions about the history at `root`; a context manager.

    Its views are gone when it is closed, unless it is given a file for its `database`.
    """

    def __init__(
        self, root: str, *, threads: int = 0, memory_mb: int = 0, database: str = IN_MEMORY
    ) -> None:
        self.root = root
        self.too_large = "ask about less"
        """What whoever asks can do about a question that needs more memory than there is."""
        self._spill = tempfile.mkdtemp(prefix="waystation-ask-")
        config: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "temp_directory": self._spill,
            "allow_community_extensions": False,
        }
        if database != IN_MEMORY:
            # Older versions of DuckDB can open it, too.
            config["storage_compatibility_version"] = "v1.0.0"
        if threads:
            config["threads"] = threads
        if memory_mb:
            config["memory_limit"] = f"{memory_mb}MB"
        self._db = duckdb.connect(database, config=config)
        self._run("set TimeZone = 'UTC'")
        self._run("set enable_progress_bar = false")
        self._run("set python_enable_replacements = false")
        for macro in MACROS:
            self._run(macro)
        self._files: list[str] = []
        self._views: list[str] = []
        self._is_locked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and delete what it had written to temporary files."""
        self._db.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    @property
    def files(self) -> list[str]:
        """The files that the views read."""
        return sorted(self._files)

    @property
    def views(self) -> list[str]:
        """The names that a question may use."""
        return sorted(self._views)

    def add_tables(
        self, more: Iterable[Table] = (), *, named: Container[str] | None = None
    ) -> None:
        """Make every table of the history a view, or those with these names.

        A table that does not exist yet is empty.
        """
        wanted = [each for each in (*every(), *more) if named is None or each.name in named]
        if named is not None and AS_OF in named and EVENTS not in wanted:
            wanted.append(EVENTS)
        folded = [each for each in wanted if each.name in (ATTEMPTS.name, ITEMS.name)]
        for table in wanted:
            self.add_table(table, name=f"ended_{table.name}" if table in folded else "")
        for table in OPEN:
            if named is None or table.name in named:
                self.add_table(table)
        if folded:
            self.add_open_work()
        if EVENTS in wanted:
            self.add_as_of()

    def add_table(self, table: Table, *, name: str = "", wanted: RowFilter = EVERYTHING) -> None:
        """Make a table a view, or only those of its files that can hold wanted rows."""
        name = name or table.name
        columns = {each.name: duckdb_type(each.type) for each in table.columns}
        found = contents(table.path(self.root))
        if found is None:
            self._add_view(name, columns, "")
            return
        columns |= found.columns
        files = [each for each in found.files if wanted.may_be_in(each)]
        self._files += [each.path for each in files]
        if is_remote(self.root) and files:
            arriving = f"files_of_{name}"
            self._db.register(arriving, remote_files(found.table, files, wanted))
            self._add_view(name, columns, _name(arriving))
        else:
            folders = {each: columns[each] for each in found.partitions}
            self._add_view(name, columns, _read([each.path for each in files], folders))

    def _add_view(self, name: str, columns: Mapping[str, str], source: str) -> None:
        """Make a source a view with these columns, or nothing; those that it lacks are null."""
        nothing = ", ".join(f"null::{kind} as {_name(each)}" for each, kind in columns.items())
        query = f"select {nothing} limit 0"
        if source:
            wanted = ", ".join(map(_name, columns))
            query = f"select {wanted} from (from {source} union all by name ({query}))"
        self._run(f"create or replace view {_name(name)} as {query}")
        self._views.append(name)

    def comment(self, view: str, meaning: str, columns: Mapping[str, str]) -> None:
        """Say what a view and its columns are, where tools show it."""
        self._run(f"comment on view {_name(view)} is {quoted(meaning)}")
        for column, what in columns.items():
            self._run(f"comment on column {_name(view)}.{_name(column)} is {quoted(what)}")

    def add_rows(self, name: str, rows: Any) -> None:
        """Make an Arrow table a table that questions can name."""
        self._db.register("arriving", rows)
        self._run(f"create or replace table {_name(name)} as from arriving")
        self._db.unregister("arriving")
        self._views.append(name)

    def note(self, name: str, query: str) -> None:
        """Answer a question of our own into a table, for those that follow."""
        with _refused(self.views, self.too_large):
            self._run(f"create or replace table {_name(name)} as {query}")

    def view(self, name: str, query: str) -> None:
        """Name a question of our own."""
        self._run(f"create or replace view {_name(name)} as {query}")

    def lock(self) -> None:
        """From now on nothing but the files of the views can be read, and no setting changed."""
        if self._is_locked:
            return
        allowed = ", ".join(quoted(each) for each in self._files if not is_remote(each))
        self._run(f"set allowed_paths = [{allowed}]")
        self._run("set enable_external_access = false")
        self._run("set lock_configuration = true")
        self._is_locked = True

    def ask(self, query: str, most: int | None = None) -> Answer:
        """Answer one SELECT of a caller, with so many rows at most."""
        self.lock()
        try:
            statements = self._db.extract_statements(query)
        except duckdb.Error as error:
            raise InvalidInput(_first_line(error)) from None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InvalidInput("wanted one SELECT; the history is only read")
        return self.select(query, most)

    def select(self, query: str, most: int | None = None) -> Answer:
        """Answer a question of our own."""
        with _refused(self.views, self.too_large), _readable():
            found: Any = self._db.sql(query)
            if most is not None:
                found = found.limit(most + 1)
            rows = found.to_arrow_table()
        complete = most is None or rows.num_rows <= most
        rows = rows if complete else rows.slice(0, most)
        try:
            columns = [rows.column(number).to_pylist() for number in range(rows.num_columns)]
        except OverflowError:
            raise InvalidInput(
                "a date of the answer is outside of the years 1 to 9999; cast it to text"
            ) from None
        return Answer(list(rows.column_names), list(zip(*columns, strict=True)), complete)

    def add_open_work(self) -> None:
        """Join what has ended with what has not, where the views of both are there."""
        for table, unfinished in ((ATTEMPTS, OPEN_ATTEMPTS), (ITEMS, OPEN_ITEMS)):
            ended = f"ended_{table.name}"
            if ended not in self._views:
                continue
            if unfinished.name not in self._views:
                self.add_table(unfinished)
            wanted = ", ".join(map(_name, table.names))
            self._run(
                f"create or replace view {table.name} as select {wanted} "
                f"from {ended} union all select {wanted} from {unfinished.name}"
            )
            self._views.append(table.name)
            self._views.remove(ended)

    def add_as_of(self) -> None:
        """Let questions ask for the state as of an instant, where the view of events is there."""
        self._run(f"create or replace {_as_of_macro()}")

    def _run(self, statement: str) -> None:
        with _readable():
            self._db.execute(statement)


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def literal(instant: dt.datetime) -> str:
    """An instant as a literal of SQL."""
    return f"timestamptz '{instant.astimezone(dt.UTC).isoformat()}'"


def _read(files: Sequence[str], partitions: Mapping[str, str]) -> str:
    """The call that reads Parquet files, and columns from the names of folders; empty for none."""
    if not files:
        return ""
    kinds = ", ".join(f"{quoted(name)}: {kind}" for name, kind in partitions.items())
    folders = f", hive_types = {{{kinds}}}" if kinds else ""
    return (
        # Files of older versions lack columns that were added later.
        f"read_parquet([{', '.join(map(quoted, files))}], union_by_name = true, "
        f"hive_partitioning = {bool(folders)}{folders})"
    )


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@contextmanager
def _readable() -> Generator[None]:
    """Say what is wrong with files that DuckDB cannot read."""
    try:
        yield
    except duckdb.IOException as error:
        raise unreadable(error) from None
    except duckdb.InvalidInputException as error:
        if "magic bytes" not in str(error):
            raise
        raise unreadable(error) from None


@contextmanager
def _refused(views: Sequence[str], too_large: str) -> Generator[None]:
    """Say what is wrong with a question that DuckDB does not answer."""
    try:
        yield
    except duckdb.CatalogException as error:
        message = _first_line(error)
        if "Table with name" in message:
            message = f"{message.split('!')[0]}. There are {', '.join(views)}."
        raise InvalidInput(message) from None
    except duckdb.OutOfMemoryException as error:
        raise InvalidInput(f"{_first_line(error)}; {too_large}") from None
    except duckdb.Error as error:
        raise InvalidInput(_first_line(error) + _hint(error)) from None


def _hint(error: Exception) -> str:
    """What may be meant: the columns next to one that does not exist, how a text is written."""
    message, _, meant = str(error).partition("Candidate bindings:")
    if "Malformed JSON" in message:
        return ". Not every job has JSON that can be read: try(data->>'$.a') leaves those out"
    if not meant:
        return ""
    unquoted = re.search(r'column "(\w+)"', message)
    as_text = f"; a text stands in single quotes, as '{unquoted[1]}'" if unquoted else ""
    columns = " or ".join(re.findall(r'"([^"]+)"', meant))
    return f" Perhaps {columns} is meant{as_text}"


def _first_line(error: Exception) -> str:
    message = str(error).strip().splitlines()[0]
    return message.partition("Error: ")[2] or message


AS_OF = "as_of"
"""The table function of SQL: `select * from as_of(timestamptz '2026-03-01 14:00:00+00')`."""
# A life begins with a birth; an id that was used again is the job of its last one. A job that was
# removed as it ended says so with `kept`, in the same step of the store.
_AS_OF_QUERY = """
with moves as (
    select product, queue, job_id, event, worker, "at",
           coalesce(fields['name'], fields['type']) as name,
           {{'recorded_at': recorded_at, 'seq': seq}} as place,
           {{'recorded_at': recorded_at,
             'seq': case when event in ('retry', 'stalled') then -1 else seq end}} as turn,
           coalesce(event in ('added', 'fired')
                    or (event = 'waiting' and attempt = 1 and fields['prev'] is null),
                    false) as birth
    from events
    where date <= instant::date and recorded_at <= instant and product <> 'waitingroom'
          and event in {moves} and job_id <> ''
), births as (
    select product, queue, job_id, max(place) as born from moves where birth group by all
), lives as (
    select product, queue, job_id, arg_max(name, place) filter (name is not null) as name,
           max("at") filter (birth) as added_at,
           arg_max({{'state': {states}[event], 'since': "at", 'worker': worker}}, turn)
               filter (event <> 'kept') as last,
           count_if(event = 'active')::int as attempts, bool_or(event = 'kept') as is_gone
    from moves left join births using (product, queue, job_id)
    where born is null or place >= born
    group by product, queue, job_id
)
select product, queue, job_id, name, last['state'] as state, last['since'] as since, added_at,
       attempts, case when last['state'] = 'active' then last['worker'] end as worker
from lives
where last['state'] <> 'removed' and not is_gone
"""


def _as_of_macro() -> str:
    """The table function, over the view `events`."""
    query = _AS_OF_QUERY.format(moves=(*MOVES, "kept"), states=_mapping(STATES))
    return f"macro {AS_OF}(instant) as table {query}"


def _mapping(values: Mapping[str, str]) -> str:
    inner = ", ".join(f"'{key}': '{value}'" for key, value in values.items())
    return f"map {{{inner}}}"


_VIEWS_MARK = "waystation_views"
"""The table that says of which history the views are, by which a database of ours is known."""
_PARTS = ("ended_attempts", "ended_items")


def write_database(root: str, file: Path, more: Iterable[Table] = ()) -> list[str]:
    """Write a database with a view for each table, for other programs; returns their names.

    It takes the place of one that was written before; a program that has that one open keeps it.
    """
    if is_remote(root):
        raise InvalidInput(f"the views name files, so the history must be a directory, got {root}")
    if not Path(root).is_dir():
        raise InvalidInput(f"there is no history at {root}")
    _require_ours(file)
    # Views name whole paths, so that the database can be opened from anywhere.
    place = str(Path(root).resolve())
    tables = [*every(), *OPEN, *more]
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
        fresh = Path(folder) / file.name
        with Engine(place, database=str(fresh)) as engine:
            engine.add_tables(more)
            engine.add_rows(_VIEWS_MARK, pa.table({"history": [place], "written_at": [_now()]}))
            for table in tables:
                columns = {each.name: each.meaning for each in table.columns}
                engine.comment(table.name, table.meaning, columns)
            for part in _PARTS:
                engine.comment(part, "a part of `attempts` and `items`", {})
        fresh.replace(file)
    return sorted(table.name for table in tables)


def _require_ours(file: Path) -> None:
    """Refuse to replace anything but a database that was written here."""
    if not file.parent.is_dir():
        raise InvalidInput(f"wanted a file in a folder that exists, got {file}")
    if not file.exists():
        return
    try:
        with duckdb.connect(str(file), read_only=True) as known:
            marks = known.execute(
                "select count(*) from duckdb_tables() where table_name = ?", [_VIEWS_MARK]
            ).fetchone()
    except duckdb.Error:
        marks = None
    if not marks or not marks[0]:
        raise InvalidInput(f"{file} is something else; views are written to a file of their own")


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
