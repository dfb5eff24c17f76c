"""Nobody sees the waiting page while there is room."""

import asyncio

import pytest

from tests.waitingroom.hands import Hands
from waystation.core.errors import InvalidOption
from waystation.waitingroom import Begun, Inside, JoinRequest, Passed, RoomOptions


async def enter(hands: Hands, name: str, address: str | None = None) -> Passed | None:
    passed = await hands.room.enter(JoinRequest(key=name, secret=name, address=address))
    if passed:
        hands.places[name] = passed.place
    return passed


async def test_a_visitor_of_an_empty_room_is_inside_at_once(hands: Hands) -> None:
    await hands.open(admission_rate=5)
    passed = await enter(hands, "a")
    assert passed is not None
    assert await hands.status("a") == passed.status
    assert (await hands.room.counts())["inside"] == 1
    assert await hands.event_names("a") == ["claimed"]
    assert (await hands.room.statistics())["total_passed"] == 1
    assert await hands.room.complete(passed.place)
    assert (await hands.room.counts())["inside"] == 0


async def test_seats_bound_who_passes(hands: Hands) -> None:
    await hands.open(admission_rate=100, max_active=2)
    found = [await enter(hands, name) for name in "abc"]
    assert [each is not None for each in found] == [True, True, False]
    await hands.room.complete(hands.places["a"])
    assert await enter(hands, "c") is not None


async def test_the_rate_bounds_who_passes(hands: Hands) -> None:
    await hands.open(admission_rate=2)
    found = [await enter(hands, name) for name in "abc"]
    assert [each is not None for each in found] == [True, True, False]
    await hands.clock.advance(0.5)
    assert await enter(hands, "c") is not None
    assert await enter(hands, "d") is None
    # Whoever passes has had a turn: the line goes on at the same rate.
    await hands.join("d")
    assert await hands.admit() == []
    await hands.clock.advance(0.5)
    assert await hands.admit() == ["d"]


async def test_nobody_passes_those_who_wait(hands: Hands) -> None:
    await hands.open(admission_rate=5)
    await hands.join("a")
    assert await enter(hands, "b") is None
    assert await hands.admit() == ["a"]
    assert await enter(hands, "b") is not None


async def test_nobody_passes_somebody_who_took_a_turn_back(hands: Hands) -> None:
    await hands.open(admission_rate=5)
    await hands.join("a")
    await hands.admit()
    await hands.clock.advance(121)
    await hands.room.recover(hands.places["a"], "a")
    assert await enter(hands, "b") is None


async def test_many_at_once_take_no_seat_twice(hands: Hands) -> None:
    await hands.open(admission_rate=1000, max_active=7)
    found = await asyncio.gather(*(enter(hands, f"v{number}") for number in range(50)))
    assert sum(each is not None for each in found) == 7
    assert (await hands.room.state()).inside == 7


async def test_whoever_has_a_place_goes_on_with_it(hands: Hands) -> None:
    await hands.open(admission_rate=5)
    assert await enter(hands, "a") is not None
    assert await enter(hands, "a") is None
    await hands.join("b")
    await hands.admit()
    assert await enter(hands, "b") is None
    assert isinstance(await hands.claim("b"), Begun)


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({"waiting_page": "always"}, False),
        ({"waiting_page": "off", "admission_rate": 0, "max_active": 0}, True),
        ({"queueing_method": "passthrough", "admission_rate": 0}, True),
        ({"queueing_method": "passthrough", "waiting_page": "always"}, False),
        ({"queueing_method": "reject"}, False),
        ({"status": "paused"}, False),
        ({"status": "draining"}, False),
        ({"admission_rate": 0}, False),
    ],
)
async def test_the_options_of_the_room_count(
    hands: Hands, options: dict[str, object], passes: bool
) -> None:
    await hands.room.open(RoomOptions().changed(**options))
    assert (await enter(hands, "a") is not None) is passes


@pytest.mark.parametrize("field", [{"invite_only": "1"}, {"pow_bits": "8"}])
async def test_whoever_has_to_show_something_does_so_on_the_page(
    hands: Hands, field: dict[str, str]
) -> None:
    await hands.open()
    await hands.room.store.write(field)
    assert await enter(hands, "a") is None
    await hands.control.fail_open(60)
    assert await enter(hands, "a") is not None


async def test_those_before_the_opening_wait_for_it(hands: Hands) -> None:
    await hands.open()
    await hands.control.schedule(hands.clock.now_ms() + 60_000)
    assert await enter(hands, "a") is None


async def test_one_network_cannot_take_every_seat(hands: Hands) -> None:
    await hands.open(newcomers_per_minute=2, admission_rate=100)
    found = [await enter(hands, name, "192.0.2.1") for name in "abc"]
    assert [each is not None for each in found] == [True, True, False]
    assert await enter(hands, "d", "192.0.2.2") is not None
    await hands.clock.advance(61)
    assert await enter(hands, "c", "192.0.2.1") is not None


@pytest.mark.parametrize(("renews", "until_s"), [(True, 3630), (False, 3600)])
async def test_a_seat_is_held_briefly_until_its_visitor_comes_back(
    hands: Hands, renews: bool, until_s: int
) -> None:
    """A program without cookies would otherwise take a seat for an hour with every request."""
    await hands.open(admission_rate=5, session=3600, unproven=60, session_renewal=renews)
    began_ms = hands.clock.now_ms()
    for name in "ab":
        assert await enter(hands, name) is not None
    await hands.clock.advance(30)
    renewal = await hands.room.renew(hands.places["a"])
    assert renewal.until_ms - began_ms == until_s * 1000
    await hands.clock.advance(60)
    await hands.admit()
    assert isinstance(await hands.status("a"), Inside)
    assert (await hands.room.state()).inside == 1


def test_an_unknown_way_to_show_the_page_is_refused() -> None:
    with pytest.raises(InvalidOption):
        RoomOptions().changed(waiting_page="sometimes")
