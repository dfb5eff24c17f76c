"""The reasons of failed attempts."""

import errno
from enum import StrEnum

from waystation.core.errors import Cancelled, Malformed, NoHandler, TimedOut, Unrecoverable


class Reason(StrEnum):
    """Why an attempt failed; counted in the metrics and stored with a dead letter."""

    MALFORMED = "MALFORMED"
    VANISHED = "VANISHED"
    UNREADABLE = "UNREADABLE"
    NO_HANDLER = "NO_HANDLER"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    UNRECOVERABLE = "UNRECOVERABLE"
    INFRASTRUCTURE = "INFRASTRUCTURE"
    HANDLER_ERROR = "HANDLER_ERROR"
    ABANDONED = "ABANDONED"


FINAL = frozenset({Reason.MALFORMED, Reason.VANISHED, Reason.NO_HANDLER, Reason.UNRECOVERABLE})
"""Reasons that a retry would not change."""

_OF_THE_FILE = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EFBIG,
        errno.EEXIST,
        errno.ENOTEMPTY,
    }
)


def reason_of(error: BaseException) -> Reason:
    """The reason of a failure, from its error."""
    match error:
        case NoHandler():
            return Reason.NO_HANDLER
        case Malformed():
            return Reason.MALFORMED
        case Unrecoverable():
            return Reason.UNRECOVERABLE
        case Cancelled():
            return Reason.CANCELLED
        case TimedOut():
            return Reason.TIMED_OUT
        case FileNotFoundError():
            return Reason.VANISHED
        case OSError() if error.errno in _OF_THE_FILE:
            return Reason.UNREADABLE
        case UnicodeError():
            return Reason.UNREADABLE
        case OSError() | TimeoutError():
            return Reason.INFRASTRUCTURE
        case _:
            return Reason.HANDLER_ERROR


def counts_for_breaker(reason: Reason) -> bool:
    """True when a breaker counts it; a bad file says nothing about the disk it is on."""
    return reason in (Reason.INFRASTRUCTURE, Reason.TIMED_OUT)
