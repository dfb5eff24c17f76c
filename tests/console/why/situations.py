"""Situations of jobs, files and queues, each made with real workers."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tests.console.why.scene import Expected, Scene, until
from waystation import bullmq, files, routing
from waystation.bullmq.fields import STALLED_TOO_OFTEN
from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.why import Cause

Situation = Callable[[Scene], Awaitable[Expected]]
SITUATIONS: list[Situation] = []

A_DAY = timedelta(days=1)
MAIL = QueueKeys("mail")


def situation(make: Situation) -> Situation:
    """Put a situation into the table."""
    SITUATIONS.append(make)
    return make


async def fails(job: Any) -> None:
    """A handler that always fails."""
    raise RuntimeError("smtp is down")


async def works(job: Any) -> str:
    """A handler that always works."""
    return "sent"


# BullMQ


@situation
async def a_scheduler(scene: Scene) -> Expected:
    await scene.mail.schedulers.upsert("digest", bullmq.Schedule(pattern="0 9 * * 1", tz="UTC"))
    says = r"Scheduler digest of queue mail adds jobs by the pattern 0 9 \* \* 1 in UTC; the next"
    return Expected("digest", Cause.SCHEDULED, says)


@situation
async def a_queue_with_a_slash_behind_it(scene: Scene) -> Expected:
    await scene.mail.add("send")
    return Expected("mail/", Cause.NOBODY, "Queue mail has nobody who works on it")


@situation
async def paused_queue(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    await scene.mail.pause(by="ada@desk")
    says = r"Job 1 waits because its queue was paused by ada@desk at 20\d\d-.* UTC"
    return Expected(job.id, Cause.PAUSED, says)


@situation
async def paused_queue_itself(scene: Scene) -> Expected:
    await scene.mail.pause()
    return Expected("mail", Cause.PAUSED, r"Queue mail was paused at 20\d\d-")


@situation
async def rate_limited_queue(scene: Scene) -> Expected:
    await scene.mail.limits.set_rate_limit(1, A_DAY)
    first, second = [await scene.mail.add("send") for _ in range(2)]
    await scene.bullmq_worker(works)
    await scene.state(first.id, "completed")
    says = r"rate-limited until 20\d\d-.* UTC: 1 of 1 jobs were started in this window"
    return Expected(second.id, Cause.LIMITED, says)


@situation
async def rate_limit_of_the_workers(scene: Scene) -> Expected:
    first, second = [await scene.mail.add("send") for _ in range(2)]
    await scene.bullmq_worker(works, limiter=bullmq.Limit(1, A_DAY))
    await scene.state(first.id, "completed")
    return Expected(
        second.id, Cause.LIMITED, "workers have a limit of their own, and started 1 job"
    )


@situation
async def concurrency_is_used_up(scene: Scene) -> Expected:
    await scene.mail.limits.set_concurrency(1)
    first, second = [await scene.mail.add("send") for _ in range(2)]
    await scene.bullmq_worker(scene.blocks)
    await scene.state(first.id, "active")
    return Expected(second.id, Cause.FULL, "may have 1 active job at a time, and 1 are active")


@situation
async def behind_others(scene: Scene) -> Expected:
    async def slows_down(job: bullmq.Job) -> None:
        if int(job.id) > 10:
            await scene.release.wait()

    jobs = await scene.mail.add_many([bullmq.NewJob("send")] * 14)
    await scene.bullmq_worker(slows_down, concurrency=1)
    await scene.state(jobs[10].id, "active")
    says = r"Job 14 waits behind 2 others, which takes about .* \(11 starts in the last"
    return Expected(jobs[-1].id, Cause.BEHIND, says)


@situation
async def next_one(scene: Scene) -> Expected:
    first, second = [await scene.mail.add("send") for _ in range(2)]
    await scene.bullmq_worker(scene.blocks, concurrency=1)
    await scene.state(first.id, "active")
    return Expected(second.id, Cause.READY, "Job 2 is the next one; 1 job is active")


@situation
async def nobody_works_on_the_queue(scene: Scene) -> Expected:
    job = await scene.mail.add("send", priority=3)
    says = "waits because its queue has nobody who works on it: no worker is connected"
    return Expected(job.id, Cause.NOBODY, says)


@situation
async def queue_without_workers(scene: Scene) -> Expected:
    await scene.mail.add("send")
    return Expected("mail", Cause.NOBODY, "Queue mail has nobody who works on it")


@situation
async def empty_queue(scene: Scene) -> Expected:
    await scene.mail.add("send", delay=A_DAY)
    return Expected("mail", Cause.EMPTY, "Queue mail has nothing to do now; 1 job is delayed")


@situation
async def queue_at_work(scene: Scene) -> Expected:
    first, _ = [await scene.mail.add("send") for _ in range(2)]
    await scene.bullmq_worker(scene.blocks, concurrency=1)
    await scene.state(first.id, "active")
    return Expected("mail", Cause.WORKING, "is at work: 1 active and 1 waiting")


@situation
async def queue_in_which_everything_fails(scene: Scene) -> Expected:
    await scene.bullmq_worker(works)
    await scene.state((await scene.mail.add("send")).id, "completed")
    await scene.bullmq_worker(fails, queue="pay")
    pay = bullmq.Queue("pay", scene.store)
    jobs = [await pay.add("charge", {}, attempts=1) for _ in range(5)]
    for job in jobs:
        await until(partial(_is_in, pay, job.id, "failed"))
    says = r"Queue pay fails: all of the last 5 attempts failed, .*smtp is down"
    return Expected("pay", Cause.FAILING, says)


async def _pays(scene: Scene, *names: str) -> None:
    """Jobs that end one after the other, well only those that are called so."""

    async def handle(job: Any) -> None:
        if job.name != "well":
            raise ValueError("smtp is down")

    await scene.bullmq_worker(handle, queue="pay", concurrency=1)
    pay = bullmq.Queue("pay", scene.store)
    for name in names:
        job = await pay.add(name, {}, attempts=1)
        await until(partial(_is_in, pay, job.id, "completed" if name == "well" else "failed"))


@situation
async def queue_in_which_nearly_everything_fails(scene: Scene) -> Expected:
    await _pays(scene, *("bad",) * 4, "well", "well", *("bad",) * 4)
    says = r"Queue pay fails: 8 of the last 10 attempts failed, since .* \(.*smtp is down"
    return Expected("pay", Cause.FAILING, says)


@situation
async def queue_in_which_some_fail(scene: Scene) -> Expected:
    await _pays(scene, *("bad", "well") * 6)
    return Expected("pay", Cause.EMPTY, "Queue pay has nothing to do now")


async def _is_in(queue: Any, id: str, state: str) -> bool:
    return await queue.state(id) == state


@situation
async def type_of_which_every_job_fails(scene: Scene) -> Expected:
    await scene.routing_worker({"charge": fails, "send": works})
    for number in range(5):
        job = await scene.routing.add("charge", {"n": number}, retry=routing.Retry(attempts=1))
        await until(partial(_is_in, scene.routing, job.id, "dead"))
    other = await scene.routing.add("send", {})
    await until(partial(_is_in, scene.routing, other.id, "completed"))
    return Expected("charge", Cause.FAILING, "Type charge fails: all of the last 5 attempts failed")


@situation
async def priority_in_which_every_file_fails(scene: Scene) -> Expected:
    await scene.files_worker(fails, max_retries=0)
    for number in range(5):
        job = await scene.file(f"{number}.txt")
        await _filed(scene, job.id, "failed")
    return Expected("low", Cause.FAILING, "Priority low fails: all of the last 5 attempts failed")


@situation
async def held_job(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    await scene.bullmq_worker(scene.blocks)
    await scene.state(job.id, "active")
    return Expected(job.id, Cause.HELD, r"is held by w1 since 20\d\d-.* UTC; its lock was renewed")


@situation
async def lost_lock(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    await scene.bullmq_worker(scene.blocks, lease=3600)
    await scene.state(job.id, "active")
    await scene.store.redis.delete(MAIL.of(job.id).lock)
    return Expected(job.id, Cause.LOST, "started by w1 at .*, but its lock has run out")


@situation
async def worker_that_has_gone(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    await scene.taken_by_hand("w9")
    return Expected(
        job.id,
        Cause.LOST,
        r"is held by w9 since .*, but no worker of that name is connected any more; its lock runs "
        r"out in .*, and then the next check .* puts it back, which workers make, and none is",
    )


@situation
async def picked_up_again(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    # One check of whichever worker keeps the others' away for its interval.
    looking: Any = {"lease": 3600, "stalled_interval": 0.05}
    await scene.bullmq_worker(scene.blocks, **looking)
    await scene.state(job.id, "active")
    await scene.store.redis.delete(MAIL.of(job.id).lock)
    await scene.bullmq_worker(scene.blocks, name="w2", **looking)

    async def again() -> bool:
        fields: Any = await scene.store.redis.hgetall(MAIL.of(job.id).job)
        return fields.get(b"stc") == b"1" and fields.get(b"ats") == b"2"

    await until(again)
    return Expected(
        job.id, Cause.HELD, "lost its lock 1 time and was picked up again: it is held by w2"
    )


@situation
async def delayed_job(scene: Scene) -> Expected:
    job = await scene.mail.add("send", delay=A_DAY)
    return Expected(job.id, Cause.DELAYED, r"is delayed until 20\d\d-.* UTC")


@situation
async def job_that_sleeps_between_two_steps(scene: Scene) -> Expected:
    async def sleeps(job: bullmq.Job) -> None:
        await job.sleep(days=1)

    job = await scene.mail.add("send")
    await scene.bullmq_worker(sleeps)
    await scene.state(job.id, "delayed")
    return Expected(job.id, Cause.DELAYED, r"sleeps until 20\d\d-.* UTC, between two of its steps")


@situation
async def job_that_waits_for_a_signal(scene: Scene) -> Expected:
    async def waits(job: bullmq.Job) -> None:
        await job.wait_for("paid", timeout=A_DAY)

    job = await scene.mail.add("send")
    await scene.bullmq_worker(waits)
    await scene.state(job.id, "delayed")
    return Expected(job.id, Cause.DELAYED, r"waits for the signal 'paid'; .* again at 20\d\d-")


@situation
async def job_of_a_scheduler(scene: Scene) -> Expected:
    later = bullmq.Schedule(every=A_DAY, start_date=datetime.now(UTC) + A_DAY)
    await scene.mail.schedulers.upsert("later", later)
    [late] = await scene.mail.get_jobs("delayed")
    return Expected(late.id, Cause.SCHEDULED, "is delayed by scheduler later until")


@situation
async def waits_for_a_failed_child(scene: Scene) -> Expected:
    async with bullmq.FlowProducer(scene.store) as flows:
        part = bullmq.FlowNode(name="part", queue="mail", options=bullmq.JobOptions(attempts=1))
        tree = await flows.add(bullmq.FlowNode(name="whole", queue="mail", children=[part]))
    await scene.bullmq_worker(fails)
    [child] = tree.children
    await scene.state(child.job.id, "failed")
    says = rf"waits for child mail/{child.job.id}, which has failed; retry or remove the child"
    return Expected(tree.job.id, Cause.DEPENDENT, says)


@situation
async def retried_job(scene: Scene) -> Expected:
    job = await scene.mail.add("send", attempts=5, backoff=86_400)
    await scene.bullmq_worker(fails, max_backoff=A_DAY)
    await scene.state(job.id, "delayed")
    says = r"failed 1 of 5 attempts \(.*smtp is down\); the next one is at 20\d\d-"
    return Expected(job.id, Cause.RETRYING, says)


async def _overdue(scene: Scene) -> str:
    """A job whose delay was over a minute ago, while nobody worked on its queue."""
    job = await scene.mail.add("send", delay=A_DAY)
    await scene.store.redis.zadd("bull:mail:delayed", {job.id: int(time.time() - 60) * 4_096_000})
    return job.id


@situation
async def overdue_job(scene: Scene) -> Expected:
    says = r"is delayed until 20\d\d-.* UTC, which was .* ago: nobody works on this queue"
    return Expected(await _overdue(scene), Cause.DELAYED, says)


@situation
async def overdue_job_of_a_queue(scene: Scene) -> Expected:
    await _overdue(scene)
    says = "has nobody who works on it: no worker is connected, and 1 of 1 delayed job is due"
    return Expected("mail", Cause.NOBODY, says)


@situation
async def failed_job(scene: Scene) -> Expected:
    job = await scene.mail.add("send", attempts=1)
    await scene.bullmq_worker(fails)
    await scene.state(job.id, "failed")
    return Expected(job.id, Cause.FAILED, "failed for good at .* after 1 attempt: .*smtp is down")


@situation
async def no_function_for_the_name(scene: Scene) -> Expected:
    job = await scene.mail.add("fax", attempts=1)
    await scene.bullmq_worker({"send": works})
    await scene.state(job.id, "failed")
    says = "worker w1 has no handler for jobs named 'fax'; there are: send"
    return Expected(job.id, Cause.NO_HANDLER, says)


@situation
async def completed_job(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    await scene.bullmq_worker(works)
    await scene.state(job.id, "completed")
    says = "was completed by w1 at .*; `waystation bullmq job mail 1` shows its result"
    return Expected(job.id, Cause.COMPLETED, says)


@situation
async def job_that_lost_too_many_workers(scene: Scene) -> Expected:
    job = await scene.mail.add("send", attempts=1)
    await scene.store.redis.hset("bull:mail:1", mapping={"stc": 2, "defa": STALLED_TOO_OFTEN})
    await scene.bullmq_worker(works)
    await scene.state(job.id, "failed")
    return Expected(job.id, Cause.LOST, "it lost its worker 2 times, more than it may")


@situation
async def cancelled_job_with_steps(scene: Scene) -> Expected:
    job = await scene.mail.add("send", attempts=1)
    await scene.store.redis.hset("bull:mail:1", "steps", "1")
    await scene.mail.cancel(job.id, reason="not wanted")
    await scene.bullmq_worker(works)
    await scene.state(job.id, "failed")
    return Expected(job.id, Cause.CANCELLED, r"was cancelled at .* \(not wanted\)")


@situation
async def cancelled_job_that_another_client_ran_again(scene: Scene) -> Expected:
    job = await scene.mail.add("send", attempts=1)
    await scene.mail.cancel(job.id, reason="not wanted")
    # As BullMQ retries it, which knows nothing of the cause.
    await scene.store.redis.hdel("bull:mail:1", "failedReason", "finishedOn")
    await scene.store.redis.zrem("bull:mail:failed", job.id)
    await scene.store.redis.lpush("bull:mail:wait", job.id)
    await scene.bullmq_worker(fails)
    await scene.state(job.id, "failed")
    return Expected(job.id, Cause.FAILED, "failed for good at .* after 1 attempt: .*smtp is down")


@situation
async def cancelled_job(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    await scene.mail.cancel(job.id, reason="cancelled by ada@desk")
    return Expected(job.id, Cause.CANCELLED, r"was cancelled at .* \(cancelled by ada@desk\)")


@situation
async def removed_job(scene: Scene) -> Expected:
    job = await scene.mail.add("send")
    await scene.mail.remove(job.id, by="ada@desk")
    return Expected(job.id, Cause.REMOVED, "was removed by ada@desk at")


@situation
async def never_existed(scene: Scene) -> Expected:
    await scene.mail.add("send", job_id="order-1234")
    says = r"Nothing named order-1243 exists, .*; did you mean order-1234\?"
    return Expected("order-1243", Cause.UNKNOWN, says)


@situation
async def queue_that_never_existed(scene: Scene) -> Expected:
    await scene.mail.add("send")
    return Expected("1", Cause.UNKNOWN, "There is no queue mial; did you mean mail", "mial")


# Routing


@situation
async def no_worker_has_the_capability(scene: Scene) -> Expected:
    await scene.routing_worker({"render": works}, region="eu")
    job = await scene.routing.add("render", target=routing.Target(capabilities=("gpu",)))
    says = "waits because nobody fits; worker w1 is the nearest, missing: capability gpu"
    return Expected(job.id, Cause.UNMATCHED, says)


@situation
async def no_worker_at_all(scene: Scene) -> Expected:
    job = await scene.routing.add("render")
    return Expected(job.id, Cause.NOBODY, "waits, and nobody works here: no worker is alive")


@situation
async def no_worker_for_the_type(scene: Scene) -> Expected:
    await scene.routing_worker({"email": works})
    job = await scene.routing.add("render")
    return Expected(job.id, Cause.NO_HANDLER, "no handler for render")


@situation
async def paused_type(scene: Scene) -> Expected:
    await scene.routing.pause("render", by="ada@desk")
    job = await scene.routing.add("render")
    says = "waits because type render is paused by ada@desk since"
    return Expected(job.id, Cause.PAUSED, says)


@situation
async def limited_type(scene: Scene) -> Expected:
    await scene.routing.limits.set("render", routing.Limit(max_concurrent=1))
    first, second = [await scene.routing.add("render") for _ in range(2)]
    await scene.routing_worker({"render": scene.blocks})
    await _routed(scene, first.id, "active")
    return Expected(second.id, Cause.LIMITED, "waits: its type is limited: 1 of 1 run")


@situation
async def held_routing_job(scene: Scene) -> Expected:
    job = await scene.routing.add("render")
    await scene.routing_worker({"render": scene.blocks})
    await _routed(scene, job.id, "active")
    return Expected(job.id, Cause.HELD, "worker w1 has it since .*, last heard at")


@situation
async def behind_other_routing_jobs(scene: Scene) -> Expected:
    first, _, last = [await scene.routing.add("render") for _ in range(3)]
    await scene.routing_worker({"render": scene.blocks}, concurrency=1)
    await _routed(scene, first.id, "active")
    return Expected(last.id, Cause.BEHIND, "can be taken by 1 live worker, behind 1 job")


@situation
async def waits_for_a_dead_job(scene: Scene) -> Expected:
    await scene.routing.pause("first")
    first = await scene.routing.add("first")
    second = await scene.routing.add("second", depends_on=[first.id])
    says = f"waits for job {first.id}, which is waiting"
    return Expected(second.id, Cause.DEPENDENT, says)


@situation
async def dead_routing_job(scene: Scene) -> Expected:
    job = await scene.routing.add("render", retry=routing.Retry(attempts=1))
    await scene.routing_worker({"render": fails})
    await _routed(scene, job.id, "dead")
    return Expected(job.id, Cause.FAILED, "is dead after 1 attempt: .*smtp is down; `waystation")


@situation
async def completed_routing_job(scene: Scene) -> Expected:
    job = await scene.routing.add("render")
    await scene.routing_worker({"render": works})
    await _routed(scene, job.id, "completed")
    return Expected(job.id, Cause.COMPLETED, "was completed at .* shows its result for a day")


@situation
async def cancelled_routing_job(scene: Scene) -> Expected:
    job = await scene.routing.add("render")
    await scene.routing.cancel(job.id, by="ada@desk")
    return Expected(job.id, Cause.CANCELLED, "was cancelled by ada@desk at")


@situation
async def type_that_waits_for_a_worker(scene: Scene) -> Expected:
    await scene.routing_worker({"email": works})
    await scene.routing.add("render")
    return Expected("render", Cause.NO_HANDLER, "Type render has 1 waiting job: nobody fits")


async def _routed(scene: Scene, id: str, state: str) -> None:
    async def reached() -> bool:
        return await scene.routing.state(id) == state

    await until(reached)


# Files


@situation
async def file_without_workers(scene: Scene) -> Expected:
    job = await scene.file()
    return Expected(job.filepath, Cause.NOBODY, r"File /.*a\.txt waits, and nobody works on this")


@situation
async def file_behind_others(scene: Scene) -> Expected:
    first, _, last = [await scene.file(name) for name in ("a", "b", "c")]
    await scene.files_worker(scene.blocks, concurrency=1)
    await _filed(scene, first.id, "active")
    return Expected(last.id, Cause.BEHIND, "waits behind 1 other")


@situation
async def held_file(scene: Scene) -> Expected:
    job = await scene.file()
    await scene.files_worker(scene.blocks)
    await _filed(scene, job.id, "active")
    return Expected(job.id, Cause.HELD, r"is held by w1, last heard at 20\d\d-")


@situation
async def file_without_a_function(scene: Scene) -> Expected:
    handlers = files.Handlers()
    handlers.handler("*.csv")(works)
    job = await scene.file()
    await scene.files_worker(handlers)
    await _filed(scene, job.id, "unmatched")
    says = r"no live worker has a function for this name; they have \*\.csv"
    return Expected(job.id, Cause.NO_HANDLER, says)


@situation
async def retried_file(scene: Scene) -> Expected:
    job = await scene.file()
    await scene.files_worker(fails, backoff=3600, backoff_max=3600)
    await _filed(scene, job.id, "delayed")
    return Expected(job.id, Cause.RETRYING, "failed 1 time; the next attempt is at 20")


@situation
async def dead_file(scene: Scene) -> Expected:
    job = await scene.file()
    await scene.files_worker(fails, max_retries=0)
    await _filed(scene, job.id, "failed")
    says = "failed for good after 1 attempt: HANDLER_ERROR: RuntimeError: smtp is down"
    return Expected(job.id, Cause.FAILED, says)


@situation
async def processed_file(scene: Scene) -> Expected:
    job = await scene.file()
    await scene.files_worker(works)
    await _filed(scene, job.id, "completed")
    return Expected(job.id, Cause.COMPLETED, r"was processed by w1 at 20\d\d-")


@situation
async def priority_without_workers(scene: Scene) -> Expected:
    await scene.file()
    return Expected("low", Cause.NOBODY, "Priority low has 1 waiting file, and nobody works on it")


async def _filed(scene: Scene, id: str, state: str) -> None:
    async def reached() -> bool:
        return await scene.files.state(id) == state

    await until(reached)
