"""Tasks called by code without an event loop."""

import asyncio

import pytest

from tests.support.patience import LIMIT_S
from waystation.bullmq import FlowNode, Schedule, SyncJob
from waystation.errors import InvalidInput, InvalidOption
from waystation.tasks import BlockingTaskFlow, Tasks, depends


async def test_code_that_waits_adds_calls_and_gets_results(redis_url: str) -> None:
    tasks = Tasks(redis_url)

    @tasks.task(queue="mail", retries=1)
    async def double(n: int) -> int:
        return 2 * n

    def producer() -> list[int]:
        results = [double.sync.call(21), double.sync.add(n=1).result(LIMIT_S)]
        many = double.sync.add_many([double.bind(2), double.bind(3)])
        delayed = double.with_options(delay=60).sync.add(4)
        assert delayed.job.state() == "delayed"
        with pytest.raises(InvalidInput, match="Expected `int`, got `str`"):
            double.sync.add("two")  # type: ignore[arg-type] # pyright: ignore
        return results + [each.result(LIMIT_S) for each in many]

    async with tasks.worker("mail"), asyncio.timeout(LIMIT_S):
        assert await asyncio.to_thread(producer) == [42, 2, 4, 6]
    tasks.sync.close()


async def test_code_that_waits_adds_flows_schedules_and_calls_of_several_tasks(
    redis_url: str,
) -> None:
    tasks = Tasks(redis_url, prefix="shop")

    @tasks.task(queue="parts")
    async def part(n: int) -> int:
        return n

    @tasks.task(queue="totals")
    def total(job: SyncJob = depends(SyncJob)) -> int:
        return sum(child.result for child in job.children_results())

    def producer() -> None:
        flow = tasks.sync.add_flow(total.bind().after(part.bind(1), part.bind(2)))
        assert isinstance(flow, BlockingTaskFlow)
        assert flow.result(LIMIT_S) == 3
        assert [each.job.name for each in flow.children] == ["part", "part"]
        plain = tasks.sync.add_flow(FlowNode(name="part", queue="parts", data={"n": 4}))
        assert plain.job.wait(LIMIT_S) == 4
        several = tasks.sync.add_many([part.bind(5), total.bind(), part.bind(6)])
        assert [each.result(LIMIT_S) for each in several] == [5, 0, 6]
        # Whatever task is asked, each call goes to the queue of its own.
        other = total.sync.add_many([part.bind(8)])
        assert [each.result(LIMIT_S) for each in other] == [8]
        with pytest.raises(InvalidOption, match="each of calls must be a Call"):
            part.sync.add_many([7])  # type: ignore[list-item] # pyright: ignore
        tasks.sync.schedule("often", Schedule(every=3600), part.bind(7))
        [found] = tasks.sync.queue("parts").schedulers.list()
        assert (found.id, found.data) == ("often", {"n": 7})
        tasks.sync.close()

    async with tasks.worker("parts"), tasks.worker("totals"), asyncio.timeout(LIMIT_S):
        await asyncio.to_thread(producer)
