"""The answer to `why`: a cause, a sentence and its evidence."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import msgspec

from waystation.core.durations import possible_instant
from waystation.core.events import Product


class Cause(StrEnum):
    """Why something is where it is."""

    READY = "ready"
    """It is next, and somebody can take it."""
    BEHIND = "behind"
    """Others come first; of a queue, more is added than is done."""
    TURN = "turn"
    """Other groups take their turns before its own."""
    PAUSED = "paused"
    LIMITED = "limited"
    """A rate limit holds it back."""
    FULL = "full"
    """As many run, or are inside, as may."""
    NOBODY = "nobody"
    """No worker is alive."""
    UNMATCHED = "unmatched"
    """No live worker has what it asks for."""
    LOCKED = "locked"
    """Somebody holds its lock while it waits."""
    DELAYED = "delayed"
    RETRYING = "retrying"
    """An attempt has failed, and the next one waits for its time."""
    DEPENDENT = "dependent"
    """It waits for other jobs."""
    SCHEDULED = "scheduled"
    HELD = "held"
    """A worker has it."""
    LOST = "lost"
    """Its worker has gone or has lost the lock, and it was or will be picked up again."""
    NO_HANDLER = "no-handler"
    """Its worker has no function for it."""
    BROKEN = "broken"
    """A circuit breaker is open."""
    CLOSED = "closed"
    """The room is closed, or has not opened yet."""
    CALLED = "called"
    """It is the visitor's turn."""
    INSIDE = "inside"
    MISSED = "missed"
    """The visitor's turn is over."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REMOVED = "removed"
    ORPHANED = "orphaned"
    """It is stored, but in no state."""
    EMPTY = "empty"
    """The queue has nothing to do."""
    FAILING = "failing"
    """All or nearly all that ended lately has failed."""
    WORKING = "working"
    """The queue moves."""
    UNKNOWN = "unknown"
    """There is no such thing, and nothing is known of one."""


Kind = Literal["job", "file", "visitor", "queue", "scheduler"]


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why one thing is where it is, for people and for programs."""

    product: str
    """bullmq, routing, files or waitingroom; empty when nothing was found."""
    queue: str
    """The queue, the type of job, the priority or the room."""
    kind: Kind
    id: str
    cause: Cause
    sentence: str
    """One plain sentence."""
    until: datetime | None = None
    """When it ends by itself; None where that is not known."""
    evidence: dict[str, Any] = {}
    """What the sentence rests on, by name."""
    nearest: tuple[str, ...] = ()
    """Names and ids that are like the one that is not known."""

    @property
    def predicate(self) -> str:
        """What the sentence says of a queue, without its name."""
        return self.sentence.partition(" ")[2][len(self.queue) + 1 :].removesuffix(".")


class Finding(msgspec.Struct, frozen=True):
    """A cause with its sentence, before it is known whom it is about."""

    cause: Cause
    text: str
    evidence: dict[str, Any] = {}
    until_ms: float | None = None

    def about(self, product: Product, queue: str, kind: Kind, id: str) -> Answer:
        """The answer about one thing; the sentence begins with its name."""
        name = f"{kind} {id}" if kind != "queue" else _QUEUES[product].format(queue)
        return self._named(name, product, queue, kind, id)

    def about_all(self, product: Product, queue: str) -> Answer:
        """The answer about all types of a namespace, or all priorities of a directory."""
        return self._named(f"queue {queue}", product, queue, "queue", queue)

    def _named(self, name: str, product: Product, queue: str, kind: Kind, id: str) -> Answer:
        return Answer(
            product=product.value,
            queue=queue,
            kind=kind,
            id=id,
            cause=self.cause,
            sentence=f"{name[0].upper()}{name[1:]} {self.text}.",
            until=possible_instant(self.until_ms),
            evidence={name: value for name, value in self.evidence.items() if value is not None},
        )


_QUEUES = {
    Product.BULLMQ: "queue {}",
    Product.ROUTING: "type {}",
    Product.FILES: "priority {}",
    Product.WAITINGROOM: "room {}",
}


def at(ms: float | None) -> str:
    """An instant as people read it."""
    found = possible_instant(ms)
    return "an unknown time" if found is None else f"{found:%Y-%m-%d %H:%M:%S} UTC"


def iso(ms: float | None) -> str | None:
    """An instant for programs."""
    found = possible_instant(ms)
    return None if found is None else found.isoformat(timespec="milliseconds")


def count(number: int, thing: str, things: str | None = None) -> str:
    """A number with its noun."""
    return f"{number:,} {thing if number == 1 else things or f'{thing}s'}"


def span(seconds: float) -> str:
    """A stretch of time, roughly."""
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            return count(round(seconds / size), unit)
    return count(max(1, round(seconds)), "second")


def between(low_s: float, high_s: float) -> str:
    """A range of time, as `4 to 6 minutes`."""
    low, high = span(low_s), span(high_s)
    if low == high:
        return low
    if low.split()[1].rstrip("s") == high.split()[1].rstrip("s"):
        low = low.split()[0]
    return f"{low} to {high}"


def line(text: str | None, most: int = 200) -> str:
    """A text on one line, cut."""
    flat = " ".join((text or "").split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
