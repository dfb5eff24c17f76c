"""Log lines: how a record is written to the stream, ours and those of other loggers alike."""

import logging
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from waystation.core.telemetry.allowlist import KEYS, Fields, harmless, masked, printable
from waystation.core.telemetry.traces import current_ids

Format: TypeAlias = Literal["json", "console"]
Redact: TypeAlias = Literal["off", "ours", "all"]

_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; whatever else it has was given as `extra`."""
_ORDER = {key: place for place, key in enumerate(KEYS)}
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}
_PLAIN = "\x1b[0m"


class EventMessage(str):
    """The message of a record of ours: a template with a place for each field."""

    __slots__ = ("event", "fields")

    event: str
    fields: Fields

    def __new__(cls, event: str, fields: Fields) -> "EventMessage":
        """Make the template from an event's name and its fields."""
        places = "".join(f" {name}=%s" for name in fields)
        message = super().__new__(cls, event.replace("%", "%%") + places if places else event)
        message.event = event
        message.fields = fields
        return message


class Lines(logging.Formatter):
    """Writes a record as one JSON object, or as text for people."""

    def __init__(self, format: Format, *, redact: Redact = "off", colours: bool = False) -> None:
        super().__init__()
        self._format = format
        self._redact = redact
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        """Write one record; whatever is in it, this does not raise."""
        line = self._line(record)
        return _json(line) if self._format == "json" else self._text(line)

    def _line(self, record: logging.LogRecord) -> Fields:
        base = {
            "level": record.levelname.lower(),
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
        }
        if ids := current_ids():
            base |= {"trace_id": ids[0], "span_id": ids[1]}
        ours = isinstance(record.msg, EventMessage)
        entry = self._ours(record) if ours else self._foreign(record)
        line = {**base, **entry, "logger": record.name}
        for name, value in _error(record, hidden=self._hides(ours=ours)):
            line.setdefault(name, masked(value) if ours else value)
        if not ours:
            line |= {key + "_" if key in line else key: value for key, value in self._extra(record)}
        return dict(sorted(line.items(), key=lambda item: _ORDER.get(item[0], len(_ORDER))))

    def _hides(self, *, ours: bool) -> bool:
        return self._redact == "all" or (ours and self._redact == "ours")

    def _ours(self, record: logging.LogRecord) -> Fields:
        assert isinstance(record.msg, EventMessage)  # noqa: S101
        fields = {"msg": harmless(record.msg.event), **record.msg.fields}
        if self._hides(ours=True):
            fields.pop("error", None)
        return fields

    def _foreign(self, record: logging.LogRecord) -> Fields:
        if self._hides(ours=False):
            return {"msg": str(record.msg).partition("\n")[0]}
        try:
            return {"msg": record.getMessage()}
        except Exception:
            return {"msg": f"{record.msg} {record.args!r}"}

    def _extra(self, record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
        if not self._hides(ours=False):
            yield from ((k, v) for k, v in vars(record).items() if k not in _ATTRIBUTES)

    def _text(self, line: Fields) -> str:
        level, message = str(line.pop("level")), printable(str(line.pop("msg")))
        colour = f"\x1b[{_COLOURS.get(level, '0')}m" if self._colours else ""
        head = f"{line.pop('ts')} [{colour}{level}{_PLAIN if colour else ''}] {message}"
        below = [line.pop(name) for name in ("traceback", "stack") if name in line]
        line["logger"] = line.pop("logger")
        fields = "".join(f" {name}={readable(value)}" for name, value in line.items())
        return head + fields + "".join(f"\n{printable(text)}" for text in below)


def readable(value: Any) -> str:
    """A value as `name=value` shows it: in quotes where it would not end with the next space."""
    text = printable(_str(value))
    bare = text and not any(char.isspace() or char in "\"'=" for char in text)
    return text if bare else msgspec.json.encode(text).decode()


def place_of(error: BaseException) -> str | None:
    """The file, line and function that raised an error."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    if not frames:
        return None
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}"


def _error(record: logging.LogRecord, *, hidden: bool) -> Iterator[tuple[str, str]]:
    if record.stack_info:
        yield "stack", record.stack_info
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if error is None:
        if record.exc_text and not hidden:
            yield "traceback", record.exc_text
        return
    yield "error_class", type(error).__name__
    if place := place_of(error):
        yield "error_at", place
    if not hidden:
        yield "traceback", "".join(traceback.format_exception(error)).rstrip("\n")


def _json(line: Fields) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=_str).decode()
    except Exception:
        # One value that JSON cannot write must not cost the whole line.
        return msgspec.json.encode({_str(k): _writable(v) for k, v in line.items()}).decode()


def _writable(value: Any) -> Any:
    try:
        msgspec.json.encode(value, enc_hook=_str)
    except Exception:
        return printable(_str(value))
    return msgspec.Raw(msgspec.json.encode(value, enc_hook=_str))


def _str(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} without text>"
