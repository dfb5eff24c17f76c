"""Whatever the store says once to a task of a worker, the task does its duty again."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.core.backoff import Backoff, Growth
from waystation.core.errors import StoreError
from waystation.core.line import background, wake_up
from waystation.core.runtime import worker as core_worker
from waystation.core.runtime.loop import Loop
from waystation.core.store import reconnect
from waystation.core.store.connection import clients, pipe
from waystation.files import worker as files_worker
from waystation.files.options import ReaperOptions
from waystation.routing import SchedulerOptions, hub, source
from waystation.routing import worker as routing_worker

QUICK_S = 0.02
ERRORS: list[type[Exception]] = [StoreError, *StoreError.__subclasses__(), RuntimeError]
OWN: dict[str, set[str]] = {
    "bullmq": {"recover_stalled", "wake_overdue", "WakeUp._block"},
    "routing": {
        *("Scheduler.run", "promote_due", "fire_schedules", "release", "find_ended", "recover"),
        *("reconcile", "reindex", "tidy", "_beat", "hear_cancellations", "Hub._listen"),
        *("Hub._keep_looking", "Election._renew_until_lost"),
    },
    "files": {"reap", "sweep", "promote_due", "sample_lengths", "beat", "WakeUp._block"},
}
"""What goes on in the background of each product's worker."""
EVERY = {"Worker._make_calls", "LeaseKeeper._keep"}
"""What goes on in every worker."""


def duty_of(task: asyncio.Task[Any] | None) -> str:
    """What a task is for: the duty of its loop, or the coroutine that it runs."""
    coroutine: Any = task and task.get_coro()
    frame: Any = getattr(coroutine, "cr_frame", None)
    names: dict[str, Any] = frame.f_locals if frame else {}
    duty = getattr(names.get("duty"), "__self__", names.get("self"))
    return duty.name if isinstance(duty, Loop) else getattr(coroutine, "__qualname__", "")


class Trouble:
    """A store that answers every duty, or gives each of them one error after the other."""

    def __init__(self) -> None:
        self.heard: Counter[str] = Counter()
        self._ahead: dict[str, deque[type[Exception]]] = {}

    def begin(self, duties: set[str]) -> None:
        self.heard.clear()
        self._ahead = {duty: deque(ERRORS) for duty in duties}

    async def meet(self) -> None:
        duty = duty_of(asyncio.current_task())
        if ahead := self._ahead.get(duty):
            # A call that takes no time would leave none to the others.
            await asyncio.sleep(0)
            raise ahead.popleft()("once")
        self.heard[duty] += 1

    def left(self, duties: set[str]) -> dict[str, Any]:
        """The duties that are not done again, and how many errors they have yet to meet."""
        return {duty: len(self._ahead.get(duty, ())) for duty in duties if not self.heard[duty]}


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Trouble:
    """The store's answers, and pauses so short that all of it takes a moment."""
    found = Trouble()
    for kind in (pipe.Pipe, clients._Faulty):  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(kind, "execute_command", _troubled(found, kind.execute_command))
    quick = Backoff(Growth.FIXED, delay_ms=5)
    for module, name, value in [
        (background, "_AGAIN_AFTER_S", QUICK_S), (core_worker, "_RETRY_BACKOFF", quick),
        (reconnect, "PAUSES", quick), (wake_up, "LONGEST_BLOCK_S", QUICK_S),
        (hub, "LONGEST_BLOCK_S", QUICK_S), (hub, "POLL_S", QUICK_S), (source, "BEAT_S", QUICK_S),
        (routing_worker, "_BLOCK_S", QUICK_S), (routing_worker, "_PAUSE_S", QUICK_S),
        (files_worker, "_PROMOTE_S", QUICK_S),
    ]:  # fmt: skip
        monkeypatch.setattr(module, name, value)
    return found


def _troubled(trouble: Trouble, call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    async def execute_command(self: Any, *args: Any, **kwargs: Any) -> Any:
        await trouble.meet()
        return await call(self, *args, **kwargs)

    return execute_command


class At(NamedTuple):
    """A worker that holds a job, and how one more is run."""

    worker: Any
    run_one: Callable[[], Awaitable[Any]]


COMMON: Any = {"poll": QUICK_S, "grace": 0.0, "concurrency": 4}
RENEWING: Any = {"lease": 1.0, "renew": QUICK_S}
HELD = "held"


async def handle(job: Any) -> str:
    if HELD in (getattr(job, "data", None), getattr(job, "filepath", "")[-len(HELD) :]):
        await asyncio.Event().wait()
    return "done"


@asynccontextmanager
async def bullmq_at(url: str, _: Path) -> AsyncGenerator[At]:
    async with (
        bullmq.Queue("mail", url) as queue,
        bullmq.Worker(
            "mail", handle, url, stalled_interval=QUICK_S, max_stalled=99, **COMMON, **RENEWING
        ) as worker,
    ):
        await queue.add("send", HELD)

        async def run_one() -> None:
            await queue.wait((await queue.add("send")).id)

        yield At(worker, run_one)


@asynccontextmanager
async def routing_at(url: str, _: Path) -> AsyncGenerator[At]:
    often = SchedulerOptions(tick=QUICK_S, recover=QUICK_S, mend=QUICK_S, term=0.15, max_stalls=99)
    async with (
        routing.Queue(url) as queue,
        routing.Worker({"t": handle}, url, scheduler=often, **COMMON, **RENEWING) as worker,
    ):
        await queue.add("t", HELD)

        async def run_one() -> None:
            await queue.wait((await queue.add("t")).id)

        yield At(worker, run_one)


@asynccontextmanager
async def files_at(url: str, home: Path) -> AsyncGenerator[At]:
    options: Any = {"reaper": ReaperOptions(interval=QUICK_S, page_delay=0), "sample": QUICK_S}
    async with (
        files.Queue(url) as queue,
        files.Worker(handle, url, lease=0.4, max_retries=99, **options, **COMMON) as worker,
    ):

        async def add(name: str) -> str:
            (home / name).write_text(name)
            job = await queue.add(home / name)
            assert job
            return job.id

        async def run_one() -> None:
            await queue.wait(await add("one"))

        await add(HELD)
        yield At(worker, run_one)


OPENED: dict[str, Any] = {"bullmq": bullmq_at, "routing": routing_at, "files": files_at}


@pytest.mark.parametrize("product", OPENED)
async def test_every_duty_is_done_again_after_every_error(
    product: str, trouble: Trouble, redis_url: str, tmp_path: Path
) -> None:
    duties = EVERY | OWN[product]
    async with OPENED[product](redis_url, tmp_path) as (worker, run_one):
        await _done(trouble, duties)
        trouble.begin(duties)
        await _done(trouble, duties)
        assert worker.is_running
        async with asyncio.timeout(LIMIT_S):
            await run_one()


async def _done(trouble: Trouble, duties: set[str]) -> None:
    """Wait until all of them were done."""
    try:
        async with asyncio.timeout(LIMIT_S / 4):
            while trouble.left(duties):
                await asyncio.sleep(QUICK_S)
    except TimeoutError:
        pytest.fail(f"not done again: {trouble.left(duties)}, heard {dict(trouble.heard)}")
