"""Laws of steps, searched at random: signals, branches, new versions, second lives, deadlines."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from tests.bullmq.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.bullmq import FlowNode, FlowProducer, Job, JobOptions, Parent, Queue, upkeep
from waystation.bullmq.redis import scripts
from waystation.bullmq.step_rules import child_id
from waystation.errors import (
    JobDelayed,
    JobFailed,
    JobWaitingForChildren,
    TimedOut,
    Unrecoverable,
    WrongState,
)
from waystation.testing import Sandbox, sandbox

Branch: TypeAlias = Callable[[Job], Awaitable[Any]]


class Flaky(Exception):
    """What a worker that crashes looks like to a handler."""


async def ended(box: Sandbox, job: Job) -> bool:
    return await box.queue("q").state(job.id) in ("completed", "failed")


@pytest.mark.parametrize("seed", range(6))
async def test_a_signal_that_was_taken_is_returned_or_the_job_ended_first(
    seed: int, redis_url: str
) -> None:
    dice = random.Random(seed)
    names = ("a", "b")
    plan = [
        (dice.choice(("wait", "wait", "wait", "step", "child", "sleep")), dice.choice(names))
        for _ in range(8)
    ]
    endless = dice.random() < 0.3
    sent: dict[str, list[int]] = {name: [] for name in names}
    got: dict[int, Any] = {}
    rests: list[tuple[str, str]] = []
    wrong: list[BaseException] = []
    crashes = {dice.randrange(8) for _ in range(2)}

    def taken(name: str) -> list[int]:
        return [got[at] for at in sorted(got) if plan[at][1] == name and got[at] != "timeout"]

    async def wait(job: Job, at: int, name: str) -> None:
        before = got.get(at)
        try:
            came = await job.wait_for(name, None if endless else 10)
        except TimedOut:
            came = "timeout"
            assert before is not None or len(taken(name)) == len(sent[name]), plan
        assert before in (None, came)
        got[at] = came

    async def handle(job: Job) -> None:
        try:
            await run(job)
        except (Flaky, JobDelayed, JobWaitingForChildren):
            raise
        except BaseException as error:
            wrong.append(error)
            raise

    async def run(job: Job) -> None:
        if job.name != "order":
            return
        for at, (kind, name) in enumerate(plan):
            rests.append((kind, name))
            if kind == "wait":
                await wait(job, at, name)
            elif kind == "step":
                await job.step(name, int)
            elif kind == "child":
                await job.run_child(name)
            else:
                await job.sleep(5)
            if at in crashes:
                crashes.discard(at)
                raise Flaky

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        queue = box.queue("q")
        job = await queue.add("order", attempts=20, backoff=None)
        for number in range(12):
            await box.run_all()
            if await ended(box, job):
                break
            if dice.random() < 0.6:
                name = dice.choice(names)
                if await queue.signal(job.id, name, number):
                    sent[name].append(number)
            else:
                await box.advance(dice.choice((6, 11, 11)))
        await box.run_all()
        assert wrong == []
        for name in names:
            assert taken(name) == sent[name][: len(taken(name))], plan
        if not await ended(box, job) and rests[-1][0] == "wait":
            name = rests[-1][1]
            assert len(taken(name)) == len(sent[name]), plan


@pytest.mark.parametrize("other", ["timeout", "step", "child", "sleep"])
async def test_a_signal_is_counted_apart_from_waits_that_are_over_and_from_other_names(
    other: str, redis_url: str
) -> None:
    async def handle(job: Job) -> Any:
        if job.name == "go":
            return None
        match other:
            case "timeout":
                with contextlib.suppress(TimedOut):
                    await job.wait_for("go", timeout=5)
            case "step":
                await job.step("go", int)
            case "child":
                await job.run_child("go")
            case _:
                await job.sleep(5)
        return await job.wait_for("sleep" if other == "sleep" else "go", timeout=60)

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        queue = box.queue("q")
        job = await queue.add("order", attempts=1)
        await box.run_all()
        await box.advance(6)
        await box.run_all()
        assert await queue.signal(job.id, "sleep" if other == "sleep" else "go", "yes")
        await box.run_all()
        found = await queue.get_job(job.id)
    assert found is not None
    assert found.result == "yes"


async def test_a_signal_that_is_sent_again_after_another_counts_once(queue: Queue) -> None:
    job = await queue.add("order")
    store = await queue._connected()  # pyright: ignore[reportPrivateUsage]
    keys = queue._keys  # pyright: ignore[reportPrivateUsage]

    async def send(call: str) -> None:
        await scripts.signal_job(store.hot, keys, id=job.id, signal="go", call=call, data=b"1")

    for call in ("first", "second", "first"):
        await send(call)

    assert await store.ask("HGET", keys.of(job.id).job, "signals:go") == b"2"


@pytest.mark.parametrize("seed", range(5))
async def test_a_step_runs_once_beside_whatever_leaves_the_worker(
    seed: int, redis_url: str
) -> None:
    dice = random.Random(seed)
    ran: Counter[str] = Counter()
    names = iter(range(100))

    def branch(depth: int) -> Branch:
        kind = dice.choice(("step", "step", "sleep", "wait", "child", "all", "group", "line"))
        name = f"{kind}{next(names)}"
        if depth and kind in ("all", "group", "line"):
            inner = [branch(depth - 1) for _ in range(3)]
            return {"all": gathered, "group": grouped, "line": in_turn}[kind](inner)

        async def slow() -> str:
            ran[name] += 1
            # Longer than it takes to leave.
            await asyncio.sleep(0.03)
            return name

        async def leaf(job: Job) -> Any:
            match kind:
                case "sleep":
                    await job.sleep(1)
                case "wait":
                    await job.wait_for(name, 1)
                case "child":
                    await job.run_child(name)
                case _:
                    await job.step(name, slow)

        return leaf

    def gathered(inner: list[Branch]) -> Branch:
        return lambda job: asyncio.gather(*(each(job) for each in inner))

    def grouped(inner: list[Branch]) -> Branch:
        async def run(job: Job) -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for each in inner:
                        group.create_task(awaited(each, job))
            except BaseExceptionGroup as several:
                raise several.exceptions[0] from None

        return run

    def in_turn(inner: list[Branch]) -> Branch:
        async def run(job: Job) -> None:
            for each in inner:
                await each(job)

        return run

    async def awaited(each: Branch, job: Job) -> None:
        with contextlib.suppress(TimedOut):
            await each(job)

    tree = gathered([branch(2), branch(2), branch(1)])

    async def handle(job: Job) -> None:
        if job.name != "order":
            ran[job.name] += 1
            return
        with contextlib.suppress(TimedOut):
            await tree(job)

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        job = await box.queue("q").add("order", attempts=1)
        for _ in range(60):
            await box.run_all()
            if await ended(box, job):
                break
            await box.advance(2)
        assert await ended(box, job)
    assert not {name: many for name, many in ran.items() if many != 1}


async def test_what_leaves_the_worker_is_refused_inside_a_step(redis_url: str) -> None:
    async def handle(job: Job) -> None:
        await job.step("outer", job.sleep, 1)

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        job = await box.queue("q").add("order", attempts=1)
        async with asyncio.timeout(LIMIT_S):
            await box.run_all()
        found = await box.queue("q").get_job(job.id)
    assert found is not None
    assert "sleep was called inside a step" in (found.failed_reason or "")


@pytest.mark.parametrize("seed", range(6))
async def test_another_version_of_a_handler_gets_results_of_its_own_functions(
    seed: int, redis_url: str
) -> None:
    dice = random.Random(seed)

    def function(name: str) -> Callable[[], str]:
        def call() -> str:
            return name

        call.__name__ = name
        return call

    functions = {name: function(name) for name in ("f", "g", "h")}
    first = [(dice.choice("xy"), dice.choice("fgh")) for _ in range(5)]
    second = list(first)
    for _ in range(2):
        at = dice.randrange(len(second))
        match dice.choice(("add", "remove", "swap")):
            case "add":
                second.insert(at, (dice.choice("xy"), dice.choice("fgh")))
            case "remove":
                del second[at]
            case _:
                second[at], second[0] = second[0], second[at]
    stop = dice.randrange(5)

    def version(plan: list[tuple[str, str]], sleeps_at: int) -> Branch:
        async def handle(job: Job) -> None:
            for at, (step, name) in enumerate(plan):
                assert await job.step(step, functions[name]) == name
                if at == sleeps_at:
                    await job.sleep(1)

        return handle

    async with sandbox(redis_url) as box:
        box.handle("q", version(first, stop))
        job = await box.queue("q").add("order", attempts=1)
        await box.run_all()
        box.handle("q", version(second, -1))
        await box.advance(2)
        await box.run_all()
        found = await box.queue("q").get_job(job.id)
        assert found is not None
    reason = found.failed_reason
    assert reason is None or "keep functions and order" in reason, (first, second, stop)
    if second[: stop + 1] == first[: stop + 1]:
        assert reason is None


async def test_a_job_that_starts_anew_knows_nothing_of_its_first_life(redis_url: str) -> None:
    lives = 0

    async def handle(job: Job) -> Any:
        nonlocal lives
        if job.name == "kid":
            return lives
        if "undone" in job.data:
            job.on_failure("nothing", int)
        seen = [await job.step("s", lambda: lives), await job.run_child("kid", attempts=1)]
        seen.append(await job.wait_for("go"))
        await job.emit(lives)
        seen.append([each.result for each in await job.children_results()])
        if job.data.get("undone") == lives:
            raise WrongState("undo it")
        return seen

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        queue = box.queue("q")
        for data in ({}, {"undone": 1}):
            lives = 0
            job = await queue.add("order", data, attempts=1)
            while lives < 2:
                lives += 1
                await box.run_all()
                assert await queue.signal(job.id, "go", lives)
                await box.run_all()
                found = await queue.get_job(job.id)
                assert found is not None
                if lives == 1:
                    await found.retry("completed" if found.result else "failed")
            assert found.result == [2, 2, 2, [2]]  # pyright: ignore[reportPossiblyUnboundVariable]
            assert [part.data async for part in queue.stream(job.id)] == [2]


@pytest.mark.parametrize("has_steps", [True, False])
@pytest.mark.parametrize("rests", ["wait", "endless", "sleep", "child"])
async def test_a_deadline_ends_a_job_wherever_it_rests(
    rests: str, has_steps: bool, redis_url: str
) -> None:
    undone: list[str] = []

    async def handle(job: Job) -> None:
        job.on_failure("refund", undone.append, job.name)
        if has_steps:
            await job.step("charge", int)
        match rests:
            case "wait":
                await job.wait_for("ok", timeout=3600)
            case "endless":
                await job.wait_for("ok")
            case "sleep":
                await job.sleep(hours=1)
            case _:
                await job.run_child("kid", delay=3600)

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        queue = box.queue("q")
        job = await queue.add("order", attempts=1, deadline=60)
        await box.run_all()
        assert not await ended(box, job)
        await box.advance(30)
        await box.run_all()
        assert not await ended(box, job)
        await box.advance(31)
        await box.run_all()
        found = await queue.get_job(job.id)
        assert found is not None
        assert "deadline" in (found.failed_reason or "")
    assert undone == ["order"]


@pytest.mark.parametrize("fails", [True, False])
async def test_a_job_of_the_same_id_as_one_that_is_gone_runs_its_own_child(
    fails: bool, redis_url: str
) -> None:
    children: list[int] = []

    async def handle(job: Job) -> Any:
        if job.name == "order":
            try:
                return await job.run_child("kid", job.data, attempts=1)
            except JobFailed:
                return "failed"
        children.append(job.data)
        if fails and job.data == 1:
            raise Unrecoverable("no")
        return job.data

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        queue = box.queue("q")
        for life in (1, 2):
            job = await queue.add("order", life, job_id="order-7")
            await box.run_all()
            await job.refresh()
            assert job.result == ("failed" if fails and life == 1 else life)
            assert await queue.remove("order-7", remove_children=False)
    assert children == [1, 2]


async def test_a_deadline_wakes_no_later_job_of_the_same_id(redis_url: str) -> None:
    started: list[str] = []

    async def handle(job: Job) -> None:
        started.append(job.name)
        if job.name == "order":
            await job.run_child("kid")

    async with sandbox(redis_url) as box:
        box.handle("q", handle)
        queue = box.queue("q")
        await queue.add("order", job_id="order-7", deadline=60, remove_on_complete=True)
        await box.run_all()
        assert started == ["order", "kid", "order"]
        part = FlowNode(name="part", queue="q", delay=3600)
        async with FlowProducer(redis_url) as flows:
            await flows.add(FlowNode(name="whole", queue="q", job_id="order-7", children=[part]))
        await box.advance(61)
        await box.run_all()
        assert await queue.state("order-7") == "waiting-children"
    assert started == ["order", "kid", "order"]


async def test_what_is_no_job_keeps_no_other_from_its_deadline(
    harness: Harness, queue: Queue
) -> None:
    """And a look that finds nothing costs the store next to nothing."""
    await queue.add("order", job_id="good", deadline=60)
    claim = await harness.claim_one()
    with pytest.raises(JobWaitingForChildren):
        await claim.work.run_child("kid")
    await harness.redis.set(harness.keys.of("bad").job, "something else")
    due = dict.fromkeys(("bad", "gone", "good", "x" * 1000, "�"), 1)
    for id in due:
        await harness.redis.execute_command(
            "ZADD", harness.keys.deadlines, 1, id.encode("utf-8", "surrogateescape")
        )
    await upkeep.wake_overdue(harness.store.hot, harness.keys)
    assert await harness.redis.exists(harness.keys.deadlines) == 0
    assert await queue.state("good") == "waiting"
    await harness.redis.delete(harness.keys.of("bad").job)

    async def calls() -> int:
        return sum(each["calls"] for each in (await harness.redis.info("commandstats")).values())

    before = await calls()
    await upkeep.wake_overdue(harness.store.hot, harness.keys)
    # The script, the clock, the set, and the question itself.
    assert await calls() - before <= 4


CALLS = ("0123456789abcdef", "fedcba9876543210")


@pytest.mark.parametrize("is_over", [False, True], ids=["waits", "timed out"])
@pytest.mark.parametrize("sent", [0, 1, 2])
async def test_signals_that_an_earlier_version_kept_are_taken(
    harness: Harness, queue: Queue, sent: int, is_over: bool
) -> None:
    """A job rested in its first wait, with these signals sent; the others come now."""
    job = await queue.add("order", job_id="o7", delay=3600)
    due = int(float(await harness.call("ZSCORE", harness.keys.delayed, "o7"))) // 4096
    fields: dict[Any, Any] = {"waits": "signal:go", "ats": 1, "steps": 0}
    fields["wait:go"] = "over" if is_over else f"{due} token"
    for number, call in enumerate(CALLS[:sent], 1):
        fields[f"signal:go#{number}" if number > 1 else "signal:go"] = f"{call}{number}"
        fields["signals:go"] = number
    await harness.redis.hset(harness.keys.of("o7").job, mapping=fields)
    for number in range(sent + 1, 3):
        assert await queue.signal("o7", "go", number)
    if await queue.state("o7") == "delayed":
        # Nothing was sent since that could have woken it.
        assert sent == 2
        await job.promote()

    for turn in range(2):
        # A signal that was sent twice counts once, whoever has kept it.
        for call in CALLS[: sent * turn]:
            again: dict[str, Any] = {"id": "o7", "signal": "go"}
            again |= {"call": call, "data": b"9"}
            assert await scripts.signal_job(harness.redis, harness.keys, **again) == 1
        claim = await harness.claim_one()
        taken = list[int]()
        for _ in range(3):
            try:
                taken.append(await claim.work.wait_for("go", timeout=3600))
            except TimedOut:
                taken.append(0)
            except JobDelayed:
                break
        assert taken == ([0, 1, 2] if is_over else [1, 2])
        if await queue.state("o7") == "delayed":
            await job.promote()
        else:
            await harness.hand_back(claim)


async def test_a_child_that_an_earlier_version_has_added_is_not_added_again(
    harness: Harness, queue: Queue
) -> None:
    await queue.add("order", job_id="o7")
    claim = await harness.claim_one()
    parent = Parent("o7", "bull:mail")
    await queue.add("label", job_id="o7-label", parent=parent, ignore_dependency_on_failure=True)
    with pytest.raises(JobWaitingForChildren):
        await claim.work.run_child("label")
    assert await harness.redis.exists(harness.keys.of("o7~label").job) == 0
    await harness.complete(await harness.claim_one(), "printed")
    assert await (await harness.claim_one()).work.run_child("label") == "printed"


def test_ids_of_children_never_meet() -> None:
    parts = ("a", "b", "a~b", "a-b", "a%7Eb", "a:b")
    made = [
        child_id(Job(id, life, None), step)
        for id in parts
        for name in parts
        for step in (name, f"{name}#2")
        for life in ({}, {b"gen": b"1"}, {b"gen": b"2"})
    ]
    assert len(made) == len(set(made))
    for id in made:
        JobOptions(job_id=id)
