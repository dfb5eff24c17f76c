"""Logging: event names with fields, as ordinary records of the standard library.

`log.warning("job_retried", job_id="7", attempt=2)` makes a record that reads
`job_retried job_id=7 attempt=2` in any handler, has the fields as attributes, and carries the error
as `exc_info`. The fields of our own records are named in one table, and their values are plain.
`configure` is for the commands: it writes the records of the whole process to one stream, and what
other loggers say goes there whole.
"""

import logging
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self, TextIO, TypeAlias

import msgspec

from waystation.core.errors import InvalidInput, InvalidOption, WaystationError
from waystation.core.failure import message_of
from waystation.core.telemetry.traces import current_ids

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
        return f"log keys must be in the table telemetry.logs.KEYS, got {name!r}"
    if not isinstance(value, _PLAIN):
        return f"log values must be plain, got {type(value).__name__} for {name!r}"
    return None


Format: TypeAlias = Literal["json", "console"]
Redact: TypeAlias = Literal["off", "ours", "all"]

_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; whatever else it has was given as `extra`."""
_ORDER = {key: place for place, key in enumerate(KEYS)}
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}
_UNCOLOURED = "\x1b[0m"


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
        head = f"{line.pop('ts')} [{colour}{level}{_UNCOLOURED if colour else ''}] {message}"
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


_gate = Gate()


class Logger:
    """The logger of one module, whose calls take an event name and fields."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, fields: Fields | None = None) -> None:
        self._logger = logger
        self._fields = fields or {}

    def bind(self, **fields: Any) -> Self:
        """A logger that adds these fields to every record."""
        return type(self)(self._logger, {**self._fields, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        """Report what only somebody looking for a mistake wants to know."""
        self._log(logging.DEBUG, event, None, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Report what happens in the normal course of things."""
        self._log(logging.INFO, event, None, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Report what went wrong and is dealt with."""
        self._log(logging.WARNING, event, None, fields)

    def error(self, event: str, error: BaseException | None = None, /, **fields: Any) -> None:
        """Report what went wrong for good, with the error's traceback."""
        self._log(logging.ERROR, event, error, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Report the exception that is being handled, with its traceback."""
        self._log(logging.ERROR, event, sys.exc_info()[1], fields)

    def _log(self, level: int, event: str, error: BaseException | None, fields: Fields) -> None:
        if not self._logger.isEnabledFor(level):
            return
        about = _about(error) if error is not None else {}
        fields = _gate.check({**self._fields, **about, **fields})
        message = EventMessage(event, fields)
        values = [readable(value) for value in fields.values()]
        self._logger.log(
            level, message, *values, exc_info=error, extra={**fields}, stacklevel=_CALLER
        )


def get_logger(name: str) -> Logger:
    """The logger of one module."""
    return Logger(logging.getLogger(name))


def describe(error: BaseException) -> dict[str, str]:
    """The fields for an error that is reported without its traceback."""
    about = {**_about(error), "error": message_of(error)}
    if place := place_of(error):
        about["error_at"] = place
    return about


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How the records of a process are written."""

    level: str = "INFO"
    format: Format = "json"
    redact: Redact = "off"


_configured: Config | None = None


def configured() -> Config | None:
    """What `configure` was last called with; a child process takes it over."""
    return _configured


def configure(
    *,
    level: str = "INFO",
    format: Literal["json", "console"] = "json",
    redact: Redact = "off",
    stream: TextIO | None = None,
    strict: bool = False,
    on_rejected: Callable[[], None] = lambda: None,
) -> None:
    """Write all records of this process to one stream; call again to replace what was set up.

    A field of ours that is not in the table raises when strict, and is otherwise dropped and
    counted by `on_rejected`.
    """
    global _configured
    if level.upper() not in logging.getLevelNamesMapping():
        raise InvalidOption(f"log level must be DEBUG, INFO, WARNING or ERROR, got {level!r}")
    _gate.strict = strict
    _configured = Config(level=level.upper(), format=format, redact=redact)
    count_rejected(on_rejected)
    out = stream or sys.stderr
    handler = _Handler(out)
    handler.setFormatter(Lines(format, redact=redact, colours=out.isatty()))
    root = logging.getLogger()
    root.handlers = [kept for kept in root.handlers if not isinstance(kept, _Handler)]
    root.addHandler(handler)
    root.setLevel(level.upper())


def count_rejected(on_rejected: Callable[[], None]) -> None:
    """Call this for each field of ours that is dropped."""
    _gate.on_rejected = on_rejected


class _Handler(logging.StreamHandler[TextIO]):
    """The handler that `configure` put in place, and may replace."""


def _about(error: BaseException) -> dict[str, str]:
    about = {"error_class": type(error).__name__}
    if isinstance(error, WaystationError):
        about["error_code"] = error.code
    return about


# Above `_log` and the method that was called.
_CALLER = 3


_REMIND_S = 60.0


class Reminders:
    """When to log what goes on: at once, then once a minute; another sentence at once, too."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said: tuple[str, float] | None = None

    def is_due(self, sentence: str = "") -> bool:
        """Whether to log it now."""
        now = self._monotonic()
        if self._said and self._said[0] == sentence and now - self._said[1] < _REMIND_S:
            return False
        self._said = sentence, now
        return True

    def reset(self) -> None:
        """It is over: the next time is logged at once."""
        self._said = None


class Outage:
    """Logs that the store cannot be used: once at the beginning, then once a minute."""

    def __init__(self, log: Logger, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._monotonic = monotonic
        self._reminders = Reminders(monotonic)
        self._since: float | None = None

    def goes_on(self, error: BaseException, **fields: str | int) -> None:
        """The store has been asked in vain."""
        now = self._monotonic()
        if self._since is None:
            self._since = now
        if not self._reminders.is_due():
            return
        about = describe(error)
        about.pop("error_at", None)  # Where we translated what the client raised.
        away_ms = round((now - self._since) * 1000)
        self._log.warning("store_unreachable", duration_ms=away_ms, **about, **fields)

    def is_over(self) -> None:
        """The store has answered."""
        if self._since is None:
            return
        away_ms = round((self._monotonic() - self._since) * 1000)
        self._since = None
        self._reminders.reset()
        self._log.warning("store_back", duration_ms=away_ms)
