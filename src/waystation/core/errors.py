"""Errors: everything waystation raises, in one tree. The public address is `waystation.errors`.

    WaystationError
    ├─ InvalidInput             a value that cannot be accepted
    │  ├─ InvalidOption
    │  ├─ InvalidSetting
    │  ├─ InvalidUrl
    │  ├─ InvalidToken
    │  ├─ PayloadTooLarge
    │  ├─ BrokenModule
    │  └─ Malformed
    │     └─ UnreadableData     is also Unrecoverable
    │        └─ KeyMissing
    ├─ StoreError               the server, or the connection to it
    │  ├─ StoreUnreachable
    │  ├─ StoreUnsuitable
    │  ├─ StoreBusy
    │  ├─ NotReplicated
    │  ├─ WrongType
    │  └─ ScriptFailed
    ├─ WorkError                one job, or one step with it
    │  ├─ NotAdded
    │  ├─ GroupFull
    │  ├─ NotFound
    │  ├─ WrongState
    │  ├─ LeaseLost
    │  ├─ NotLeader
    │  ├─ JobFailed
    │  ├─ TimedOut
    │  ├─ Cancelled
    │  ├─ ProcessDied
    │  ├─ CircuitOpen
    │  ├─ RateLimited
    │  │  └─ JobRateLimited     ┐
    │  ├─ JobDelayed            │
    │  ├─ JobWaiting            │ raised by a handler to say
    │  ├─ JobWaitingForChildren │ what becomes of its job
    │  └─ Unrecoverable         ┘
    │     ├─ Expired
    │     ├─ InvalidResult
    │     └─ NoHandler
    └─ HistoryError             Spark, or the history that it keeps
       ├─ JavaMissing
       ├─ SparkNotStarted
       ├─ SparkFailed
       ├─ JavaDied
       ├─ HeapExhausted
       ├─ DiskFull
       ├─ Overtaken
       ├─ HistoryCut
       ├─ WrongSchema
       └─ TablesDisagree

An error's code is its name outside Python, `LEASE_LOST` for LeaseLost: scripts reply with it,
metrics are labelled with it, HTTP answers carry it, the reference lists it.
"""

import re
import reprlib
from collections.abc import Mapping
from typing import Any, ClassVar


class WaystationError(Exception):
    """The root: every error that waystation raises on purpose."""

    code: ClassVar[str] = "WAYSTATION_ERROR"
    by_code: ClassVar[dict[str, type["WaystationError"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A class of somebody else's keeps the code of ours that it is a kind of.
        if cls.__module__ == __name__:
            cls.code = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).upper()
        WaystationError.by_code.setdefault(cls.code, cls)

    @classmethod
    def from_reply(cls, text: str) -> "WaystationError | None":
        """Read a script's error reply, `CODE and a sentence`; None when the code is not ours."""
        code, _, sentence = text.partition(" ")
        kind = cls.by_code.get(code.removeprefix("-"))
        return kind(sentence) if kind else None


# Input


class InvalidInput(WaystationError):
    """A value that waystation cannot accept."""


class InvalidOption(InvalidInput):
    """An option outside what is allowed."""


class InvalidSetting(InvalidInput):
    """A setting, from a file or the environment, that is unknown or outside what is allowed."""


class InvalidUrl(InvalidInput):
    """A store address that cannot be read."""


class InvalidToken(InvalidInput):
    """A waiting room's token that is forged, expired, revoked, or of another kind or room."""


class PayloadTooLarge(InvalidInput):
    """More bytes than the limit allows."""


class BrokenModule(InvalidInput):
    """The user's module cannot be imported; the message has the file and the line."""


class Malformed(InvalidInput):
    """Bytes that cannot be read as what they should be."""


# The store


class StoreError(WaystationError):
    """The store refused or failed."""

    for_good = False
    """Whether it is in vain to try again, because whoever was asked has been closed."""


START_THE_STORE = "start it, or name another in WAYSTATION_STORE__URL"
"""What helps against a StoreUnreachable."""


class StoreUnreachable(StoreError):
    """No answer from the store; whether the call took effect is unknown."""

    never_sent = False
    """Whether the call surely took no effect, because there was no connection to send it by."""


class StoreUnsuitable(StoreError):
    """The store answers, but its configuration makes it unsafe to use."""


class StoreBusy(StoreError):
    """The store cannot accept this call now; nothing happened, and it may be tried again."""


class NotReplicated(StoreError):
    """The store has written it, but no replica has confirmed that in time."""

    def __init__(self, message: str, stored: Any = None) -> None:
        super().__init__(message)
        self.stored = stored
        """The result of the call, such as the ids of what was added."""

    def __str__(self) -> str:
        return f"{super().__str__()}; stored: {reprlib.repr(self.stored)}"


class WrongType(StoreError):
    """A key holds another type than it should; nothing was written, the key needs repair."""


class ScriptFailed(StoreError):
    """A script stopped with an error of its own."""


# Jobs


class WorkError(WaystationError):
    """An error about one job, or about one step with it."""


class NotAdded(WorkError):
    """Some of many jobs were refused; the others have been added."""

    def __init__(self, refused: Mapping[int, WaystationError], added: list[Any]) -> None:
        place, reason = next(iter(refused.items()))
        super().__init__(
            f"{len(refused)} of {len(added)} jobs were refused, the first at {place}: {reason}"
        )
        self.refused = dict(refused)
        """The reasons, by the position of the job among those given."""
        self.added = added
        """The jobs in the order given; None for those refused."""


class GroupFull(WorkError):
    """As many jobs of a group wait as may, so another one was refused."""


class NotFound(WorkError):
    """There is no such job."""


class WrongState(WorkError):
    """The job is not in a state that allows this step."""


class LeaseLost(WorkError):
    """Another worker holds the job now; this worker's result is refused."""


class NotLeader(WorkError):
    """Another process leads now; this step is its to do."""


class JobFailed(WorkError):
    """The job that was waited for has failed for good; the message is its reason."""


class TimedOut(WorkError):
    """A handler ran longer than its timeout."""


class Cancelled(WorkError):
    """The job was cancelled on request."""


class ProcessDied(WorkError):
    """The process that ran a handler ended before the handler did."""


class CircuitOpen(WorkError):
    """Too many calls have failed lately; nothing is tried until the pause is over."""


class RateLimited(WorkError):
    """The limit is used up for now."""

    def __init__(self, message: str = "the limit is used up", retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class JobRateLimited(RateLimited):
    """Raised by a handler: the job waits at the head of its queue until the rate limit is over."""


class JobDelayed(WorkError):
    """Raised by a handler that has delayed its job; the attempt does not count."""


class JobWaiting(WorkError):
    """Raised by a handler that has put its job back into the queue; the attempt does not count."""


class JobWaitingForChildren(WorkError):
    """Raised by a handler whose job waits for its children; the attempt does not count."""


class Unrecoverable(WorkError):
    """Raised by a handler: the job fails for good, whatever attempts are left."""


class Expired(Unrecoverable):
    """A job that had not begun when it expired, or had not ended at its deadline."""


class UnreadableData(Malformed, Unrecoverable):
    """The data of a job is not JSON; the job fails for good, because its data will not change."""


class KeyMissing(UnreadableData):
    """A payload needs a key that this process does not have, while others may have it already."""


class InvalidResult(Unrecoverable):
    """The result of a handler cannot be stored; running it again would not change that."""


class NoHandler(Unrecoverable):
    """No handler is registered for such a job."""


# The history


class HistoryError(WaystationError):
    """An error about the history, or about Spark, which keeps it."""


class JavaMissing(HistoryError):
    """There is no Java that Spark can run on."""


class SparkNotStarted(HistoryError):
    """Spark could not be started; the message ends with Spark's own."""


class SparkFailed(HistoryError):
    """Spark could not finish a job; the message ends with Spark's own."""


class JavaDied(HistoryError):
    """The Java process that Spark runs in has ended; what was committed is whole."""


class HeapExhausted(HistoryError):
    """Spark needs more memory than its Java may use; what was committed is whole."""


class DiskFull(HistoryError):
    """No space is left on the disk; what was committed before is whole."""


class Overtaken(HistoryError):
    """Another run has changed the history meanwhile; what was computed is out of date."""


class HistoryCut(HistoryError):
    """A table's log no longer reaches back far enough for what is to be read from it."""


class WrongSchema(HistoryError):
    """A table's columns are not those that this version writes; nothing was written."""


class TablesDisagree(HistoryError):
    """A table lacks rows that another table proves it must have, or has too many."""
