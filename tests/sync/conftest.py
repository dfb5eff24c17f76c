"""A queue for code that waits, and workers beside it in a thread."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import pytest

from waystation.bullmq import Worker
from waystation.sync import Queue

Serve: TypeAlias = Callable[..., contextlib.AbstractContextManager[None]]


@pytest.fixture
def queue(redis_url: str) -> Iterator[Queue]:
    with Queue("mail", redis_url) as opened:
        yield opened


@pytest.fixture
def serve(redis_url: str) -> Serve:
    """Run a worker in a thread of its own while inside."""

    @contextlib.contextmanager
    def serve(handler: Callable[[Any], Any], queue: str = "mail") -> Generator[None]:
        ready = threading.Event()
        ends: list[Callable[[], Any]] = []

        async def work() -> None:
            loop, stop = asyncio.get_running_loop(), asyncio.Event()
            ends.append(lambda: loop.call_soon_threadsafe(stop.set))
            try:
                async with Worker(queue, handler, redis_url):
                    ready.set()
                    await stop.wait()
            finally:
                ready.set()

        thread = threading.Thread(target=lambda: asyncio.run(work()))
        thread.start()
        ready.wait()
        try:
            yield
        finally:
            ends[0]()
            thread.join()

    return serve
