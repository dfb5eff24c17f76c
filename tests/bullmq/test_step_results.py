"""What a step returns: of the type that its function's annotation names."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel

from tests.support.patience import LIMIT_S
from waystation.bullmq import Job, Queue, SyncJob, Worker
from waystation.errors import JobFailed, UnreadableData


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


class Model(BaseModel):
    number: int
    at: datetime


class Struct(msgspec.Struct):
    inner: dict[int, Decimal]


class Colour(Enum):
    RED = "red"


class Opaque:
    pass


VALUES: list[tuple[Any, Any]] = [
    (Model, Model(number=1, at=NOON)),
    (list[Model], [Model(number=1, at=NOON)]),
    (dict[str, Model | None], {"a": Model(number=1, at=NOON), "b": None}),
    (Receipt, Receipt(1, NOON)),
    (Struct, Struct({1: Decimal("1.50")})),
    (datetime, NOON),
    (timedelta, timedelta(days=2)),
    (Decimal, Decimal("1.50")),
    (UUID, UUID(int=7)),
    (Colour, Colour.RED),
    (set[int], {1, 2}),
    (bytes, b"\xff\x00"),
    (dict[int, str], {1: "a"}),
]


def returning(kind: Any, value: Any) -> Callable[[], Any]:
    def call() -> Any:
        return value

    call.__annotations__["return"] = kind
    return call


async def test_every_kind_of_value_comes_back_as_it_was(queue: Queue, redis_url: str) -> None:
    seen: list[Any] = []

    async def handle(job: Job[int, Any]) -> Any:
        if job.name == "kid":
            return VALUES[job.data][1]
        at = job.data
        kind, value = VALUES[at]
        done = await job.step("step", returning(kind, value))
        came = await job.wait_for("go", type=kind)
        child = await job.run_child("kid", at, type=kind)
        seen.append((done, came, child))
        return value

    def plainly(job: SyncJob[int, Any]) -> Any:
        kind, value = VALUES[job.data]
        seen.append(
            (job.step("step", returning(kind, value)), job.wait_for("go", type=kind), value)
        )

    async with asyncio.timeout(LIMIT_S):
        for name, handler in (("order", handle), ("plain", plainly)):
            seen.clear()
            handlers: Any = {"order": handler, "plain": handler, "kid": handle}
            async with Worker("mail", handlers, redis_url):
                for at, (_, value) in enumerate(VALUES):
                    job = await queue.add(name, at, attempts=1)
                    assert await queue.signal(job.id, "go", value)
                    await queue.wait(job.id)
            assert seen == [(value, value, value) for _, value in VALUES]
    # Data has no type, so the last three could not come back.
    for _, value in VALUES[:-3]:
        added = await queue.add("kept", value)
        assert await queue.get_job(added.id) is not None


@pytest.mark.parametrize("kind", [Opaque, list[Opaque], dict[str, Opaque | None]])
async def test_what_cannot_be_stored_is_refused_before_the_function_is_called(
    kind: Any, queue: Queue, redis_url: str
) -> None:
    called: list[str] = []

    def charge() -> Any:
        called.append("charged")

    charge.__annotations__["return"] = kind

    async def handle(job: Job) -> None:
        await job.step("charge", charge)

    def plainly(job: SyncJob) -> None:
        job.step("charge", charge)

    handlers: Any = {"order": handle, "plain": plainly}
    async with asyncio.timeout(LIMIT_S), Worker("mail", handlers, redis_url):
        for name in handlers:
            job = await queue.add(name, attempts=3)
            with pytest.raises(JobFailed, match="was not run: charge returns Opaque"):
                await queue.wait(job.id)
    assert called == []


async def test_a_signal_that_is_not_what_was_wanted_says_so(queue: Queue, redis_url: str) -> None:
    async def handle(job: Job) -> None:
        with pytest.raises(UnreadableData, match="the signal 'go' does not fit"):
            await job.wait_for("go", type=Model)

    async with asyncio.timeout(LIMIT_S), Worker("mail", handle, redis_url):
        job = await queue.add("order", attempts=1)
        await queue.signal(job.id, "go", {"number": "many"})
        await queue.wait(job.id)
