"""The protocol contracts about how jobs get in and out, each as the behaviour it asks for.

Where a decision overrides the letter, the decided behaviour is tested and the docstring says so.
"""

import asyncio
import json

from tests.bullmq.hands import Hands
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


async def test_ids_are_counted_from_one(hands: Hands) -> None:
    """P-1."""
    assert [await hands.add() for _ in range(3)] == ["1", "2", "3"]


async def test_a_fresh_job_has_exactly_the_fields_that_bullmq_writes(hands: Hands) -> None:
    """P-2: by decision no `progress`, `attemptsMade` or `finishedOn`, and always a `priority`."""
    id = await hands.add({"to": "ada"}, name="send")
    stored = await hands.hash(id)
    assert set(stored) == {"name", "data", "opts", "timestamp", "delay", "priority"}
    assert (stored["name"], stored["data"]) == ("send", '{"to":"ada"}')
    assert (stored["delay"], stored["priority"]) == ("0", "0")
    assert stored["timestamp"] == str(hands.clock.now_ms())


async def test_the_options_of_a_job_are_stored_as_json(hands: Hands) -> None:
    """P-3, D-28."""
    id = await hands.add(
        priority=1, backoff=Backoff.exponential(1), remove_on_complete=False, remove_on_fail=5
    )
    opts = json.loads((await hands.hash(id))["opts"])
    assert opts["priority"] == 1
    assert opts["attempts"] == 3
    assert opts["backoff"] == {"type": "exponential", "delay": 1000}
    assert (opts["removeOnComplete"], opts["removeOnFail"]) == (False, 5)


async def test_a_job_with_a_priority_waits_among_the_prioritized(hands: Hands) -> None:
    """P-4: by decision the score is BullMQ's, priority times 2^32 plus the order of arrival."""
    first, second = await hands.add(priority=3), await hands.add(priority=3)
    scores = [await hands.redis.zscore(hands.keys.prioritized, id) for id in (first, second)]
    assert scores == [3 * 2**32 + 1, 3 * 2**32 + 2]


async def test_a_job_without_one_waits_in_the_list(hands: Hands) -> None:
    """P-5: by decision the oldest is at the right end, where BullMQ takes from."""
    ids = [await hands.add() for _ in range(3)]
    assert await hands.ids("wait") == ids[::-1]


async def test_an_added_job_is_told(hands: Hands) -> None:
    """P-6, P-45: by decision with BullMQ's `added` before it; the instant is the stream's id."""
    id = await hands.add(name="send")
    assert await hands.events() == [
        {"event": "added", "jobId": id, "name": "send"},
        {"event": "waiting", "jobId": id},
    ]


async def test_one_job_with_a_priority_is_all_there_is(hands: Hands) -> None:
    """P-8: by decision there are two events, BullMQ's `added` and `waiting`."""
    await hands.add(priority=1)
    assert await hands.call("GET", hands.keys.id) == b"1"
    assert await hands.ids("prioritized") == ["1"]
    assert await hands.hash("1")
    assert await hands.call("XLEN", hands.keys.events) == 2


async def test_the_video_payload_arrives_as_it_was_sent(hands: Hands) -> None:
    """P-9: what is in the data is the application's own affair; it is not changed on the way."""
    await hands.add(VIDEO, name="video-generation")
    job = (await hands.claim_one()).work
    assert (job.name, job.data) == ("video-generation", VIDEO)


# --- pickup --------------------------------------------------------------------------------------


def test_the_step_takes_every_key_that_a_claim_touches() -> None:
    """P-10, P-11: the order is our own; by decision the script is sent by whoever calls it."""
    header = scripts.settle.header
    assert {"wait", "active", "prioritized", "delayed", "paused", "meta", "events"} <= set(
        header.keys
    )
    assert {"now", "token", "lease_ms", "worker", "max", "duration"} <= set(header.args)


async def test_a_paused_queue_hands_nothing_out(hands: Hands) -> None:
    """P-12, D-42: by decision the field's presence counts, whatever its value."""
    id = await hands.add()
    await hands.call("HSET", hands.keys.meta, "paused", 1)
    assert await hands.claim() == []
    # Where BullMQ 5 looks for what waits in a paused queue, and 6 as well.
    assert await hands.call("LRANGE", hands.keys.paused, 0, -1) == [id.encode()]
    await Queue(hands.keys.name, hands.store).resume()
    assert [claim.id for claim in await hands.claim()] == [id]


async def test_the_rate_limit_is_looked_at_before_a_job_is_taken(hands: Hands) -> None:
    """P-13, D-41."""
    id = await hands.add()
    await hands.call("HSET", hands.keys.meta, "max", 5, "duration", 60_000)
    await hands.call("SET", hands.keys.limiter, 5, "PX", 60_000)
    assert await hands.claim() == []
    assert await hands.where(id) == ["wait"]


async def test_an_empty_queue_gives_nothing(hands: Hands) -> None:
    """P-15."""
    assert await hands.claim() == []


async def test_a_claim_holds_the_job_under_a_lock(hands: Hands) -> None:
    """P-16, P-17, P-21, D-13: one lock with the token, for its duration, and the id is active."""
    first, second = await hands.add(), await hands.add()
    (claim,) = await hands.claim()
    lock = hands.keys.of(first).lock
    assert await hands.redis.get(lock) == claim.token.encode()
    assert 15_000 < await hands.redis.pttl(lock) <= 30_000
    assert await hands.where(first) == ["active"]
    await hands.claim()
    assert await hands.ids("active") == [second, first]


async def test_a_claim_is_noted_in_the_job(hands: Hands) -> None:
    """P-18, D-12: by decision as `processedOn`, `pb` and `ats`; `atm` counts at the end."""
    id = await hands.add()
    await hands.claim()
    stored = await hands.hash(id)
    assert stored["processedOn"] == str(hands.clock.now_ms())
    assert (stored["pb"], stored["ats"]) == ("host-1-abc", "1")
    assert "attemptsMade" not in stored
    assert "atm" not in stored


async def test_a_claim_is_told_with_its_worker(hands: Hands) -> None:
    """P-19, P-46, D-35: BullMQ's fields, and the worker besides."""
    id = await hands.add()
    await hands.claim()
    assert (await hands.events())[-1] == {
        "event": "active",
        "jobId": id,
        "prev": "waiting",
        "workerId": "host-1-abc",
    }


async def test_a_claim_brings_the_whole_job(hands: Hands) -> None:
    """P-20."""
    id = await hands.add({"a": [1, {"b": None}]}, name="send", priority=4)
    job = (await hands.claim_one()).work
    assert (job.id, job.name, job.data, job.priority) == (id, "send", {"a": [1, {"b": None}]}, 4)


# --- heartbeat -----------------------------------------------------------------------------------


async def test_the_holder_renews_its_lock_and_nobody_else_can(hands: Hands) -> None:
    """P-22, P-23, P-24, P-47: by token, many in one call; the reply names those that are lost."""
    for _ in range(3):
        await hands.add()
    ours, taken, lapsed = await hands.claim(3)
    await hands.redis.pexpire(hands.keys.of(ours.id).lock, 1000)
    await hands.redis.set(hands.keys.of(taken.id).lock, "another")
    await hands.redis.delete(hands.keys.of(lapsed.id).lock)

    assert await hands.extend(ours, taken, lapsed) == [taken, lapsed]
    assert await hands.redis.pttl(hands.keys.of(ours.id).lock) > 15_000
    assert await hands.redis.get(hands.keys.of(taken.id).lock) == b"another"


async def test_a_heartbeat_clears_the_suspicion_and_tells_nobody(hands: Hands) -> None:
    """P-26."""
    await hands.add()
    claim = await hands.claim_one()
    await hands.check_stalled()
    before = await hands.events()
    await hands.extend(claim)
    assert await hands.redis.scard(hands.keys.stalled) == 0  # pyright: ignore
    assert await hands.events() == before


async def test_locks_are_renewed_while_a_job_runs_and_not_after(
    hands: Hands, redis_url: str
) -> None:
    """P-25: by decision for all held jobs in one call, at a third of the lock."""
    assert WorkerOptions().renew == 0
    renewed = asyncio.Event()
    id = await hands.add()
    lock = hands.keys.of(id).lock

    async def handle(job: Job) -> None:
        while not renewed.is_set():
            left = await hands.redis.pttl(lock)
            await asyncio.sleep(0.02)
            if await hands.redis.pttl(lock) > left:
                renewed.set()

    async with Worker("mail", handle, redis_url, lease=0.6, poll=0.05):
        async with asyncio.timeout(LIMIT_S):
            await renewed.wait()
            while await hands.where(id) != ["completed"]:
                await asyncio.sleep(0.01)
    assert await hands.redis.exists(lock) == 0


async def test_every_job_that_is_due_comes_however_many_are(hands: Hands) -> None:
    """A call promotes a thousand at most, and the next one goes on."""
    ids = [await hands.add(delay=1) for _ in range(1001)]
    await hands.clock.advance(2)
    claimed: list[str] = []
    while some := await hands.claim(1000):
        claimed += [claim.id for claim in some]
    assert sorted(claimed) == sorted(ids)
    assert not await hands.ids("delayed")
