"""Why an attempt failed: one of a few reasons, and whether the machine is to blame."""

import errno
from enum import StrEnum

from waystation.core.errors import Cancelled, Malformed, NoHandler, TimedOut, Unrecoverable


class Reason(StrEnum):
    """Every reason that is counted and kept with a dead letter."""

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
"""What another try would not change."""

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
    """Tell why an attempt failed."""
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


def blames_the_machine(reason: Reason) -> bool:
    """Whether a breaker should count it; a bad file says nothing about the disk it lies on."""
    return reason in (Reason.INFRASTRUCTURE, Reason.TIMED_OUT)
