"""What cannot be right is refused with a name, or fails with a reason; nothing is lost or loops."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import Backoff, Job, Keep, Queue
from waystation.bullmq.worker import Worker
from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidOption, PayloadTooLarge, WrongType


@pytest.fixture
async def queue(redis_url: str) -> AsyncIterator[Queue]:
    async with Queue("mail", redis_url) as opened:
        yield opened


@contextlib.asynccontextmanager
async def working(
    harness: Harness, redis_url: str, handler: Callable[[Job], Any], **options: Any
) -> AsyncGenerator[Worker]:
    options = {"poll": 0.05, "stalled_interval": 0.1, "lease": 5} | options
    async with Worker(harness.keys.name, handler, redis_url, **options) as worker:
        yield worker


async def ended(harness: Harness, many: int) -> None:
    """Wait until so many jobs have ended and nothing is held."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            finished = len(await harness.ids("completed")) + len(await harness.ids("failed"))
            if finished >= many and not await harness.ids("active"):
                return
            await asyncio.sleep(0.01)


# --- producers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"priority": -1},
        {"delay": -1},
        {"attempts": 0},
        {"backoff": Backoff("exponential", 0)},
        {"job_id": "wait"},
        {"job_id": "17"},
        {"job_id": "a:b"},
        {"remove_on_complete": -1},
    ],
)
async def test_a_refused_option_is_an_error_before_any_write(
    queue: Queue, harness: Harness, options: dict[str, Any]
) -> None:
    """D-29."""
    before = await harness.everything()
    with pytest.raises(InvalidOption):
        await queue.add("send", {}, **options)
    assert await harness.everything() == before


@pytest.mark.parametrize(
    "data",
    [float("nan"), {"a": [1, float("inf")]}, {"a": object()}],
)
async def test_data_that_is_no_json_is_refused(queue: Queue, harness: Harness, data: Any) -> None:
    before = await harness.everything()
    with pytest.raises(InvalidInput):
        await queue.add("send", data)
    assert await harness.everything() == before


async def test_one_byte_too_many_is_refused_and_one_less_is_taken(
    queue: Queue, harness: Harness
) -> None:
    """D-16, D-17: data and options together, in bytes of JSON, before any write."""
    job = await queue.add("send", "")
    stored = await harness.hash(job.id)
    room = codec.PAYLOAD_LIMIT - len(stored["data"]) - len(stored["opts"])
    before = await harness.everything()

    with pytest.raises(
        PayloadTooLarge, match=r"^Job payload size 10\.0 MB exceeds limit of 10\.0 MB"
    ):
        await queue.add("send", "x" * (room + 1))
    assert await harness.everything() == before
    large = await queue.add("send", "x" * room)
    assert await harness.where(large.id) == ["wait"]


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "{a}{b}"])
def test_a_queue_needs_a_name_that_fits_into_a_key(name: str) -> None:
    with pytest.raises(InvalidOption):
        Queue(name)


@pytest.mark.parametrize("id", ["naïve ☃", "a b", "line\nbreak", "{tag}", "*", "../../etc"])
async def test_an_odd_id_is_still_an_id(
    queue: Queue, harness: Harness, redis_url: str, id: str
) -> None:
    await queue.add("send", {}, job_id=id)
    async with working(harness, redis_url, lambda job: job.id):
        await ended(harness, 1)
    assert (await harness.hash(id))["returnvalue"] == codec.encode(id).decode()


# --- what is found in the store ------------------------------------------------------------------

FIELDS = ["name", "data", "opts", "timestamp", "delay", "priority", "atm", "ats", "stc", "defa"]


@pytest.mark.parametrize("value", [b"", b"\xff\xfe", b"{", b"not a number", b"1e400", b"-1"])
@pytest.mark.parametrize("field", FIELDS)
async def test_a_broken_field_ends_the_job_and_nothing_else(
    harness: Harness, redis_url: str, field: str, value: bytes
) -> None:
    """The job ends in one way or the other, and the one behind it runs."""
    broken = await harness.add(attempts=1)
    await harness.call("HSET", harness.keys.of(broken).job, field, value)
    sound = await harness.add(attempts=1)

    async with working(harness, redis_url, lambda job: job.data):
        await ended(harness, 2)

    assert await harness.where(sound) == ["completed"]
    (state,) = await harness.where(broken)
    reason = await harness.call("HGET", harness.keys.of(broken).job, "failedReason")
    assert state == "completed" or reason


@pytest.mark.parametrize("field", FIELDS[:6])
async def test_a_missing_field_ends_the_job_and_nothing_else(
    harness: Harness, redis_url: str, field: str
) -> None:
    broken = await harness.add(attempts=1)
    await harness.call("HDEL", harness.keys.of(broken).job, field)
    sound = await harness.add(attempts=1)

    async with working(harness, redis_url, lambda job: job.data):
        await ended(harness, 2)

    assert await harness.where(sound) == ["completed"]
    assert len(await harness.where(broken)) == 1


@pytest.mark.parametrize("field", ["priority", "delay", "atm", "stc"])
async def test_a_broken_field_does_not_lose_a_job_that_fails(
    harness: Harness, redis_url: str, field: str
) -> None:
    """A retry, a pause and the last failure each count and place the job by its fields."""
    ids = [await harness.add(attempts=2, backoff=pause) for pause in (None, 0.05)]
    for id in ids:
        await harness.call("HSET", harness.keys.of(id).job, field, "broken")

    def fail(job: Job) -> None:
        raise ValueError("no")

    async with working(harness, redis_url, fail):
        await ended(harness, 2)
    assert sorted(await harness.ids("failed")) == sorted(ids)


async def test_a_broken_field_does_not_lose_a_job_that_stalls(harness: Harness) -> None:
    id = await harness.add()
    await harness.claim_one()
    for field in ("stc", "priority", "opts"):
        await harness.call("HSET", harness.keys.of(id).job, field, "broken")
    assert await harness.lapse() == [id]
    assert await harness.where(id) == ["wait"]


async def test_a_key_that_is_no_job_leaves_the_line(harness: Harness, redis_url: str) -> None:
    odd = await harness.add()
    await harness.call("SET", harness.keys.of(odd).job, "not a hash")
    sound = await harness.add()
    async with working(harness, redis_url, lambda job: None):
        await ended(harness, 1)
    assert await harness.where(sound) == ["completed"]
    assert await harness.where(odd) == []


@pytest.mark.parametrize("state", ["wait", "prioritized", "delayed", "active", "paused"])
async def test_an_id_whose_job_is_gone_is_no_job_to_run(
    harness: Harness, redis_url: str, state: str
) -> None:
    """By decision: BullMQ runs it as an empty job."""
    key, ran = f"{harness.keys.base}{state}", list[str]()
    if state in ("prioritized", "delayed"):
        await harness.call("ZADD", key, 1, "ghost")
    else:
        await harness.call("LPUSH", key, "ghost")
    sound = await harness.add()

    async with working(harness, redis_url, lambda job: ran.append(job.id)):
        await ended(harness, 1)

    assert ran == [sound]
    assert await harness.hash("ghost") == {}
    if state != "paused":
        assert await harness.ids(state) == []


async def test_a_job_that_is_deleted_while_it_runs_leaves_no_ghost(harness: Harness) -> None:
    id = await harness.add()
    claim = await harness.claim_one()
    await harness.redis.delete(harness.keys.of(id).job)

    assert await harness.complete(claim, "done") is not None
    assert await harness.fail(claim) is not None
    assert await harness.hash(id) == {}
    assert await harness.ids("completed") == []
    await harness.lapse()
    assert await harness.ids("active") == []


@pytest.mark.parametrize("state", [b"", b"x", b"-1", b"1e400"])
@pytest.mark.parametrize("field", ["concurrency", "max", "duration", "opts.maxLenEvents"])
async def test_broken_settings_of_a_queue_do_not_lose_jobs(
    harness: Harness, field: str, state: bytes
) -> None:
    await harness.call("HSET", harness.keys.meta, field, state)
    await harness.add()
    await harness.claim()
    for id in await harness.ids("wait") + await harness.ids("active"):
        assert await harness.hash(id)
    stored = [
        key for key in await harness.everything() if key.removeprefix(harness.keys.base) == "1"
    ]
    placed = await harness.ids("wait") + await harness.ids("active")
    assert len(stored) == len(placed)


# --- handlers ------------------------------------------------------------------------------------


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even saying why fails")


@pytest.mark.parametrize(
    "error",
    [ValueError("\ud800"), ValueError("\x00"), ValueError("x" * 1_000_000), Unspeakable()],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_that_cannot_be_told_still_fails_the_job(
    harness: Harness, redis_url: str, error: Exception
) -> None:
    bad, good = await harness.add(attempts=1), await harness.add(attempts=1)

    def handle(job: Job) -> None:
        if job.id == bad:
            raise error

    async with working(harness, redis_url, handle):
        await ended(harness, 2)
    assert await harness.where(bad) == ["failed"]
    assert (await harness.hash(bad))["failedReason"]
    assert await harness.where(good) == ["completed"]


@pytest.mark.parametrize(
    "result", [float("nan"), object(), {"a": "\ud800"}, {"a": {1, 2}, "b": lambda: 0}]
)
async def test_a_result_that_is_no_json_fails_the_job_with_a_reason(
    harness: Harness, redis_url: str, result: Any
) -> None:
    bad = await harness.add(attempts=1)
    good = await harness.add(attempts=1)
    async with working(harness, redis_url, lambda job: result if job.id == bad else "fine"):
        await ended(harness, 2)
    stored = await harness.hash(bad)
    if await harness.where(bad) == ["completed"]:
        codec.decode(stored["returnvalue"])
    else:
        assert "JSON" in stored["failedReason"]
    assert await harness.where(good) == ["completed"]


async def test_a_backoff_that_nobody_knows_fails_the_job_with_a_reason(
    harness: Harness, redis_url: str
) -> None:
    id = await harness.add(attempts=5, backoff=Backoff("by-the-moon", 0.01))

    def fail(job: Job) -> None:
        raise ValueError("the reason of the handler")

    async with working(harness, redis_url, fail):
        await ended(harness, 1)
    assert "the reason of the handler" in (await harness.hash(id))["failedReason"]


def dividing_by_zero(*_: object) -> int:
    return 1 // 0


def silent(*_: object) -> None: ...


def not_a_number(*_: object) -> float:
    return float("nan")


@pytest.mark.parametrize("strategy", [dividing_by_zero, silent, not_a_number])
async def test_a_strategy_that_fails_ends_the_job_and_not_the_worker(
    harness: Harness, redis_url: str, strategy: Any
) -> None:
    bad = await harness.add(attempts=5, backoff=Backoff("by-the-moon", 0.01))
    good = await harness.add()

    def handle(job: Job) -> None:
        if job.id == bad:
            raise ValueError("the reason of the handler")

    async with working(harness, redis_url, handle, backoff_strategy=strategy):
        await ended(harness, 2)
    assert "the reason of the handler" in (await harness.hash(bad))["failedReason"]
    assert await harness.where(good) == ["completed"]


async def test_forgetting_very_many_at_once_is_done_in_pieces(harness: Harness) -> None:
    many = 9000
    async with harness.redis.pipeline(transaction=False) as pipe:
        for number in range(many):
            pipe.zadd(harness.keys.completed, {f"old-{number}": number})
        await pipe.execute()
    id = await harness.add(remove_on_complete=Keep(age=1, limit=100_000))
    assert await harness.complete(await harness.claim_one()) is None
    assert await harness.ids("completed") == [id]


async def test_an_id_that_is_no_text_fails_its_job_and_no_other(
    harness: Harness, queue: Queue, redis_url: str
) -> None:
    good = await harness.add()
    job = harness.keys.base.encode() + b"\xff"
    await harness.redis.hset(
        job, mapping={"name": "odd", "data": "{}", "opts": "{}", "timestamp": 1}
    )
    await harness.redis.rpush(harness.keys.wait, b"\xff")

    claims = await harness.claim(2)

    assert [claim.id for claim in claims] == [good]
    assert await harness.redis.zscore(harness.keys.failed, b"\xff") is not None
    reason = await harness.redis.hget(job, "failedReason")
    assert reason == b"a job's id must be UTF-8, got b'\\xff'"
    assert await queue.get_jobs("failed") == []
    assert len(await queue.clean(0, state="failed")) == 1
    assert not await harness.redis.exists(job)


async def test_events_that_cannot_be_told_lose_no_job(harness: Harness) -> None:
    ids = [await harness.add() for _ in range(4)]
    held = await harness.claim(2)
    await harness.redis.set(harness.keys.events, "not a stream")

    for claim in held:
        with pytest.raises(WrongType, match="bull:mail:events must hold a stream"):
            await harness.complete(claim)
    with pytest.raises(WrongType, match="bull:mail:events must hold a stream"):
        await harness.claim(2)

    await harness.redis.delete(harness.keys.events)
    assert await harness.ids("active") == [claim.id for claim in reversed(held)]
    assert [await harness.complete(claim) for claim in held] == [None, None]
    assert [claim.id for claim in await harness.claim(4)] == ids[2:]
