"""Any JSON value in any member of a job: the worker goes on with the next good job."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.any_json import JSON, VALUES
from tests.routing.harness import Harness, harness_on
from tests.routing.test_worker import QUICK, ended, until
from tests.support.patience import LIMIT_S
from waystation.core import codec
from waystation.core.errors import InvalidInput, Malformed
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled
from waystation.routing import BackoffRule, Job, Queue, Retry, Worker
from waystation.routing.redis.wire import read_job, rewritten

INNER = {
    "target": ("server", "stack", "capabilities", "region", "mode", "match", "avoid"),
    "retry": ("attempts", "backoff", "skipOn", "rerouteOn"),
    "schedule": ("delay", "runAt", "cron", "timezone", "overlap", "missed"),
    "rateLimit": ("maxConcurrent", "maxPerMinute"),
}
BACKOFF = ("type", "delay", "maxDelay", "jitter")
MEMBERS = (
    *("jobId", "type", "payload", "priority", "dependsOn", "metadata", "createdAt", "attempts"),
    *(*INNER, "unknown"),
)


def foreign_jobs(id: str) -> Iterator[str]:
    """The JSON of jobs with one odd member each."""
    for text in JSON:
        for member in MEMBERS:
            yield _with(id, member, text)
        for outer, inner in INNER.items():
            for member in inner:
                yield _with(id, outer, f'{{"{member}":{text}}}')
        for member in BACKOFF:
            yield _with(id, "retry", f'{{"backoff":{{"{member}":{text}}}}}')
    yield from ("", "null", "7", '"x"', "[]", "{}", "{", "nonsense", '{"type":null}')


def _with(id: str, member: str, text: str) -> str:
    plain = {"jobId": f'"{id}"', "type": '"t"', "payload": "{}"}
    return (
        "{" + ",".join(f'"{name}":{each}' for name, each in {**plain, member: text}.items()) + "}"
    )


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_whatever_a_foreign_producer_writes_the_next_good_job_runs(
    harness: Harness, concurrency: int
) -> None:
    """Nothing that is wrong with one job leaves its slot."""
    for at, text in enumerate(foreign_jobs("odd")):
        await harness.redis.set(f"bridge:jobs:data:odd-{at}", text)
        await harness.redis.rpush("bridge:jobs:waiting", f"odd-{at}")

    together = asyncio.Barrier(concurrency)

    async def handle(job: Job) -> None:
        if job.id.startswith("odd"):
            raise RuntimeError(f"no {job.data!r}")
        # Only when every slot is free do they meet.
        await together.wait()

    queue = Queue(harness.store)
    async with Worker(handle, harness.store, concurrency=concurrency, scheduler=QUICK) as worker:
        good = [(await queue.add("t", {"note": None})).id for _ in range(concurrency)]
        await until(ended(queue, *good))
        assert worker.is_running
    await harness.redis.flushdb()


@pytest.mark.parametrize("member", ["payload", "metadata", "type", "job_id", "idempotency_key"])
async def test_whatever_we_are_given_is_added_and_comes_back_or_is_refused_with_a_sentence(
    harness: Harness, member: str
) -> None:
    source = harness.source()
    refused: list[str] = []
    retry = Retry(attempts=2, backoff=BackoffRule(delay=0))
    for value in [*VALUES, {"a": float("nan")}, [float("inf")], "a null pointer", {"n": [None]}]:
        if member in ("payload", "metadata"):
            value = {"note": value, "null": "null"}
        given: dict[str, Any] = {"type": "t", "payload": {}, "retry": retry, member: value}
        try:
            id = await harness.add(**given)
        except InvalidInput as error:
            refused.append(str(error))
            continue
        # The first attempt fails, so that its JSON is written anew.
        assert await harness.fail(source) == id
        (claim,) = await harness.claim(source)
        assert not await harness.settle(source, claim)
        if member in ("payload", "metadata"):
            job = claim.work
            assert (job.data if member == "payload" else job.metadata) == value
    assert not [sentence for sentence in refused if "msgspec" in sentence]
    await harness.redis.flushdb()


TEXTS = st.text(st.characters(codec="utf-8"), max_size=8) | st.just("null")
LEAVES = st.none() | st.booleans() | st.integers() | TEXTS | st.floats(allow_nan=False)
ANY = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(TEXTS, LEAVES, max_size=3)


@given(st.dictionaries(st.sampled_from(MEMBERS), ANY, max_size=3))
def test_what_can_be_read_can_be_written_anew(members: dict[str, Any]) -> None:
    try:
        raw = codec.encode({"jobId": "a", "type": "t", **members})
        read_job(raw)
    except InvalidInput:
        return
    again = rewritten(raw, attempts=1)
    assert json.loads(again) == {**json.loads(raw), "attempts": 1}


async def test_a_job_that_cannot_be_written_anew_costs_itself_alone(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(raw: bytes, **changes: object) -> bytes:
        raise OverflowError("too much") if b"odd" in raw else Malformed("never")

    await harness.add(job_id="odd", retry=Retry(attempts=3))
    source = harness.source()
    (claim,) = await harness.claim(source)
    monkeypatch.setattr("waystation.routing.source.rewritten", broken)

    reply = await source.settle([Settled(claim, Failed(OSError("no")))], claim=1)

    assert not reply.refused
    (letter,) = [each async for each in harness.queue.dead_letters]
    assert (letter.id, letter.reason) == ("odd", "MALFORMED")
    assert "too much" in letter.error.message


async def test_an_odd_entry_in_the_wake_stream_ends_no_worker(redis_url: str) -> None:
    async with harness_on(redis_url) as harness:
        queue = Queue(harness.store)

        async def handle(job: Job) -> None: ...

        async with Worker({"t": handle}, harness.store) as worker, asyncio.timeout(LIMIT_S):
            await queue.wait((await queue.add("t")).id)
            for odd in (b'{"a":1}', b"7", b"null", b"[1,2]", b"\xff", b"[", b'[0,0,{"x":[]}]'):
                await harness.redis.xadd(harness.keys.wake, {"queue": "t", "signature": odd})
                with contextlib.suppress(TimeoutError):
                    await queue.wait((await queue.add("t")).id)
            assert worker.is_running
