"""One entry of a queue's stream, read into what it tells."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.errors import Malformed
from waystation.core.events import Event, from_bullmq


class QueueEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened in the queue."""

    id: str
    """Its place in the stream, from which one may go on listening."""
    name: str
    at_ms: int
    job_id: str | None = None
    """None when it happened to the queue itself."""
    prev: str | None = None
    """Where the job was before."""
    data: Any = None
    """What the handler told, on `progress`."""
    return_value: Any = None
    """What the handler returned, on `completed`."""
    failed_reason: str | None = None
    delay: int | None = None
    """On `delayed` the instant it is due, on `retry` the pause; both in milliseconds."""
    attempts_made: int | None = None
    worker: str | None = None
    fields: dict[str, str] = {}
    """What this event tells besides, as it stands in the stream."""
    corrupt: str | None = None
    """What could not be read; that part stays among the fields."""


def read_event(queue: str, id: bytes, entry: Mapping[bytes, bytes]) -> QueueEvent:
    """One entry of the stream; what makes no sense is told, never raised."""
    told = from_bullmq(queue, id, entry)
    reading = _Reading(told)
    return QueueEvent(
        id=id.decode(),
        name=told.name,
        at_ms=told.at_ms,
        job_id=told.subject,
        attempts_made=told.attempt,
        worker=told.worker,
        prev=reading.text("prev"),
        failed_reason=reading.text("failedReason"),
        delay=reading.number("delay"),
        data=reading.json("data") if told.name == "progress" else None,
        return_value=reading.json("returnvalue") if told.name == "completed" else None,
        fields=reading.left,
        corrupt="; ".join(reading.wrong) or None,
    )


class _Reading:
    """The fields of one event being taken apart, and what was wrong with them."""

    def __init__(self, told: Event) -> None:
        self.left = dict(told.fields)
        self.wrong = [told.corrupt] if told.corrupt else []

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
