"""What a step returns: of the type that its function's annotation names."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, SyncJob, Worker


@dataclass
class Receipt:
    number: int
    at: datetime


NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def receipt(number: int) -> Receipt:
    return Receipt(number, NOON)


async def pair(number: int) -> "tuple[int, Receipt | None]":
    return number, None


def liar() -> Receipt:
    return 7  # type: ignore[return-value] # pyright: ignore[reportReturnType]


def foreign() -> Any:
    return 8


foreign.__annotations__["return"] = "NobodyKnowsThis"


async def test_a_step_returns_what_the_annotation_of_its_function_promises(
    queue: Queue, redis_url: str
) -> None:
    seen: list[Any] = []

    async def handle(job: Job) -> None:
        method = Receipt(2, NOON).__eq__
        seen.append(await job.step("receipt", receipt, 1))
        seen.append(await job.step("pair", pair, 2))
        seen.append(await job.step("part", partial(receipt, 3)))
        seen.append([await job.step("lie", liar), await job.step("foreign", foreign)])
        seen.append(await job.step("method", method, Receipt(2, NOON)))
        if job.attempt == 1:
            raise ConnectionError("no")

    def handle_plainly(job: SyncJob) -> None:
        seen.append(job.step("receipt", receipt, 1))
        if job.attempt == 1:
            raise ConnectionError("no")

    handlers: Any = {"order": handle, "plain": handle_plainly}
    async with asyncio.timeout(LIMIT_S), Worker("mail", handlers, redis_url):
        for name in ("order", "plain"):
            await queue.wait((await queue.add(name, attempts=2, backoff=None)).id)
    once = [Receipt(1, NOON), (2, None), Receipt(3, NOON), [7, 8], True]
    assert seen == [*once, *once, Receipt(1, NOON), Receipt(1, NOON)]
