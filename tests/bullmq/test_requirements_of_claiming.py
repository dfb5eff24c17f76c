"""The protocol contracts about how jobs get in and out, each as the behaviour it asks for.

Where a decision overrides the letter, the decided behaviour is tested and the docstring says so.
"""

import asyncio
import json

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import Backoff, Job, Queue, Worker
from waystation.bullmq.redis import scripts
from waystation.core.runtime.worker import WorkerOptions

VIDEO = {
    "videoId": "550e8400-e29b-41d4-a716-446655440000",
    "userId": "user-123",
    "script": {
        "title": "My Video",
        "scenes": [
            {"sceneNumber": 1, "duration": 5, "voiceover": "Welcome", "imagePrompt": "Sunset"}
        ],
    },
    "userImageUrls": ["https://example.com/img1.jpg"],
}


# --- submission ----------------------------------------------------------------------------------


async def test_ids_are_counted_from_one(harness: Harness) -> None:
    """P-1."""
    assert [await harness.add() for _ in range(3)] == ["1", "2", "3"]


async def test_a_fresh_job_has_exactly_the_fields_that_bullmq_writes(harness: Harness) -> None:
    """P-2: by decision no `progress`, `attemptsMade` or `finishedOn`, and always a `priority`."""
    id = await harness.add({"to": "ada"}, name="send")
    stored = await harness.hash(id)
    assert set(stored) == {"name", "data", "opts", "timestamp", "delay", "priority"}
    assert (stored["name"], stored["data"]) == ("send", '{"to":"ada"}')
    assert (stored["delay"], stored["priority"]) == ("0", "0")
    assert stored["timestamp"] == str(harness.clock.now_ms())


async def test_the_options_of_a_job_are_stored_as_json(harness: Harness) -> None:
    """P-3, D-28."""
    id = await harness.add(
        priority=1, backoff=Backoff.exponential(1), remove_on_complete=False, remove_on_fail=5
    )
    opts = json.loads((await harness.hash(id))["opts"])
    assert opts["priority"] == 1
    assert opts["attempts"] == 3
    assert opts["backoff"] == {"type": "exponential", "delay": 1000}
    assert (opts["removeOnComplete"], opts["removeOnFail"]) == (False, 5)


async def test_a_job_with_a_priority_waits_among_the_prioritized(harness: Harness) -> None:
    """P-4: by decision the score is BullMQ's, priority times 2^32 plus the order of arrival."""
    first, second = await harness.add(priority=3), await harness.add(priority=3)
    scores = [await harness.redis.zscore(harness.keys.prioritized, id) for id in (first, second)]
    assert scores == [3 * 2**32 + 1, 3 * 2**32 + 2]


async def test_a_job_without_one_waits_in_the_list(harness: Harness) -> None:
    """P-5: by decision the oldest is at the right end, where BullMQ takes from."""
    ids = [await harness.add() for _ in range(3)]
    assert await harness.ids("wait") == ids[::-1]


async def test_an_added_job_is_told(harness: Harness) -> None:
    """P-6, P-45: by decision with BullMQ's `added` before it; the instant is the stream's id."""
    id = await harness.add(name="send")
    assert await harness.events() == [
        {"event": "added", "jobId": id, "name": "send"},
        {"event": "waiting", "jobId": id},
    ]


async def test_one_job_with_a_priority_is_all_there_is(harness: Harness) -> None:
    """P-8: by decision there are two events, BullMQ's `added` and `waiting`."""
    await harness.add(priority=1)
    assert await harness.call("GET", harness.keys.id) == b"1"
    assert await harness.ids("prioritized") == ["1"]
    assert await harness.hash("1")
    assert await harness.call("XLEN", harness.keys.events) == 2


async def test_the_video_payload_arrives_as_it_was_sent(harness: Harness) -> None:
    """P-9: what is in the data is the application's own affair; it is not changed on the way."""
    await harness.add(VIDEO, name="video-generation")
    job = (await harness.claim_one()).work
    assert (job.name, job.data) == ("video-generation", VIDEO)


# --- pickup --------------------------------------------------------------------------------------


def test_the_step_takes_every_key_that_a_claim_touches() -> None:
    """P-10, P-11: the order is our own; by decision the script is sent by whoever calls it."""
    header = scripts.settle.header
    assert {"wait", "active", "prioritized", "delayed", "paused", "meta", "events"} <= set(
        header.keys
    )
    assert {"now", "token", "lease_ms", "worker", "max", "duration"} <= set(header.args)


async def test_a_paused_queue_hands_nothing_out(harness: Harness) -> None:
    """P-12, D-42: by decision the field's presence counts, whatever its value."""
    id = await harness.add()
    await harness.call("HSET", harness.keys.meta, "paused", 1)
    assert await harness.claim() == []
    # Where BullMQ 5 looks for what waits in a paused queue, and 6 as well.
    assert await harness.call("LRANGE", harness.keys.paused, 0, -1) == [id.encode()]
    await Queue(harness.keys.name, harness.store).resume()
    assert [claim.id for claim in await harness.claim()] == [id]


async def test_the_rate_limit_is_looked_at_before_a_job_is_taken(harness: Harness) -> None:
    """P-13, D-41."""
    id = await harness.add()
    await harness.call("HSET", harness.keys.meta, "max", 5, "duration", 60_000)
    await harness.call("SET", harness.keys.limiter, 5, "PX", 60_000)
    assert await harness.claim() == []
    assert await harness.where(id) == ["wait"]


async def test_an_empty_queue_gives_nothing(harness: Harness) -> None:
    """P-15."""
    assert await harness.claim() == []


async def test_a_claim_holds_the_job_under_a_lock(harness: Harness) -> None:
    """P-16, P-17, P-21, D-13: one lock with the token, for its duration, and the id is active."""
    first, second = await harness.add(), await harness.add()
    (claim,) = await harness.claim()
    lock = harness.keys.of(first).lock
    assert await harness.redis.get(lock) == claim.token.encode()
    assert 15_000 < await harness.redis.pttl(lock) <= 30_000
    assert await harness.where(first) == ["active"]
    await harness.claim()
    assert await harness.ids("active") == [second, first]


async def test_a_claim_is_noted_in_the_job(harness: Harness) -> None:
    """P-18, D-12: by decision as `processedOn`, `pb` and `ats`; `atm` counts at the end."""
    id = await harness.add()
    await harness.claim()
    stored = await harness.hash(id)
    assert stored["processedOn"] == str(harness.clock.now_ms())
    assert (stored["pb"], stored["ats"]) == ("host-1-abc", "1")
    assert "attemptsMade" not in stored
    assert "atm" not in stored


async def test_a_claim_is_told_with_its_worker(harness: Harness) -> None:
    """P-19, P-46, D-35: BullMQ's fields, and the worker besides."""
    id = await harness.add()
    await harness.claim()
    assert (await harness.events())[-1] == {
        "event": "active",
        "jobId": id,
        "prev": "waiting",
        "workerId": "host-1-abc",
    }


async def test_a_claim_brings_the_whole_job(harness: Harness) -> None:
    """P-20."""
    id = await harness.add({"a": [1, {"b": None}]}, name="send", priority=4)
    job = (await harness.claim_one()).work
    assert (job.id, job.name, job.data, job.priority) == (id, "send", {"a": [1, {"b": None}]}, 4)


# --- heartbeat -----------------------------------------------------------------------------------


async def test_the_holder_renews_its_lock_and_nobody_else_can(harness: Harness) -> None:
    """P-22, P-23, P-24, P-47: by token, many in one call; the reply names those that are lost."""
    for _ in range(3):
        await harness.add()
    ours, taken, lapsed = await harness.claim(3)
    await harness.redis.pexpire(harness.keys.of(ours.id).lock, 1000)
    await harness.redis.set(harness.keys.of(taken.id).lock, "another")
    await harness.redis.delete(harness.keys.of(lapsed.id).lock)

    assert await harness.extend(ours, taken, lapsed) == [taken, lapsed]
    assert await harness.redis.pttl(harness.keys.of(ours.id).lock) > 15_000
    assert await harness.redis.get(harness.keys.of(taken.id).lock) == b"another"


async def test_a_heartbeat_clears_the_suspicion_and_tells_nobody(harness: Harness) -> None:
    """P-26."""
    await harness.add()
    claim = await harness.claim_one()
    await harness.check_stalled()
    before = await harness.events()
    await harness.extend(claim)
    assert await harness.redis.scard(harness.keys.stalled) == 0  # pyright: ignore
    assert await harness.events() == before


async def test_locks_are_renewed_while_a_job_runs_and_not_after(
    harness: Harness, redis_url: str
) -> None:
    """P-25: by decision for all held jobs in one call, at a third of the lock."""
    assert WorkerOptions().renew == 0
    renewed = asyncio.Event()
    id = await harness.add()
    lock = harness.keys.of(id).lock

    async def handle(job: Job) -> None:
        while not renewed.is_set():
            left = await harness.redis.pttl(lock)
            await asyncio.sleep(0.02)
            if await harness.redis.pttl(lock) > left:
                renewed.set()

    async with Worker("mail", handle, redis_url, lease=0.6, poll=0.05):
        async with asyncio.timeout(LIMIT_S):
            await renewed.wait()
            while await harness.where(id) != ["completed"]:
                await asyncio.sleep(0.01)
    assert await harness.redis.exists(lock) == 0


async def test_every_job_that_is_due_comes_however_many_are(harness: Harness) -> None:
    """A call promotes a thousand at most, and the next one goes on."""
    ids = [await harness.add(delay=1) for _ in range(1001)]
    await harness.clock.advance(2)
    claimed: list[str] = []
    while some := await harness.claim(1000):
        claimed += [claim.id for claim in some]
    assert sorted(claimed) == sorted(ids)
    assert not await harness.ids("delayed")
