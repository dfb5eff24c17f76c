"""Undoing: whatever ends a job, and however it is run, what it has done is undone once."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from redis import Redis

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, ManualWorker, Parent, Queue, SyncJob, Worker
from waystation.core.runtime.handlers.time_limit import _limits  # pyright: ignore[reportPrivateUsage]
from waystation.errors import (
    InvalidInput,
    JobDelayed,
    JobFailed,
    JobWaiting,
    JobWaitingForChildren,
    Unrecoverable,
    WrongState,
)
from waystation.testing.sandboxes import _turn  # pyright: ignore[reportPrivateUsage]

EFFECTS = "effects"


def effect(url: str, what: str) -> None:
    with Redis.from_url(url) as client:
        client.rpush(EFFECTS, what)


def is_second_life(url: str) -> bool:
    with Redis.from_url(url) as client:
        return bool(client.exists("second"))


def plain(job: SyncJob) -> str:
    url, ends = job.data["url"], job.data["ends"]
    job.step("charge", effect, url, "charge")
    if job.data["undoes"]:
        job.on_failure("refund", effect, url, "refund")
    if is_second_life(url):
        return "ok"
    if ends == "fails":
        raise Unrecoverable("no")
    job.sleep(hours=1)
    job.step("send", effect, url, "send")
    return "sent"


async def on_a_loop(job: Job) -> str:
    url, ends = job.data["url"], job.data["ends"]
    await job.step("charge", effect, url, "charge")
    if job.data["undoes"]:
        job.on_failure("refund", effect, url, "refund")
    if is_second_life(url):
        return "ok"
    if ends == "fails":
        raise Unrecoverable("no")
    await job.sleep(hours=1)
    await job.step("send", effect, url, "send")
    return "sent"


async def together(jobs: list[Job]) -> list[str]:
    return [await on_a_loop(job) for job in jobs]


WAYS: dict[str, dict[str, Any]] = {
    "loop": {"handlers": on_a_loop},
    "thread": {"handlers": plain},
    "process": {"handlers": plain, "process": True},
    "batch": {"handlers": together, "batch": 2},
}


@contextlib.asynccontextmanager
async def working(harness: Harness, **how: Any) -> AsyncGenerator[None]:
    async with asyncio.timeout(LIMIT_S):
        async with Worker("mail", how.pop("handlers"), harness.store, poll=0.05, **how):
            yield


async def effects(harness: Harness) -> list[str]:
    return [each.decode() for each in await harness.call("LRANGE", EFFECTS, 0, -1)]


async def noted(harness: Harness, id: str) -> None:
    """Wait until the store knows that there is something to undo, which nobody waits for."""
    async with asyncio.timeout(LIMIT_S):
        while "given" not in await harness.hash(id):
            await asyncio.sleep(0)


async def end(ends: str, harness: Harness, queue: Queue, id: str) -> None:
    """Let a job end that sleeps."""
    if ends == "fails":
        return
    while await queue.state(id) != "delayed":
        await asyncio.sleep(0.01)
    match ends:
        case "cancelled":
            assert await queue.cancel(id)
        case "deadline":
            await _turn(harness.store, harness.keys, 120_000)
        case _:
            await harness.call("HSET", harness.keys.of(id).job, "defa", "job stalled too often")
            await cast(Job, await queue.get_job(id)).promote()


TABLE = [
    (way, ends, undoes)
    for way in WAYS
    for ends in ("fails", "cancelled", "deadline", "stalled")
    for undoes in (True, False)
    # A process takes seconds to start.
    if way != "process" or (ends == "cancelled" and undoes)
]


@pytest.mark.parametrize(("way", "ends", "undoes"), TABLE)
async def test_a_job_is_undone_once_and_only_what_was_undone_starts_anew(
    way: str, ends: str, undoes: bool, harness: Harness, queue: Queue, redis_url: str
) -> None:
    data = {"url": redis_url, "ends": ends, "undoes": undoes}
    async with working(harness, **WAYS[way]):
        job = await queue.add("order", data, attempts=1, deadline=60)
        await end(ends, harness, queue, job.id)
        with pytest.raises(JobFailed):
            await queue.wait(job.id, timeout=LIMIT_S)
        assert await effects(harness) == ["charge", "refund"][: 1 + undoes]
        if ends == "deadline":
            return
        await harness.call("SET", "second", 1)
        assert await queue.retry(job.id)
        while await queue.state(job.id) != "completed":
            await asyncio.sleep(0.01)
        again = ["charge", "refund", "charge"] if undoes else ["charge"]
        assert await effects(harness) == again


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, OSError])
async def test_whatever_ends_the_run_that_undoes_what_was_registered_is_undone(
    kind: type[BaseException], harness: Harness, queue: Queue
) -> None:
    ran: list[str] = []

    async def handle(job: Job) -> None:
        await job.step("charge", ran.append, "charge")
        job.on_failure("refund", ran.append, "refund")
        if "failing" in await harness.hash(job.id):
            raise kind
        await job.sleep(hours=1)

    async with working(harness, handlers=handle):
        job = await queue.add("order", attempts=1)
        await end("cancelled", harness, queue, job.id)
        with pytest.raises(JobFailed):
            await queue.wait(job.id, timeout=LIMIT_S)
    assert ran == ["charge", "refund"]


@pytest.mark.parametrize("limit", ["job", "worker"])
async def test_a_handler_that_hangs_is_undone_all_the_same(
    limit: str, harness: Harness, queue: Queue
) -> None:
    ran: list[str] = []
    hangs = asyncio.Event()

    async def handle(job: Job) -> None:
        await job.step("charge", ran.append, "charge")
        job.on_failure("refund", ran.append, "refund")
        hangs.set()
        await asyncio.Event().wait()

    how: Any = {"timeout": 0.4} if limit == "worker" else {}
    async with working(harness, handlers=handle, lease=60, renew=0.02, **how):
        job = await queue.add(
            "order", attempts=1, **cast(Any, {"timeout": 0.2} if limit == "job" else {})
        )
        await hangs.wait()
        await queue.cancel(job.id, reason="it hangs")
        if await queue.state(job.id) == "delayed":
            await cast(Job, await queue.get_job(job.id)).promote()
        with pytest.raises(JobFailed):
            await queue.wait(job.id, timeout=LIMIT_S)
    assert ran == ["charge", "refund"]


async def test_what_is_undone_in_part_is_not_undone_at_all(harness: Harness, queue: Queue) -> None:
    ran: list[str] = []
    runs: list[str] = []

    async def handle(job: Job) -> None:
        runs.append(job.id)
        await job.step("reserve", ran.append, "reserve")
        job.on_failure("release", ran.append, "release")
        if len(runs) == 2:
            raise OSError("the settings did not answer")
        await job.step("charge", ran.append, "charge")
        job.on_failure("refund", ran.append, "refund")
        raise Unrecoverable("no")

    async with working(harness, handlers=handle):
        job = await queue.add("order", attempts=1)
        with pytest.raises(JobFailed, match="1 of 2 functions"):
            await queue.wait(job.id, timeout=LIMIT_S)
        assert ran == ["reserve", "charge"]
        assert await queue.retry(job.id)
        while len(ran) < 4 or await queue.state(job.id) != "failed":
            await asyncio.sleep(0.01)
    assert ran == ["reserve", "charge", "refund", "release"]


@pytest.mark.parametrize("leaves", ["fails", "sleeps", "is lost"])
@pytest.mark.parametrize("back", [True, False])
async def test_what_an_earlier_attempt_has_done_is_undone_though_the_last_came_to_none_of_it(
    leaves: str, back: bool, harness: Harness, queue: Queue
) -> None:
    ran: list[str] = []
    runs: list[str] = []
    away = True

    async def handle(job: Job) -> None:
        runs.append(job.id)
        if len(runs) == 2 or (len(runs) > 2 and away and not back):
            raise Unrecoverable("the settings did not answer")
        await job.step("charge", ran.append, "charge")
        job.on_failure("refund", ran.append, "refund")
        if leaves == "is lost":
            await job.step("send", ran.append, "send")
        if leaves == "is lost" and len(runs) == 1:
            await harness.call("DEL", harness.keys.of(job.id).lock)
            await harness.call("LREM", harness.keys.active, 0, job.id)
            await harness.call("LPUSH", harness.keys.wait, job.id)
        if leaves == "sleeps":
            await job.sleep(0.01)
        raise OSError("no")

    async with working(harness, handlers=handle):
        job = await queue.add("order", attempts=2, backoff=None)
        reason = "the settings did not" if back else "0 of 1 functions"
        with pytest.raises(JobFailed, match=reason):
            await queue.wait(job.id, timeout=LIMIT_S)
        assert ran.count("refund") == back
        away = False
        if not back:
            assert await queue.retry(job.id)
            while "refund" not in ran or await queue.state(job.id) != "failed":
                await asyncio.sleep(0.01)
    assert [each for each in ran if each != "send"] == ["charge", "refund"]


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("back", [True, False])
async def test_what_a_lost_worker_has_done_is_undone_whatever_it_had_said_of_it(
    said: bool, back: bool, harness: Harness, queue: Queue
) -> None:
    ran: list[str] = []
    runs: list[str] = []
    away = True

    async def handle(job: Job) -> str:
        runs.append(job.id)
        if len(runs) == 1 or (away and not back):
            raise Unrecoverable("the settings did not answer")
        await job.step("charge", ran.append, "charge")
        job.on_failure("refund", ran.append, "refund")
        return "ok"

    job = await queue.add("order", attempts=1)
    claim = await harness.claim_one()
    await claim.work.step("charge", ran.append, "charge")
    if said:
        claim.work.on_failure("refund", ran.append, "refund")
        await noted(harness, job.id)
    await harness.lapse()
    async with working(harness, handlers=handle):
        reason = "0 of 1 functions" if said and not back else "the settings did not answer"
        with pytest.raises(JobFailed, match=reason):
            await queue.wait(job.id, timeout=LIMIT_S)
        assert ran == (["charge", "refund"] if back else ["charge"])
        if back:
            return
        if not said:
            stacktrace = (await harness.hash(job.id))["stacktrace"]
            assert "a worker was lost after the steps charge" in stacktrace
        away = False
        assert await queue.retry(job.id)
        ended = "failed" if said else "completed"
        while await queue.state(job.id) != ended:
            await asyncio.sleep(0.01)
    assert ran == (["charge", "refund"] if said else ["charge"])


@pytest.mark.parametrize("ends", ["cancelled", "stalled"])
async def test_what_was_registered_without_any_step_is_called_and_nothing_else_is_done(
    ends: str, harness: Harness, queue: Queue
) -> None:
    ran: list[str] = []

    async def handle(job: Job) -> None:
        job.on_failure("tell", ran.append, "tell")
        await asyncio.sleep(0)
        ran.append("work")

    job = await queue.add("order", attempts=1)
    (await harness.claim_one()).work.on_failure("tell", ran.append, "tell")
    await noted(harness, job.id)
    if ends == "stalled":
        await harness.lapse(max_stalled=0)
    else:
        assert await queue.cancel(job.id)
        await cast(Job, await queue.get_job(job.id)).promote()
    async with working(harness, handlers=handle):
        with pytest.raises(JobFailed, match="stalled" if ends == "stalled" else "cancelled"):
            await queue.wait(job.id, timeout=LIMIT_S)
    assert ran == ["tell"]


async def leave(job: Job, place: str) -> None:
    match place:
        case "delayed":
            await job.move_to_delayed(datetime.now(UTC))
            raise JobDelayed
        case "wait":
            await job.move_to_wait()
            raise JobWaiting
        case _:
            await job.move_to_waiting_children()
            raise JobWaitingForChildren


@pytest.mark.parametrize("place", ["delayed", "wait", "waiting-children"])
async def test_a_job_that_is_undone_does_not_leave_its_worker(
    place: str, harness: Harness, queue: Queue
) -> None:
    ran: list[str] = []

    async def handle(job: Job) -> None:
        await job.step("charge", ran.append, "charge")
        job.on_failure("refund", ran.append, "refund")
        await leave(job, place)

    job = await queue.add("order", attempts=1)
    claim = await harness.claim_one()
    await claim.work.step("charge", ran.append, "charge")
    parent = Parent(job.id, harness.keys.qualified)
    await queue.add("part", delay=3600, parent=parent)
    assert await queue.cancel(job.id)
    await cast(Job, await queue.get_job(job.id)).promote()
    async with working(harness, handlers=handle):
        with pytest.raises(JobFailed, match="cancelled"):
            await queue.wait(job.id, timeout=LIMIT_S)
    assert ran == ["charge", "refund"]


@pytest.mark.parametrize("own", [None, 30.0])
async def test_the_run_that_undoes_has_as_long_as_any_other(
    own: float | None, harness: Harness, queue: Queue
) -> None:
    limits: list[list[float | None]] = []

    async def handle(job: Job) -> None:
        limits.append([each._limit_s for each in _limits.get()])  # pyright: ignore[reportPrivateUsage]
        job.on_failure("refund", int)
        raise Unrecoverable("no")

    async with working(harness, handlers=handle, timeout=40.0):
        job = await queue.add("order", attempts=1, timeout=own)
        with pytest.raises(JobFailed):
            await queue.wait(job.id, timeout=LIMIT_S)
    assert limits[1] == [own or 40.0]


@pytest.mark.parametrize("ends", ["fails", "cancelled"])
async def test_a_renamed_function_undoes_nothing_and_its_job_goes_on_where_it_was(
    ends: str, harness: Harness, queue: Queue
) -> None:
    ran: list[str] = []

    def version(name: str) -> Any:
        def charge() -> None:
            ran.append("charge")

        charge.__name__ = name

        async def handle(job: Job) -> str:
            await job.step("reserve", ran.append, "reserve")
            job.on_failure("release", ran.append, "release")
            await job.step("charge", charge)
            job.on_failure("refund", ran.append, "refund")
            await job.sleep(hours=1)
            return "ok"

        return handle

    job = await queue.add("order", attempts=1)
    async with working(harness, handlers=version("charge")):
        while await queue.state(job.id) != "delayed":
            await asyncio.sleep(0.01)
    if ends == "cancelled":
        assert await queue.cancel(job.id)
    else:
        await cast(Job, await queue.get_job(job.id)).promote()
    async with working(harness, handlers=version("take_money")):
        with pytest.raises(JobFailed, match="has the __name__ 'charge' there, and retry the job"):
            await queue.wait(job.id, timeout=LIMIT_S)
    assert ran == ["reserve", "charge"]
    assert await queue.retry(job.id)
    async with working(harness, handlers=version("charge")):
        ended = "completed" if ends == "fails" else "failed"
        while await queue.state(job.id) != ended:
            await asyncio.sleep(0.01)
    assert ran == ["reserve", "charge", *(["refund", "release"] if ends == "cancelled" else [])]


async def test_one_that_is_undone_in_a_batch_stops_no_other(harness: Harness, queue: Queue) -> None:
    ran: list[str] = []

    async def handle(jobs: list[Job]) -> list[str]:
        for job in jobs:
            await job.step("charge", ran.append, f"charge {job.name}")
            job.on_failure("refund", ran.append, f"refund {job.name}")
            await job.step("send", ran.append, f"send {job.name}")
        return ["ok"] * len(jobs)

    bad = await harness.add(name="bad")
    claim = await harness.claim_one()
    await claim.work.step("charge", ran.append, "charge bad")
    assert await queue.cancel(bad)
    await cast(Job, await queue.get_job(bad)).promote()
    good = await harness.add(name="good")
    async with working(harness, handlers=handle, batch=2):
        assert await queue.wait(good, timeout=LIMIT_S) == "ok"
        with pytest.raises(JobFailed):
            await queue.wait(bad, timeout=LIMIT_S)
    assert sorted(ran) == ["charge bad", "charge good", "refund bad", "send good"]


async def test_whoever_claims_by_hand_undoes_by_hand(
    harness: Harness, queue: Queue, redis_url: str
) -> None:
    job = await queue.add("order", attempts=1)
    async with ManualWorker("mail", redis_url) as worker:
        held = await worker.get_next_job()
        assert held is not None
        await held.step("charge", int)
        with pytest.raises(WrongState, match="on_failure needs a worker with a handler"):
            held.on_failure("refund", int)
        assert await queue.cancel(job.id, reason="the customer has left")
        await cast(Job, await queue.get_job(job.id)).promote()
        assert await worker.get_next_job() is None
        with pytest.raises(JobFailed, match="the customer has left"):
            await queue.wait(job.id, timeout=LIMIT_S)
        # What a handler has registered is left to a worker that has the handler.
        other = await queue.add("order", attempts=1)
        claim = await harness.claim_one()
        claim.work.on_failure("refund", int)
        await harness.fail(claim)
        assert await worker.get_next_job() is None
        assert await queue.state(other.id) == "delayed"
        await queue.remove(other.id)
        third = await queue.add("order", attempts=1)
        claim = await harness.claim_one()
        claim.work.on_failure("refund", int)
        with pytest.raises(JobDelayed):
            await claim.work.sleep(hours=1)
        assert await queue.cancel(third.id)
        assert await worker.get_next_job() is None
        assert await queue.state(third.id) == "delayed"


async def test_a_step_of_the_name_of_a_compensation_is_refused(harness: Harness) -> None:
    await harness.add()
    claim = await harness.claim_one()
    with pytest.raises(InvalidInput, match="are taken"):
        await claim.work.step("undo refund", int)
