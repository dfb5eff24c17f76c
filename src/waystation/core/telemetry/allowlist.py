"""The fields that our own log records may have."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from waystation.core.errors import InvalidInput

Fields: TypeAlias = dict[str, Any]
"""What a record says besides its event name."""

KEYS = {
    "level": "how bad it is",
    "ts": "when, in UTC",
    "msg": "the event's name",
    "trace_id": "the trace it belongs to",
    "span_id": "the span it belongs to",
    "job_id": "the job, file or visitor",
    "job_name": "the job's name or type",
    "queue": "the queue",
    "worker_id": "the worker",
    "request_id": "the HTTP request",
    "namespace": "the prefix of the keys",
    "product": "bullmq, routing, files or waitingroom",
    "logger": "the module that speaks",
    "attempt": "the number of the attempt",
    "count": "how many",
    "delay_ms": "the pause before the next try",
    "duration_ms": "how long it took",
    "limit_ms": "how long it is waited for at most",
    "duty": "the duty whose pass this is",
    "listener": "the event that a listener was called for",
    "script": "the script that ran",
    "webhook": "the id of the webhook",
    "tool": "the tool that an assistant called",
    "operator": "the name of an operator",
    "action": "what an operator did",
    "state": "the state something is in now",
    "signal": "the signal that came",
    "server": "the store's address, or its kind and version",
    "port": "the port that is listened on",
    "process_number": "the number of a process among several that do the same",
    "exit_code": "the exit code of a process",
    "error_class": "the class of an error",
    "error_code": "the one name of an error of ours",
    "error": "what the error says",
    "error_at": "the file, line and function that raised it",
    "hint": "what helps",
    "traceback": "the error's whole traceback",
}
"""Every field that a line of ours may have, and what it means."""


class Gate:
    """Lets through only the fields of the table, with plain values, in the table's order."""

    def __init__(self) -> None:
        self.strict = False
        self.on_rejected: Callable[[], None] = lambda: None

    def check(self, fields: Mapping[str, Any]) -> Fields:
        """Drop what must not be written; strictly it raises, because it is a mistake of ours."""
        for name, value in fields.items():
            if wrong := _complaint(name, value):
                if self.strict:
                    raise InvalidInput(wrong)
                self.on_rejected()
        return {
            name: harmless(fields[name], longest=_LONGEST_ERROR if name == "error" else _LONGEST)
            for name in KEYS
            if name in fields and _complaint(name, fields[name]) is None
        }


_PLAIN = (str, int, float, bool, type(None))
_CREDENTIALS = re.compile(r"://\S*@")
_LONGEST = 300
_LONGEST_ERROR = 2000
_WRITTEN = frozenset({"level", "ts", "msg", "logger", "traceback"})
"""What every line gets by itself, so that nobody may give it."""


def harmless(value: Any, *, longest: int = _LONGEST) -> Any:
    """A plain value without passwords, and without an end that nobody would read."""
    if not isinstance(value, str):
        return value
    # Masked before it is cut, lest the cut take the `@` that gives a password away.
    return printable(masked(value[: 10 * longest])[:longest])


def masked(text: str) -> str:
    """The text without the passwords of the addresses in it."""
    return _CREDENTIALS.sub("://***@", text)


def printable(text: str) -> str:
    """The text in characters that every stream takes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _complaint(name: str, value: object) -> str | None:
    if name not in KEYS or name in _WRITTEN:
        return f"log keys must be in the table telemetry.allowlist.KEYS, got {name!r}"
    if not isinstance(value, _PLAIN):
        return f"log values must be plain, got {type(value).__name__} for {name!r}"
    return None
