"""Closing a worker from a listener: it changes nothing about what other listeners have begun.

Whoever closes, of whichever worker the listener is, and in whichever order: all workers end, no
listener is cut off, and who closes from outside waits for what listeners have begun.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from waystation import bullmq, routing
from waystation.core.runtime import listeners

Heard = Callable[[], Coroutine[Any, Any, None]]


async def nothing(job: Any) -> None: ...


class Scene:
    """A worker with a listener of what it has done."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        self.worker: Any = None

    async def begin(self, heard: Heard) -> None:
        """Let the worker begin."""
        raise NotImplementedError

    async def finish_a_job(self) -> None:
        """Let the worker do something that its listener hears of."""
        raise NotImplementedError


class Bullmq(Scene):
    async def begin(self, heard: Heard) -> None:
        self.worker = bullmq.Worker(self.name, nothing, self.url, poll=0.05)
        self.worker.on("completed", lambda job, result: heard())  # pyright: ignore[reportUnknownLambdaType]
        await self.worker.start()

    async def finish_a_job(self) -> None:
        async with bullmq.Queue(self.name, self.url) as queue:
            await queue.add("x")


class Manual(Scene):
    async def begin(self, heard: Heard) -> None:
        self.worker = bullmq.ManualWorker(self.name, self.url)
        self.worker.on("completed", lambda job, result: heard())  # pyright: ignore[reportUnknownLambdaType]

    async def finish_a_job(self) -> None:
        async with bullmq.Queue(self.name, self.url) as queue:
            await queue.add("x")
        await self.worker.complete(await self.worker.get_next_job(wait=LIMIT_S))


class Routing(Scene):
    async def begin(self, heard: Heard) -> None:
        class Hears:
            async def settled(self, settled: Any) -> None:
                await heard()

        hears: Any = Hears()
        self.worker = routing.Worker({"x": nothing}, self.url, prefix=self.name, listener=hears)
        await self.worker.start()

    async def finish_a_job(self) -> None:
        async with routing.Queue(self.url, prefix=self.name) as queue:
            await queue.add("x")


SCENES: list[type[Scene]] = [Bullmq, Manual, Routing]


@pytest.fixture(autouse=True)
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "_FINISH_WITHIN_S", 3.0)


async def directly(closing: Awaitable[None]) -> None:
    await closing


async def by_another_task(closing: Coroutine[Any, Any, None]) -> None:
    await asyncio.gather(closing)


async def with_a_limit(closing: Awaitable[None]) -> None:
    await asyncio.wait_for(closing, LIMIT_S)


class Case:
    """A listener that closes a worker, its own or another, and then goes on for a while."""

    def __init__(self, of: Scene, closes: Scene, *, way: Any = directly, force: bool = False):
        self.of, self.closes, self.way, self.force = of, closes, way, force
        self.begun, self.may_close, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.saved = 0

    async def heard(self) -> None:
        self.begun.set()
        await self.may_close.wait()
        await self.way(self.closes.worker.close(force=self.force))
        self.closed.set()
        await asyncio.sleep(0.1)
        self.saved += 1

    async def begin(self) -> None:
        for each in {self.of, self.closes}:
            await each.begin(self.heard)
        await self.of.finish_a_job()
        await self.begun.wait()

    async def play(self, order: str) -> int:
        """Close the worker whose listener it is from outside, too; what was done by its end."""
        await self.begin()
        match order:
            case "listener first":
                self.may_close.set()
                await asyncio.sleep(0.05)
                await self.of.worker.close()
            case "listener second":
                closing = asyncio.create_task(self.of.worker.close())
                await asyncio.sleep(0.05)
                self.may_close.set()
                await closing
            case _:
                self.may_close.set()
                await self.of.worker.close()
        saved = self.saved
        await self.closes.worker.close()
        return saved


ORDERS = ("listener first", "listener second", "both at once")


@pytest.mark.parametrize("whose", ["its own", "another"])
@pytest.mark.parametrize("scene", SCENES)
async def test_a_worker_that_a_listener_closes_is_closed_as_if_by_anybody(
    scene: type[Scene], whose: str, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    cases = list(itertools.product(ORDERS, [False, True]))

    async def played(number: int, order: str, force: bool) -> int:
        of = scene(f"of{number}", redis_url)
        closes = of if whose == "its own" else scene(f"other{number}", redis_url)
        return await Case(of, closes, force=force).play(order)

    async with asyncio.timeout(LIMIT_S):
        saved = await asyncio.gather(*(played(n, *case) for n, case in enumerate(cases)))
    assert dict(zip(cases, saved, strict=True)) == dict.fromkeys(cases, 1)
    assert "listeners_given_up" not in caplog.text


@pytest.mark.parametrize("scene", SCENES)
async def test_a_listener_may_close_by_a_task_that_it_waits_for(
    scene: type[Scene], redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    cases = list(itertools.product(ORDERS, [by_another_task, with_a_limit]))

    async def played(number: int, order: str, way: Any) -> int:
        of = scene(f"of{number}", redis_url)
        return await Case(of, of, way=way).play(order)

    async with asyncio.timeout(LIMIT_S):
        saved = await asyncio.gather(*(played(n, *case) for n, case in enumerate(cases)))
    assert dict(zip(cases, saved, strict=True)) == dict.fromkeys(cases, 1)
    assert "listeners_given_up" not in caplog.text


@pytest.mark.parametrize("scene", SCENES)
async def test_listeners_of_two_workers_may_close_each_other(
    scene: type[Scene], redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = scene("first", redis_url), scene("second", redis_url)
    there, back = Case(first, second), Case(second, first)
    async with asyncio.timeout(LIMIT_S):
        for each in (there, back):
            await each.of.begin(each.heard)
            await each.of.finish_a_job()
            await each.begun.wait()
        there.may_close.set()
        back.may_close.set()
        await asyncio.gather(first.worker.close(), second.worker.close())
    assert (there.saved, back.saved) == (1, 1)
    assert "listeners_given_up" not in caplog.text


@pytest.mark.parametrize("scene", SCENES)
async def test_what_a_listener_has_left_behind_closes_as_if_from_outside(
    scene: type[Scene], redis_url: str
) -> None:
    of, may_close, saved = scene("of", redis_url), asyncio.Event(), list[str]()
    left: list[asyncio.Task[None]] = []

    async def close_later() -> None:
        await may_close.wait()
        await of.worker.close()
        saved.append("closed")

    async def heard() -> None:
        if not left:
            left.append(asyncio.create_task(close_later()))
            return
        may_close.set()
        await asyncio.sleep(0.2)
        saved.append("saved")

    async with asyncio.timeout(LIMIT_S):
        await of.begin(heard)
        await of.finish_a_job()
        while not left:
            await asyncio.sleep(0.01)
        await of.finish_a_job()
        while len(saved) < 2:
            await asyncio.sleep(0.01)
    assert saved == ["saved", "closed"]


@pytest.mark.parametrize("scene", SCENES)
async def test_a_listener_that_gives_up_closing_is_waited_for_again(
    scene: type[Scene], redis_url: str
) -> None:
    of, begun, saved = scene("of", redis_url), asyncio.Event(), list[str]()

    async def heard() -> None:
        begun.set()
        closing = asyncio.create_task(of.worker.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.sleep(0.2)
        saved.append("saved")

    async with asyncio.timeout(LIMIT_S):
        await of.begin(heard)
        await of.finish_a_job()
        await begun.wait()
        await of.worker.close()
    assert saved == ["saved"]


async def test_a_task_that_a_plain_listener_returns_may_close_its_worker(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    closed = asyncio.Event()

    async def close() -> None:
        await worker.close()
        closed.set()

    def completed(job: Any, result: Any) -> Any:
        return asyncio.create_task(close())

    worker = bullmq.Worker("mail", nothing, redis_url)
    worker.on("completed", completed)
    async with bullmq.Queue("mail", redis_url) as queue, asyncio.timeout(LIMIT_S):
        await worker.start()
        await queue.add("x")
        await closed.wait()
    assert not worker.is_running
    assert "listeners_given_up" not in caplog.text


async def test_a_listener_that_does_not_end_after_it_has_closed_is_given_up(
    redis_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "_FINISH_WITHIN_S", 0.1)
    case = Case(of := Bullmq("of", redis_url), of)
    ended: list[str] = []

    async def heard() -> None:
        try:
            await case.heard()
            await asyncio.sleep(3600)
        finally:
            ended.append("ended")

    case.may_close.set()
    async with asyncio.timeout(LIMIT_S):
        await of.begin(heard)
        await of.finish_a_job()
        await case.closed.wait()
        await of.worker.close()
    assert ended == ["ended"]
    assert "listeners_given_up" in caplog.text
