"""Facts of a product: its streams, its states, its own tables, and how a row becomes a job."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from waystation.core.events import Entry, Event, Line, from_entry
from waystation.core.store.script import LuaScript
from waystation.pipeline.hours import Hours
from waystation.pipeline.storage.sql import Frame
from waystation.pipeline.stream_names import StreamNames
from waystation.pipeline.tables import ITEMS, Table


class FieldNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the envelope's fields in a product's stream entries; '' for fields they lack."""

    event: str = "event"
    subject: str = "subject"
    attempt: str = "attempt"
    worker: str = "worker"
    at: str = "at"
    version: str = "v"
    line: str = "line"
    queue: str = "queue"

    @property
    def envelope(self) -> list[str]:
        """The names that belong to the envelope and not to the event's own fields."""
        return [name for name in msgspec.structs.astuple(self) if name]


class State(msgspec.Struct, frozen=True):
    """One list or sorted set in which a queue keeps ids of jobs."""

    name: str
    type: str
    """`list` or `zset`."""


class RowEncoder(Protocol):
    """Turns rows into arguments of the product's own script that adds jobs."""

    @property
    def add(self) -> LuaScript[Any, Any]:
        """The script that adds jobs; it runs inside the script that remembers keys."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it accepts besides `key`."""
        ...

    @property
    def width(self) -> int:
        """The number of script arguments of one job."""
        ...

    def keys(self, queue: str, prefix: str) -> Any:
        """The keyspace with the script's keys."""
        ...

    def leading(self, keys: Any) -> Sequence[str]:
        """The script's arguments before the jobs."""
        ...

    def job(self, keys: Any, row: Mapping[str, Any]) -> Sequence[str | bytes]:
        """The script arguments of one job; refuses a row that cannot be a job."""
        ...

    def with_setup(self, setup: str) -> "RowEncoder":
        """The encoder for a queue with this setup, as JSON; refused where a product has none."""
        ...


class HistoryFrames(Protocol):
    """The tables that others are computed from, with Spark or in this process."""

    def read(
        self,
        table: Table,
        *,
        days: Sequence[dt.date] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Frame:
        """One table as it is stored, or only some days of it, or only some columns."""
        ...

    def attempts(self, hours: Hours | None = None) -> Frame:
        """All attempts; with `hours`, those started in these hours."""
        ...

    def items(
        self, days: Sequence[dt.date] | None = None, columns: Sequence[str] = ITEMS.names
    ) -> Frame:
        """All jobs and files; with `days`, those added on these days."""
        ...

    def open_items(self) -> Frame:
        """The jobs and files that have not ended, as rows of `items`."""
        ...

    def failing(self) -> Frame:
        """Each job or file that has not ended, and each kind of failure it had."""
        ...

    def events(self, hours: Hours | None = None) -> Frame:
        """All events; with `hours`, those that happened in these hours."""
        ...

    def rows_about(self, table: Table, subjects: Sequence[str], columns: Sequence[str]) -> Frame:
        """Some columns of a table as it is stored: at least the rows about these ids."""
        ...

    def rows_since(
        self, table: Table, column: str, since: dt.datetime, columns: Sequence[str]
    ) -> Frame:
        """Some columns of a table as it is stored: the rows with an instant since another one."""
        ...

    def events_about(self, subjects: Sequence[str], since: dt.date) -> Frame:
        """The events since a day: at least those about these ids."""
        ...

    def events_of(self, line: str, since: dt.datetime) -> Frame:
        """The events of a product after an instant."""
        ...


class FoldedTable(msgspec.Struct, frozen=True):
    """A table with one row for each subject of a product, to which every fold adds new events."""

    table: Table
    line: Line
    told: Callable[[Frame], Frame]
    """Events as rows of the table, which need not be different subjects."""
    merged: Callable[[Frame], Frame]
    """Rows of the table as one for each subject."""
    accounts: Callable[[Frame], Frame] | None = None
    """Its rows as the ledger counts them; None: it counts these subjects as items."""
    continues: str = "true"
    """Condition: the subject of a new row may have one of an earlier day that goes on in it."""
    who: tuple[str, ...] = ("line", "queue", "subject")
    """Columns that identify a subject."""
    beside: tuple["Projection", ...] = ()
    """Tables with at most one row for each row of this one, written with it."""
    heard: "Heard | None" = None


class Projection(msgspec.Struct, frozen=True):
    """A table whose rows are made of those of another, each of one."""

    table: Table
    columns: tuple[str, ...]
    where: str


class Heard(msgspec.Struct, frozen=True):
    """New events of subjects, as rows that are counted."""

    table: Table
    told: Callable[[Frame], Frame]
    """Events as rows with the columns that identify a subject, and a struct `heard`."""
    finished: str
    """SQL: the rows, from all those of a subject (`heard`) and its own (`after`)."""


class DayTable(msgspec.Struct, frozen=True):
    """A table that is computed day by day from another one of the product."""

    table: Table
    source: Table
    rows: Callable[..., Frame]
    """Its rows, from those of the same days of the source and of the others."""
    others: tuple[tuple[Table, tuple[str, ...]], ...] = ()
    """Other tables by the day, and their columns that are joined with rows of the source."""


class ProductTable(msgspec.Struct, frozen=True):
    """A table that only one product has, computed from other tables."""

    table: Table
    rows: Callable[[HistoryFrames, Hours], Frame]
    reads: Table
    """The table that most of what it is computed from is in."""
    since: str | None = None
    """The column of that table which is read from the first of the hours on; None: all is read."""
    by_hours: bool = False
    """Whether it is computed for the hours in which something happened; else for all."""


OpenIds: TypeAlias = Callable[[Any, str, str], Iterator[str]]
"""Finds the ids of everything that has not ended, from client, prefix and queue."""


class ProductFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one product."""

    line: Line
    streams: StreamNames
    field_names: FieldNames = FieldNames()
    states: tuple[State, ...] = ()
    state_key: Callable[[str, str, str], str] | None = None
    """Key of a state's ids, from prefix, queue and state."""
    item_key: Callable[[str, str, str], str] | None = None
    """Key of one job, from prefix, queue and id."""
    item_fields: Mapping[str, str] = {}
    """Columns of a job, and the fields of its hash that they are read from."""
    encoder: RowEncoder | None = None
    folded: tuple[FoldedTable, ...] = ()
    """Tables with a row for each of its subjects."""
    by_day: tuple[DayTable, ...] = ()
    """Tables that are computed from these."""
    tables: tuple[ProductTable, ...] = ()
    """Other tables that only this product has."""
    more_tables: tuple[Table, ...] = ()
    """Tables that have a refresh of their own."""
    stream_limit: Callable[[str, str], tuple[str, str]] | None = None
    """Hash and field with the most entries of a queue's stream, from prefix and queue; without a
    field the key holds the number itself."""
    open_ids: OpenIds | None = None
    """Ids of everything that has not ended, from client, prefix and queue; None: by the states."""
    removes_silently: bool = False
    """Whether jobs can be removed without an event for each."""
    ended_states: tuple[str, ...] = ("completed", "failed")
    """The states of jobs that have ended."""
    read: Callable[[str, str | bytes, Entry], Event] = lambda _, entry_id, entry: from_entry(
        entry_id, entry
    )
    """Parse one stream entry of a queue, whatever it holds."""

    @property
    def prefix(self) -> str:
        """Default prefix of its keys."""
        return self.streams.prefix

    @property
    def has_one_stream(self) -> bool:
        """Whether all queues of the product share one stream."""
        return self.streams.has_one_stream


PAGE = 1000


def list_elements(client: Any, key: str) -> Iterator[bytes]:
    """The elements of a list, page by page; elements pushed meanwhile hide none of the others."""
    first = 0
    while page := client.lrange(key, first, first + PAGE - 1):
        yield from page
        first += len(page)
