"""What the pipeline has to know about a line.

A line that writes the common envelope has little to say: where its streams and its states are, and
how a row becomes a job of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from waystation.core.events import Entry, Event, Line, from_entry
from waystation.core.store.script import LuaScript
from waystation.pipeline.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from waystation.pipeline.history import History, Hours


class Wording(msgspec.Struct, frozen=True, kw_only=True):
    """How a line's stream entries call the parts of the envelope; '' where they do not tell."""

    event: str = "event"
    subject: str = "subject"
    attempt: str = "attempt"
    worker: str = "worker"
    at: str = "at"
    version: str = "v"
    line: str = "line"
    queue: str = "queue"

    @property
    def told(self) -> list[str]:
        """The names that belong to the envelope and not to the event's own fields."""
        return [name for name in msgspec.structs.astuple(self) if name]


class State(msgspec.Struct, frozen=True):
    """One place in which a queue keeps ids of its work."""

    name: str
    type: str
    """`list` or `zset`."""


class Entrance(Protocol):
    """How rows become work of a line, by the line's own script."""

    @property
    def add(self) -> LuaScript[Any, Any]:
        """The script that adds; it is run inside the one that remembers keys."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """The columns it understands besides `key`."""
        ...

    @property
    def width(self) -> int:
        """How many of the script's arguments make one job."""
        ...

    def keys(self, queue: str, prefix: str) -> Any:
        """The keyspace that the script's keys are taken from."""
        ...

    def leading(self, keys: Any) -> Sequence[str]:
        """The script's arguments before the jobs."""
        ...

    def job(self, keys: Any, row: Mapping[str, Any]) -> Sequence[str | bytes]:
        """One row as the script's arguments for one job; refuses what cannot be one."""
        ...

    def set_up(self, setup: str) -> "Entrance":
        """The same for a line that is set up as this JSON says; refused where there is no such."""
        ...


class LineAnswer(msgspec.Struct, frozen=True):
    """A table that only one line has, made from the history that all lines share.

    A table with `hour` in its key is made anew for the hours in which something happened, any other
    as a whole. `rows` takes the `History` and those `Hours`, and gives the rows.
    """

    table: Table
    rows: Callable[["History", "Hours"], "DataFrame"]


class LineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the pipeline has to know about one line."""

    line: Line
    prefix: str
    """What its keys start with unless somebody chose otherwise."""
    stream: Callable[[str, str], str]
    """The key of a queue's event stream, from its prefix and its name."""
    wording: Wording = Wording()
    states: tuple[State, ...] = ()
    state_key: Callable[[str, str, str], str] | None = None
    """Where a state's ids are, from prefix, queue and state."""
    item_key: Callable[[str, str, str], str] | None = None
    """Where one piece of work is, from prefix, queue and id."""
    item_fields: Mapping[str, str] = {}
    """The columns of one piece of work that are read, and how its hash calls them."""
    entrance: Entrance | None = None
    answers: tuple[LineAnswer, ...] = ()
    """The tables that this line has besides the common ones."""
    room: Callable[[str, str], tuple[str, str]] | None = None
    """The hash and the field that say how long a queue's stream may get, from prefix and queue;
    without a field the key holds it by itself."""
    seen: Callable[[Any, str, str], Iterator[str]] | None = None
    """The ids of all that has not ended, from a client, prefix and queue; None: by the states."""
    silent: bool = False
    """Whether somebody can take work out without a word about each piece."""
    ended_states: tuple[str, ...] = ("completed", "failed")
    """Of the states, those that hold what has ended."""
    read: Callable[[str, str | bytes, Entry], Event] = lambda _, entry_id, entry: from_entry(
        entry_id, entry
    )
    """Read one stream entry of a queue, whatever it holds."""

    @property
    def has_one_stream(self) -> bool:
        """Whether all queues of the line tell in one stream."""
        return "\0" not in self.stream(self.prefix, "\0")


EVERY_QUEUE = "*"
"""The queue that a stream belongs to in which all queues of a line tell."""
PAGE = 1000


def listed(client: Any, key: str) -> Iterator[bytes]:
    """The elements of a list, page by page; what is pushed meanwhile hides none of the others."""
    first = 0
    while page := client.lrange(key, first, first + PAGE - 1):
        yield from page
        first += len(page)
