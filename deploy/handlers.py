"""Handlers to try a deployment with; yours take their place."""

import logging

from waystation.bullmq import Job

_log = logging.getLogger("handlers")


async def send(job: Job) -> str:
    """Pretend to send a letter."""
    _log.info("sending to %s", job.data.get("to", "nobody"))
    return "sent"


handlers = {"send": send}
