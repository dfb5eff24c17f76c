"""Results: how an attempt at a job ended, how far it is, and why a job is a dead letter."""

from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from waystation.core import codec
from waystation.core.durations import possible_instant, possible_timedelta
from waystation.core.errors import InvalidInput, WaystationError
from waystation.core.failure import message_of

T = TypeVar("T")

KEPT_S = 24 * 60 * 60
"""How long the end of a job is remembered."""


class CancelledByCaller(Exception):
    """The error in the result of a job that was cancelled."""


class JobError(msgspec.Struct, frozen=True, kw_only=True):
    """The error that a handler raised."""

    message: str = ""
    """Its message."""
    stack: str = ""
    """Its traceback."""
    name: str = ""
    """Its class."""


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the last attempt at a job ended."""

    success: bool
    """Whether the handler returned."""
    data: Any = None
    """What the handler returned."""
    error: JobError | None = None
    """What the handler raised; None when it returned."""
    completed_ms: float = msgspec.field(name="completedAt", default=0)
    """When the attempt ended, in milliseconds since 1970."""
    took_ms: float = msgspec.field(name="processingTime", default=0)
    """How long the handler ran, in milliseconds."""

    @property
    def completed_at(self) -> datetime | None:
        """When the attempt ended; None when that is not known."""
        return possible_instant(self.completed_ms) if self.completed_ms else None

    @property
    def took(self) -> timedelta:
        """How long the handler ran."""
        return possible_timedelta(self.took_ms)


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A job that failed for good, and why."""

    id: str = ""
    """The id of the job."""
    reason: str = ""
    """The code of the error, or `FAILED`."""
    error: JobError = JobError()
    """What the last attempt raised."""
    attempts: int = 0
    """How many attempts there were."""
    failed_ms: float = msgspec.field(name="at", default=0)
    """When it failed for good, in milliseconds since 1970."""
    worker: str = ""
    """The name of the worker that tried last."""

    @property
    def failed_at(self) -> datetime | None:
        """When it failed; None when that is not known."""
        return possible_instant(self.failed_ms) if self.failed_ms else None


class Progress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a handler is with a job."""

    percent: float
    """From 0 to 100."""
    message: str = ""
    """A few words for people."""
    data: Any = None
    """Whatever else the handler reported."""
    updated_ms: float = msgspec.field(name="updatedAt", default=0)
    """When it was reported, in milliseconds since 1970."""

    @property
    def updated_at(self) -> datetime | None:
        """When the handler reported it; None when that is not known."""
        return possible_instant(self.updated_ms) if self.updated_ms else None


def success(
    value: object, now_ms: int, took_s: float, *, limit: int = codec.PAYLOAD_LIMIT
) -> bytes:
    """The JSON of an attempt that succeeded."""
    # One is written for every job, so only the part that is not ours is looked through.
    return b'{"success":true,"data":%b,"completedAt":%d,"processingTime":%d}' % (
        codec.encode_result(value, limit),
        now_ms,
        round(took_s * 1000),
    )


def failure(error: BaseException, now_ms: int, took_s: float, *, trace: str = "") -> bytes:
    """The JSON of a failed attempt."""
    described = {"message": message_of(error), "stack": trace, "name": _name(error)}
    return codec.encode(
        {
            "success": False,
            "error": described,
            "completedAt": now_ms,
            "processingTime": round(took_s * 1000),
        }
    )


def dead_letter_meta(error: BaseException, attempts: int, now_ms: int, worker: str) -> bytes:
    """The JSON of the reason why a job is a dead letter."""
    reason = error.code if isinstance(error, WaystationError) else "FAILED"
    return codec.encode(
        {
            "reason": reason,
            "error": {"name": _name(error), "message": message_of(error, 1000)},
            "attempts": attempts,
            "at": now_ms,
            "worker": worker,
        }
    )


def foreign_letter(id: str, data: bytes | None, result: bytes | None) -> DeadLetter:
    """Internal: what is known of a dead letter that another client has made."""
    job, ended = _read(data, _Attempts), _read(result, Result)
    if ended is None or ended.error is None:
        return DeadLetter(id=id, attempts=job.attempts if job else 0)
    return DeadLetter(
        id=id,
        reason="FAILED",
        error=ended.error,
        attempts=job.attempts if job else 0,
        failed_ms=ended.completed_ms,
    )


class _Attempts(msgspec.Struct, frozen=True):
    attempts: int = 0


def _read(raw: bytes | None, type: type[T]) -> T | None:
    try:
        return codec.decode(raw, type) if raw else None
    except InvalidInput:
        return None


def _name(error: BaseException) -> str:
    return type(error).__name__
