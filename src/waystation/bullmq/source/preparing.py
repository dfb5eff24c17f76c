"""Preparing a claimed job before its handler runs: advancing its schedule. Internal."""

from waystation.bullmq.job import Job, queue_of
from waystation.bullmq.scheduling import schedulers
from waystation.bullmq.source.options import ClaimOptions
from waystation.core.errors import Unrecoverable


async def prepare(job: Job, options: ClaimOptions) -> None:
    """Advance the job's schedule; raise when it must fail without being run."""
    if job.scheduler_id is not None:
        client, keys, _ = queue_of(job)
        # First, so that the schedule goes on even if this run of it fails.
        await schedulers.advance(client, keys, job, strategy=options.repeat_strategy)
    if (reason := job.deferred_failure) is not None:
        raise Unrecoverable(reason)
    most_started = options.max_started_attempts
    if most_started is not None and job.attempts_started > most_started:
        raise Unrecoverable("job started more than allowable limit")
