"""Taking back having left: the old place again, for a short time."""

import pytest

from tests.waitingroom.harness import Harness
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


async def leave(harness: Harness, *names: str) -> None:
    for name in names:
        assert await harness.room.leave(harness.places[name], name) is True


async def rejoin(harness: Harness, name: str) -> object:
    return await harness.room.rejoin(harness.places[name], name)


async def test_whoever_left_by_mistake_has_the_old_place_again(harness: Harness) -> None:
    await harness.open(admission_rate=1, burst=4, rejoin=60)
    await harness.join_all("a", "b", "c")
    await leave(harness, "b")
    await harness.join("d")
    await harness.clock.advance(59)
    found = await rejoin(harness, "b")
    assert isinstance(found, Waiting)
    assert (found.ahead, found.length) == (1, 4)
    assert await harness.status("b") == found
    assert await harness.event_names("b") == ["waiting", "left", "recovered"]
    assert (await harness.events())[-1]["reason"] == "left"
    assert (await harness.position("b"))["status"] == "waiting"
    assert await harness.admit() == ["a", "b", "c", "d"]


async def test_asking_again_changes_nothing(harness: Harness) -> None:
    await harness.open()
    await harness.join_all("a", "b")
    assert await rejoin(harness, "b") == await harness.status("b")
    await leave(harness, "b")
    assert await rejoin(harness, "b") == await rejoin(harness, "b")
    assert await harness.event_names("b") == ["waiting", "left", "recovered"]


async def test_after_a_while_the_place_is_gone(harness: Harness) -> None:
    await harness.open(rejoin=60)
    place = await harness.join("a")
    await leave(harness, "a")
    assert await harness.room.rejoinable_until(place) is not None
    await harness.clock.advance(60)
    await harness.room.state()
    assert await harness.room.rejoinable_until(place) is None
    assert await rejoin(harness, "a") == Gone()
    assert await harness.event_names("a") == ["waiting", "left"]


async def test_a_room_may_let_nobody_take_it_back(harness: Harness) -> None:
    await harness.open(rejoin=0)
    place = await harness.join("a")
    await leave(harness, "a")
    assert await harness.room.rejoinable_until(place) is None
    assert await rejoin(harness, "a") == Gone()
    with pytest.raises(InvalidOption, match="rejoin must be 0 to 3600 seconds"):
        RoomOptions(rejoin=3601)


async def test_nobody_else_takes_it_back(harness: Harness) -> None:
    await harness.open()
    place = await harness.join("a")
    await leave(harness, "a")
    assert await harness.room.rejoin(place, "not the secret") == Forbidden()
    assert await harness.status("a") == Gone()


async def test_whom_an_operator_removed_does_not_come_back(harness: Harness) -> None:
    """Neither from the line, nor after leaving it to be ahead of the operator."""
    await harness.open()
    await harness.join_all("a", "b")
    await harness.room.remove(harness.places["a"], "a bot")
    assert await rejoin(harness, "a") == Gone()
    await leave(harness, "b")
    await harness.room.remove(harness.places["b"], "a bot, too")
    assert await rejoin(harness, "b") == Gone()


async def test_whoever_joined_anew_has_that_place_alone(harness: Harness) -> None:
    await harness.open()
    old = await harness.join("a")
    await leave(harness, "a")
    new = await harness.join("a")
    assert new != old
    assert await harness.room.rejoin(old, "a") == Gone()
    await harness.waiting("a")
    await leave(harness, "a")
    assert isinstance(await harness.room.rejoin(old, "a"), Waiting)
    assert await harness.room.rejoin(new, "a") == Gone()
    assert await harness.join("a") == old


@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.VIP])
async def test_turns_that_went_to_others_meanwhile_are_not_lost(
    harness: Harness, lane: Lane
) -> None:
    """The lane's list has passed them by already; the order is that of joining all the same."""
    await harness.open(admission_rate=1, burst=2)
    await harness.join_all(*"abcdefg", lane=lane)
    await leave(harness, "a", "b", "d")
    assert await harness.admit() == ["c", "e"]
    assert isinstance(await rejoin(harness, "d"), Waiting)
    assert isinstance(await rejoin(harness, "a"), Waiting)
    assert isinstance(await rejoin(harness, "b"), Waiting)
    await harness.clock.advance(2)
    assert await harness.admit() == ["a", "b"]
    await harness.clock.advance(2)
    assert await harness.admit() == ["d", "f"]
    await harness.clock.advance(2)
    assert await harness.admit() == ["g"]


@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.VIP])
async def test_taking_it_back_looks_at_nobody_else(harness: Harness, lane: Lane) -> None:
    """Whoever leaves and comes back in a loop must not make the store walk through the line."""
    await harness.open(max_queue_size=0)
    await harness.join_all(*(f"v{each}" for each in range(200)), lane=lane)
    await leave(harness, "v199")
    lists = harness.keys.normal_list, harness.keys.vip_list
    before = [await harness.redis.lrange(key, 0, -1) for key in lists]
    await harness.redis.config_resetstat()
    assert isinstance(await rejoin(harness, "v199"), Waiting)
    assert [await harness.redis.lrange(key, 0, -1) for key in lists] == before
    used = await harness.redis.info("commandstats")
    assert (
        not {f"cmdstat_{each}" for each in ("lpos", "linsert", "zmscore", "zrange")} & used.keys()
    )


async def test_a_turn_that_was_given_up_is_the_next_one_again(harness: Harness) -> None:
    await harness.open(admission_rate=1, burst=1)
    await harness.join_all("a", "b", "c")
    assert await harness.admit() == ["a"]
    await leave(harness, "a")
    assert await harness.admit() == ["b"]
    assert await rejoin(harness, "a") == Returned(ahead=0)
    await leave(harness, "a")
    assert await rejoin(harness, "a") == Returned(ahead=0)
    await harness.clock.advance(1)
    assert await harness.admit() == ["a"]
    assert isinstance(await harness.status("a"), Called)
    await harness.come_in("a")


async def test_whoever_left_early_is_early_again_until_lots_are_drawn(harness: Harness) -> None:
    await harness.open()
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    await harness.lottery.announce("ab" * 32)
    await harness.join("a", Lane.VIP)
    await harness.join("b")
    await leave(harness, "a")
    found = await rejoin(harness, "a")
    assert isinstance(found, Prequeued)
    assert (found.lane, found.early) == (Lane.VIP, 2)
    await leave(harness, "b")
    await harness.clock.advance(61)
    await harness.lottery.draw()
    assert await rejoin(harness, "b") == Gone()
    await harness.waiting("a")


async def test_whoever_takes_it_back_has_not_left_for_the_estimates(harness: Harness) -> None:
    await harness.open()
    await harness.join_all("a", "b")
    await leave(harness, "a", "b")
    await rejoin(harness, "a")
    assert float((await harness.hash(harness.keys.stays))["gone"]) == 1
