"""Situations of jobs that wait in groups, added to the table of the others."""

from tests.console.why.scene import Expected, Scene
from tests.console.why.situations import A_DAY, SITUATIONS, situation, works
from waystation import bullmq
from waystation.console.why import Cause

__all__ = ["SITUATIONS"]


@situation
async def paused_group(scene: Scene) -> Expected:
    await scene.bullmq_worker(works)
    await scene.mail.groups.pause("acme")
    await scene.mail.add("send", group="acme")
    job = await scene.mail.add("send", group="acme")
    says = "Job 2 waits because its group acme is paused; it is the second in group acme"
    return Expected(job.id, Cause.PAUSED, says)


@situation
async def group_in_a_paused_one(scene: Scene) -> Expected:
    await scene.bullmq_worker(works)
    await scene.mail.groups.pause("acme")
    job = await scene.mail.add("send", group=bullmq.Group("eu", parent="acme"))
    says = "waits because its group acme is paused; it is the first in group acme/eu"
    return Expected(job.id, Cause.PAUSED, says)


@situation
async def concurrency_of_a_group_is_used_up(scene: Scene) -> Expected:
    await scene.mail.groups.set("acme", concurrency=1)
    first, second = [await scene.mail.add("send", group="acme") for _ in range(2)]
    await scene.bullmq_worker(scene.blocks)
    await scene.state(first.id, "active")
    says = "its group acme may have 1 active job at a time, and 1 are active; it is the first in"
    return Expected(second.id, Cause.FULL, says)


@situation
async def rate_of_a_group_is_used_up(scene: Scene) -> Expected:
    await scene.mail.groups.set("acme", rate=bullmq.Limit(100, A_DAY))
    group = bullmq.Group("acme", cost=120)
    first, second = [await scene.mail.add("send", group=group) for _ in range(2)]
    await scene.bullmq_worker(works)
    await scene.state(first.id, "completed")
    says = r"group acme is rate-limited until 20\d\d-.* UTC: 120 of 100 were started in this window"
    return Expected(second.id, Cause.LIMITED, says)


@situation
async def budget_of_a_group_is_used_up(scene: Scene) -> Expected:
    await scene.mail.groups.set("acme", budget=100)
    group = bullmq.Group("acme", cost=120)
    first, second = [await scene.mail.add("send", group=group) for _ in range(2)]
    await scene.bullmq_worker(works)
    await scene.state(first.id, "completed")
    says = r"group acme is at its budget for the day until 20\d\d-.* UTC: 120 of 100 were started"
    return Expected(second.id, Cause.LIMITED, says)


@situation
async def group_that_has_had_its_share(scene: Scene) -> Expected:
    async def slows_down(job: bullmq.Job) -> None:
        if int(job.id) > 10:
            await scene.release.wait()

    jobs = [await scene.mail.add("send", group="acme") for _ in range(14)]
    await scene.bullmq_worker(slows_down, concurrency=1)
    await scene.state(jobs[10].id, "active")
    for other in ("bell", "cord"):
        await scene.mail.add("send", group=other)
    says = (
        "Job 14 waits as the third in group acme; acme has had its share, next after about 2 "
        r"turns of others, which takes about .* \(11 starts in the last"
    )
    return Expected(jobs[-1].id, Cause.TURN, says)


@situation
async def first_of_the_next_group(scene: Scene) -> Expected:
    first, second = [await scene.mail.add("send", group=each) for each in ("acme", "bell")]
    await scene.bullmq_worker(scene.blocks, concurrency=1)
    await scene.state(first.id, "active")
    says = "Job 2 waits as the first in group bell, which is next; 1 job is active"
    return Expected(second.id, Cause.READY, says)
