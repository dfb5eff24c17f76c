"""Situations of jobs that are not stored any more, added to the table of the others."""

from tests.console.why.groups import SITUATIONS
from tests.console.why.scene import Expected, Scene
from tests.console.why.situations import fails, situation, works
from waystation.console.why import Cause

__all__ = ["SITUATIONS"]


@situation
async def failed_and_not_kept(scene: Scene) -> Expected:
    job = await scene.mail.add("send", attempts=1, remove_on_fail=True)
    await scene.bullmq_worker(fails)
    await scene.state(job.id, "unknown")
    return Expected(job.id, Cause.FAILED, r"failed for good at .* \(.*\), and was not kept")


@situation
async def completed_and_not_kept(scene: Scene) -> Expected:
    job = await scene.mail.add("send", remove_on_complete=True)
    await scene.bullmq_worker(works)
    await scene.state(job.id, "unknown")
    return Expected(job.id, Cause.COMPLETED, "was completed at .*, and was not kept")
