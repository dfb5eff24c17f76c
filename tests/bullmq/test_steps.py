"""Steps that survive a crash: done once, however often their job is tried."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from tests.support.lossy import LossyClient
from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, JobDelayed, Queue, SyncJob, TimedOut, Unrecoverable, Worker
from waystation.bullmq.job import QueueRef
from waystation.core.errors import InvalidInput, InvalidOption, JobFailed, LeaseLost, WrongState
from waystation.core.runtime.claim import Claim

QUICK: Any = {"lease": 60, "renew": 0.02}
ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def do(what: str, result: Any = None) -> Any:
    ran[what] += 1
    return result


async def do_later(what: str, result: Any = None) -> Any:
    return do(what, result)


@contextlib.asynccontextmanager
async def working(queue: Queue, handle: Any, **how: Any) -> AsyncGenerator[None]:
    """A worker on the same store."""
    async with asyncio.timeout(LIMIT_S):
        async with Worker("mail", handle, await queue._connected(), **how):  # pyright: ignore[reportPrivateUsage]
            yield


async def test_a_step_is_done_once_however_often_the_job_is_tried(queue: Queue) -> None:
    async def handle(job: Job) -> Any:
        paid = await job.step("charge", do_later, "charge", {"id": 7})
        sent = await job.step("send", do, "send", "sent")
        if job.attempt < 3:
            raise ConnectionError("no")
        return [paid, sent]

    async with working(queue, handle):
        job = await queue.add("order", attempts=3, backoff=None)
        assert await queue.wait(job.id) == [{"id": 7}, "sent"]
    assert ran == {"charge": 1, "send": 1}
    found = await queue.get_job(job.id)
    assert found is not None
    assert found.steps == {"charge": {"id": 7}, "send": "sent"}


async def test_a_plain_function_has_steps_too(queue: Queue) -> None:
    def handle(job: SyncJob) -> Any:
        paid = job.step("charge", do, "charge", 7)
        job.sleep(0.001)
        if job.attempt < 2:
            raise ConnectionError("no")
        return paid

    async with working(queue, handle):
        job = await queue.add("order", attempts=3, backoff=None)
        assert await queue.wait(job.id) == 7
    assert ran == {"charge": 1}


async def test_a_result_of_a_step_that_cannot_be_stored_names_the_step(queue: Queue) -> None:
    async def handle(job: Job) -> None:
        await job.step("charge", object)

    def handle_plainly(job: SyncJob) -> None:
        job.step("charge", object)

    for each in (handle, handle_plainly):
        async with working(queue, each):
            job = await queue.add("order")
            with pytest.raises(JobFailed, match=r"^the result of step 'charge' cannot be stored: "):
                await queue.wait(job.id)


async def test_a_step_that_fails_is_tried_again(queue: Queue) -> None:
    def fragile(job: Job) -> str:
        ran["fragile"] += 1
        if job.attempt == 1:
            raise ConnectionError("no")
        return "done"

    async def handle(job: Job) -> Any:
        await job.step("first", do, "first")
        return await job.step("fragile", fragile, job)

    async with working(queue, handle):
        job = await queue.add("order", attempts=3, backoff=None)
        assert await queue.wait(job.id) == "done"
    assert ran == {"first": 1, "fragile": 2}


async def test_steps_of_one_name_are_counted(queue: Queue) -> None:
    async def handle(job: Job) -> Any:
        made = [await job.step("page", do, f"page {number}", number) for number in range(3)]
        if job.attempt == 1:
            raise ConnectionError("no")
        return made

    async with working(queue, handle):
        job = await queue.add("book", attempts=2, backoff=None)
        assert await queue.wait(job.id) == [0, 1, 2]
    assert set(ran.values()) == {1}


async def test_what_was_done_under_a_lost_lock_is_not_remembered(harness: Harness) -> None:
    id = await harness.add()
    first = (await harness.claim_one()).work
    await first.step("a", do, "a", "of the first")
    await harness.lapse()
    second = (await harness.claim_one()).work
    with pytest.raises(LeaseLost):
        await first.step("b", do, "b")
    for waits in (first.sleep(60), first.wait_for("approved"), first.emit("part")):
        with pytest.raises(LeaseLost):
            await waits
    assert await second.step("a", do, "a", "of the second") == "of the first"
    assert await second.step("b", do, "b", "of the second") == "of the second"
    assert (await harness.hash(id))["step:b"] == '"of the second"'


def lossy(harness: Harness, job: Job) -> LossyClient:
    """Put a lossy client under the job's own calls, and return it."""
    client = LossyClient(harness.store.hot)
    job._queue = QueueRef(client, harness.keys)  # pyright: ignore[reportPrivateUsage]
    return client


async def test_a_lost_answer_is_resolved_and_nothing_done_twice(harness: Harness) -> None:
    id = await harness.add()
    job = (await harness.claim_one()).work
    client = lossy(harness, job)
    client.lose_next()
    assert await job.step("a", do, "a", 1) == 1
    client.lose_next()
    await job.emit("part")
    assert ran == {"a": 1}
    assert (await harness.hash(id))["steps"] == "1"
    assert [event["step"] for event in await harness.events("step")] == ["a"]
    assert await harness.call("XLEN", harness.keys.of(id).output) == 1
    client.lose_next()
    with pytest.raises(JobDelayed, match="sleeps"):
        await job.sleep(60)
    assert await harness.where(id) == ["delayed"]


async def test_a_sleeping_job_holds_no_worker_and_goes_on(harness: Harness, queue: Queue) -> None:
    async def handle(job: Job) -> str:
        await job.step("first", do, "first")
        await job.sleep(days=30)
        await job.step("second", do, "second")
        return "awake"

    async with working(queue, handle):
        job = await queue.add("order")
        while await queue.state(job.id) != "delayed":
            await asyncio.sleep(0.01)
        assert await queue.counts("active") == {"active": 0}
        found = await queue.get_job(job.id)
        assert found is not None
        assert timedelta(days=29) < found.delay <= timedelta(days=30)
        await found.promote()
        assert await queue.wait(job.id) == "awake"
    assert ran == {"first": 1, "second": 1}
    assert found.attempts_made == 0


async def test_a_sleeping_job_costs_less_than_a_kilobyte(harness: Harness) -> None:
    id = await harness.add({"order": 7}, job_id="order-7-of-ada")
    job = (await harness.claim_one()).work
    await job.step("charge", do, "charge", {"receipt": 1234})
    with contextlib.suppress(Exception):
        await job.sleep(days=30)
    assert await harness.where(id) == ["delayed"]
    assert await harness.call("MEMORY", "USAGE", harness.keys.of(id).job, "SAMPLES", 0) < 1000


LEAVING: dict[str, tuple[Callable[[Job], Any], str]] = {
    "sleep": (lambda job: job.sleep(hours=1), "JobDelayed"),
    "wait_for": (lambda job: job.wait_for("approved"), "JobDelayed"),
    "run_child": (lambda job: job.run_child("pack", queue="packing"), "JobWaitingForChildren"),
}


@pytest.mark.parametrize(("leave", "caught"), LEAVING.values(), ids=LEAVING)
async def test_a_handler_that_does_not_let_its_job_leave_is_told_so(
    queue: Queue, caplog: pytest.LogCaptureFixture, leave: Callable[[Job], Any], caught: str
) -> None:
    errors: list[str] = []

    async def handle(job: Job) -> str:
        with contextlib.suppress(Exception):
            await leave(job)
        try:
            await job.step("charge", do, "charge")
        except LeaseLost as error:
            errors.append(str(error))
        return "done"

    async with working(queue, handle):
        job = await queue.add("order")
        while "outcome_refused" not in caplog.text:
            await asyncio.sleep(0.005)
    [refused] = [each for each in caplog.records if "outcome_refused" in each.getMessage()]
    assert f"its handler caught {caught}, which ends the attempt" in vars(refused)["error"]
    assert errors == [vars(refused)["error"]]
    assert await job.state() in ("delayed", "waiting-children")


async def test_it_sleeps_until_an_instant(queue: Queue) -> None:
    async def handle(job: Job) -> str:
        await job.sleep_until(datetime(2020, 1, 1, tzinfo=UTC))
        await job.sleep(0)
        return "at once"

    async with working(queue, handle):
        job = await queue.add("order")
        assert await queue.wait(job.id) == "at once"
        assert (await queue.get_job(job.id) or job).attempts_started == 1


@pytest.mark.parametrize("is_early", [True, False], ids=["before", "after"])
async def test_a_signal_comes_before_or_after_it_is_waited_for(
    queue: Queue, is_early: bool
) -> None:
    async def handle(job: Job) -> Any:
        return await job.wait_for("approved")

    job = await queue.add("order")
    if is_early:
        assert await queue.signal(job.id, "approved", {"by": "ada"})
    async with working(queue, handle):
        if not is_early:
            while await queue.state(job.id) != "delayed":
                await asyncio.sleep(0.01)
            assert await queue.signal(job.id, "approved", {"by": "ada"})
        assert await queue.wait(job.id) == {"by": "ada"}
        assert not await queue.signal(job.id, "approved")


async def test_a_signal_that_does_not_come_in_time(queue: Queue) -> None:
    async def handle(job: Job) -> str:
        try:
            await job.wait_for("approved", timeout=0.01)
        except TimedOut:
            # The decision stands, whatever comes later.
            if job.attempt == 1:
                await queue.signal(job.id, "approved")
                raise ConnectionError("no") from None
            return "nobody answered"
        return "approved"

    async with working(queue, handle):
        job = await queue.add("order", attempts=2, backoff=None)
        assert await queue.wait(job.id) == "nobody answered"


async def test_signals_of_one_name_are_taken_in_turn(harness: Harness, queue: Queue) -> None:
    async def handle(job: Job) -> Any:
        return [await job.wait_for("word") for _ in range(3)]

    job = await queue.add("order")
    for word in ("a", "b"):
        await queue.signal(job.id, "word", word)
    async with working(queue, handle):
        while await queue.state(job.id) != "delayed":
            await asyncio.sleep(0.01)
        await queue.signal(job.id, "word", "c")
        assert await queue.wait(job.id) == ["a", "b", "c"]


async def test_a_job_that_fails_is_undone_in_reverse_order(queue: Queue) -> None:
    undone: list[str] = []

    async def undo(what: str) -> None:
        undone.append(what)

    async def handle(job: Job) -> None:
        for what in ("hold", "charge", "book"):
            await job.step(what, do, what)
            job.on_failure(f"undo {what}", undo, what)
        await job.step("never", fails)

    def fails() -> None:
        ran["fails"] += 1
        raise LookupError("no such hotel")

    async with working(queue, handle):
        job = await queue.add("trip", attempts=2, backoff=None)
        with pytest.raises(JobFailed, match="no such hotel"):
            await queue.wait(job.id)
    assert undone == ["book", "charge", "hold"]
    assert ran == {"hold": 1, "charge": 1, "book": 1, "fails": 2}
    found = await queue.get_job(job.id)
    assert found is not None
    assert len(found.stacktrace) == 2
    assert "LookupError: no such hotel" in found.stacktrace[-1]
    # Tried again it starts anew, because everything was undone.
    await found.retry()
    await found.refresh()
    assert found.steps == {}


async def test_a_plain_function_is_undone_too(queue: Queue) -> None:
    undone: list[str] = []

    def handle(job: SyncJob) -> None:
        job.step("charge", do, "charge")
        job.on_failure("refund", undone.append, "charge")
        raise Unrecoverable("no")

    async with working(queue, handle):
        job = await queue.add("trip")
        with pytest.raises(JobFailed, match="no"):
            await queue.wait(job.id)
    assert undone == ["charge"]


async def test_nothing_is_undone_while_attempts_are_left(queue: Queue) -> None:
    async def handle(job: Job) -> None:
        await job.step("charge", do, "charge")
        job.on_failure("refund", do, "refund")
        if job.attempt == 1:
            raise ConnectionError("no")

    async with working(queue, handle):
        job = await queue.add("trip", attempts=2, backoff=None)
        await queue.wait(job.id)
    assert ran == {"charge": 1}


async def test_what_undoing_did_is_not_done_again_after_a_crash(
    harness: Harness, queue: Queue
) -> None:
    async def crash() -> None:
        ran["release"] += 1
        if ran["release"] == 1:
            await harness.redis.delete(harness.keys.of("trip").lock)

    async def handle(job: Job) -> None:
        await job.step("hold", do, "hold")
        job.on_failure("release", crash)
        await job.step("charge", do, "charge")
        job.on_failure("refund", do, "refund")
        raise Unrecoverable("no")

    async with working(queue, handle, lease=60, stalled_interval=0.02, max_stalled=5):
        job = await queue.add("order", job_id="trip")
        with pytest.raises(JobFailed, match="no"):
            await queue.wait(job.id)
    assert ran == {"hold": 1, "charge": 1, "refund": 1, "release": 2}


async def test_a_handler_that_is_stopped_from_outside_is_undone_as_well(
    harness: Harness, queue: Queue
) -> None:
    waits = asyncio.Event()

    async def handle(job: Job) -> None:
        await job.step("charge", do, "charge")
        job.on_failure("refund", do, "refund")
        waits.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(LIMIT_S), Worker("mail", handle, harness.store) as worker:
        job = await queue.add("trip", attempts=1)
        await waits.wait()
        assert worker.cancel_job(job.id)
        with pytest.raises(JobFailed, match="was cancelled"):
            await queue.wait(job.id)
    assert ran == {"charge": 1, "refund": 1}


async def test_a_job_that_is_cancelled_asleep_is_undone(queue: Queue) -> None:
    async def handle(job: Job) -> None:
        await job.step("charge", do, "charge")
        job.on_failure("refund", do, "refund")
        await job.sleep(days=1)
        await job.step("send", do, "send")

    async with working(queue, handle):
        job = await queue.add("trip")
        while await queue.state(job.id) != "delayed":
            await asyncio.sleep(0.01)
        assert await queue.cancel(job.id, reason="the customer has left") == 1
        with pytest.raises(JobFailed, match="the customer has left"):
            await queue.wait(job.id)
    assert ran == {"charge": 1, "refund": 1}


async def test_a_job_that_is_cancelled_while_it_runs_is_undone_later(
    harness: Harness, queue: Queue
) -> None:
    id = await harness.add()
    held = await harness.claim_one()
    await held.work.step("charge", do, "charge")
    assert await queue.cancel(id, reason="by hand") == 1
    # Its worker has to notice first.
    assert await harness.where(id) == ["delayed"]
    assert [claim.id for claim in await harness.extend(held)] == [id]
    assert await queue.cancel(id) == 0
    with pytest.raises(LeaseLost):
        await held.work.step("send", do, "send")

    async def handle(job: Job) -> None:
        await job.step("charge", do, "charge")
        job.on_failure("refund", do, "refund")
        await job.step("send", do, "another")

    found = await queue.get_job(id)
    assert found is not None
    await found.promote()
    async with working(queue, handle):
        with pytest.raises(JobFailed, match="by hand"):
            await queue.wait(id)
    assert ran == {"charge": 1, "refund": 1, "send": 1}


async def test_a_child_is_a_step(queue: Queue) -> None:
    async def handle(job: Job) -> Any:
        if job.name == "resize":
            return do("resize", job.data["width"] * 2)
        small = await job.run_child("resize", {"width": 10})
        large = await job.run_child("resize", {"width": 20})
        return [small, large]

    async with working(queue, handle, concurrency=2):
        job = await queue.add("album")
        assert await queue.wait(job.id) == [20, 40]
    assert ran == {"resize": 2}


async def test_a_child_that_fails_raises_in_its_parent(redis_url: str, queue: Queue) -> None:
    async def resize(job: Job) -> None:
        raise Unrecoverable("no such image")

    async def handle(job: Job) -> str:
        try:
            await job.run_child("resize", queue="images", attempts=1)
        except JobFailed as error:
            return str(error)
        return "done"

    async with working(queue, handle), Worker("images", resize, redis_url):
        job = await queue.add("album")
        assert await queue.wait(job.id) == "no such image"


async def test_readers_get_every_part_once(queue: Queue) -> None:
    async def handle(job: Job) -> None:
        for word in ("one", "two", "three"):
            await job.emit(word)
        if job.attempt == 1:
            raise ConnectionError("no")
        await job.emit({"last": True})

    job = await queue.add("story", attempts=2, backoff=None)
    async with working(queue, handle):
        parts = [part async for part in queue.stream(job.id)]
    assert [part.data for part in parts] == ["one", "two", "three", {"last": True}]
    again = [part.data async for part in queue.stream(job.id, after=parts[1].id)]
    assert again == ["three", {"last": True}]
    await queue.remove(job.id)
    with pytest.raises(Exception, match="there is no job"):
        _ = [part async for part in queue.stream(job.id)]


async def test_a_reader_learns_that_the_job_failed(queue: Queue) -> None:
    async def handle(job: Job) -> None:
        await job.emit("one")
        raise Unrecoverable("no more")

    seen: list[Any] = []

    async def read(id: str) -> None:
        async for part in queue.stream(id):
            seen.append(part.data)

    job = await queue.add("story")
    async with working(queue, handle):
        with pytest.raises(JobFailed, match="no more"):
            await read(job.id)
    assert seen == ["one"]


async def test_a_failed_job_goes_on_where_it_was(harness: Harness, queue: Queue) -> None:
    async def handle(job: Job) -> None:
        await job.step("charge", do, "charge")
        if ran["fail"] == 0:
            do("fail")
            raise Unrecoverable("no")

    job = await queue.add("order")
    async with working(queue, handle):
        with pytest.raises(JobFailed):
            await queue.wait(job.id)
        await queue.retry(job.id)
        while await queue.state(job.id) != "completed":
            await asyncio.sleep(0.01)
        assert ran == {"charge": 1, "fail": 1}
        # A completed job that is run again starts anew.
        await queue.retry(job.id)
        while ran["charge"] < 2:
            await asyncio.sleep(0.01)


async def test_nothing_of_a_job_is_left_when_it_is_removed(harness: Harness, queue: Queue) -> None:
    id = await harness.add()
    job = (await harness.claim_one()).work
    await job.step("a", do, "a")
    await job.emit("part")
    assert job.token is not None
    await harness.complete(Claim(job.id, job, job.token))
    await queue.remove(id)
    assert await harness.call("KEYS", f"{harness.keys.base}{id}*") == []


WRONG: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda job: job.step("", do, "a"), InvalidInput, "the name of a step must be text"),
    (lambda job: job.step("a#2", do, "a"), InvalidInput, "without '#'"),
    (lambda job: job.sleep(5, days=1), InvalidOption, "not both"),
    (lambda job: job.sleep(weeks="one"), InvalidOption, "a sleep takes a duration"),
    (lambda job: job.sleep(-1), InvalidOption, "the duration of a sleep"),
    (lambda job: job.sleep(float("inf")), InvalidOption, "must be finite, got inf"),
    (lambda job: job.sleep_until(5), InvalidOption, "instant must be a datetime, got 5"),
    (lambda job: job.wait_for("a", timeout=-1), InvalidOption, "timeout must be"),
]


@pytest.mark.parametrize(("wrong", "kind", "sentence"), WRONG)
async def test_what_cannot_be_meant_is_refused(
    harness: Harness, wrong: Any, kind: type[Exception], sentence: str
) -> None:
    await harness.add()
    job = (await harness.claim_one()).work
    with pytest.raises(kind, match=sentence):
        await wrong(job)


async def test_only_a_worker_that_holds_the_job_does_steps(harness: Harness, queue: Queue) -> None:
    job = await queue.add("order")
    with pytest.raises(WrongState, match="not held by a worker"):
        await job.step("a", do, "a")
