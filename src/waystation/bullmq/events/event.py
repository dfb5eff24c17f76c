"""QueueEvent: one entry of a queue's stream of events."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.durations import instant, possible_instant
from waystation.core.errors import Malformed
from waystation.core.events import Event, from_bullmq


class QueueEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a queue."""

    id: str
    """Its id in the stream, after which listening can go on."""
    name: str
    """What happened: `added`, `active`, `completed` …"""
    at_ms: int
    """When, in milliseconds since 1970, by the clock of the store."""
    job_id: str | None = None
    """None when the event is about the queue itself."""
    prev: str | None = None
    """The state that the job was in before."""
    data: Any = None
    """The progress that the handler reported, on `progress`."""
    result: Any = None
    """The result of the handler, on `completed`."""
    failed_reason: str | None = None
    """Why the attempt failed, in `failed`."""
    delay_ms: int | None = None
    """On `delayed` when it is due, in milliseconds since 1970; on `retry` the pause."""
    attempts_made: int | None = None
    """How many attempts there have been, where the event says it."""
    worker: str | None = None
    """The name of the worker, where the event says it."""
    fields: dict[str, str] = {}
    """All other fields of the event, as they are in the stream."""
    corrupt: str | None = None
    """Describes what could not be read; that part stays in `fields`."""

    @property
    def at(self) -> datetime:
        """The instant of the event; 1970 where the number of its id is none."""
        return possible_instant(self.at_ms) or instant(0)


def read_event(queue: str, id: bytes, entry: Mapping[bytes, bytes]) -> QueueEvent:
    """Read an entry of the stream; what cannot be read is described in `corrupt`, not raised."""
    event = from_bullmq(queue, id, entry)
    reading = _Reading(event)
    return QueueEvent(
        id=id.decode(),
        name=event.name,
        at_ms=event.at_ms,
        job_id=event.subject,
        attempts_made=event.attempt,
        worker=event.worker,
        prev=reading.text("prev"),
        failed_reason=reading.text("failedReason"),
        delay_ms=reading.number("delay"),
        data=reading.json("data") if event.name == "progress" else None,
        result=reading.json("returnvalue") if event.name == "completed" else None,
        fields=reading.left,
        corrupt="; ".join(reading.wrong) or None,
    )


class _Reading:
    """Fields of an event that are left to read, and what was wrong with others."""

    def __init__(self, event: Event) -> None:
        self.left = dict(event.fields)
        self.wrong = [event.corrupt] if event.corrupt else []

    def text(self, name: str) -> str | None:
        return self.left.pop(name, None)

    def number(self, name: str) -> int | None:
        text = self.left.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"\d{1,15}", text, re.ASCII):
            self.wrong.append(f"{name} must be a whole number, got {text[:40]!r}")
            return None
        return int(self.left.pop(name))

    def json(self, name: str) -> Any:
        text = self.left.get(name)
        if text is None:
            self.wrong.append(f"no {name}")
            return None
        try:
            value = codec.decode(text)
        except Malformed as error:
            self.wrong.append(f"{name}: {error}")
            return text
        del self.left[name]
        return value
