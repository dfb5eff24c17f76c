"""BullMQ 5 beside us: it keeps a paused queue's jobs elsewhere, and writes a little else."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from tests.wire.node import NodePeer, Remote
from tests.wire.steps import Steps
from waystation.bullmq import Job, Queue, Worker
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.scheduling import schedulers
from waystation.bullmq.source import BullSource, ClaimOptions
from waystation.bullmq.upkeep import recover_stalled
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.store.connection import Store

HOUR = 3_600_000


async def claimed(store: Store, queue: Queue) -> Sequence[Claim[Job]]:
    source = BullSource(store, QueueKeys("q"), ClaimOptions(worker="test"))
    return (await source.settle([], claim=1)).claims


async def test_a_job_that_fails_while_bullmq_5_has_paused_is_kept(
    node5: NodePeer, queue: Queue, store: Store
) -> None:
    remote = node5.queue("q")
    await queue.add("waiting")
    job = await queue.add(
        "retried",
        {"do": [["runFor", 100], ["throw", "no", 1]]},
        attempts=2,
        backoff=None,
        lifo=True,
    )
    async with Worker("q", Steps(store), store) as ours:
        await remote.poll("getJobState", job.id, gives="active")
        await remote.call("pause")
        await remote.poll("getJob", job.id, gives={"attemptsMade": 1})
        ours.pause()
        await remote.call("resume")

    theirs = node5.worker("q")
    await theirs.until("completed", count=2)


async def test_what_we_add_while_an_empty_queue_is_paused_by_bullmq_5_is_kept(
    node5: NodePeer, queue: Queue, redis: Redis
) -> None:
    remote = node5.queue("q")
    await remote.call("pause")
    await queue.add_many([("ours", 1), ("ours", 2)])
    await remote.call("add", "theirs", {})
    await remote.call("resume")

    assert await redis.lrange("bull:q:wait", 0, -1) == [b"3", b"2", b"1"]


async def test_what_waits_while_we_pause_is_kept_when_bullmq_5_resumes(
    node5: NodePeer, queue: Queue, redis: Redis
) -> None:
    remote = node5.queue("q")
    await remote.call("count")
    await queue.add_many([("ours", 1), ("ours", 2)])
    await queue.pause()
    await remote.call("add", "theirs", {})
    assert await queue.counts("waiting") == {"waiting": 3}
    assert await queue.remove_orphans() == []
    await remote.call("resume")

    assert await redis.lrange("bull:q:wait", 0, -1) == [b"3", b"2", b"1"]


async def test_what_waited_in_a_queue_that_bullmq_6_paused_is_set_aside_by_a_worker_when_5_comes(
    node5: NodePeer, node6: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    await queue.add_many([("ours", 1), ("ours", 2)])
    await node6.queue("q").call("pause")
    remote = node5.queue("q")
    await remote.call("add", "theirs", {})
    async with Worker("q", Steps(store), store, poll=0.05), asyncio.timeout(LIMIT_S):
        while await redis.exists("bull:q:wait"):
            await asyncio.sleep(0.01)
    await remote.call("resume")

    assert await redis.lrange("bull:q:wait", 0, -1) == [b"2", b"1", b"3"]


EVERYTHING = "open close pause add resume"
FLEETS = {
    "BullMQ 5 and us": {"us": f"{EVERYTHING} work", "5": EVERYTHING},
    "BullMQ 6 and us": {"us": f"{EVERYTHING} work", "6": EVERYTHING},
    # BullMQ 5 loses what 6 adds while the queue is paused, with us and without us.
    "all, where 5 only adds": {"us": f"{EVERYTHING} work", "6": EVERYTHING, "5": "open close add"},
}
SEQUENCES = dict(zip(FLEETS, (40, 10, 10), strict=True))
HOLDERS = {"wait": "lrange", "paused": "lrange", "active": "lrange", "completed": "zrange"}


class Fleet:
    """Clients of several generations that do the same few things to one queue."""

    def __init__(self, peers: dict[str, NodePeer], store: Store) -> None:
        self._peers = peers
        self._store = store
        self._theirs: dict[str, Remote] = {}
        self._ours: Queue | None = None
        self.added: list[str] = []

    async def do(self, who: str, what: str) -> None:
        if what == "work":
            await worked_off(self._store)
        elif who == "us":
            await self._do_ours(what)
        else:
            await self._do_theirs(who, what)

    async def _do_ours(self, what: str) -> None:
        if what == "close" or self._ours is None:
            self._ours = Queue("q", self._store)
        if what == "add":
            self.added.append((await self._ours.add("ours", attempts=1)).id)
        elif what in ("pause", "resume"):
            await getattr(self._ours, what)()

    async def _do_theirs(self, who: str, what: str) -> None:
        if what == "close":
            if remote := self._theirs.pop(who, None):
                await remote.close()
            return
        if who not in self._theirs:
            self._theirs[who] = await self._peers[who].queue("q").ready()
        if what == "add":
            self.added.append((await self._theirs[who].call("add", "theirs", {}))["id"])
        elif what != "open":
            await self._theirs[who].call(what)


async def worked_off(store: Store) -> None:
    """A worker of ours looks once, and completes what it gets."""
    source = BullSource(store, QueueKeys("q"), ClaimOptions(worker="test"))
    claims = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Done(None)) for claim in claims], claim=0)


@pytest.mark.parametrize("fleet", FLEETS)
async def test_jobs_are_conserved_whoever_opens_pauses_adds_resumes_and_closes(
    fleet: str, node5: NodePeer, node6: NodePeer, store: Store, redis: Redis
) -> None:
    can = {who: moves.split() for who, moves in FLEETS[fleet].items()}
    for seed in range(SEQUENCES[fleet]):
        dice, path = random.Random(seed), list[tuple[str, str]]()
        who = "us"
        await redis.flushdb()
        clients = Fleet({"5": node5, "6": node6}, store)
        while len(path) < 10:
            # Each does some things in a row, as one that is started or deployed does.
            who = dice.choice([who, who, *can])
            path.append((who, dice.choice(can[who])))
            await clients.do(*path[-1])
            held: list[str] = []
            for key, command in HOLDERS.items():
                ids = await getattr(redis, command)(f"bull:q:{key}", 0, -1)
                held += [id.decode() for id in ids]
            assert sorted(held) == sorted(clients.added), path
        for who in ("5", "6"):
            await clients.do(who, "close")


async def test_a_queue_that_bullmq_5_paused_is_resumed_by_us_in_one_step(
    node5: NodePeer, queue: Queue, redis: Redis
) -> None:
    remote = node5.queue("q")
    await remote.call("pause")
    await queue.add_many([("ours", n) for n in range(15_000)])
    await queue.resume()

    assert await redis.llen("bull:q:wait") == 15_000
    assert not await redis.exists("bull:q:paused")


async def test_a_stalled_job_of_a_queue_that_bullmq_5_paused_is_kept(
    node5: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    remote = node5.queue("q")
    job = await queue.add("work")
    (claim,) = await claimed(store, queue)
    await redis.delete(f"bull:q:{claim.id}:lock")
    await remote.call("pause")
    other = await queue.add("other")
    for _ in range(2):
        await redis.delete("bull:q:stalled-check")
        await recover_stalled(store.redis, QueueKeys("q"))
    await remote.call("resume")

    assert await redis.lrange("bull:q:wait", 0, -1) == [other.id.encode(), job.id.encode()]


async def test_a_fleet_of_both_generations_that_is_paused_and_resumed_loses_nothing(
    node5: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    remote, dice = node5.queue("q"), random.Random(5)
    node5.worker("q", concurrency=3)
    many = 0
    async with Worker("q", Steps(store), store, concurrency=3, poll=0.1):
        for _ in range(150):
            match dice.randrange(6):
                case 0:
                    await remote.call("pause")
                case 1:
                    await queue.pause()
                case 2:
                    await remote.call("resume")
                case 3:
                    await queue.resume()
                case 4:
                    await remote.call("addBulk", [{"name": "theirs", "data": {}}] * 5)
                    many += 5
                case _:
                    fails = {"do": [["throw", "no", 1]]}
                    await queue.add_many([("ours", fails), ("ours", {}), ("ours", {})])
                    await queue.add("later", delay=dice.randrange(1, 30) / 1000)
                    await queue.add("urgent", priority=2)
                    many += 5
        await remote.call("resume")
        await queue.resume()
        await remote.poll("getCompletedCount", gives=many)

    assert many > 200
    assert await redis.exists("bull:q:wait", "bull:q:paused", "bull:q:active") == 0


REPEATED: list[dict[str, Any]] = [{"every": 60}, {"pattern": "* * * * * *"}]


@pytest.mark.slow
@pytest.mark.parametrize("repeat", REPEATED, ids=["every", "pattern"])
async def test_a_repeatable_job_of_bullmq_5_goes_on_with_us_and_with_it_in_turn(
    repeat: dict[str, Any], node5: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    remote = node5.queue("q")
    await remote.call("add", "tick", {"n": 1}, {"repeat": repeat})
    async with Worker("q", Steps(store), store):
        await remote.poll("getCompletedCount", gives=[*range(2, 200)])
    theirs = node5.worker("q")
    await theirs.until("completed")
    await theirs.close()
    before = await remote.call("getCompletedCount")
    async with Worker("q", Steps(store), store):
        await remote.poll("getCompletedCount", gives=[*range(before + 2, before + 200)])

    jobs = await queue.get_jobs("completed", "delayed", "waiting", limit=None)
    counts = [job.options.raw["repeat"]["count"] for job in jobs]
    assert sorted(counts) == list(range(1, len(jobs) + 1))
    assert {job.data["n"] for job in jobs} == {1}
    assert len(await remote.call("getRepeatableJobs")) == 1
    assert await redis.zcard("bull:q:delayed") + await redis.llen("bull:q:wait") == 1


async def test_a_repeatable_job_that_bullmq_5_has_removed_is_not_repeated(
    node5: NodePeer, queue: Queue, store: Store, redis: Redis
) -> None:
    remote = node5.queue("q")
    await remote.call("add", "tick", {}, {"repeat": {"every": 50}})
    (known,) = await remote.call("getRepeatableJobs")
    async with asyncio.timeout(LIMIT_S):
        while not (held := await claimed(store, queue)):
            await asyncio.sleep(0.01)
    await remote.call("removeRepeatableByKey", known["key"])
    assert await schedulers.advance(store.redis, QueueKeys("q"), held[0].work) is None
    assert await redis.zcard("bull:q:delayed") == 0


@pytest.mark.slow
async def test_a_repeatable_job_of_bullmq_5_ends_at_its_limit(
    node5: NodePeer, queue: Queue, store: Store
) -> None:
    remote = node5.queue("q")
    await remote.call("add", "tick", {}, {"repeat": {"every": 20, "limit": 3}})
    async with Worker("q", Steps(store), store):
        await remote.poll("getCompletedCount", gives=3)

    assert await remote.call("getDelayedCount") == 0


async def test_we_work_on_what_bullmq_5_repeats(node5: NodePeer, store: Store) -> None:
    remote = node5.queue("q")
    await remote.call("upsertJobScheduler", "s", {"every": HOUR}, {"name": "tick"})
    async with Worker("q", Steps(store), store):
        await remote.poll("getCompletedCount", gives=1)

    scheduler = await remote.call("getJobScheduler", "s")
    assert scheduler["iterationCount"] == 2
    assert await remote.call("getDelayedCount") == 1


async def test_a_listener_of_bullmq_5_hears_what_we_turn_away(
    node5: NodePeer, queue: Queue
) -> None:
    events = node5.events("q")
    await queue.add("work", 1, job_id="a")
    await queue.add("work", 2, job_id="a")

    assert (await events.until("duplicated"))[0]["jobId"] == "a"
