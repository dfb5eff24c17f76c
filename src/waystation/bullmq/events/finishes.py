"""Waiting for jobs to end: any number of them on one reader of the queue's events. Internal."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Generator
from typing import Any, Protocol

from waystation.bullmq.events.event import QueueEvent
from waystation.bullmq.events.gaps import order
from waystation.bullmq.redis.client import Connect
from waystation.bullmq.redis.replies import End
from waystation.bullmq.redis.scripts import end_of
from waystation.core.durations import Duration, seconds
from waystation.core.errors import (
    JobFailed,
    NotFound,
    StoreBusy,
    StoreUnreachable,
)

_LOOK_AGAIN_S = 5.0
"""Finds an end whose event was trimmed away before it was read."""

ENDS = ("completed", "failed", "removed")


class Stream(Protocol):
    """The events of a queue."""

    async def last_id(self) -> str:
        """The id of the newest event."""
        ...

    def listen(self, after: str) -> AsyncGenerator[QueueEvent]:
        """Events after this id."""
        ...


class Finishes:
    """The jobs whose ends are waited for."""

    def __init__(self, stream: Stream, connect: Connect) -> None:
        self._stream = stream
        self._connect = connect
        self._awaited: defaultdict[str, list[asyncio.Future[QueueEvent]]] = defaultdict(list)
        self._watch: asyncio.Task[None] | None = None

    async def of(self, job_id: str, timeout: Duration | None) -> Any:
        """Wait for the result of a job."""
        most = None if timeout is None else seconds(timeout, "timeout")
        limit = asyncio.timeout(most)
        try:
            async with limit:
                return await self._result(job_id)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"job {job_id} has not finished within {most:g} s") from None

    async def close(self) -> None:
        """Watch no more; nobody waits any longer."""
        if self._watch:
            self._watch.cancel()
            await asyncio.wait([self._watch])

    async def _result(self, job_id: str) -> Any:
        # Listen first, look second: an end between the two is seen by both, never by neither.
        position = await self._stream.last_id()
        with self._awaiting(job_id, position) as ended:
            end = await self._look(job_id)
            while not ended.done():
                if end.finished:
                    return end.result()
                if end.state == "missing":
                    return outcome_of(job_id, await self._found_since(position, job_id))
                if not (await asyncio.wait([ended], timeout=_LOOK_AGAIN_S))[0]:
                    # As listening does, it goes on after an outage.
                    with contextlib.suppress(StoreUnreachable, StoreBusy):
                        end = await self._look(job_id)
            return outcome_of(job_id, ended.result())

    async def _look(self, job_id: str) -> End:
        client, keys = await self._connect()
        return await end_of(client, keys, id=job_id)

    async def _found_since(self, position: str, job_id: str) -> QueueEvent | None:
        """The end of a job that was not kept, among the events since a position."""
        until = await self._stream.last_id()
        if order(until) <= order(position):
            return None
        found: QueueEvent | None = None
        async with contextlib.aclosing(self._stream.listen(position)) as events:
            async for event in events:
                if event.job_id == job_id and event.name in ENDS:
                    found = event
                if order(event.id) >= order(until):
                    break
        return found

    @contextlib.contextmanager
    def _awaiting(self, job_id: str, position: str) -> Generator["asyncio.Future[QueueEvent]"]:
        ended: asyncio.Future[QueueEvent] = asyncio.get_running_loop().create_future()
        self._awaited[job_id].append(ended)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watch_for_ends(self._stream.listen(position)))
        try:
            yield ended
        finally:
            self._awaited[job_id].remove(ended)
            if not self._awaited[job_id]:
                del self._awaited[job_id]

    async def _watch_for_ends(self, events: AsyncGenerator[QueueEvent]) -> None:
        try:
            async with contextlib.aclosing(events):
                async for event in events:
                    if event.job_id in self._awaited and event.name in ENDS:
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


def outcome_of(job_id: str, event: QueueEvent | None) -> Any:
    """The result of a job by the event of its end; None means that it left no event."""
    if event is None or event.name == "removed":
        raise NotFound(f"there is no job {job_id}")
    if event.name == "failed":
        raise JobFailed(event.failed_reason or "")
    return event.result
