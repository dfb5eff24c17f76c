"""Preparing a claimed job before its handler runs: its schedule and its terms. Internal."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, NoReturn

from waystation.bullmq.fields import FAILING, known, remember
from waystation.bullmq.job import Job, delay_until, queue_of, steps_of
from waystation.bullmq.redis.commands import server_ms
from waystation.bullmq.scheduling import schedulers
from waystation.bullmq.source.options import ClaimOptions
from waystation.bullmq.terms import NONE, Limit, limit_of
from waystation.core.errors import Expired, JobDelayed, KeyMissing, Unrecoverable
from waystation.core.runtime.handlers.time_limit import in_place_of_others
from waystation.core.runtime.tasks import is_from_a_signal, leave_if_cancelled
from waystation.core.store.reconnect import reconnecting
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

_TRY_AGAIN_S = 5.0
"""How long a job waits that this worker cannot run, until another one may have started."""
_UNDO_S = 60.0
"""How long a handler may take to come to where it was, if nobody has set a time limit."""


async def prepare(job: Job, options: ClaimOptions) -> Limit | None:
    """Advance the job's schedule; raise when it must fail without being run.

    Returns how long the attempt may take by the job's own terms.
    """
    if job.scheduler_id is not None:
        client, keys, *_ = queue_of(job)
        strategy = options.repeat_strategy
        # First, so that the schedule goes on even if this run of it fails. A store that is away
        # is waited for, here and below: a job fails by what its handler does.
        await reconnecting(lambda: schedulers.advance(client, keys, job, strategy=strategy))
    if known(job, FAILING) is not None:
        return None
    if (reason := job.deferred_failure) is not None:
        return fail(job, Unrecoverable(reason))
    most_started = options.max_started_attempts
    if most_started is not None and job.attempts_started > most_started:
        return fail(job, Unrecoverable("job started more than allowable limit"))
    if (terms := job.options.terms) == NONE:
        return None
    # The worker's clock may be another than the one by which the job was made.
    client = queue_of(job).client
    now = await reconnecting(lambda: server_ms(client)) if terms.ask_for_time else 0
    begun = job.attempts_started > 1
    try:
        return limit_of(terms, created_ms=job.created_ms, now_ms=now, has_begun=begun)
    except Expired as error:
        return fail(job, error)


class _LeftToAnother(JobDelayed):
    """The job was delayed for another worker, which can run it."""


async def keep_for_another(job: Job, error: KeyMissing) -> NoReturn:
    """Leave a job to a worker that has its key, as there are while keys are changed."""
    queue = queue_of(job)
    _log.warning("job_returned", job_id=job.id, queue=queue.keys.name, error=str(error))
    await leave_to_another(job, str(error))


async def leave_to_another(job: Job, reason: str) -> NoReturn:
    """Delay a job that this worker cannot run, for one that can."""
    await delay_until(job, round((time.time() + _TRY_AGAIN_S) * 1000))
    raise _LeftToAnother(reason)


async def undo(
    job: Job, attempt: Awaitable[Any], reason: bytes, timeout_s: float | None
) -> NoReturn:
    """Run a handler for what it has done to be undone, and fail the job for this reason."""
    own = job.options.terms.timeout
    limits = [each for each in (timeout_s, own and own / 1000) if each is not None]
    await _replayed(attempt, min(limits, default=_UNDO_S))
    steps = steps_of(job)
    if steps.changed:
        raise Unrecoverable(steps.changed)
    doubt = await steps.unwind()
    error = Unrecoverable(reason.decode("utf-8", "replace"))
    if doubt:
        error.add_note(f"if anything was to be undone of job {job.id}, it was not: {doubt}")
    elif job.stacktrace and str(error) in job.stacktrace[-1]:
        # Whoever reads the log wants to know where the job failed, not that it was undone.
        error.add_note(job.stacktrace[-1].rstrip("\n"))
    raise error


async def _replayed(attempt: Awaitable[Any], limit_s: float) -> None:
    """Run a handler until it ends, however it does; what it has registered by then is undone."""
    try:
        async with in_place_of_others(limit_s):
            # Steps that are not done raise, so it gets no further than it was.
            await attempt
    except asyncio.CancelledError:
        leave_if_cancelled()
    except (GeneratorExit, _LeftToAnother):
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and is_from_a_signal(error):
            raise


def fail(job: Job, error: Unrecoverable) -> None:
    """Fail a job without running it, or let it undo its steps first if it has done any."""
    if known(job, b"steps") is None and known(job, b"given") is None:
        raise error
    remember(job, {FAILING: str(error).encode()})
