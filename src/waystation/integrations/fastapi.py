"""FastAPI: queues and tasks that live as long as the application."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from waystation.bullmq import PayloadOptions, Queue, open_store
from waystation.bullmq.redis.keys import PREFIX
from waystation.core.errors import WrongState
from waystation.tasks import Tasks


class Waystation:
    """The store of an application, opened and closed with it.

    `FastAPI(lifespan=waystation.lifespan)`, and in an endpoint
    `mail: Annotated[Queue, Depends(waystation.queue("mail"))]`. With `tasks`, their jobs go through
    the same connections; with `work`, workers for them run in the application's process, too.
    `prefix` and `payloads` are those of the queues; without any, queues of `tasks` have theirs.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        prefix: str | None = None,
        tasks: Tasks | None = None,
        work: bool = False,
        payloads: PayloadOptions | None = None,
    ) -> None:
        self._url = url
        self._prefix = prefix
        self._tasks = tasks
        self._work = work
        self._payloads = payloads
        self._queues: dict[str, Queue] | None = None
        self._store: Any = None

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[None]:
        """Open the store, and close it when the application ends."""
        async with AsyncExitStack() as stack:
            url = self._url
            if url is None and self._tasks is not None:
                url = self._tasks.url
            self._store = store = await stack.enter_async_context(await open_store(url))
            self._queues = {}
            stack.push_async_callback(self._close)
            if self._tasks is not None:
                await stack.enter_async_context(self._tasks.connected(store))
                for name in self._tasks.queues if self._work else ():
                    await stack.enter_async_context(self._tasks.worker(name, store))
            yield

    def queue(self, name: str) -> Callable[[], Queue]:
        """A dependency: the queue of this name."""

        def queue() -> Queue:
            if self._queues is None:
                raise WrongState("the application has not begun: give FastAPI our lifespan")
            if name not in self._queues:
                self._queues[name] = self._opened(name)
            return self._queues[name]

        return queue

    def _opened(self, name: str) -> Queue:
        prefix, payloads = self._prefix, self._payloads
        if (tasks := self._tasks) is not None and name in tasks.queues:
            prefix, payloads = prefix or tasks.prefix, payloads or tasks.payloads
        return Queue(name, self._store, prefix=prefix or PREFIX, payloads=payloads)

    def around(
        self, lifespan: Callable[[Any], AbstractAsyncContextManager[Any]]
    ) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
        """Our lifespan with one of yours inside it."""

        @asynccontextmanager
        async def both(app: Any) -> AsyncGenerator[Any]:
            async with self.lifespan(app), lifespan(app) as state:
                yield state

        return both

    async def _close(self) -> None:
        opened, self._queues = self._queues or {}, None
        for each in opened.values():
            await each.close()
