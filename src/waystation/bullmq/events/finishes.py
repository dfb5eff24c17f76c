"""Waiting for jobs to end, however many, on one reading of the queue's events."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Protocol

from waystation.bullmq.events.event import QueueEvent
from waystation.bullmq.events.gaps import order
from waystation.bullmq.redis.job_scripts import End, end_of
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.errors import (
    JobFailed,
    NotFound,
    StoreUnreachable,
    TimedOut,
)
from waystation.core.options import at_least
from waystation.core.store.script import Client

_LOOK_AGAIN_S = 5.0
"""Heals an end whose event was trimmed away before anybody read it."""

_ENDS = ("completed", "failed", "removed")


class Stream(Protocol):
    """Where the ends are told."""

    keys: QueueKeys

    async def last_id(self) -> str:
        """Where the stream ends now."""
        ...

    def listen(self, after: str) -> AsyncGenerator[QueueEvent]:
        """Tell what happens after this position."""
        ...


class Finishes:
    """The jobs whose ends somebody waits for."""

    def __init__(self, stream: Stream, client: Callable[[], Awaitable[Client]]) -> None:
        self._stream = stream
        self._client = client
        self._awaited: defaultdict[str, list[asyncio.Future[QueueEvent]]] = defaultdict(list)
        self._watch: asyncio.Task[None] | None = None

    async def of(self, job_id: str, timeout: int | None) -> Any:
        """What the job returned, once it has."""
        if timeout is not None:
            at_least("timeout", timeout, 0)
        limit = asyncio.timeout(None if timeout is None else timeout / 1000)
        try:
            async with limit:
                return await self._result(job_id)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimedOut(f"job {job_id} has not finished within {timeout} ms") from None

    async def close(self) -> None:
        """Let nobody wait any longer."""
        if self._watch:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        self._fail(StoreUnreachable("nobody listens to the queue's events any more"))

    async def _result(self, job_id: str) -> Any:
        # Listen first, look second: an end between the two is seen by both, never by neither.
        position = await self._stream.last_id()
        with self._awaiting(job_id, position) as ended:
            while not ended.done():
                end = await self._look(job_id)
                if end.finished:
                    return end.result()
                if end.state == "missing":
                    return _outcome(job_id, await self._told_since(position, job_id))
                await asyncio.wait([ended], timeout=_LOOK_AGAIN_S)
            return _outcome(job_id, ended.result())

    async def _look(self, job_id: str) -> End:
        keys = self._stream.keys
        return await end_of(await self._client(), keys, base=keys.base, id=job_id)

    async def _told_since(self, position: str, job_id: str) -> QueueEvent | None:
        """The end of a job that was not kept, told between our first look and now."""
        until = await self._stream.last_id()
        if order(until) <= order(position):
            return None
        found: QueueEvent | None = None
        async with contextlib.aclosing(self._stream.listen(position)) as told:
            async for event in told:
                if event.job_id == job_id and event.name in _ENDS:
                    found = event
                if order(event.id) >= order(until):
                    break
        return found

    @contextlib.contextmanager
    def _awaiting(self, job_id: str, position: str) -> Generator["asyncio.Future[QueueEvent]"]:
        ended: asyncio.Future[QueueEvent] = asyncio.get_running_loop().create_future()
        self._awaited[job_id].append(ended)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._tell(self._stream.listen(position)))
        try:
            yield ended
        finally:
            self._awaited[job_id].remove(ended)
            if not self._awaited[job_id]:
                del self._awaited[job_id]

    async def _tell(self, told: AsyncGenerator[QueueEvent]) -> None:
        try:
            async with contextlib.aclosing(told):
                async for event in told:
                    if event.job_id in self._awaited and event.name in _ENDS:
                        for ended in self._awaited[event.job_id]:
                            if not ended.done():
                                ended.set_result(event)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        for waiting in self._awaited.values():
            for ended in waiting:
                if not ended.done():
                    ended.set_exception(error)


def _outcome(job_id: str, event: QueueEvent | None) -> Any:
    if event is None or event.name == "removed":
        raise NotFound(f"there is no job {job_id}")
    if event.name == "failed":
        raise JobFailed(event.failed_reason or "")
    return event.return_value
