"""What tasks take and return: annotations checked, models built, schemas written."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest
from jsonschema_rs import Draft202012Validator
from pydantic import BaseModel

from tests.tasks.conftest import Finish
from waystation.bullmq import Job, Queue, SyncJob
from waystation.core import codec
from waystation.errors import InvalidInput, InvalidOption, InvalidResult, JobFailed
from waystation.tasks import Tasks, depends
from waystation.tasks.payload import Payload


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


# What arrives is what was given


@dataclasses.dataclass
class Loose:
    anything: Any
    unseen: Any = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass
class Tagged(Loose):
    tag: str = ""


class Bag(msgspec.Struct):
    content: dict  # type: ignore[type-arg] # pyright: ignore


class Pair(NamedTuple):
    first: int
    second: object


class Form(TypedDict):
    field: Any


class Model(BaseModel):
    anything: Any = None
    by_number: dict[int, str] = {}


def itself(value: Any) -> Any:
    return value


PLACES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "Any": (Any, itself),
    "object": (object, itself),
    "Any or None": (Any | None, itself),
    "in Any": (Any, lambda value: {"a": [value]}),
    "dict": (dict, lambda value: {"a": value}),
    "list": (list, lambda value: [value]),
    "tuple": (tuple, lambda value: (value,)),
    "frozenset": (frozenset, lambda value: frozenset([value])),
    "dict[str, Any]": (dict[str, Any], lambda value: {"a": value}),
    "dict[int, Any]": (dict[int, Any], lambda value: {1: value}),
    "list[Any]": (list[Any], lambda value: [value]),
    "list[Any] or None": (list[Any] | None, lambda value: [value]),
    "tuple[int, Any]": (tuple[int, Any], lambda value: (1, value)),
    "Mapping[str, object]": (Mapping[str, object], lambda value: {"a": value}),
    "Sequence": (Sequence, lambda value: [value]),
    "annotated": (Annotated[dict, msgspec.Meta(min_length=1)], lambda value: {"a": value}),  # type: ignore[type-arg]
    "dataclass": (Loose, lambda value: Loose(value)),
    "field that is not compared": (Loose, lambda value: Loose(None, value)),
    "dataclasses": (dict[str, list[Loose]], lambda value: {"a": [Loose(value)]}),
    "struct or None": (Bag | None, lambda value: Bag({"a": value})),
    "named tuple": (Pair, lambda value: Pair(1, value)),
    "typed dict": (Form, lambda value: {"field": value}),
    "model": (Model, lambda value: Model(anything=value)),
    "models": (list[Model], lambda value: [Model(anything={"a": value})]),
}
VALUES: dict[str, Any] = {
    "JSON": {"a": [1, "b", None, 1.5, {}]},
    "text": "b",
    "bytes": b"\xff",
    "bytes that are a text": b"x",
    "bytearray": bytearray(b"x"),
    "set": {1},
    "frozenset": frozenset({1}),
    "number as key": {1: "a"},
    "keys that collide": {1: "a", "1": "b"},
    "bytes inside": {"a": [b"x"]},
    "itself inside": (circle := list[Any]()),
}
circle.append(circle)
TYPED: dict[str, tuple[Any, Any]] = {
    "list[bytes]": (list[bytes], [b"\xff"]),
    "dict[int, str]": (dict[int, str], {1: "a"}),
    "dict[date, bytes]": (dict[date, bytes], {date(2026, 1, 2): b"x"}),
    "set[int]": (set[int], {1}),
    "frozenset[bytes]": (frozenset[bytes], frozenset([b"x"])),
    "bytes or None": (bytes | None, b"x"),
    "dict of sets": (dict[str, set[int]] | None, {"a": {1}}),
    "tuple": (tuple[bytes, set[int]], (b"x", {1})),
    "model": (Model, Model(by_number={1: "a"})),
    "float": (float, 3),
    "int or str": (int | str, 2**53 + 1),
    "enum or None": (Colour | None, Colour.RED),
}
REFUSED: dict[str, tuple[Any, Any]] = {
    "keys of two types": (dict[int | str, str], {1: "a"}),
    "keys that collide": (dict[int, str], {1: "a", "1": "b"}),
    "a set that nobody brings back": (Collection[int], {1}),
    "number for a text as key": (dict[str, int], {1: 1}),
    "digits that a float lacks": (float, 2**60 + 1),
    "a field that the class lacks": (Loose, Tagged(1, tag="a")),
}


def taking(kind: Any) -> Payload:
    def run(given: Any) -> Any: ...

    run.__annotations__ = {"given": kind, "return": kind}
    return Payload("run", run)


def arrived(payload: Payload, value: Any) -> Any:
    return payload.read(codec.decode(codec.encode(payload.bind((value,), {}))))["given"]


def returned(payload: Payload, value: Any) -> Any:
    return payload.read_result(codec.decode(codec.encode(payload.write_result(value))))


def comparable(value: Any) -> Any:
    """A value to compare, fields that are not compared included; JSON has no tuples."""
    match value:
        case Loose():
            return (type(value), comparable(value.anything), comparable(value.unseen))
        case list() | tuple():
            return [comparable(each) for each in value]  # pyright: ignore
        case dict():
            return {key: comparable(each) for key, each in value.items()}  # pyright: ignore
        case _:
            return value


@pytest.mark.parametrize("place", PLACES)
def test_what_arrives_is_what_was_given_or_it_is_refused(place: str) -> None:
    kind, put = PLACES[place]
    payload = taking(kind)
    refused: list[str] = []
    for name, value in VALUES.items():
        try:
            given = put(value)
        except TypeError:  # a set cannot have it
            continue
        for way, error in ((arrived, InvalidInput), (returned, InvalidResult)):
            try:
                back = way(payload, given)
            except error:
                refused.append(name)
            else:
                assert comparable(back) == comparable(given), name
    assert "JSON" not in refused
    assert "text" not in refused
    assert "bytes" in refused


@pytest.mark.parametrize("declared", TYPED)
def test_what_a_type_brings_back_arrives(declared: str) -> None:
    kind, value = TYPED[declared]
    payload = taking(kind)
    assert arrived(payload, value) == value
    assert returned(payload, value) == value


@pytest.mark.parametrize("declared", REFUSED)
def test_what_a_type_does_not_bring_back_is_refused(declared: str) -> None:
    kind, value = REFUSED[declared]
    payload = taking(kind)
    with pytest.raises(InvalidInput):
        payload.bind((value,), {})
    with pytest.raises(InvalidResult):
        payload.write_result(value)


async def test_a_result_that_cannot_be_kept_fails_its_job(tasks: Tasks, finish: Finish) -> None:
    @tasks.task(retries=3)
    def ship() -> dict[str, Any]:
        return {"label": b"x"}

    added = await ship.add()
    await finish()

    with pytest.raises(JobFailed, match=r"the result\.label must be a JSON value, got bytes"):
        await added.result()
