"""Sentences about what happens, as lines of JSON that hold nothing but allowed keys.

A log call is a sentence in the present tense and fields: `log.info("recovers work", count=3)`.
Payloads and secrets stay out by construction: fields are named in one table, their values are
plain, and of an error only its class and its place are told.
"""

import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.dev import ConsoleRenderer, plain_traceback
from structlog.processors import JSONRenderer
from structlog.stdlib import BoundLogger, ProcessorFormatter
from structlog.typing import Processor

from waystation.core.errors import InvalidOption, WaystationError
from waystation.core.telemetry.allowlist import Event, Gate
from waystation.core.telemetry.traces import current_ids

_gate = Gate()
_encode = msgspec.json.Encoder().encode

about = structlog.contextvars.bound_contextvars
"""Fields for every log line within a `with` block, in whatever module it is written."""


class Logger(BoundLogger):
    """A logger whose debug lines cost next to nothing while nobody wants them."""

    def debug(self, event: str | None = None, *args: Any, **fields: Any) -> Any:
        """Tell what only somebody looking for a mistake wants to know."""
        if self._logger.isEnabledFor(logging.DEBUG):
            return super().debug(event, *args, **fields)
        return None


def get_logger(name: str) -> Logger:
    """The logger of one module."""
    lazy = structlog.wrap_logger(
        logging.getLogger(name), processors=_CHAIN, wrapper_class=Logger, context_class=dict
    )
    return lazy.bind()


def configure(
    *,
    level: str = "INFO",
    format: Literal["json", "console"] = "json",
    stream: TextIO | None = None,
    strict: bool = False,
    on_rejected: Callable[[], None] = lambda: None,
) -> None:
    """Send all logs of this process to one stream; call again to replace what was set up.

    A key that is not in the table raises when strict, and is otherwise dropped and counted by
    `on_rejected`.
    """
    if level.upper() not in logging.getLevelNamesMapping():
        raise InvalidOption(f"log level must be DEBUG, INFO, WARNING or ERROR, got {level!r}")
    _gate.strict = strict
    _gate.on_rejected = on_rejected
    out = stream or sys.stderr
    handler = _Handler(out)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[_foreign_sentence, *_FACTS, _gate.drop],
            processors=[ProcessorFormatter.remove_processors_meta, _renderer(format, out)],
            use_get_message=False,
        )
    )
    root = logging.getLogger()
    root.handlers = [kept for kept in root.handlers if not isinstance(kept, _Handler)]
    root.addHandler(handler)
    root.setLevel(level.upper())


class _Handler(logging.StreamHandler[TextIO]):
    """The handler that `configure` put in place, and may replace."""


def _tell_error(logger: Any, method: str, event: Event) -> Event:
    # Only class and place: the message and the locals of an error may hold a payload.
    event.pop("stack_info", None)
    error = _error_of(event.pop("exc_info", None))
    if error is None:
        return event
    event.setdefault("error_class", type(error).__name__)
    if isinstance(error, WaystationError):
        event.setdefault("error_code", error.code)
    if frames := traceback.extract_tb(error.__traceback__, limit=-1):
        last = frames[-1]
        event.setdefault("error_at", f"{Path(last.filename).name}:{last.lineno} {last.name}")
    return event


def _error_of(exc_info: Any) -> BaseException | None:
    match exc_info:
        case BaseException():
            return exc_info
        case (_, BaseException() as error, _):
            return error
        case None | False:
            return None
        case _:
            return sys.exc_info()[1]


def _tell_trace(logger: Any, method: str, event: Event) -> Event:
    if ids := current_ids():
        event.setdefault("trace_id", ids[0])
        event.setdefault("span_id", ids[1])
    return event


def _foreign_sentence(logger: Any, method: str, event: Event) -> Event:
    # Other libraries format their values into the text; the bare template's first line is safe.
    event["event"] = str(event["event"]).partition("\n")[0]
    return event


def _renderer(format: Literal["json", "console"], stream: TextIO) -> Processor:
    if format == "json":
        return JSONRenderer(serializer=_json)
    return ConsoleRenderer(
        event_key="msg",
        timestamp_key="ts",
        colors=stream.isatty(),
        sort_keys=False,
        exception_formatter=plain_traceback,
    )


def _json(event: Event, **_: Any) -> str:
    # Not the strict codec: a number that JSON cannot write must not cost the whole line.
    return _encode(event).decode()


_FACTS: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    structlog.processors.EventRenamer("msg"),
    _tell_error,
    _tell_trace,
]
_CHAIN: list[Processor] = [
    structlog.stdlib.filter_by_level,
    *_FACTS,
    _gate.check,
    ProcessorFormatter.wrap_for_formatter,
]
