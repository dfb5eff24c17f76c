"""Preparing a claimed job before its handler runs: advancing its schedule. Internal."""

from waystation.bullmq.job import Job, queue_of
from waystation.bullmq.redis.commands import server_ms
from waystation.bullmq.scheduling import schedulers
from waystation.bullmq.source.options import ClaimOptions
from waystation.bullmq.terms import NONE, Limit, limit_of
from waystation.core.errors import Unrecoverable


async def prepare(job: Job, options: ClaimOptions) -> Limit | None:
    """Advance the job's schedule; raise when it must fail without being run.

    Returns how long the attempt may take by the job's own terms.
    """
    if job.scheduler_id is not None:
        client, keys, _ = queue_of(job)
        # First, so that the schedule goes on even if this run of it fails.
        await schedulers.advance(client, keys, job, strategy=options.repeat_strategy)
    if (reason := job.deferred_failure) is not None:
        raise Unrecoverable(reason)
    most_started = options.max_started_attempts
    if most_started is not None and job.attempts_started > most_started:
        raise Unrecoverable("job started more than allowable limit")
    if (terms := job.options.terms) == NONE:
        return None
    return limit_of(
        terms,
        created_ms=job.created_ms,
        # The worker's clock may be another than the one by which the job was made.
        now_ms=await server_ms(queue_of(job).client) if terms.ask_for_time else 0,
        has_begun=job.attempts_started > 1,
    )
