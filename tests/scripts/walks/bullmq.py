"""A queue with its flows, schedulers and administration."""

import contextlib
import json
from typing import Any

from tests.bullmq.harness import Harness, harness_on
from waystation.bullmq import (
    Deduplication,
    FlowNode,
    FlowProducer,
    Group,
    JobDelayed,
    JobOptions,
    JobRateLimited,
    JobWaitingForChildren,
    Keep,
    Limit,
    NewJob,
    Parent,
    Queue,
    Schedule,
    upkeep,
)
from waystation.bullmq.job import Job, steps_of
from waystation.bullmq.options import wire_options
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.packing import wire_add_options
from waystation.bullmq.scheduling import schedulers
from waystation.bullmq.states import STATES
from waystation.core.durations import instant
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Claim, Settled

ONCE: dict[str, Any] = {"attempts": 1}
WAYS: list[dict[str, Any]] = [
    {},
    {"fail_parent_on_failure": True},
    {"continue_parent_on_failure": True},
    {"ignore_dependency_on_failure": True},
    {"remove_dependency_on_failure": True},
]
"""What a child's failure means for its parent."""


async def walk(url: str) -> None:
    """Take the paths of every script of bullmq."""
    for part in WALKS:
        async with harness_on(url) as harness, Queue("mail", harness.store) as queue:
            await harness.redis.flushdb()
            await part(harness, queue)


async def cancel(harness: Harness, queue: Queue) -> None:
    wishes: list[dict[str, Any]] = [
        {},
        {"delay": 1000},
        {"priority": 1},
        {"deduplication": Deduplication("one")},
        {"remove_on_fail": True},
        {"remove_on_fail": Keep(count=1)},
    ]
    for wish in wishes:
        assert await queue.cancel(await harness.add(**wish))
    await harness.add()
    held = await harness.claim_one()
    assert await queue.cancel(held.id, "by hand")
    assert not await queue.cancel(held.id)
    rule = Deduplication("kept", keep_last_if_active=True)
    await harness.add(deduplication=rule)
    await harness.claim_one()
    await harness.add(deduplication=rule)
    (running,) = await harness.ids("active")
    assert await queue.cancel(running)
    async with FlowProducer(harness.store) as flows:
        for at, way in enumerate(WAYS):
            for place in ("mail", "other"):
                name = f"{at}-{place}"
                await flows.add(parent(name, child(f"{name}-a", **way), queue=place))
                assert await queue.cancel(f"{name}-a")


async def end(harness: Harness, *outcomes: Outcome, want: int = 0) -> list[Claim[Job]]:
    """Claim a job for each of the outcomes, settle them in one call and claim more."""
    claims = await harness.claim(len(outcomes))
    settled = [Settled(each, outcome) for each, outcome in zip(claims, outcomes, strict=False)]
    return list((await harness.worker.settle(settled, claim=want)).claims)


def fails() -> Failed:
    return Failed(RuntimeError("no"))


async def add(harness: Harness, queue: Queue) -> None:
    await queue.add_many([NewJob("send")] * 3)
    wishes: list[dict[str, Any]] = [
        {"job_id": "own"},
        {"job_id": "own"},
        {"delay": 1000},
        {"priority": 2},
        {"lifo": True},
        {"deduplication": Deduplication("first")},
    ]
    for wish in wishes:
        await harness.add(**wish)
    parent = Parent("own", harness.keys.qualified)
    await queue.add_many(
        [NewJob("send"), NewJob("send", {}, JobOptions(parent=parent, priority=1))]
    )
    # A child that was there before, and one that has ended before.
    await harness.add(job_id="child")
    await harness.add(job_id="child", parent=parent)
    await queue.pause()
    await harness.redis.lpush(harness.keys.paused, "aside")
    await harness.add()
    await queue.resume()
    await queue.limits.set_concurrency(5)
    await harness.add()


async def settle(harness: Harness, queue: Queue) -> None:
    again: dict[str, Any] = {"attempts": 3}
    await queue.add_many([NewJob("send", {}, JobOptions(**again))] * 6)
    await end(harness, Done(1), want=1)
    await end(harness, Done(1), fails(), Returned(), want=0)
    await harness.add(priority=3)
    await harness.add(priority=3, backoff=500, **again)
    await end(harness, *[Returned()] * 5, want=0)
    await end(harness, *[fails()] * 5, want=2)
    await harness.clock.advance(1)
    # What is due is promoted first, into the line and among the prioritized.
    await harness.add(delay=1)
    await harness.add(delay=1, priority=1)
    await harness.clock.advance(1)
    held = await harness.claim(20)
    await harness.extend(*held)
    await harness.hand_back(held[0])
    await harness.worker.settle([Settled(each, Done(1)) for each in held], claim=1)
    await harness.lapse()
    await queue.obliterate(force=True)
    await settle_and_keep(harness)


async def settle_and_keep(harness: Harness) -> None:
    keeping = harness.source(
        remove_on_complete=Keep(count=1), remove_on_fail=Keep(count=1), metrics_points=10
    )
    for _ in range(2):
        for outcome in (Done(1), fails()):
            await harness.add(**ONCE)
            (held,) = (await keeping.settle([], claim=1)).claims
            await keeping.settle([Settled(held, outcome)], claim=1)
        await harness.clock.advance(60)
    forgetful = harness.source(remove_on_complete=True, remove_on_fail=True)
    for outcome in (Done(1), fails()):
        await harness.add(**ONCE)
        (held,) = (await forgetful.settle([], claim=1)).claims
        await forgetful.settle([Settled(held, outcome)], claim=0)
    # The last worker leaves while jobs wait, and a paused queue hands out nothing.
    await harness.add()
    await harness.add(delay=1000)
    await harness.worker.settle([], claim=0)


async def limit(harness: Harness, queue: Queue) -> None:
    await queue.limits.set_rate_limit(2, 60_000)
    await queue.add_many([NewJob("send")] * 4)
    await end(harness, Done(1), want=2)
    await end(harness, Failed(JobRateLimited()), want=2)
    limited = harness.source(limiter=await queue.limits.get_rate_limit())
    await limited.settle([], claim=2)
    await queue.limits.remove_rate_limit()
    await queue.limits.set_concurrency(3)
    await harness.claim(4)
    # BullMQ 5 has opened the queue, and keeps what waits in a list of its own while it is paused.
    await queue.limits.set_concurrency(9)
    await harness.redis.hset(harness.keys.meta, "version", "bullmq:5.81.5")
    await harness.add()
    await queue.pause()
    await harness.add()
    await harness.redis.lpush(harness.keys.wait, "1")
    await harness.claim(1)
    await queue.resume()


async def deduplicate(harness: Harness, queue: Queue) -> None:
    async def twice(first: dict[str, Any], **rule: Any) -> None:
        for _ in range(2):
            await harness.add(deduplication=Deduplication(**rule), **first)

    await twice({}, id="simple", ttl=1000)
    await twice({}, id="extended", ttl=1000, extend=True)
    await twice({"delay": 1000}, id="replaced", replace=True)
    await twice({"delay": 1000}, id="moved", reschedule=True)
    await harness.claim(10)
    rule = Deduplication("kept", keep_last_if_active=True)
    for outcome in (Done(1), fails()):
        await harness.add(deduplication=rule, **ONCE)
        held = await harness.claim_one()
        await harness.add(deduplication=rule, **ONCE)
        await harness.end(held, outcome)
        await harness.end(await harness.claim_one(), Done(1))
    id = await harness.add(deduplication=Deduplication("freed"))
    job = await queue.get_job(id)
    assert job is not None
    assert await job.remove_deduplication_key()


def child(name: str, queue: str = "mail", **options: Any) -> FlowNode:
    return FlowNode(name=name, queue=queue, options=JobOptions(job_id=name, **ONCE, **options))


def parent(name: str, *children: FlowNode, queue: str = "mail", **options: Any) -> FlowNode:
    chosen = JobOptions(job_id=name, **ONCE, **options)
    return FlowNode(name=name, queue=queue, options=chosen, children=children)


async def relate(harness: Harness, queue: Queue) -> None:
    """Parents in the queue itself and in another, and children that fail in every way."""
    async with FlowProducer(harness.store) as flows:
        for at, way in enumerate(WAYS):
            for outcome, place in ((Done(1), "mail"), (fails(), "mail"), (fails(), "other")):
                name = f"{at}-{type(outcome).__name__}-{place}"
                await flows.add(parent(name, child(f"{name}-a", **way), queue=place))
                await harness.end(await harness.claim_one(), outcome)
                await harness.claim(1)
        await flows.add(parent("many", child("a"), child("b"), child("c", delay=1), priority=1))
        await end(harness, Done(1), Done(1), want=1)
        # A child that has been completed before, and one that only stands in line.
        await harness.add(job_id="early")
        await harness.add(job_id="idle")
        await end(harness, Done(1))
        await flows.add(parent("again", child("early"), child("idle")))
        await flows.add(parent("unique", child("d")))
        await harness.add(job_id="e", parent=Parent("unique", harness.keys.qualified))
        await harness.end(await harness.claim_one(), Done(1))
        held = await harness.claim(9)
        await harness.redis.sadd(harness.keys.of(held[0].id).dependencies, f"{harness.keys.base}f")
        await held[0].work.move_to_waiting_children()
        trimmed = harness.source(remove_on_fail=Keep(count=1))
        for name in ("g", "h"):
            await flows.add(parent(f"{name}-parent", child(name), queue="other"))
            (one,) = (await trimmed.settle([], claim=1)).claims
            await trimmed.settle([Settled(one, fails())], claim=0)


async def remove_families(harness: Harness, queue: Queue) -> None:
    async with FlowProducer(harness.store) as flows:
        for place in ("mail", "other"):
            tree = parent(f"{place}-p", child(f"{place}-a"), child(f"{place}-b"), queue=place)
            await flows.add(tree)
        grand = parent("grand", parent("p", child("c"), child("d", priority=1)), queue="other")
        await flows.add(grand)
        lonely = await queue.get_job("mail-a")
        assert lonely is not None
        assert await lonely.remove_child_dependency()
        for id in ("mail-b", "other-a"):
            await queue.remove(id)
        for state in STATES:
            assert not await queue.remove("nobody", state=state)
        top = await flows.get_flow("other", "grand")
        assert top is not None
        await top.job.remove_unprocessed_children()
        await flows.add(parent("top", parent("middle", child("low"))))
        await queue.remove("top")
        for state in ("failed", "completed"):
            await flows.add(parent("up", child("down", ignore_dependency_on_failure=True)))
            held = [each for each in await harness.claim(9) if each.id == "down"]
            await harness.end(held[0], fails() if state == "failed" else Done(1))
            down = await queue.get_job("down")
            assert down is not None
            await down.retry(state)
            await queue.obliterate(force=True)
        # Whoever is swept away leaves a parent here and one elsewhere.
        await flows.add(parent("here", child("x")))
        await flows.add(parent("there", child("y"), queue="other"))
        await queue.clean(0, state="waiting")
        await flows.add(parent("there", child("z"), queue="other"))
        await queue.obliterate()


async def step(harness: Harness, queue: Queue) -> None:
    async def held() -> Job:
        await harness.add(priority=1)
        return (await harness.claim_one()).work

    job = await held()
    await job.update_data({"a": 1})
    await job.update_progress(50)
    await job.log("a line")
    await job.clear_logs()
    await job.extend_lock(1000)
    await job.move_to_delayed(instant(0))
    await (await held()).move_to_wait()
    for priority in (0, 1):
        id = await harness.add(delay=1000, priority=priority)
        job = await queue.get_job(id)
        assert job is not None
        await job.change_delay(500)
        await job.promote()
        await job.change_priority(2)
        await job.change_priority(3, lifo=True)
        await job.change_priority(0)
        await job.remove()
    for state in ("failed", "completed"):
        await harness.redis.delete(harness.keys.wait, harness.keys.prioritized)
        for priority in (0, 1):
            id = await harness.add(priority=priority, **ONCE)
            await harness.end(await harness.claim_one(), fails() if state == "failed" else Done(1))
            job = await queue.get_job(id)
            assert job is not None
            await job.retry(state)
            await harness.end(await harness.claim_one(), fails() if state == "failed" else Done(1))
        await queue.retry_all(state=state)


async def group(harness: Harness, queue: Queue) -> None:
    """Jobs of groups, with every limit, through every state."""
    acme, key = Group("acme", cost=3, weight=2), Group("key", parent="acme", priority=1)
    await queue.groups.set("acme", rate=Limit(10, 60), concurrency=3, budget=30, max_size=50)
    await queue.groups.set_for_all(max_size=40)
    wishes: list[dict[str, Any]] = [{}, *({"group": each} for each in (acme, key, "bell", acme))]
    for wish in wishes:
        await harness.add(**wish, attempts=3)
        await harness.add(**wish, delay=1, lifo=True)
    async with FlowProducer(harness.store) as flows:
        await flows.add(parent("family", child("kin", group=acme), group=key))
    await end(harness, Done(1), fails(), Returned(), want=2)
    await harness.clock.advance(1)
    for held in await harness.claim(3):
        await held.work.charge(7)
        await harness.end(held, fails())
    await queue.groups.pause("bell")
    await harness.claim(5)
    await harness.lapse()
    await queue.groups.resume("bell")
    await queue.groups.reset_for_all()
    for state in (await queue.groups.list())[:1]:
        await queue.groups.reset(state.group)
    for job in (await queue.get_jobs("waiting"))[:2]:
        await job.change_priority(4)
        await scripts.standing(harness.store.hot, harness.keys, id=job.id)
        await job.remove()
    # As another client leaves a job of a group, and as one is counted whose job is gone.
    await harness.redis.lpush(harness.keys.wait, await harness.add(group="cord", job_id="moved"))
    await harness.redis.delete(harness.keys.of(await harness.add(group="cord")).job)
    await harness.claim(9)
    await queue.groups.set("cord", concurrency=1)
    await harness.add(group="cord")
    await harness.clock.advance(6)
    await end(harness, *[Done(1)] * 3, want=20)
    await queue.drain()
    await queue.obliterate(force=True)


async def remember(harness: Harness, queue: Queue) -> None:
    """Steps of a job, what it waits for, what it emits, and how it is undone."""

    async def held(**wish: Any) -> Job:
        await harness.add(**wish)
        return (await harness.claim_one()).work

    for priority in (0, 1):
        job = await held(priority=priority)
        await job.step("a", str, 1)
        await job.step("a", str, 2)
        await job.emit("part")
        await queue.signal(job.id, "early", 1)
        await job.wait_for("early")
        with contextlib.suppress(JobDelayed):
            await job.wait_for("late", timeout=3600)
        await queue.signal(job.id, "late")
        await queue.signal(job.id, "late")
        await harness.claim_one()
    job = await held()
    await harness.redis.hset(harness.keys.of(job.id).job, "stc", 1)
    await job.sleep(0)
    with contextlib.suppress(JobDelayed):
        await job.sleep(days=1)
    await queue.cancel(job.id)
    await harness.claim_one()
    running = await held()
    await running.step("a", str, 1)
    await queue.cancel(running.id)
    for priority in (0, 1):
        parent = await held(priority=priority, deadline=60)
        with contextlib.suppress(JobWaitingForChildren):
            await parent.run_child("kid", delay=3600)
        await harness.redis.zadd(harness.keys.deadlines, {parent.id: 1})
        await upkeep.wake_overdue(harness.store.hot, harness.keys)
        await harness.claim_one()
    for state in ("failed", "completed"):
        for many in (False, True):
            claim = await one(harness)
            await claim.work.step("a", str, 1)
            await harness.redis.hset(  # pyright: ignore[reportGeneralTypeIssues]
                harness.keys.of(claim.id).processed, f"bull:mail:{claim.id}~kid", "1"
            )
            claim.work.on_failure("b", str)
            await claim.work.emit("part")
            await steps_of(claim.work).note_undos()
            await steps_of(claim.work).mark_failing("no", b"[]")
            await steps_of(claim.work).unwind()
            await harness.end(claim, fails() if state == "failed" else Done(1))
            await (queue.retry_all(state) if many else queue.retry(claim.id))
            await harness.claim(9)


async def one(harness: Harness) -> Claim[Job]:
    await harness.add(**ONCE)
    return await harness.claim_one()


async def schedule(harness: Harness, queue: Queue) -> None:
    await queue.schedulers.upsert("often", Schedule(every=1000))
    await queue.schedulers.upsert("often", Schedule(every=2000))
    await queue.schedulers.upsert("daily", Schedule(pattern="0 0 * * *"))
    for id in ("often", "daily"):
        await queue.schedulers.pause(id, by="anna")
        await queue.schedulers.pause(id)
        await queue.schedulers.upsert(id, Schedule(every=2000))
        await queue.schedulers.resume(id)
    await queue.schedulers.upsert("paused", Schedule(pattern="0 0 * * *"))
    await queue.schedulers.pause("paused")
    await queue.schedulers.remove("paused")
    await queue.schedulers.upsert("paused", Schedule(pattern="0 0 * * *"))
    await queue.schedulers.pause("paused")
    await queue.schedulers.upsert("daily", Schedule(pattern="0 0 * * *"))
    await harness.redis.delete(harness.keys.delayed)
    for id in await harness.ids("repeat"):
        slot = await harness.redis.zscore(harness.keys.repeat, id)
        job = await queue.get_job(f"repeat:{id}:{slot:.0f}")
        assert job is not None
        await schedulers.advance(harness.store.hot, harness.keys, job, now=int(slot or 0) + 1)
        await queue.remove(job.id)
    await queue.schedulers.remove("often")
    await queue.schedulers.upsert("later", Schedule(every=1000))
    await repeat(harness)
    await queue.clean(0, state="delayed")
    await queue.obliterate(force=True)


async def repeat(harness: Harness) -> None:
    """As BullMQ 5 did it before there were schedulers."""
    await harness.redis.zadd(harness.keys.repeat, {"old": 1000})
    opts = {"repeat": {"every": 1000, "count": 1}, "prevMillis": 1000, "jobId": "repeat:old:1000"}
    fields: Any = {"name": "send", "data": "{}", "rjk": "old"}
    fields |= {"opts": json.dumps(opts), "timestamp": 1}
    await harness.redis.hset(harness.keys.of("repeat:old:1000").job, mapping=fields)
    await harness.redis.lpush(harness.keys.wait, "repeat:old:1000")
    (held,) = [each for each in await harness.claim(9) if each.id == "repeat:old:1000"]
    assert await schedulers.advance(harness.store.hot, harness.keys, held.work, now=1500)


async def admin(harness: Harness, queue: Queue) -> None:
    await queue.add_many([NewJob("send")] * 2)
    await harness.add(priority=1, deduplication=Deduplication("x"))
    await harness.add(delay=1)
    await harness.end(await harness.claim_one(), Done(1))
    for id in ("1", "2", "3", "4", "5"):
        await scripts.standing(harness.store.hot, harness.keys, id=id)
    await queue.pause(by="ada")
    await queue.resume()
    await harness.redis.lpush(harness.keys.paused, "aside")
    await queue.resume()
    await queue.promote_all()
    await queue.clean(0, state="completed")
    await queue.clean(0, state="waiting")
    await harness.add()
    (orphan,) = await harness.claim(1)
    await harness.redis.delete(harness.keys.active)
    assert len(await queue.remove_orphans()) == 1, orphan
    await harness.add(delay=1)
    await queue.drain(delayed=True)
    await harness.add()
    await queue.obliterate()


async def bring(harness: Harness, _: Queue) -> None:
    """Messages of another system: in a list, a sorted set and a hash with its index."""
    holders = {
        "list": ["theirs", "owned"],
        "stack": ["theirs", "owned"],
        "zset": ["set", "owned"],
        "hash": ["hash", "index"],
    }

    async def put() -> None:
        await harness.redis.delete("theirs", "set", "hash", "index")
        await harness.redis.lpush("theirs", "message")  # pyright: ignore[reportGeneralTypeIssues]
        await harness.redis.zadd("set", {"message": 1})
        await harness.redis.hset("hash", "message", "text")  # pyright: ignore[reportGeneralTypeIssues]
        await harness.redis.zadd("index", {"message": 1})
        await harness.redis.set("owned", "text")

    wishes: list[dict[str, Any]] = [{}, {"delay": 1000}, {"priority": 3}]
    for holder, theirs in holders.items():
        for wish in wishes:
            options = JobOptions(job_id=f"{holder}-{len(wish)}-{wish.get('delay')}", **wish)
            await put()
            for wanted in (options.job_id, 0, -1):
                if wanted == -1:
                    await put()
                answer = await scripts.bring(
                    harness.store.hot,
                    harness.keys,
                    now=harness.clock.now_ms(),
                    holder=holder,
                    message=b"message",
                    name=b"send",
                    data=b"{}",
                    opts=wire_options(options),
                    wants=wire_add_options(options),
                    theirs=theirs,
                )
                assert answer == wanted
        for mark, wanted in (("taken", 1), ("taken", 2), ("other", 0)):
            there = await scripts.take(
                harness.store.hot,
                holder=holder,
                message=b"message",
                taken=mark,
                keep_ms=1000,
                theirs=theirs,
            )
            assert there == wanted
        await harness.redis.delete("taken")


WALKS = (
    add,
    bring,
    settle,
    limit,
    cancel,
    deduplicate,
    group,
    relate,
    remove_families,
    step,
    remember,
    schedule,
    admin,
)
