"""What tasks take and return: annotations checked, models built, schemas written."""

import dataclasses
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pytest
from jsonschema_rs import Draft202012Validator
from pydantic import BaseModel

from tests.tasks.conftest import Finish
from waystation.bullmq import Job, Queue, SyncJob
from waystation.errors import InvalidInput, InvalidOption
from waystation.tasks import Tasks, depends


class Colour(Enum):
    RED = "red"


class Line(BaseModel):
    book: str
    count: int = 1


class Order(BaseModel):
    lines: list[Line]
    paid: Decimal


@dataclasses.dataclass
class Address:
    city: str
    since: datetime


class Parcel(msgspec.Struct):
    to: Address
    weight: Annotated[float, msgspec.Meta(gt=0)]


async def test_models_dataclasses_and_structs_arrive_as_what_they_were(
    tasks: Tasks, finish: Finish
) -> None:
    seen: list[Any] = []

    @tasks.task()
    async def ship(
        order: Order, parcel: Parcel, ids: set[UUID], colour: Colour, by_count: dict[int, str]
    ) -> Order:
        seen.extend((order, parcel, ids, colour, by_count))
        return order

    order = Order(lines=[Line(book="Emma", count=2)], paid=Decimal("12.50"))
    parcel = Parcel(Address("York", datetime(2026, 1, 2, tzinfo=UTC)), 1.5)
    ids = {UUID(int=7)}
    added = await ship.add(order, parcel, ids, colour=Colour.RED, by_count={3: "c"})
    await finish()

    assert seen == [order, parcel, ids, Colour.RED, {3: "c"}]
    assert await added.result() == order


async def test_a_model_checks_itself() -> None:
    tasks = Tasks()

    @tasks.task()
    async def ship(order: Order) -> None: ...

    @tasks.task()
    async def weigh(parcel: Parcel) -> None: ...

    wrong: Any = ship
    with pytest.raises(InvalidInput, match="paid"):
        await wrong.add(order={"lines": []})
    with pytest.raises(InvalidInput, match=r"`float` > 0"):
        await weigh.add(Parcel(Address("York", datetime(2026, 1, 2, tzinfo=UTC)), -1.0))
    with pytest.raises(InvalidInput, match="of type object is unsupported"):
        await wrong.add(order=object())


async def test_defaults_stay_with_the_function(tasks: Tasks, finish: Finish) -> None:
    @tasks.task()
    async def echo(a: int, /, b: list[int] = [1], *, c: Colour | None = None) -> str:  # noqa: B006
        return f"{a} {b} {c}"

    added = await echo.add(1)
    await finish()

    assert added.job.data == {"a": 1}
    assert await added.result() == "1 [1] None"


async def test_the_schema_accepts_exactly_what_the_task_takes(
    tasks: Tasks, finish: Finish, redis_url: str
) -> None:
    @tasks.task(queue="parcels")
    async def ship(order: Order, to: Address, fast: bool = False) -> Line:
        return order.lines[0]

    schema = tasks.schema()["queues"]["parcels"]["ship"]
    check = Draft202012Validator(schema["data"]).is_valid
    order = {"lines": [{"book": "Emma"}], "paid": "9.99"}
    address = {"city": "York", "since": "2026-01-02T03:04:05Z"}

    assert schema["data"]["properties"]["fast"] == {"type": "boolean", "default": False}
    good = {"order": order, "to": address}
    bad: list[Any] = [
        {"order": order},
        {"order": {"lines": [{}], "paid": 1}, "to": address},
        {**good, "fast": "yes"},
        {**good, "quick": True},
    ]
    assert check(good)
    assert [check(each) for each in bad] == [False] * 4
    assert check(
        (
            await ship.with_options(delay=60).add(
                Order.model_validate(order), Address("York", datetime(2026, 1, 2, tzinfo=UTC))
            )
        ).job.data
    )
    async with Queue("parcels", redis_url) as queue:
        jobs = [await queue.add("ship", data, attempts=1) for data in (good, *bad)]
        await tasks.queue("parcels").promote_all()
        await finish("parcels")
        states = [await each.state() for each in jobs]
    assert states == ["completed", *["failed"] * 4]
    assert Draft202012Validator(schema["result"]).is_valid({"book": "Emma", "count": 1})


def test_an_annotation_may_name_what_the_module_defines_later() -> None:
    tasks = Tasks()

    @tasks.task()
    async def ship(order: "Later") -> None: ...  # type: ignore[name-defined] # noqa: F821 # pyright: ignore

    with pytest.raises(InvalidOption, match="the annotations of ship cannot be read: name 'Later'"):
        ship.schema()


def test_annotations_that_json_cannot_tell_apart_are_refused() -> None:
    tasks = Tasks()

    @tasks.task()
    async def ship(to: Address | Parcel) -> None: ...

    with pytest.raises(InvalidOption, match="the annotations of ship cannot be used"):
        tasks.worker("default")


async def test_a_job_is_called_as_its_function_would_be(tasks: Tasks, finish: Finish) -> None:
    def keyword(to: str, cc: str = "none", *, subject: str, tag: int = 1) -> Any:
        return [to, cc, subject, tag]

    def positional(a: int, b: int = 1, /, c: int = 2, *, d: int = 3) -> Any:
        return [a, b, c, d]

    def nothing() -> Any:
        return []

    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        (keyword, ("ada",), {"subject": "hi"}),
        (keyword, ("ada", "bob"), {"subject": "hi", "tag": 2}),
        (keyword, (), {"to": "ada", "subject": "hi"}),
        (positional, (7,), {}),
        (positional, (7, 8), {}),
        (positional, (7, 8, 9), {"d": 10}),
        (positional, (7,), {"c": 9}),
        (nothing, (), {}),
    ]
    made = {function: tasks.task(function) for function in (keyword, positional, nothing)}
    jobs = [await made[function].add(*args, **given) for function, args, given in calls]
    await finish()

    for job, (function, args, given) in zip(jobs, calls, strict=True):
        assert await job.result() == function(*args, **given)


async def test_results_of_children_are_what_their_tasks_promise(
    tasks: Tasks, finish: Finish
) -> None:
    seen: list[Any] = []

    @tasks.task
    async def line(book: str) -> Line:
        return Line(book=book)

    @tasks.task
    async def order(job: Job = depends(Job)) -> None:
        seen.extend(each.result for each in await job.children_results())

    @tasks.task
    def plain_order(job: SyncJob = depends(SyncJob)) -> None:
        seen.extend(each.result for each in job.children_results())

    for each in (order, plain_order):
        await tasks.add_flow(each.bind().after(line.bind("Emma")))
    await finish()

    assert seen == [Line(book="Emma")] * 2
