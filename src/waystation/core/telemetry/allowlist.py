"""What a log line may hold."""

import re
from collections.abc import Callable, MutableMapping
from typing import Any, TypeAlias

from waystation.core.errors import InvalidInput

Event: TypeAlias = MutableMapping[str, Any]
"""A log line on its way to the stream."""

KEYS = {
    "level": "how bad it is",
    "ts": "when, in UTC",
    "msg": "the sentence",
    "trace_id": "the trace it belongs to",
    "span_id": "the span it belongs to",
    "job_id": "the job, file or visitor",
    "queue": "the queue",
    "worker_id": "the worker",
    "request_id": "the HTTP request",
    "namespace": "the prefix of the keys",
    "line": "bullmq, routing, files or waitingroom",
    "logger": "the module that speaks",
    "error_class": "the class of an error",
    "error_code": "the one name of an error of ours",
    "error_at": "the file, line and function that raised it",
    "attempt": "the number of the attempt",
    "count": "how many",
    "delay_ms": "the pause before the next try",
    "duration_ms": "how long it took",
    "duty": "the duty whose pass this is",
    "script": "the script that ran",
    "state": "the state something is in now",
    "signal": "the signal that came",
    "server": "the store's kind and version",
    "port": "the port that is listened on",
}
"""Every key a log line may have, and what it means."""


class Gate:
    """Lets through only the keys of the table, with plain values, in the table's order."""

    def __init__(self) -> None:
        self.strict = False
        self.on_rejected: Callable[[], None] = lambda: None

    def check(self, logger: Any, method: str, event: Event) -> Event:
        """Our own logs: a wrong key is a mistake that tests should see."""
        if self.strict and (wrong := _complaint(event)):
            raise InvalidInput(wrong)
        return self.drop(logger, method, event)

    def drop(self, logger: Any, method: str, event: Event) -> Event:
        """A log line never stops the work, so what must not be told is left out."""
        for key in [key for key, value in event.items() if _rejected(key, value)]:
            del event[key]
            self.on_rejected()
        return {key: _harmless(event[key]) for key in _ORDER if key in event}


# What structlog's formatter adds for itself, and removes again.
_META = ("_record", "_from_structlog")
_ORDER = (*KEYS, *_META)
_PLAIN = (str, int, float, bool, type(None))
_CREDENTIALS = re.compile(r"://\S*@")
_LONGEST = 300


def _rejected(key: str, value: object) -> bool:
    return key not in _ORDER or (key in KEYS and not isinstance(value, _PLAIN))


def _complaint(event: Event) -> str | None:
    for key, value in event.items():
        if key not in _ORDER:
            return f"log keys must be in the table telemetry.allowlist.KEYS, got {key!r}"
        if _rejected(key, value):
            return f"log values must be plain, got {type(value).__name__} for {key!r}"
    return None


def _harmless(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # Masked before it is cut, lest the cut take the `@` that gives a password away.
    text = _CREDENTIALS.sub("://***@", value[: 10 * _LONGEST])[:_LONGEST]
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
