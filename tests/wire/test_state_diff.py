import time

import pytest
from redis.asyncio import Redis

from .dump import Snapshot, differences, dump
from .node import NodePeer, NodeProcess
from .scenario import Add, Job, Step, perform
from .scenarios import SCENARIOS
from .sides import NodeSide


async def run_by_node(process: NodeProcess, url: str, steps: list[Step]) -> Snapshot:
    """What is in the database after Node has been through the steps."""
    since = time.time_ns() // 1_000_000
    async with Redis.from_url(url, protocol=2) as redis, NodePeer(process, url) as peer:
        await perform(NodeSide(peer, redis), steps)
        return await dump(redis, since=since)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_node_leaves_the_same_state_twice(
    name: str, node6_process: NodeProcess, redis_url: str, second_url: str
) -> None:
    steps = list(SCENARIOS[name])

    first = await run_by_node(node6_process, redis_url, steps)
    second = await run_by_node(node6_process, second_url, steps)

    assert differences(first, second, names=("node", "node again")) == ""
    assert first


async def test_a_scenario_that_differs_shows(
    node6_process: NodeProcess, redis_url: str, second_url: str
) -> None:
    first = await run_by_node(node6_process, redis_url, [Add("q", [Job("a", {}, {"delay": 3e6})])])
    second = await run_by_node(
        node6_process, second_url, [Add("q", [Job("a", {}, {"delay": 6e6})])]
    )

    told = differences(first, second)

    assert '-bull:q:delayed (zset) [0] = ["1","<start+50 min>"]' in told
    assert '+bull:q:delayed (zset) [0] = ["1","<start+100 min>"]' in told
