"""Taking back having left: the old place again, for a short time."""

import pytest

from tests.waitingroom.hands import Hands
from waystation.core.errors import InvalidOption
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.visitor import (
    Called,
    Forbidden,
    Gone,
    Lane,
    Prequeued,
    Returned,
    Waiting,
)


async def leave(hands: Hands, *names: str) -> None:
    for name in names:
        assert await hands.room.leave(hands.places[name], name) is True


async def rejoin(hands: Hands, name: str) -> object:
    return await hands.room.rejoin(hands.places[name], name)


async def test_whoever_left_by_mistake_has_the_old_place_again(hands: Hands) -> None:
    await hands.open(admission_rate=1, burst=4, rejoin=60)
    await hands.join_all("a", "b", "c")
    await leave(hands, "b")
    await hands.join("d")
    await hands.clock.advance(59)
    found = await rejoin(hands, "b")
    assert isinstance(found, Waiting)
    assert (found.ahead, found.length) == (1, 4)
    assert await hands.status("b") == found
    assert await hands.event_names("b") == ["waiting", "left", "recovered"]
    assert (await hands.events())[-1]["reason"] == "left"
    assert (await hands.position("b"))["status"] == "waiting"
    assert await hands.admit() == ["a", "b", "c", "d"]


async def test_asking_again_changes_nothing(hands: Hands) -> None:
    await hands.open()
    await hands.join_all("a", "b")
    assert await rejoin(hands, "b") == await hands.status("b")
    await leave(hands, "b")
    assert await rejoin(hands, "b") == await rejoin(hands, "b")
    assert await hands.event_names("b") == ["waiting", "left", "recovered"]


async def test_after_a_while_the_place_is_gone(hands: Hands) -> None:
    await hands.open(rejoin=60)
    place = await hands.join("a")
    await leave(hands, "a")
    assert await hands.room.rejoinable_until(place) is not None
    await hands.clock.advance(60)
    await hands.room.state()
    assert await hands.room.rejoinable_until(place) is None
    assert await rejoin(hands, "a") == Gone()
    assert await hands.event_names("a") == ["waiting", "left"]


async def test_a_room_may_let_nobody_take_it_back(hands: Hands) -> None:
    await hands.open(rejoin=0)
    place = await hands.join("a")
    await leave(hands, "a")
    assert await hands.room.rejoinable_until(place) is None
    assert await rejoin(hands, "a") == Gone()
    with pytest.raises(InvalidOption, match="rejoin must be 0 to 3600 seconds"):
        RoomOptions(rejoin=3601)


async def test_nobody_else_takes_it_back(hands: Hands) -> None:
    await hands.open()
    place = await hands.join("a")
    await leave(hands, "a")
    assert await hands.room.rejoin(place, "not the secret") == Forbidden()
    assert await hands.status("a") == Gone()


async def test_whom_an_operator_removed_does_not_come_back(hands: Hands) -> None:
    """Neither from the line, nor after leaving it to be ahead of the operator."""
    await hands.open()
    await hands.join_all("a", "b")
    await hands.room.remove(hands.places["a"], "a bot")
    assert await rejoin(hands, "a") == Gone()
    await leave(hands, "b")
    await hands.room.remove(hands.places["b"], "a bot, too")
    assert await rejoin(hands, "b") == Gone()


async def test_whoever_joined_anew_has_that_place_alone(hands: Hands) -> None:
    await hands.open()
    old = await hands.join("a")
    await leave(hands, "a")
    new = await hands.join("a")
    assert new != old
    assert await hands.room.rejoin(old, "a") == Gone()
    await hands.waiting("a")
    await leave(hands, "a")
    assert isinstance(await hands.room.rejoin(old, "a"), Waiting)
    assert await hands.room.rejoin(new, "a") == Gone()
    assert await hands.join("a") == old


@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.VIP])
async def test_turns_that_went_to_others_meanwhile_are_not_lost(hands: Hands, lane: Lane) -> None:
    """The lane's list has passed them by already; the order is that of joining all the same."""
    await hands.open(admission_rate=1, burst=2)
    await hands.join_all(*"abcdefg", lane=lane)
    await leave(hands, "a", "b", "d")
    assert await hands.admit() == ["c", "e"]
    assert isinstance(await rejoin(hands, "d"), Waiting)
    assert isinstance(await rejoin(hands, "a"), Waiting)
    assert isinstance(await rejoin(hands, "b"), Waiting)
    await hands.clock.advance(2)
    assert await hands.admit() == ["a", "b"]
    await hands.clock.advance(2)
    assert await hands.admit() == ["d", "f"]
    await hands.clock.advance(2)
    assert await hands.admit() == ["g"]


@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.VIP])
async def test_taking_it_back_looks_at_nobody_else(hands: Hands, lane: Lane) -> None:
    """Whoever leaves and comes back in a loop must not make the store walk through the line."""
    await hands.open(max_queue_size=0)
    await hands.join_all(*(f"v{each}" for each in range(200)), lane=lane)
    await leave(hands, "v199")
    lists = hands.keys.normal_list, hands.keys.vip_list
    before = [await hands.redis.lrange(key, 0, -1) for key in lists]
    await hands.redis.config_resetstat()
    assert isinstance(await rejoin(hands, "v199"), Waiting)
    assert [await hands.redis.lrange(key, 0, -1) for key in lists] == before
    used = await hands.redis.info("commandstats")
    assert (
        not {f"cmdstat_{each}" for each in ("lpos", "linsert", "zmscore", "zrange")} & used.keys()
    )


async def test_a_turn_that_was_given_up_is_the_next_one_again(hands: Hands) -> None:
    await hands.open(admission_rate=1, burst=1)
    await hands.join_all("a", "b", "c")
    assert await hands.admit() == ["a"]
    await leave(hands, "a")
    assert await hands.admit() == ["b"]
    assert await rejoin(hands, "a") == Returned(ahead=0)
    await leave(hands, "a")
    assert await rejoin(hands, "a") == Returned(ahead=0)
    await hands.clock.advance(1)
    assert await hands.admit() == ["a"]
    assert isinstance(await hands.status("a"), Called)
    await hands.come_in("a")


async def test_whoever_left_early_is_early_again_until_lots_are_drawn(hands: Hands) -> None:
    await hands.open()
    await hands.control.schedule(hands.clock.now_ms() + 60_000)
    await hands.lottery.announce("ab" * 32)
    await hands.join("a", Lane.VIP)
    await hands.join("b")
    await leave(hands, "a")
    found = await rejoin(hands, "a")
    assert isinstance(found, Prequeued)
    assert (found.lane, found.early) == (Lane.VIP, 2)
    await leave(hands, "b")
    await hands.clock.advance(61)
    await hands.lottery.draw()
    assert await rejoin(hands, "b") == Gone()
    await hands.waiting("a")


async def test_whoever_takes_it_back_has_not_left_for_the_estimates(hands: Hands) -> None:
    await hands.open()
    await hands.join_all("a", "b")
    await leave(hands, "a", "b")
    await rejoin(hands, "a")
    assert float((await hands.hash(hands.keys.stays))["gone"]) == 1
