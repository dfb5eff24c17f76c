"""The reasons of failed attempts."""

import errno
import os
from enum import StrEnum
from pathlib import PurePath

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


def reason_of(error: BaseException, path: PurePath) -> Reason:
    """The reason of a failure, from its error; `path` is the file that was worked on."""
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
        case FileNotFoundError() | PermissionError() if _names_another(error, path):
            return Reason.HANDLER_ERROR
        case FileNotFoundError():
            return Reason.VANISHED
        case OSError() if error.errno in _OF_THE_FILE:
            return Reason.UNREADABLE
        case UnicodeEncodeError() if _can_be_opened(path):
            return Reason.HANDLER_ERROR
        case UnicodeError():
            return Reason.UNREADABLE
        case OSError() | TimeoutError():
            return Reason.INFRASTRUCTURE
        case _:
            return Reason.HANDLER_ERROR


def _names_another(error: OSError, path: PurePath) -> bool:
    """True when something else is missing or locked: a program, a directory for results.

    Only the last part counts: a handler may reach the file by another way than we do.
    """
    named: object = error.filename
    if not isinstance(named, str | bytes | PurePath):
        return False
    return error.filename2 is not None or PurePath(os.fsdecode(named)).name != path.name


def _can_be_opened(path: PurePath) -> bool:
    """True when the path is a name of a file, so that what could not be encoded is another text."""
    try:
        return bool(os.fsencode(path))
    except UnicodeEncodeError:
        return False


def counts_for_breaker(reason: Reason) -> bool:
    """True when a breaker counts it; a bad file says nothing about the disk it is on."""
    return reason in (Reason.INFRASTRUCTURE, Reason.TIMED_OUT)
