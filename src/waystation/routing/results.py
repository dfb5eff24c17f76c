"""What is kept of an attempt: its result, and why a job is dead."""

from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.errors import WaystationError
from waystation.core.failure import message_of

KEPT_S = 24 * 60 * 60
"""How long the end of a job is remembered."""


class CancelledByCaller(Exception):
    """What the result of a job says that somebody stopped."""


class JobError(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler raised."""

    message: str = ""
    stack: str = ""
    name: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the last attempt at a job ended."""

    success: bool
    data: Any = None
    error: JobError | None = None
    completed_at: float = 0
    """Milliseconds since the epoch."""
    processing_time: float = 0
    """Milliseconds that the handler took."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is in the dead letter list."""

    id: str = ""
    reason: str = ""
    error: JobError = JobError()
    attempts: int = 0
    at: float = 0
    worker: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a handler says it is."""

    percent: float
    message: str = ""
    data: Any = None
    updated_at: float = 0


def success(
    value: object, now_ms: int, took_s: float, *, limit: int = codec.PAYLOAD_LIMIT
) -> bytes:
    """The JSON of an attempt that ended well."""
    # One is written for every job, so only the part that is not ours is looked through.
    return b'{"success":true,"data":%b,"completedAt":%d,"processingTime":%d}' % (
        codec.encode_result(value, limit),
        now_ms,
        round(took_s * 1000),
    )


def failure(error: BaseException, now_ms: int, took_s: float, *, trace: str = "") -> bytes:
    """The JSON of an attempt that did not."""
    told = {"message": message_of(error), "stack": trace, "name": _name(error)}
    return codec.encode(
        {
            "success": False,
            "error": told,
            "completedAt": now_ms,
            "processingTime": round(took_s * 1000),
        }
    )


def about_the_dead(error: BaseException, attempts: int, now_ms: int, worker: str) -> bytes:
    """The JSON that says why a job is given up."""
    reason = error.code if isinstance(error, WaystationError) else "FAILED"
    return codec.encode(
        {
            "reason": reason,
            "error": {"name": _name(error), "message": message_of(error)[:1000]},
            "attempts": attempts,
            "at": now_ms,
            "worker": worker,
        }
    )


def _name(error: BaseException) -> str:
    return type(error).__name__
