"""Fields: a job as its hash in Redis has it, and the states it can be in."""

# The functions at the end of the file are for the package alone, as the underscores say.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

from waystation.bullmq.options import Group, StoredOptions, stored_options
from waystation.bullmq.payloads.envelope import BEGINNING
from waystation.bullmq.terms import MARK
from waystation.core import codec
from waystation.core.durations import instant, possible_instant, possible_timedelta
from waystation.core.errors import Malformed, UnreadableData

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Data = TypeVar("Data", default=Any)
    Result = TypeVar("Result", default=Any)
else:
    from typing import TypeVar

    Data = TypeVar("Data")
    Result = TypeVar("Result")

FAILING = b"failing"
"""The field with the reason for which a job is only undone any more."""
CAUSE = b"cause"
"""The field with what made a job fail, if it was no error of its handler: a cause, `:` and the
millisecond of the end it belongs to; without one while the job is still to be undone."""
STALLED_TOO_OFTEN = "job stalled more than allowable limit"
"""The whole reason that clients of BullMQ give a job which has lost too many workers."""
COUNTED = b"counted"
"""Added to the fields of a held job that were read after its start had been counted."""

OPENED_RESULT = b"opened result"
"""Added to the fields of a held job whose result is stored in another form than it was returned."""

_UNREAD: Any = object()


class FailureCause(StrEnum):
    """What made a job fail that is no error of its handler."""

    NO_HANDLER = "NO_HANDLER"
    CANCELLED = "CANCELLED"
    STALLED = "STALLED"


class Changed(NamedTuple):
    """Fields of a job that a call has changed."""

    fields: dict[bytes, bytes]
    is_all: bool
    """True when the job has no others."""


class JobFields(Generic[Data, Result]):
    """A job as it was when it was read: the attributes that `Job` and `SyncJob` share."""

    # Fields are decoded when asked for: most handlers look at the data and nothing else.
    __slots__ = ("_data", "_fetched", "_fields", "id", "token")

    def __init__(self, id: str, fields: dict[bytes, bytes], token: str | None = None) -> None:
        self.id = id
        self.token = token
        """The lock's token, while a worker holds the job."""
        self._fields = fields
        self._data: Any = _UNREAD

    @property
    def name(self) -> str:
        """The kind of job; a worker may have a handler for each."""
        return self._text(b"name") or ""

    @property
    def data(self) -> Data:
        """The data that the producer gave the job."""
        if self._data is _UNREAD:
            try:
                stored = codec.decode(self._fields.get(b"data", b"{}"))
            except Malformed as error:
                raise UnreadableData(f"the data of job {self.id}: {error}") from None
            self._data = self._opened(stored)
        return self._data

    @property
    def data_text(self) -> str:
        """The data as it is stored, for data that is not JSON."""
        return self._text(b"data") or "{}"

    @property
    def options(self) -> StoredOptions:
        """The options that the producer gave the job."""
        return stored_options(self._fields.get(b"opts", b"{}"))

    @property
    def created_ms(self) -> int:
        """Milliseconds since 1970 at which the job was made."""
        return self._number(b"timestamp") or 0

    @property
    def created_at(self) -> datetime:
        """The instant at which the job was made."""
        # Another client may have written a number that is no instant.
        return possible_instant(self.created_ms) or instant(0)

    @property
    def delay_ms(self) -> int:
        """Milliseconds that the job waits, or had to wait."""
        return self._number(b"delay") or 0

    @property
    def delay(self) -> timedelta:
        """The time that the job waits, or had to wait, before it may run."""
        return possible_timedelta(max(self.delay_ms, 0))

    @property
    def priority(self) -> int:
        """0 runs first, then 1, 2, …"""
        return self._number(b"priority") or 0

    @property
    def group(self) -> Group | None:
        """The group that the job belongs to; None for one without."""
        return self.options.group

    @property
    def cost(self) -> float:
        """What the job costs its group: what the producer thought, or what was charged since."""
        try:
            return float(self._fields[b"gcost"])
        except (KeyError, ValueError):
            return 1.0 if self.group is None else self.group.cost

    @property
    def attempt(self) -> int:
        """Number of the attempt that runs or comes next, from 1."""
        return self.attempts_made + 1

    @property
    def max_attempts(self) -> int:
        """Attempts in all, the first included."""
        return self.options.attempts

    @property
    def attempts_made(self) -> int:
        """Attempts that have ended."""
        # BullMQ before version 4 wrote the long name.
        return self._number(b"attemptsMade") or self._number(b"atm") or 0

    @property
    def attempts_started(self) -> int:
        """Times that a worker has started the job, the current time included."""
        started = self._number(b"ats") or 0
        # A worker is given the job as it was when it was claimed, before the start was counted.
        return started if self.token is None or COUNTED in self._fields else started + 1

    @property
    def stalled_count(self) -> int:
        """Times that the job has lost its worker."""
        return self._number(b"stc") or 0

    @property
    def started_ms(self) -> int | None:
        """Milliseconds since 1970 at which a worker last started the job."""
        return self._number(b"processedOn")

    @property
    def started_at(self) -> datetime | None:
        """The instant at which a worker last started the job."""
        return possible_instant(self.started_ms)

    @property
    def finished_ms(self) -> int | None:
        """Milliseconds since 1970 at which the job was completed or failed for good."""
        return self._number(b"finishedOn")

    @property
    def finished_at(self) -> datetime | None:
        """The instant at which the job was completed or failed for good."""
        return possible_instant(self.finished_ms)

    @property
    def processed_by(self) -> str | None:
        """The name of the worker that last started the job."""
        return self._text(b"pb")

    @property
    def progress(self) -> Any:
        """The progress that the handler last reported; 0 before that."""
        return self._json(b"progress", 0)

    @property
    def result(self) -> Result | None:
        """The result of the handler; None before the job is completed."""
        return self._opened(self._json(b"returnvalue", None))

    @property
    def failed_reason(self) -> str | None:
        """The reason of the last failed attempt."""
        return self._text(b"failedReason")

    @property
    def stacktrace(self) -> list[str]:
        """The tracebacks of failed attempts, the oldest first."""
        found = self._json(b"stacktrace", [])
        traces = cast("list[Any]", found) if isinstance(found, list) else []
        return [codec.text_of(each) for each in traces]

    @property
    def deferred_failure(self) -> str | None:
        """The reason for which the job will fail instead of running."""
        return self._text(b"defa")

    @property
    def parent_key(self) -> str | None:
        """The key of the parent, which waits for this job."""
        return self._text(b"parentKey")

    @property
    def deduplication_id(self) -> str | None:
        """The deduplication id that the job was added with."""
        return self._text(b"deid")

    @property
    def scheduler_id(self) -> str | None:
        """The id of the scheduler that made the job."""
        return self._text(b"rjk")

    @property
    def steps(self) -> dict[str, Any]:
        """What the steps returned that are done, by their names."""
        return {
            name.removeprefix(b"step:").decode("utf-8", "replace"): self._opened(
                codec.decode_or_text(value)
            )
            for name, value in self._fields.items()
            if name.startswith(b"step:")
        }

    @property
    def discarded(self) -> bool:
        """True when the handler has called `discard` in this attempt."""
        return b"discarded" in self._fields

    def _opened(self, stored: Any) -> Any:
        """A payload from what is stored of it."""
        return stored

    def _text(self, field: bytes) -> str | None:
        raw = self._fields.get(field)
        return None if raw is None else raw.decode("utf-8", "replace")

    def _number(self, field: bytes) -> int | None:
        raw = self._fields.get(field)
        if raw is None:
            return None
        try:
            return int(float(raw)) if b"." in raw or b"e" in raw else int(raw)
        except (ValueError, OverflowError):
            return None

    def _json(self, field: bytes, otherwise: Any) -> Any:
        raw = self._fields.get(field)
        return otherwise if raw is None else codec.decode_or_text(raw)


def sealed_fields(job: JobFields) -> list[bytes]:
    """What of a job is stored in an envelope."""
    return [raw for raw in job._fields.values() if raw.startswith(BEGINNING)]


def keep_fetched(job: JobFields, blobs: Mapping[str, Any]) -> None:
    """Keep what was read from outside the store, by the names of the blobs."""
    job._fetched = blobs


def remember(job: JobFields, fields: Mapping[bytes, bytes]) -> None:
    """Update a job with fields that were just written to Redis."""
    job._fields.update(fields)
    if b"data" in fields:
        job._data = _UNREAD


def remember_all(job: JobFields, fields: dict[bytes, bytes]) -> None:
    """Replace all fields of a job with those that were just read."""
    job._fields = fields
    job._data = _UNREAD


def remember_result(job: JobFields, result: bytes, now: bytes) -> None:
    """Update a job that was completed; called for nearly every job, so it does little."""
    fields = job._fields
    is_first = b"atm" not in fields and b"attemptsMade" not in fields
    fields[b"atm"] = b"1" if is_first else b"%d" % (job.attempts_made + 1)
    fields[b"returnvalue"] = fields.pop(OPENED_RESULT, result)
    fields[b"finishedOn"] = now


def is_plain(job: JobFields) -> bool:
    """True when nothing has to happen before the handler of a job runs."""
    fields = job._fields
    return (
        b"rjk" not in fields
        and b"defa" not in fields
        and FAILING not in fields
        and MARK not in fields.get(b"opts", b"")
        and not fields.get(b"data", b"").startswith(BEGINNING)
    )


def is_sealed(job: JobFields) -> bool:
    """True when the data of a job is stored in an envelope."""
    return job._fields.get(b"data", b"").startswith(BEGINNING)


def known(job: JobFields, field: bytes) -> bytes | None:
    """A field of a job as it is stored."""
    return job._fields.get(field)


def done_steps(job: JobFields) -> list[str]:
    """The names of the steps that are done."""
    prefix = b"step:"
    found = (each[len(prefix) :] for each in job._fields if each.startswith(prefix))
    return [name.decode("utf-8", "replace") for name in found]


def failure_cause(job: JobFields) -> FailureCause | None:
    """What made a job fail for good; None when its handler did, or another client knows."""
    # Every client writes this alike, and nothing more; a handler's own error has lost no worker.
    if job.stalled_count and job.failed_reason == STALLED_TOO_OFTEN:
        return FailureCause.STALLED
    cause, _, ended = (job._text(CAUSE) or "").partition(":")
    if ended != str(job.finished_ms):
        return None
    return next((each for each in FailureCause if each == cause), None)


def awaited_signal(job: JobFields, due_ms: int) -> str | None:
    """The signal that a delayed job waits for, empty when it sleeps; None when it does neither.

    A wait that is over leaves its mark, so only one that ends when the job is due counts.
    """
    due, _, signal = (job._text(b"waits") or "").partition(" ")
    return signal if due == str(due_ms) else None


def emitted(job: JobFields) -> int:
    """How many parts of its output the job has emitted."""
    return job._number(b"parts") or 0


def progress_with(progress: Any, message: str) -> dict[str, Any]:
    """Progress as it is reported with a message."""
    known = cast("dict[str, Any]", progress) if isinstance(progress, dict) else None
    return {**({"progress": progress} if known is None else known), "message": message}
