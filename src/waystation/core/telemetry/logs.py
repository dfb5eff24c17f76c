"""Logging: event names with fields, as ordinary records of the standard library.

`log.warning("job_retried", job_id="7", attempt=2)` makes a record that reads
`job_retried job_id=7 attempt=2` in any handler, has the fields as attributes, and carries the error
as `exc_info`. The fields of our own records are named in one table, and their values are plain.
`configure` is for the commands: it writes the records of the whole process to one stream, and what
other loggers say goes there whole.
"""

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Literal, Self, TextIO

import msgspec

from waystation.core.errors import InvalidOption, WaystationError
from waystation.core.failure import message_of
from waystation.core.telemetry.allowlist import Fields, Gate
from waystation.core.telemetry.lines import EventMessage, Format, Lines, Redact, place_of, readable

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


class Outage:
    """Logs that the store cannot be used: once at the beginning, then once a minute."""

    def __init__(self, log: Logger, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._monotonic = monotonic
        self._since: float | None = None
        self._said = 0.0

    def goes_on(self, error: BaseException, **fields: str | int) -> None:
        """The store has been asked in vain."""
        now = self._monotonic()
        if self._since is None:
            self._since = now
        elif now - self._said < _REMIND_S:
            return
        self._said = now
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
        self._log.warning("store_back", duration_ms=away_ms)
