"""A room whose id has braces, on a cluster that refuses keys of different slots in one script."""

from tests.waitingroom.hands import Hands
from waystation.core.store.connection import connect


async def test_a_whole_visit_happens_on_one_node(cluster_url: str) -> None:
    """F20, F-W15, F19: the spec's enqueue would be refused there."""
    async with await connect(cluster_url) as store:
        hands = Hands(store)
        await hands.open(admission_rate=2, claim_window=10)
        await hands.control.schedule(hands.clock.now_ms() + 1000)
        await hands.lottery.announce()
        for name in ("a", "b", "c"):
            await hands.join(name, lane=len(hands.places))
        await hands.lottery.draw(beacon="b")
        await hands.beat("a", "b", "c")
        called = await hands.admit()
        await hands.come_in(called[0])
        assert (await hands.room.renew(hands.places[called[0]])).views == 1
        assert await hands.room.complete(hands.places[called[0]])
        await hands.clock.advance(11)
        await hands.admit()
        await hands.room.recover(hands.places[called[1]], called[1])
        await hands.clock.advance(400)
        assert called[1] in await hands.expire()
        assert await hands.upkeep.compact() == 0
        assert len(await hands.room.curve()) == 4
