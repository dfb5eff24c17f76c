"""Handlers whose jobs do not complete, even if nobody disturbs them."""

from waystation.bullmq import Job, SyncJob
from waystation.testing import Drill


def forgetful(job: SyncJob) -> int:
    return job.data["amount"]


async def patient(job: Job) -> None:
    await job.wait_for("approved")


drills = [Drill(forgetful, {"amuont": 7}, attempts=2), Drill(patient)]
