"""Groups of tasks: an option of a task, or a function of its arguments."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.support.patience import LIMIT_S
from waystation.bullmq import Group, Job, JobOptions, Schedule
from waystation.errors import InvalidInput, InvalidOption
from waystation.tasks import BlockingTaskJob, Tasks, depends


class Order(msgspec.Struct):
    tenant: str | None
    tokens: int = 1


def of_tenant(order: Order) -> Group | None:
    return Group(order.tenant, cost=order.tokens) if order.tenant else None


def express_or_not(express: bool) -> str:
    return f"express-{express}"


def as_text(**given: object) -> str:
    return str(sorted(given.items()))


async def test_the_group_of_a_task_is_that_of_all_its_jobs(tasks: Tasks) -> None:
    @tasks.task(group="acme")
    async def send(n: int) -> None: ...

    jobs = [
        await send.add(1),
        await send.with_options(group=Group("bell", parent="cord")).add(2),
        await send.with_options(group=None).add(3),
        await send.with_options(delay=60).add(4),
    ]

    assert [each.job.group for each in jobs] == [
        Group("acme"), Group("bell", parent="cord"), None, Group("acme"),
    ]  # fmt: skip


async def test_a_function_gets_the_arguments_as_the_handler_does(tasks: Tasks) -> None:
    @tasks.task(group=of_tenant)
    async def ship(order: Order, express: bool = False, job: Job = depends(Job)) -> None: ...

    @tasks.task(group=as_text)
    async def count(first: int, second: int = 2) -> None: ...

    jobs = [
        await ship.add(Order("acme", 5), express=True),
        await ship.add(Order(None)),
        await ship.with_options(group=express_or_not).add(Order("acme")),
        await ship.with_options(group="bell").add(Order("acme")),
    ]

    assert [each.job.group for each in jobs] == [
        Group("acme", cost=5), None, Group("express-False"), Group("bell"),
    ]  # fmt: skip
    assert (await count.add(1)).job.group == Group("[('first', 1), ('second', 2)]")


async def test_whatever_adds_a_call_keeps_its_group(tasks: Tasks) -> None:
    @tasks.task(queue="orders", group=of_tenant)
    async def ship(order: Order, job: Job = depends(Job)) -> str:
        return job.group.path if job.group else ""

    @tasks.task(queue="days")
    async def day(job: Job = depends(Job)) -> str:
        return await ship.call_in(job, Order("called"))

    many = await ship.add_many([ship.bind(Order("acme")), ship.bind(Order("bell"))])
    flow = await tasks.add_flow(day.bind().after(ship.bind(Order("child"))))
    await tasks.schedule("often", Schedule(every=3600), ship.bind(Order("scheduled")))
    [scheduler] = await tasks.queue("orders").schedulers.list()
    alone = await asyncio.to_thread(ship.sync.add, Order("waiting"))
    tasks.sync.close()

    assert isinstance(alone, BlockingTaskJob)
    assert scheduler.options["group"] == {"id": "scheduled"}
    [child] = flow.children
    every = [*(each.job for each in many), child.job, alone.job]
    assert [each.group and each.group.id for each in every] == ["acme", "bell", "child", "waiting"]
    async with tasks.worker("days"), tasks.worker("orders"), asyncio.timeout(LIMIT_S):
        assert await flow.result() == "called"


def _that_fails(order: Any) -> str:
    return order.customer


def _of_seven(order: Order) -> Any:
    return 7


def _of_no_text(order: Order) -> str:
    return ""


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (_that_fails, "cannot be found .*'Order' object has no attribute"),
        (_of_seven, "must be an id, a Group or None, got 7"),
        (_of_no_text, "cannot be found .*1 to 200 bytes, got 0"),
    ],
    ids=["error", "kind", "empty"],
)
async def test_a_function_that_gives_no_group_is_refused_and_nothing_is_added(
    tasks: Tasks, group: Any, sentence: str
) -> None:
    @tasks.task
    async def ship(order: Order) -> None: ...

    wrong = ship.with_options(group=group)
    with pytest.raises(InvalidInput, match=f"the group of ship {sentence}"):
        await wrong.add(Order("acme"))
    with pytest.raises(InvalidInput):
        await tasks.add_many([ship.bind(Order("acme")), wrong.bind(Order("bell"))])
    assert sum((await tasks.queue("default").counts()).values()) == 0


async def _late(order: Order) -> str:
    return "acme"


def _of_another(tenant: str) -> str:
    return tenant


def _of_the_job(job: Job) -> str:
    return job.id


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (_of_another, "asks for tenant, which is none of its arguments: order"),
        (_of_the_job, "asks for job, which is none of its arguments: order"),
        (_late, "must come from a plain function"),
        (str, "must come from a function that names its parameters"),
    ],
    ids=["unknown", "dependency", "coroutine", "no names"],
)
def test_a_function_that_no_call_can_satisfy_is_refused_where_it_is_declared(
    group: Any, sentence: str
) -> None:
    with pytest.raises(InvalidOption, match=f"the group of ship {sentence}"):

        @Tasks().task(group=group)
        async def ship(order: Order, job: Job = depends(Job)) -> None: ...  # pyright: ignore


async def test_a_function_stands_above_the_group_of_the_default_options(redis_url: str) -> None:
    tasks = Tasks(redis_url, default_options=JobOptions(group="acme"))

    @tasks.task
    async def send() -> None: ...

    @tasks.task(group=lambda: None)
    async def alone() -> None: ...

    async with tasks:
        assert (await send.add()).job.group == Group("acme")
        assert (await alone.add()).job.group is None
