"""Records: the outcomes of attempts in the form that the scripts read."""

from typing import TypeAlias, cast

from waystation.core.errors import Malformed
from waystation.core.failure import message_of
from waystation.core.outcome import Failed, Retried
from waystation.files import job as jobs
from waystation.files.job import Job
from waystation.files.options import WorkerOptions
from waystation.files.reasons import FINAL, Reason, reason_of

Record: TypeAlias = tuple[str | bytes | int, ...]
"""A kind, the job's bytes as fetched, its id, lane and attempt, and what the kind adds."""

LONGEST_ERROR = 500


def success(raw: bytes, id: str, lane: int, attempt: int, took_s: float) -> Record:
    """Completed."""
    return ("completed", raw, id, lane, attempt, int(took_s * 1000))


def handed_back(raw: bytes, id: str, lane: int, attempt: int) -> Record:
    """Returned to the head of its queue, without using up an attempt."""
    return ("returned", raw, id, lane, attempt)


def skipped(raw: bytes, id: str, lane: int, attempt: int) -> Record:
    """Left to a worker that has a handler for it."""
    return ("skipped", raw, id, lane, attempt)


def failure(
    raw: bytes, job: Job, lane: int, queue: str, error: BaseException, options: WorkerOptions
) -> Record:
    """Failed: a retry after a delay, or a dead letter."""
    reason = reason_of(error, job.path)
    is_last = reason in FINAL or job.retries >= options.max_retries
    delay_ms = None if is_last else options.delay_ms(job.retries + 1)
    return _failed(raw, job, lane, queue, reason, error, delay_ms)


def dead(
    raw: bytes,
    id: str,
    lane: int,
    attempt: int,
    payload: bytes,
    reason: Reason,
    error: BaseException | str,
) -> Record:
    """A dead letter with its reason."""
    return ("dead", raw, id, lane, attempt, payload, reason.value, _text(error))


def _text(error: BaseException | str) -> str:
    """An error as class and message."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {message_of(error)}"
    return text[:LONGEST_ERROR]


def abandoned(raw: bytes, job: Job, lane: int, queue: str, max_retries: int) -> Record:
    """Its worker died, which counts as a failed attempt."""
    delay_ms = None if job.retries >= max_retries else 0
    why = "its workers died too often"
    return _failed(raw, job, lane, queue, Reason.ABANDONED, why, delay_ms)


def _failed(
    raw: bytes,
    job: Job,
    lane: int,
    queue: str,
    reason: Reason,
    error: BaseException | str,
    delay_ms: int | None,
) -> Record:
    """A retry after the delay; a dead letter without one, or where the job cannot be rewritten."""
    try:
        payload = jobs.with_retries(raw, job.retries + 1, queue)
    except Malformed as unwritable:
        return dead(raw, job.id, lane, job.attempt, raw, Reason.MALFORMED, unwritable)
    if delay_ms is None:
        return dead(raw, job.id, lane, job.attempt, payload, reason, error)
    why = _text(error)
    return ("retry", raw, job.id, lane, job.attempt, payload, delay_ms, reason.value, why)


def reason_in(record: Record) -> str:
    """The reason in the record of a failure."""
    return str(record[7] if record[0] == "retry" else record[6])


def as_stored(error: BaseException, attempt: int, record: Record) -> Failed:
    """The outcome that listeners get for a failure that was stored."""
    if record[0] == "retry":
        return Retried(error, attempt, cast(int, record[6]))
    return Failed(error, attempt)
