"""Nobody sees the waiting page while there is room."""

import asyncio

import pytest

from tests.waitingroom.harness import Harness
from waystation.core.errors import InvalidOption
from waystation.waitingroom import Begun, Inside, JoinRequest, Passed, RoomOptions


async def enter(harness: Harness, name: str, address: str | None = None) -> Passed | None:
    passed = await harness.room.enter(JoinRequest(key=name, secret=name, address=address))
    if passed:
        harness.places[name] = passed.place
    return passed


async def test_a_visitor_of_an_empty_room_is_inside_at_once(harness: Harness) -> None:
    await harness.open(admission_rate=5)
    passed = await enter(harness, "a")
    assert passed is not None
    assert await harness.status("a") == passed.status
    assert (await harness.room.counts())["inside"] == 1
    assert await harness.event_names("a") == ["claimed"]
    assert (await harness.room.statistics())["total_passed"] == 1
    assert await harness.room.complete(passed.place)
    assert (await harness.room.counts())["inside"] == 0


async def test_seats_bound_who_passes(harness: Harness) -> None:
    await harness.open(admission_rate=100, max_active=2)
    found = [await enter(harness, name) for name in "abc"]
    assert [each is not None for each in found] == [True, True, False]
    await harness.room.complete(harness.places["a"])
    assert await enter(harness, "c") is not None


async def test_the_rate_bounds_who_passes(harness: Harness) -> None:
    await harness.open(admission_rate=2)
    found = [await enter(harness, name) for name in "abc"]
    assert [each is not None for each in found] == [True, True, False]
    await harness.clock.advance(0.5)
    assert await enter(harness, "c") is not None
    assert await enter(harness, "d") is None
    # Whoever passes has had a turn: the line goes on at the same rate.
    await harness.join("d")
    assert await harness.admit() == []
    await harness.clock.advance(0.5)
    assert await harness.admit() == ["d"]


async def test_nobody_passes_those_who_wait(harness: Harness) -> None:
    await harness.open(admission_rate=5)
    await harness.join("a")
    assert await enter(harness, "b") is None
    assert await harness.admit() == ["a"]
    assert await enter(harness, "b") is not None


async def test_nobody_passes_somebody_who_took_a_turn_back(harness: Harness) -> None:
    await harness.open(admission_rate=5)
    await harness.join("a")
    await harness.admit()
    await harness.clock.advance(121)
    await harness.room.recover(harness.places["a"], "a")
    assert await enter(harness, "b") is None


async def test_many_at_once_take_no_seat_twice(harness: Harness) -> None:
    await harness.open(admission_rate=1000, max_active=7)
    found = await asyncio.gather(*(enter(harness, f"v{number}") for number in range(50)))
    assert sum(each is not None for each in found) == 7
    assert (await harness.room.state()).inside == 7


async def test_whoever_has_a_place_goes_on_with_it(harness: Harness) -> None:
    await harness.open(admission_rate=5)
    assert await enter(harness, "a") is not None
    assert await enter(harness, "a") is None
    await harness.join("b")
    await harness.admit()
    assert await enter(harness, "b") is None
    assert isinstance(await harness.claim("b"), Begun)


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
    harness: Harness, options: dict[str, object], passes: bool
) -> None:
    await harness.room.open(RoomOptions().changed(**options))
    assert (await enter(harness, "a") is not None) is passes


@pytest.mark.parametrize("field", [{"invite_only": "1"}, {"pow_bits": "8"}])
async def test_whoever_has_to_show_something_does_so_on_the_page(
    harness: Harness, field: dict[str, str]
) -> None:
    await harness.open()
    await harness.room.store.write(field)
    assert await enter(harness, "a") is None
    await harness.control.fail_open(60)
    assert await enter(harness, "a") is not None


async def test_those_before_the_opening_wait_for_it(harness: Harness) -> None:
    await harness.open()
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    assert await enter(harness, "a") is None


async def test_one_network_cannot_take_every_seat(harness: Harness) -> None:
    await harness.open(newcomers_per_minute=2, admission_rate=100)
    found = [await enter(harness, name, "192.0.2.1") for name in "abc"]
    assert [each is not None for each in found] == [True, True, False]
    assert await enter(harness, "d", "192.0.2.2") is not None
    await harness.clock.advance(61)
    assert await enter(harness, "c", "192.0.2.1") is not None


@pytest.mark.parametrize(("renews", "until_s"), [(True, 3630), (False, 3600)])
async def test_a_seat_is_held_briefly_until_its_visitor_comes_back(
    harness: Harness, renews: bool, until_s: int
) -> None:
    """A program without cookies would otherwise take a seat for an hour with every request."""
    await harness.open(admission_rate=5, session=3600, unproven=60, session_renewal=renews)
    began_ms = harness.clock.now_ms()
    for name in "ab":
        assert await enter(harness, name) is not None
    await harness.clock.advance(30)
    renewal = await harness.room.renew(harness.places["a"])
    assert renewal.until_ms - began_ms == until_s * 1000
    await harness.clock.advance(60)
    await harness.admit()
    assert isinstance(await harness.status("a"), Inside)
    assert (await harness.room.state()).inside == 1


def test_an_unknown_way_to_show_the_page_is_refused() -> None:
    with pytest.raises(InvalidOption):
        RoomOptions().changed(waiting_page="sometimes")
