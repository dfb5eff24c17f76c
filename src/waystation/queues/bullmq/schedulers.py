"""Jobs that come again and again, by the clock or by the calendar."""

from waystation.core.store.script import Client

from .job import Job
from .keys import QueueKeys


async def advance(client: Client, keys: QueueKeys, job: Job) -> None:
    """Make the scheduler's next job."""
