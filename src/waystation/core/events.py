"""Events: what happened to whom, and when, in one form for every product.

Our own products write the envelope into their streams as it is. BullMQ's stream keeps BullMQ's
names, and `from_bullmq` reads them into the same form. Reading never raises: an entry that makes no
sense becomes an event that says so, because dropping it would be a silent loss.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Self, TypeAlias

import msgspec

from waystation.core.durations import instant, possible_instant, whole_number
from waystation.core.errors import InvalidInput

VERSION = 1
"""Goes up with every change to the envelope, together with the pipeline's `events` table."""


class Product(StrEnum):
    """The four products that write events."""

    BULLMQ = "bullmq"
    ROUTING = "routing"
    FILES = "files"
    WAITINGROOM = "waitingroom"


class EventName(StrEnum):
    """The events we know; streams may hold others, and those are kept as they are."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> "EventName":
        """Declare an event by its name on the wire and what it says."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    ADDED = "added", "it exists now"
    WAITING = "waiting", "it is ready to run"
    DELAYED = "delayed", "it waits for an instant"
    WAITING_CHILDREN = "waiting-children", "it waits for other work to finish"
    ACTIVE = "active", "a worker holds it"
    PROGRESS = "progress", "its handler says how far it is"
    STEP = "step", "a step of its handler is done"
    SIGNAL = "signal", "somebody sent it a signal"
    CHARGED = "charged", "its handler said what it costs in truth"
    COMPLETED = "completed", "it ended well"
    RETRY = "retry", "an attempt failed and there will be another"
    FAILED = "failed", "the last attempt failed"
    RETRIES_EXHAUSTED = "retries-exhausted", "there are no attempts left"
    STALLED = "stalled", "its holder fell silent"
    RETURNED = "returned", "its holder gave it back untouched"
    DEAD = "dead", "it is set aside with a reason"
    REDRIVEN = "redriven", "it was added again after having been dead or failed"
    CANCELLED = "cancelled", "somebody stopped it"
    REMOVED = "removed", "it exists no longer"
    KEPT = "kept", "what a removed job was, for the history"
    DUPLICATED = "duplicated", "the same id was added again and ignored"
    DEDUPLICATED = "deduplicated", "another one stood for it"
    FIRED = "fired", "a schedule made it"
    SKIPPED = "skipped", "a schedule's turn passed without making anything"
    ADMITTED = "admitted", "a visitor may come in"
    CLAIMED = "claimed", "an admitted visitor came in"
    MISSED = "missed", "an admitted visitor did not come in time"
    RECOVERED = "recovered", "a visitor took the old place again"
    LEFT = "left", "a visitor went away by choice"
    EXPIRED = "expired", "a visitor fell silent"
    REFUSED = "refused", "a visitor could not be let into the line"
    JOINED = "joined", "a worker announced itself"
    LOST = "lost", "a worker fell silent and its work was taken back"
    DRAINED = "drained", "nothing is left in the queue"
    PAUSED = "paused", "the queue hands nothing out"
    RESUMED = "resumed", "the queue hands work out again"
    CLEANED = "cleaned", "old work was cleared away"
    GROUP_BUDGET = "group-budget", "a group has spent most of its budget for the day, or all of it"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened on one line."""

    line: str
    """The product that it happened in: `bullmq`, `routing`, `files` or `waitingroom`."""
    queue: str
    """The queue or room."""
    name: str
    """What happened, such as `added`, `claimed` or `failed`."""
    at_ms: int
    """When, in milliseconds since 1970, by the clock of the store."""
    subject: str | None = None
    """The job, file or visitor; None when it happened to the queue itself."""
    attempt: int | None = None
    """The number of the attempt; None when it is about none."""
    worker: str | None = None
    """The name of the worker; None when none had a part in it."""
    fields: dict[str, str] = {}
    """The fields that only this kind of event has."""
    version: int = VERSION
    """The version of the event's layout."""
    corrupt: str | None = None
    """What was wrong with the stream entry; None when all was well."""

    def to_fields(self) -> dict[str, str]:
        """The stream entry that `from_entry` reads back."""
        if taken := _ENVELOPE & self.fields.keys():
            raise InvalidInput(f"an event's own fields cannot be called {', '.join(sorted(taken))}")
        optional = {"subject": self.subject, "worker": self.worker}
        if self.attempt is not None:
            optional["attempt"] = str(self.attempt)
        return {
            "v": str(self.version),
            "line": self.line,
            "queue": self.queue,
            "event": self.name,
            "at": str(self.at_ms),
            **{name: value for name, value in optional.items() if value is not None},
            **self.fields,
        }


class StreamEvent(Event, frozen=True, kw_only=True):
    """An event with its place in the stream that it was read from."""

    id: str
    """Its place in the stream; `events(after=event.id)` continues behind it."""

    @property
    def job_id(self) -> str | None:
        """The job that it happened to, or the worker, or the queue."""
        return self.subject

    @property
    def at(self) -> datetime:
        """When it happened, by the server's clock; 1970 where that is no instant."""
        return possible_instant(self.at_ms) or instant(0)

    @classmethod
    def read(cls, stream_id: bytes, entry: "Entry") -> Self:
        """Read an entry of one of our own streams."""
        id = stream_id.decode()
        return cls(id=id, **msgspec.structs.asdict(from_entry(id, entry)))


Entry: TypeAlias = Mapping[str, str] | Mapping[bytes, bytes]
"""The fields of one stream entry, as the client hands them over."""

_ENVELOPE = {"v", "line", "queue", "event", "at", "subject", "attempt", "worker"}


def from_entry(stream_id: str | bytes, entry: Entry) -> Event:
    """Read an entry of one of our own streams; an `at` left out is the instant in the stream id."""
    reading = _Reading(entry)
    written_ms = reading.instant(stream_id)
    at_ms = reading.number("at")
    version = reading.number("v")
    return Event(
        line=reading.required("line"),
        queue=reading.required("queue"),
        name=reading.required("event"),
        at_ms=written_ms if at_ms is None else at_ms,
        subject=reading.optional("subject"),
        attempt=reading.number("attempt"),
        worker=reading.optional("worker"),
        version=VERSION if version is None else version,
        fields=reading.rest(),
        corrupt=reading.complaint(),
    )


def from_bullmq(queue: str, stream_id: str | bytes, entry: Entry) -> Event:
    """Read an entry of BullMQ's stream, whose instant is its stream id."""
    reading = _Reading(entry)
    return Event(
        line=Product.BULLMQ.value,
        queue=queue,
        name=reading.required("event"),
        at_ms=reading.instant(stream_id),
        subject=reading.optional("jobId"),
        attempt=reading.number("attemptsMade"),
        worker=reading.optional("workerId"),
        fields=reading.rest(),
        corrupt=reading.complaint(),
    )


class _Reading:
    """An entry being taken apart: what is left of it, and what was wrong with it."""

    def __init__(self, entry: Entry) -> None:
        self._left = {_text(name): _text(value) for name, value in entry.items()}
        self._wrong: list[str] = []

    def optional(self, name: str) -> str | None:
        return self._left.pop(name, None)

    def required(self, name: str) -> str:
        value = self._left.pop(name, None)
        if value is None:
            self._wrong.append(f"no {name}")
        return value or ""

    def number(self, name: str) -> int | None:
        text = self._left.get(name)
        if text is None:
            return None
        number = whole_number(text)
        if number is None:
            # The text stays among the event's own fields, so that nothing is lost.
            self._wrong.append(f"{name} must be a whole number, got {text[:40]!r}")
            return None
        del self._left[name]
        return number

    def instant(self, stream_id: str | bytes) -> int:
        text = _text(stream_id)
        millis = whole_number(text.partition("-")[0])
        if millis is None:
            self._wrong.append(f"a stream id starts with milliseconds, got {text[:40]!r}")
        return millis or 0

    def rest(self) -> dict[str, str]:
        return self._left

    def complaint(self) -> str | None:
        return "; ".join(self._wrong) or None


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")
