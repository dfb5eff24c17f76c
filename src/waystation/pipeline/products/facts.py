"""Facts of a product: its streams, its states, its own tables, and how a row becomes a job."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from waystation.core.events import Entry, Event, Product, from_entry
from waystation.core.store.script import LuaScript
from waystation.pipeline.product_keys import StreamNames
from waystation.pipeline.storage.sql import Frame
from waystation.pipeline.tables import Table


class FieldNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the envelope's fields in a product's stream entries; '' for fields they lack."""

    event: str = "event"
    job_id: str = "subject"
    attempt: str = "attempt"
    worker: str = "worker"
    at: str = "at"
    version: str = "v"
    product: str = "line"
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

    @property
    def size(self) -> str:
        """The command that counts the ids."""
        return "LLEN" if self.type == "list" else "ZCARD"


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


class FoldedTable(msgspec.Struct, frozen=True):
    """A table with one row for each subject of a product, to which every fold adds new events."""

    table: Table
    product: Product
    rows_from_events: Callable[[Frame], Frame]
    """Events as rows of the table, which need not be different subjects."""
    merged: Callable[[Frame], Frame]
    """Rows of the table as one for each subject."""
    arrived_at: str = ""
    """The column with the arrival of a subject, where the ledger does not count it as an item."""
    continues: str = "true"
    """Condition: the subject of a new row may have one of an earlier day that goes on in it."""
    who: tuple[str, ...] = ("product", "queue", "job_id")
    """Columns that identify a subject."""
    beside: tuple["Projection", ...] = ()
    """Tables with at most one row for each row of this one, written with it."""
    heard: "CountedEvents | None" = None


class Projection(msgspec.Struct, frozen=True):
    """A table whose rows are made of those of another, each of one."""

    table: Table
    columns: tuple[str, ...]
    where: str


class CountedEvents(msgspec.Struct, frozen=True):
    """New events of subjects, as rows that are counted."""

    table: Table
    rows_from_events: Callable[[Frame], Frame]
    """Events as rows with the columns that identify a subject, and a struct `heard`."""
    finished: str
    """SQL: the rows, from all those of a subject (`heard`) and its own (`after`)."""


OpenIds: TypeAlias = Callable[[Any, str, str], Iterator[str]]
"""Finds the ids of everything that has not ended, from client, prefix and queue."""
StillOpen: TypeAlias = Callable[[Any, str, str, Sequence[str]], set[str]]
"""Finds those of some ids that have not ended, from client, prefix, queue and these ids."""


class ProductFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one product."""

    product: Product
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
    tables: tuple[Table, ...] = ()
    """Other tables that only this product has."""
    stream_limit: Callable[[str, str], tuple[str, str]] | None = None
    """Hash and field with the most entries of a queue's stream, from prefix and queue; without a
    field the key holds the number itself."""
    followed_key: Callable[[str], str] | None = None
    """Key that is there while a history follows the stream of all queues, from its prefix."""
    open_ids: OpenIds | None = None
    """Ids of everything that has not ended, from client, prefix and queue; None: by the states."""
    still_open: StillOpen | None = None
    """Those of some ids that have not ended, where that costs less than `open_ids`."""
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
    """The elements of a list, page by page; others that come or go meanwhile hide none of them.

    Each page begins with one element that was read before, so what was read is all there is to its
    left. Some elements come twice.
    """
    read, known = 0, frozenset[bytes]()
    while (page := client.lrange(key, max(read - 1, 0), read + PAGE - 1)) or read:
        if read and known.isdisjoint(page[:1]):
            read = _still_read(client, key, read, known)
        elif read and len(page) == 1:
            return
        else:
            yield from page
            read, known = max(read - 1, 0) + len(page), frozenset(page)


def _still_read(client: Any, key: str, read: int, known: frozenset[bytes]) -> int:
    """How far a list was read of which elements were taken out: 0 when that cannot be seen."""
    first = max(read - PAGE, 0)
    stretch = client.lrange(key, first, read - 1)
    return max((first + at for at, each in enumerate(stretch, 1) if each in known), default=0)


def members(
    client: Any,
    ids: Sequence[str],
    *,
    zsets: Sequence[str] = (),
    sets: Sequence[str] = (),
    hashes: Sequence[str] = (),
) -> set[str]:
    """Those of these ids that are in one of these keys."""
    answers = [
        *(client.zmscore(key, ids) for key in zsets),
        *([each or None for each in client.smismember(key, ids)] for key in sets),
        *(client.hmget(key, ids) for key in hashes),
    ]
    return {
        each
        for answer in answers
        for each, found in zip(ids, answer, strict=True)
        if found is not None
    }
