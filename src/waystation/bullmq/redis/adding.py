"""Adding one by one: jobs that are added in the same turn of the loop travel in one call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from waystation.bullmq.redis.packing import Packed, chunks
from waystation.core.errors import NotReplicated, ScriptFailed, StoreError, WrongType
from waystation.core.store.connection import Store

Send: TypeAlias = Callable[[Store, list[Packed]], Awaitable[list[Any]]]
"""Adds packed jobs in one call; the reply has an id or a code for each, in order."""

_Waiting: TypeAlias = tuple[Packed, "asyncio.Future[Any]"]


class Adding:
    """Adds the jobs of many callers, each of whom gets the answer to their own.

    A lone job leaves at once. While others are under way, those of one turn of the loop leave
    together at its end, so that the busier it gets, the less each one costs; nobody waits for a
    reply that is not their own.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[_Waiting] = []
        self._under_way = 0
        self._sending: set[asyncio.Task[None]] = set()

    async def add(self, store: Store, job: Packed) -> Any:
        """Add one job; its id or its code."""
        if self._under_way or self._waiting:
            return await self._with_others(store, job)
        self._under_way += 1
        try:
            [added] = await self._send(store, [job])
        finally:
            self._under_way -= 1
        return added

    def _with_others(self, store: Store, job: Packed) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._leave, store)
        self._waiting.append((job, answer))
        return answer

    def _leave(self, store: Store) -> None:
        # Whoever has given up meanwhile does not want the job any more.
        waiting = [each for each in self._waiting if not each[1].done()]
        self._waiting = []
        first = 0
        for batch in chunks([job for job, _ in waiting]):
            answers = [answer for _, answer in waiting[first : first + len(batch)]]
            first += len(batch)
            self._under_way += 1
            task = asyncio.create_task(self._add_all(store, batch, answers))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _add_all(
        self, store: Store, jobs: list[Packed], answers: Sequence["asyncio.Future[Any]"]
    ) -> None:
        try:
            added = await self._send(store, jobs)
        except (ScriptFailed, WrongType) as error:
            if len(jobs) == 1:
                _fail(answers[0], error)
            else:
                await self._add_apart(store, jobs, answers)
        except NotReplicated as error:
            for answer, id in zip(answers, error.stored, strict=True):
                _fail(answer, NotReplicated(error.args[0], [id]))
        except Exception as error:
            for answer in answers:
                _fail(answer, _own(error))
        else:
            for answer, id in zip(answers, added, strict=True):
                # Whoever was cancelled has gone, but the job was theirs.
                if not answer.done():
                    answer.set_result(id)
        finally:
            for answer in answers:
                # Left only when the loop itself ends; a future that is done takes no notice.
                answer.cancel()
            if len(jobs) == 1:
                self._arrived()
            else:
                # Those who have their answer now may add the next one, and do so together.
                asyncio.get_running_loop().call_soon(self._arrived)

    async def _add_apart(
        self, store: Store, jobs: list[Packed], answers: Sequence["asyncio.Future[Any]"]
    ) -> None:
        # A script that fails has added nothing, and the fault may be that of a single job.
        for job, answer in zip(jobs, answers, strict=True):
            if not answer.done():
                self._under_way += 1
                await self._add_all(store, [job], [answer])

    def _arrived(self) -> None:
        self._under_way -= 1


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _own(error: Exception) -> Exception:
    """The error as one caller's own: each adds notes and a traceback to theirs."""
    if not isinstance(error, StoreError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
