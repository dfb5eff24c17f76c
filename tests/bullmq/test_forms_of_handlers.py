"""The rules of steps hold for coroutines, threads and processes alike."""

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from redis.asyncio import Redis

from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, SyncJob, Worker
from waystation.core.errors import (
    JobDelayed,
    JobFailed,
    TimedOut,
    Unrecoverable,
)

SLOW_S = 0.1
"""Longer than it takes to leave a worker."""


class Form:
    """A job of any form, written to as a coroutine does."""

    def __init__(self, job: Any) -> None:
        self._job = job
        self.attempt: int = job.attempts_started
        self._effects = Path(job.data or os.devnull)

    def has(self, effect: str) -> None:
        """Have an effect that the test sees, from wherever this runs."""
        with self._effects.open("a") as file:
            file.write(f"{effect}\n")

    def on_failure(self, *given: Any) -> None:
        self._job.on_failure(*given)

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        if isinstance(self._job, SyncJob) and inspect.iscoroutinefunction(function):
            function = as_plain(function)
        return await self._does("step", name, function, *args)

    async def beside(self, *others: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Do several things at once; the first error of them is raised when all have ended."""
        if isinstance(self._job, Job) or on_a_loop():
            ended = await asyncio.gather(*(each() for each in others), return_exceptions=True)
        else:
            with ThreadPoolExecutor() as threads:
                running = [threads.submit(as_plain(each)) for each in others]
            ended = [each.exception() for each in running]
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    def __getattr__(self, name: str) -> Any:
        return partial(self._does, name)

    async def _does(self, name: str, *args: Any, **kwargs: Any) -> Any:
        answer = getattr(self._job, name)(*args, **kwargs)
        return await answer if inspect.isawaitable(answer) else answer


def on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def as_plain(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """A coroutine function that never waits as a plain one."""

    @wraps(function)
    def plain(*args: Any) -> Any:
        try:
            function(*args).send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("a plain handler waited")

    # Else it is taken for what it wraps.
    del plain.__wrapped__
    return plain


class Opaque:
    """No JSON has a form for it."""


def unstorable() -> Opaque:
    raise AssertionError("it was run")


def wrong() -> Any:
    return object()


async def is_done_once(job: Form) -> Any:
    results: list[Any] = [await job.step("a", partial(job.has, f"a{n}")) for n in range(2)]
    results.append(await job.step("b", int, "7"))
    if job.attempt == 1:
        raise RuntimeError("again")
    return results


async def contains_a_step(job: Form) -> Any:
    async def outer() -> Any:
        job.has("outer")
        return await job.step("inner", lambda: job.has("inner"))

    await job.step("outer", outer)
    if job.attempt == 1:
        raise RuntimeError("again")


async def has_changed(job: Form) -> Any:
    await job.step("a", int if job.attempt == 1 else float)
    raise RuntimeError("again")


async def promises_what_cannot_be_stored(job: Form) -> Any:
    await job.step("a", unstorable)


async def returns_what_cannot_be_stored(job: Form) -> Any:
    await job.step("a", wrong)


async def has_a_wrong_name(job: Form) -> Any:
    await job.step("undo a", int)


async def fails_in_a_step(job: Form) -> Any:
    def charge() -> None:
        job.has("charge")
        raise RuntimeError("declined")

    await job.step("charge", charge)


def inside(*call: Any, **given: Any) -> "Rule":
    async def rule(job: Form) -> Any:
        async def charge() -> None:
            job.has("charge")
            await getattr(job, call[0])(*call[1:], **given)

        await job.step("charge", charge)

    return rule


def beside(*call: Any, **given: Any) -> "Rule":
    async def rule(job: Form) -> Any:
        def slow() -> None:
            job.has("charge")
            time.sleep(SLOW_S)

        async def leave() -> None:
            if job.attempt == 1:
                # The step has begun by then.
                await job.log("")
                await job.log("")
            await getattr(job, call[0])(*call[1:], **given)

        await job.beside(lambda: job.step("charge", slow), leave)

    return rule


async def catches_what_ends_it(job: Form) -> Any:
    try:
        await job.sleep(0.01)
    except JobDelayed:
        await job.step("late", lambda: job.has("late"))
    return "slept"


async def sleeps_and_steps_under_one_name(job: Form) -> Any:
    await job.step("sleep", lambda: job.has("step"))
    await job.sleep(0.01)
    await job.step("sleep", lambda: job.has("step 2"))
    return job.attempt


async def waits(job: Form) -> Any:
    return [await job.wait_for("go", type=int), await job.step("go", int)]


async def waits_in_vain(job: Form) -> Any:
    try:
        return await job.wait_for("never", 0.01)
    except TimedOut as error:
        return str(error)


async def kid(job: Form) -> Any:
    job.has("kid")
    return 7


async def bad_kid(job: Form) -> Any:
    raise Unrecoverable("no")


async def runs_children(job: Form) -> Any:
    first = await job.run_child("kid", str(job._effects), type=int)  # pyright: ignore[reportPrivateUsage]
    try:
        await job.run_child("bad_kid", str(job._effects))  # pyright: ignore[reportPrivateUsage]
    except JobFailed as error:
        return [first, str(error)]


async def is_undone(job: Form) -> Any:
    await job.step("charge", lambda: job.has("charge"))
    job.on_failure("nothing", os.getcwd)
    await job.sleep(0.01)
    raise Unrecoverable("no")


async def emits(job: Form) -> Any:
    numbers = [await job.emit("a"), await job.emit("b")]
    if job.attempt == 1:
        raise RuntimeError("again")
    return numbers


Rule: TypeAlias = Callable[[Form], Awaitable[Any]]

LEAVES: dict[str, tuple[Any, ...]] = {
    "sleep": (0.01,),
    "sleep_until": (datetime.now(UTC) + timedelta(milliseconds=10),),
    "wait_for": ("go",),
    "run_child": ("kid", ""),
}
RULES: dict[str, Rule] = {
    **{
        rule.__name__: rule
        for rule in (
            is_done_once,
            contains_a_step,
            has_changed,
            promises_what_cannot_be_stored,
            returns_what_cannot_be_stored,
            has_a_wrong_name,
            fails_in_a_step,
            catches_what_ends_it,
            sleeps_and_steps_under_one_name,
            waits,
            waits_in_vain,
            runs_children,
            is_undone,
            emits,
        )
    },
    **{f"inside: {name}": inside(name, *args) for name, args in LEAVES.items()},
    **{f"beside: {name}": beside(name, *args) for name, args in LEAVES.items()},
}
CHILDREN: dict[str, Rule] = {"kid": kid, "bad_kid": bad_kid}


async def run(job: Any) -> Any:
    """Play the rule that the job is called after."""
    return await {**RULES, **CHILDREN}[job.name](Form(job))


def run_plainly(job: SyncJob) -> Any:
    return as_plain(run)(job)


async def verdicts(queue: Queue, folder: Path, rules: list[str]) -> dict[str, Any]:
    """What becomes of a job for each of the rules: its end, and the effects that it had."""
    for name in rules:
        job = await queue.add(
            name, str(folder / name), job_id=name.replace(": ", "-"), attempts=2, backoff=None
        )
        await queue.signal(job.id, "go", 1)
    found: dict[str, Any] = {}
    for name in rules:
        id = name.replace(": ", "-")
        while await queue.state(id) not in ("completed", "failed"):
            await asyncio.sleep(0.02)
        job = await queue.get_job(id)
        assert job is not None
        file = folder / name
        effects = file.read_text().split() if file.exists() else []
        state = await job.state()
        said = job.failed_reason if state == "failed" else job.result
        found[name] = (state, said, effects, job.steps)
    return found


FORMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "loop": (run, {}),
    "thread": (run_plainly, {}),
    "process": (run_plainly, {"process": True}),
    "coroutine in a process": (run, {"process": True}),
}


@pytest.mark.slow
async def test_every_rule_of_steps_holds_for_every_form_of_a_handler(
    queue: Queue, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    found: dict[str, dict[str, Any]] = {}
    for form, (handler, how) in FORMS.items():
        await redis.flushdb()
        (tmp_path / form).mkdir()
        async with (
            Worker("mail", handler, redis_url, concurrency=4, poll=0.02, **how),
            asyncio.timeout(LIMIT_S),
        ):
            found[form] = await verdicts(queue, tmp_path / form, list(RULES))

    apart = [
        (name, form, found[form][name], found["loop"][name])
        for name in RULES
        for form in FORMS
        if found[form][name] != found["loop"][name]
    ]
    assert apart == []
    for name in LEAVES:
        what = "sleep" if name == "sleep_until" else name
        state, reason, effects, _ = found["loop"][f"inside: {name}"]
        assert (state, effects) == ("failed", ["charge", "charge"])
        assert f"{what} was called inside a step" in reason
        state, _, effects, _ = found["loop"][f"beside: {name}"]
        assert (state, effects) == ("completed", ["charge"])


@pytest.mark.parametrize("name", LEAVES)
async def test_what_leaves_the_worker_is_refused_inside_a_step_of_a_thread(
    queue: Queue, redis_url: str, tmp_path: Path, name: str
) -> None:
    async with Worker("mail", run_plainly, redis_url, poll=0.02), asyncio.timeout(LIMIT_S):
        found = await verdicts(queue, tmp_path, [f"inside: {name}", f"beside: {name}"])
    state, reason, effects, steps = found[f"inside: {name}"]
    assert (state, effects, steps) == ("failed", ["charge", "charge"], {})
    assert "was called inside a step" in reason
    state, _, effects, steps = found[f"beside: {name}"]
    assert (state, effects, list(steps)) == ("completed", ["charge"], ["charge"])
