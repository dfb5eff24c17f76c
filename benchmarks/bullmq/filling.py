"""A queue full of jobs that ask for nothing."""

from waystation.bullmq import JobOptions, Queue

PLAIN = JobOptions(attempts=1, backoff=None, stack_trace_limit=None, keep_logs=None)
"""What a Node producer's job looks like when it asks for nothing."""


async def fill(queue: Queue, jobs: int) -> None:
    """Add that many, ten thousand at a time."""
    for first in range(0, jobs, 10_000):
        numbers = range(first, min(first + 10_000, jobs))
        await queue.add_many([("job", {"n": n}, PLAIN) for n in numbers])
