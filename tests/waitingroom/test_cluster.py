"""A room whose id has braces, on a cluster that refuses keys of different slots in one script."""

from tests.waitingroom.harness import Harness
from waystation.core.store.connection import connect


async def test_a_whole_visit_happens_on_one_node(cluster_url: str) -> None:
    """F20, F-W15, F19: the spec's enqueue would be refused there."""
    async with await connect(cluster_url) as store:
        harness = Harness(store)
        await harness.open(admission_rate=2, claim_window=10)
        await harness.control.schedule(harness.clock.now_ms() + 1000)
        await harness.lottery.announce()
        for name in ("a", "b", "c"):
            await harness.join(name, lane=len(harness.places))
        await harness.lottery.draw(beacon="b")
        await harness.beat("a", "b", "c")
        called = await harness.admit()
        await harness.come_in(called[0])
        assert (await harness.room.renew(harness.places[called[0]])).views == 1
        assert await harness.room.complete(harness.places[called[0]])
        await harness.clock.advance(11)
        await harness.admit()
        await harness.room.recover(harness.places[called[1]], called[1])
        await harness.clock.advance(400)
        assert called[1] in await harness.expire()
        assert await harness.upkeep.compact() == 0
        assert len(await harness.room.curve()) == 4
