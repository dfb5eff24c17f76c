"""Messages of another system: what they ask for, and where they lie."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, cast

from redis import Redis


def ask(client: Redis, *command: str | bytes | int) -> Any:
    """Send one command, whose reply redis-py has no type for."""
    return cast("Any", client).execute_command(*command)


class Unreadable(Exception):
    """A message that cannot become a job; the text says why."""

    def __init__(self, reason: str, id: str = "", task: str = "") -> None:
        super().__init__(reason)
        self.id = id
        self.task = task


class Place(NamedTuple):
    """A key of another system that holds messages."""

    holder: Literal["list", "stack", "zset", "hash"]
    """A stack is a list that has its oldest message at the right end."""
    key: str
    indexed_by: str = ""
    """The sorted set that has a hash's fields, too."""


class Message(NamedTuple):
    """A call that waits somewhere else."""

    member: bytes
    """What the holder knows it by."""
    mark: bytes
    """What tells it from every other message, also from a later one with the same id."""
    id: str
    task: str
    args: Sequence[Any]
    kwargs: dict[str, Any]
    due: datetime | None = None
    expires: datetime | None = None
    timeout: float | None = None
    priority: int = 0
    attempts: int | None = None
    """Attempts that are left; None when the message does not say."""
    attempts_made: int = 0
    backoff: float | None = None
    owned: tuple[str, ...] = ()
    """Keys that are of no use without it."""


class Source(Protocol):
    """A queue of another system."""

    name: str
    system: str

    def places(self, client: Redis) -> list[Place]:
        """Where its messages lie, in the order in which they are brought."""
        ...

    def read(self, client: Redis, place: Place, member: bytes) -> Message | None:
        """Read one message; None when it is gone from there. Raises `Unreadable`."""
        ...

    def held(self, client: Redis) -> str:
        """A sentence on messages that cannot be brought now; empty when there are none."""
        ...

    def others(self, client: Redis) -> list[str] | None:
        """The queues that the system has, when this one is none of them."""
        ...
