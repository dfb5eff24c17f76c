"""What cannot be right is refused with a name, or fails with a reason; nothing is lost or loops."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from tests.bullmq.hands import Hands
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
    hands: Hands, redis_url: str, handler: Callable[[Job], Any], **options: Any
) -> AsyncGenerator[Worker]:
    options = {"poll": 0.05, "stalled_interval": 0.1, "lease": 5} | options
    async with Worker(hands.keys.name, handler, redis_url, **options) as worker:
        yield worker


async def ended(hands: Hands, many: int) -> None:
    """Wait until so many jobs have ended and nothing is held."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            finished = len(await hands.ids("completed")) + len(await hands.ids("failed"))
            if finished >= many and not await hands.ids("active"):
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
    queue: Queue, hands: Hands, options: dict[str, Any]
) -> None:
    """D-29."""
    before = await hands.everything()
    with pytest.raises(InvalidOption):
        await queue.add("send", {}, **options)
    assert await hands.everything() == before


@pytest.mark.parametrize(
    "data",
    [float("nan"), {"a": [1, float("inf")]}, {"a": object()}],
)
async def test_data_that_is_no_json_is_refused(queue: Queue, hands: Hands, data: Any) -> None:
    before = await hands.everything()
    with pytest.raises(InvalidInput):
        await queue.add("send", data)
    assert await hands.everything() == before


async def test_one_byte_too_many_is_refused_and_one_less_is_taken(
    queue: Queue, hands: Hands
) -> None:
    """D-16, D-17: data and options together, in bytes of JSON, before any write."""
    job = await queue.add("send", "")
    stored = await hands.hash(job.id)
    room = codec.PAYLOAD_LIMIT - len(stored["data"]) - len(stored["opts"])
    before = await hands.everything()

    with pytest.raises(
        PayloadTooLarge, match=r"^Job payload size 10\.0 MB exceeds limit of 10\.0 MB"
    ):
        await queue.add("send", "x" * (room + 1))
    assert await hands.everything() == before
    large = await queue.add("send", "x" * room)
    assert await hands.where(large.id) == ["wait"]


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "{a}{b}"])
def test_a_queue_needs_a_name_that_fits_into_a_key(name: str) -> None:
    with pytest.raises(InvalidOption):
        Queue(name)


@pytest.mark.parametrize("id", ["naïve ☃", "a b", "line\nbreak", "{tag}", "*", "../../etc"])
async def test_an_odd_id_is_still_an_id(
    queue: Queue, hands: Hands, redis_url: str, id: str
) -> None:
    await queue.add("send", {}, job_id=id)
    async with working(hands, redis_url, lambda job: job.id):
        await ended(hands, 1)
    assert (await hands.hash(id))["returnvalue"] == codec.encode(id).decode()


# --- what is found in the store ------------------------------------------------------------------

FIELDS = ["name", "data", "opts", "timestamp", "delay", "priority", "atm", "ats", "stc", "defa"]


@pytest.mark.parametrize("value", [b"", b"\xff\xfe", b"{", b"not a number", b"1e400", b"-1"])
@pytest.mark.parametrize("field", FIELDS)
async def test_a_broken_field_ends_the_job_and_nothing_else(
    hands: Hands, redis_url: str, field: str, value: bytes
) -> None:
    """The job ends in one way or the other, and the one behind it runs."""
    broken = await hands.add(attempts=1)
    await hands.call("HSET", hands.keys.of(broken).job, field, value)
    sound = await hands.add(attempts=1)

    async with working(hands, redis_url, lambda job: job.data):
        await ended(hands, 2)

    assert await hands.where(sound) == ["completed"]
    (state,) = await hands.where(broken)
    reason = await hands.call("HGET", hands.keys.of(broken).job, "failedReason")
    assert state == "completed" or reason


@pytest.mark.parametrize("field", FIELDS[:6])
async def test_a_missing_field_ends_the_job_and_nothing_else(
    hands: Hands, redis_url: str, field: str
) -> None:
    broken = await hands.add(attempts=1)
    await hands.call("HDEL", hands.keys.of(broken).job, field)
    sound = await hands.add(attempts=1)

    async with working(hands, redis_url, lambda job: job.data):
        await ended(hands, 2)

    assert await hands.where(sound) == ["completed"]
    assert len(await hands.where(broken)) == 1


@pytest.mark.parametrize("field", ["priority", "delay", "atm", "stc"])
async def test_a_broken_field_does_not_lose_a_job_that_fails(
    hands: Hands, redis_url: str, field: str
) -> None:
    """A retry, a pause and the last failure each count and place the job by its fields."""
    ids = [await hands.add(attempts=2, backoff=pause) for pause in (None, 1)]
    for id in ids:
        await hands.call("HSET", hands.keys.of(id).job, field, "broken")

    def fail(job: Job) -> None:
        raise ValueError("no")

    async with working(hands, redis_url, fail):
        await ended(hands, 2)
    assert sorted(await hands.ids("failed")) == sorted(ids)


async def test_a_broken_field_does_not_lose_a_job_that_stalls(hands: Hands) -> None:
    id = await hands.add()
    await hands.claim_one()
    for field in ("stc", "priority", "opts"):
        await hands.call("HSET", hands.keys.of(id).job, field, "broken")
    assert await hands.lapse() == [id]
    assert await hands.where(id) == ["wait"]


async def test_a_key_that_is_no_job_leaves_the_line(hands: Hands, redis_url: str) -> None:
    odd = await hands.add()
    await hands.call("SET", hands.keys.of(odd).job, "not a hash")
    sound = await hands.add()
    async with working(hands, redis_url, lambda job: None):
        await ended(hands, 1)
    assert await hands.where(sound) == ["completed"]
    assert await hands.where(odd) == []


@pytest.mark.parametrize("state", ["wait", "prioritized", "delayed", "active", "paused"])
async def test_an_id_whose_job_is_gone_is_no_job_to_run(
    hands: Hands, redis_url: str, state: str
) -> None:
    """By decision: BullMQ runs it as an empty job."""
    key, ran = f"{hands.keys.base}{state}", list[str]()
    if state in ("prioritized", "delayed"):
        await hands.call("ZADD", key, 1, "ghost")
    else:
        await hands.call("LPUSH", key, "ghost")
    sound = await hands.add()

    async with working(hands, redis_url, lambda job: ran.append(job.id)):
        await ended(hands, 1)

    assert ran == [sound]
    assert await hands.hash("ghost") == {}
    if state != "paused":
        assert await hands.ids(state) == []


async def test_a_job_that_is_deleted_while_it_runs_leaves_no_ghost(hands: Hands) -> None:
    id = await hands.add()
    claim = await hands.claim_one()
    await hands.redis.delete(hands.keys.of(id).job)

    assert await hands.complete(claim, "done") is not None
    assert await hands.fail(claim) is not None
    assert await hands.hash(id) == {}
    assert await hands.ids("completed") == []
    await hands.lapse()
    assert await hands.ids("active") == []


@pytest.mark.parametrize("state", [b"", b"x", b"-1", b"1e400"])
@pytest.mark.parametrize("field", ["concurrency", "max", "duration", "opts.maxLenEvents"])
async def test_broken_settings_of_a_queue_do_not_lose_jobs(
    hands: Hands, field: str, state: bytes
) -> None:
    await hands.call("HSET", hands.keys.meta, field, state)
    await hands.add()
    await hands.claim()
    for id in await hands.ids("wait") + await hands.ids("active"):
        assert await hands.hash(id)
    stored = [key for key in await hands.everything() if key.removeprefix(hands.keys.base) == "1"]
    placed = await hands.ids("wait") + await hands.ids("active")
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
    hands: Hands, redis_url: str, error: Exception
) -> None:
    bad, good = await hands.add(attempts=1), await hands.add(attempts=1)

    def handle(job: Job) -> None:
        if job.id == bad:
            raise error

    async with working(hands, redis_url, handle):
        await ended(hands, 2)
    assert await hands.where(bad) == ["failed"]
    assert (await hands.hash(bad))["failedReason"]
    assert await hands.where(good) == ["completed"]


@pytest.mark.parametrize(
    "result", [float("nan"), object(), {"a": "\ud800"}, {"a": {1, 2}, "b": lambda: 0}]
)
async def test_a_result_that_is_no_json_fails_the_job_with_a_reason(
    hands: Hands, redis_url: str, result: Any
) -> None:
    bad = await hands.add(attempts=1)
    good = await hands.add(attempts=1)
    async with working(hands, redis_url, lambda job: result if job.id == bad else "fine"):
        await ended(hands, 2)
    stored = await hands.hash(bad)
    if await hands.where(bad) == ["completed"]:
        codec.decode(stored["returnvalue"])
    else:
        assert "JSON" in stored["failedReason"]
    assert await hands.where(good) == ["completed"]


async def test_a_backoff_that_nobody_knows_fails_the_job_with_a_reason(
    hands: Hands, redis_url: str
) -> None:
    id = await hands.add(attempts=5, backoff=Backoff("by-the-moon", 0.01))

    def fail(job: Job) -> None:
        raise ValueError("the reason of the handler")

    async with working(hands, redis_url, fail):
        await ended(hands, 1)
    assert "the reason of the handler" in (await hands.hash(id))["failedReason"]


def dividing_by_zero(*_: object) -> int:
    return 1 // 0


def silent(*_: object) -> None: ...


def not_a_number(*_: object) -> float:
    return float("nan")


@pytest.mark.parametrize("strategy", [dividing_by_zero, silent, not_a_number])
async def test_a_strategy_that_fails_ends_the_job_and_not_the_worker(
    hands: Hands, redis_url: str, strategy: Any
) -> None:
    bad = await hands.add(attempts=5, backoff=Backoff("by-the-moon", 0.01))
    good = await hands.add()

    def handle(job: Job) -> None:
        if job.id == bad:
            raise ValueError("the reason of the handler")

    async with working(hands, redis_url, handle, backoff_strategy=strategy):
        await ended(hands, 2)
    assert "the reason of the handler" in (await hands.hash(bad))["failedReason"]
    assert await hands.where(good) == ["completed"]


async def test_forgetting_very_many_at_once_is_done_in_pieces(hands: Hands) -> None:
    many = 9000
    async with hands.redis.pipeline(transaction=False) as pipe:
        for number in range(many):
            pipe.zadd(hands.keys.completed, {f"old-{number}": number})
        await pipe.execute()
    id = await hands.add(remove_on_complete=Keep(age=1, limit=100_000))
    assert await hands.complete(await hands.claim_one()) is None
    assert await hands.ids("completed") == [id]


async def test_an_id_that_is_no_text_fails_its_job_and_no_other(
    hands: Hands, queue: Queue, redis_url: str
) -> None:
    good = await hands.add()
    job = hands.keys.base.encode() + b"\xff"
    await hands.redis.hset(job, mapping={"name": "odd", "data": "{}", "opts": "{}", "timestamp": 1})
    await hands.redis.rpush(hands.keys.wait, b"\xff")

    claims = await hands.claim(2)

    assert [claim.id for claim in claims] == [good]
    assert await hands.redis.zscore(hands.keys.failed, b"\xff") is not None
    reason = await hands.redis.hget(job, "failedReason")
    assert reason == b"a job's id must be UTF-8, got b'\\xff'"
    assert await queue.get_jobs("failed") == []
    assert len(await queue.clean(0, state="failed")) == 1
    assert not await hands.redis.exists(job)


async def test_events_that_cannot_be_told_lose_no_job(hands: Hands) -> None:
    ids = [await hands.add() for _ in range(4)]
    held = await hands.claim(2)
    await hands.redis.set(hands.keys.events, "not a stream")

    for claim in held:
        with pytest.raises(WrongType, match="bull:mail:events must hold a stream"):
            await hands.complete(claim)
    with pytest.raises(WrongType, match="bull:mail:events must hold a stream"):
        await hands.claim(2)

    await hands.redis.delete(hands.keys.events)
    assert await hands.ids("active") == [claim.id for claim in reversed(held)]
    assert [await hands.complete(claim) for claim in held] == [None, None]
    assert [claim.id for claim in await hands.claim(4)] == ids[2:]
