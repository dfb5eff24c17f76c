"""What a database holds after Node, and after us, have been through the same."""

import time
from collections.abc import Iterator, Sequence

import pytest
from redis.asyncio import Redis

from tests.wire.dump import Snapshot, differences, dump, unsigned, without_our_events
from tests.wire.node import NodePeer, NodeProcess
from tests.wire.our_side import our_side
from tests.wire.scenario import Add, AddFlow, AddMany, Job, Step, Tree, perform
from tests.wire.scenarios import SCENARIOS
from tests.wire.sides import NodeSide


async def left_by_node(process: NodeProcess, url: str, steps: Sequence[Step]) -> Snapshot:
    """What is in the database after Node has been through the steps."""
    since = time.time_ns() // 1_000_000
    async with Redis.from_url(url, protocol=2) as redis, NodePeer(process, url) as peer:
        await perform(NodeSide(peer, redis), steps)
        return await dump(redis, since=since)


async def left_by_us(url: str, steps: Sequence[Step]) -> Snapshot:
    """What is in the database after we have been through the steps."""
    since = time.time_ns() // 1_000_000
    async with our_side(url) as side:
        await perform(side, steps)
    async with Redis.from_url(url, protocol=2) as redis:
        return await dump(redis, since=since)


def apart(node: Snapshot, ours: Snapshot, steps: Sequence[Step]) -> str:
    """How the two differ in what must be the same."""
    # Flows do not sign their queues. Node does when it opens one to look at a job, and we do not.
    alone = of_flows_alone(steps)
    node, ours = unsigned(node, alone), unsigned(without_our_events(ours), alone)
    return differences(node, ours, names=("node", "ours"))


def of_flows_alone(steps: Sequence[Step]) -> set[str]:
    """The queues whose jobs all come from flows."""
    trees = [step.tree for step in steps if isinstance(step, AddFlow)]
    return set(queues_of(trees)) - {step.queue for step in steps if isinstance(step, Add | AddMany)}


def queues_of(trees: Sequence[Tree]) -> Iterator[str]:
    """The queues of trees and of what is below them."""
    for tree in trees:
        yield tree.queue
        yield from queues_of(tree.children)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_we_leave_the_state_that_node_leaves(
    name: str, node6_process: NodeProcess, redis_url: str, second_url: str
) -> None:
    node = await left_by_node(node6_process, redis_url, SCENARIOS[name])
    ours = await left_by_us(second_url, SCENARIOS[name])

    assert apart(node, ours, SCENARIOS[name]) == ""
    assert node


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
async def test_node_leaves_the_same_state_twice(
    name: str, node6_process: NodeProcess, redis_url: str, second_url: str
) -> None:
    first = await left_by_node(node6_process, redis_url, SCENARIOS[name])
    second = await left_by_node(node6_process, second_url, SCENARIOS[name])

    assert differences(first, second, names=("node", "node again")) == ""
    assert first


async def test_a_scenario_that_differs_shows(
    node6_process: NodeProcess, redis_url: str, second_url: str
) -> None:
    first = await left_by_node(
        node6_process, redis_url, [Add("q", [Job("a", {}, {"delay": 3000_000})])]
    )
    second = await left_by_us(second_url, [Add("q", [Job("a", {}, {"delay": 6000_000})])])

    shown = differences(first, second)

    assert '-bull:q:delayed (zset) [0] = ["1","<start+50 min>"]' in shown
    assert '+bull:q:delayed (zset) [0] = ["1","<start+100 min>"]' in shown
