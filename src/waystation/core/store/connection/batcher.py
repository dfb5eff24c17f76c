"""Batching: questions asked at the same time are sent to the store in one call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Asks for everybody who wants to know the same kind of thing.

    A lone question leaves in the next turn of the loop. Those that come while an answer is under
    way leave together when it is there, so that the busier it gets, the less each one costs.
    """

    def __init__(
        self, ask: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], *, most: int = 64
    ) -> None:
        self._ask = ask
        """Answers in the order of the questions."""
        self._most = most
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._asking: asyncio.Task[None] | None = None

    def ask(self, question: Q) -> asyncio.Future[A]:
        """Put a question; its answer comes through the future."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[A] = loop.create_future()
        self._waiting.append((question, answer))
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask_all())
        return answer

    async def _ask_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            try:
                answers = await self._ask([question for question, _ in batch])
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            except BaseException:
                for _, answer in batch + self._waiting:
                    answer.cancel()
                self._waiting = []
                raise
            else:
                for (_, answer), found in zip(batch, answers, strict=True):
                    # Whoever was cancelled has gone, but the answer was theirs.
                    if not answer.done():
                        answer.set_result(found)
