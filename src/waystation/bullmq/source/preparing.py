"""What happens to a job that was claimed, before anybody runs it."""

from waystation.bullmq.job import Job
from waystation.bullmq.scheduling import advance
from waystation.bullmq.source.options import ClaimOptions
from waystation.core.errors import Unrecoverable


async def prepare(job: Job, options: ClaimOptions) -> None:
    """Advance the job's schedule; raise when it must fail without being run."""
    if job.scheduler_id is not None:
        # First, so that the schedule goes on even if this run of it fails.
        await advance.advance(
            job.queue.client, job.queue.keys, job, strategy=options.repeat_strategy
        )
    if (reason := job.deferred_failure) is not None:
        raise Unrecoverable(reason)
    most_started = options.max_started_attempts
    if most_started is not None and job.attempts_started > most_started:
        raise Unrecoverable("job started more than allowable limit")
