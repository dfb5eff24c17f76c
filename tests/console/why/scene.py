"""A scene: a store on which situations are made with real workers, which end with it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.console.why import Cause
from waystation.core.store.connection import Store, connect


class Expected(NamedTuple):
    """Whom to ask about, and what must be said."""

    subject: str
    cause: Cause
    says: str
    """A regular expression."""
    queue: str | None = None


class Scene:
    """What a situation is made with."""

    def __init__(self, store: Store, home: Path, stack: contextlib.AsyncExitStack) -> None:
        self.store = store
        self.home = home
        self._stack = stack
        self.release = asyncio.Event()
        """Lets the handlers end that `blocks` has begun."""
        self.mail = bullmq.Queue("mail", store)
        self.routing = routing.Queue(store)
        self.files = files.Queue(store)

    async def blocks(self, job: Any) -> str:
        """A handler that runs until the scene ends."""
        await self.release.wait()
        return "done"

    async def bullmq_worker(self, handler: Any, queue: str = "mail", **options: Any) -> None:
        """Start a worker on a queue of BullMQ."""
        options = {"name": "w1", "grace": 0, **options}
        worker = bullmq.Worker(queue, handler, self.store, **options)
        await self._stack.enter_async_context(worker)

    async def taken_by_hand(self, name: str) -> None:
        """Claim a job of BullMQ, and lose the connection by which the worker is seen."""
        worker = bullmq.ManualWorker("mail", self.store, name=name, lease=3600)
        await self._stack.enter_async_context(worker)
        assert await worker.get_next_job() is not None
        for client in await self.mail.workers():
            await self.store.redis.client_kill(client["addr"])

    async def routing_worker(self, handlers: Any, name: str = "w1", **options: Any) -> None:
        """Start a worker of routing."""
        worker = routing.Worker(handlers, self.store, server=name, grace=0, **options)
        await self._stack.enter_async_context(worker)

    async def files_worker(self, handlers: Any, **options: Any) -> None:
        """Start a worker of files."""
        worker = files.Worker(handlers, self.store, name="w1", grace=0, **options)
        await self._stack.enter_async_context(worker)

    async def file(self, name: str = "a.txt", **options: Any) -> files.Job:
        """Add a file."""
        path = self.home / name
        path.write_text(name)
        job = await self.files.add(path, **options)
        assert job is not None
        return job

    async def state(self, id: str, *states: str) -> None:
        """Wait until a job of BullMQ is in one of these states."""

        async def reached() -> bool:
            return await self.mail.state(id) in states

        await until(reached)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that must happen."""
    async with asyncio.timeout(LIMIT_S):
        while not await condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def scene_on(url: str, home: Path) -> AsyncGenerator[Scene]:
    """Open a scene on an empty store."""
    async with await connect(url) as store, contextlib.AsyncExitStack() as stack:
        scene = Scene(store, home, stack)
        # Handlers end before their workers are left.
        try:
            yield scene
        finally:
            scene.release.set()
