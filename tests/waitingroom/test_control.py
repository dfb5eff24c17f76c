"""What an operator can do, and what nobody else can."""

from datetime import timedelta
from typing import Any

import pytest

from tests.waitingroom.harness import Harness
from waystation.core.errors import InvalidInput, InvalidOption, NotFound, WrongState
from waystation.waitingroom.options import Method, RoomOptions, Status
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import (
    Gone,
    Inside,
    JoinRequest,
    Lane,
    Passed,
    Refused,
    network_of,
    networks_of,
)


async def entry(harness: Harness, name: str) -> object:
    return await harness.room.join(JoinRequest(key=name, secret=name))


@pytest.mark.parametrize("word", ["pause", "queue_all", "enter_maintenance", "close"])
async def test_while_the_room_stands_still_nobody_comes_in(harness: Harness, word: str) -> None:
    """F39: and everybody keeps their place."""
    await harness.open()
    await harness.join("ann")
    await getattr(harness.control, word)()
    assert await harness.admit() == []
    await harness.waiting("ann")
    await harness.control.resume()
    assert await harness.admit() == ["ann"]


async def test_a_room_that_drains_lets_its_line_in_and_nobody_else(harness: Harness) -> None:
    """F39."""
    await harness.open()
    await harness.join("ann")
    await harness.control.drain()
    assert await entry(harness, "bob") == Refused("draining")
    assert await harness.admit() == ["ann"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"queueing_method": Method.REJECT}, "rejected"),
        ({"status": Status.MAINTENANCE}, "maintenance"),
        ({"status": Status.CLOSED}, "closed"),
    ],
)
async def test_a_room_that_takes_nobody_says_why(
    harness: Harness, options: dict[str, Any], reason: str
) -> None:
    """F12, F39."""
    await harness.open(**options)
    assert await entry(harness, "ann") == Refused(reason)
    assert (await harness.events())[-1]["event"] == "refused"


async def test_passing_through_gives_everybody_a_session_at_once(harness: Harness) -> None:
    """F39: nobody waits, but everybody is counted."""
    await harness.open(queueing_method=Method.PASSTHROUGH, max_active=1)
    for name in ("a", "b"):
        passed = await entry(harness, name)
        assert isinstance(passed, Passed)
        assert isinstance(await harness.room.status(passed.place), Inside)
    assert (await harness.room.state()).inside == 2


async def test_failing_open_ends_by_itself(harness: Harness) -> None:
    """F39: never for good by accident."""
    await harness.open()
    await harness.control.fail_open(60)
    assert isinstance(await entry(harness, "a"), Passed)
    assert (await harness.room.state()).fail_open
    await harness.clock.advance(61)
    await harness.join("b")
    assert not (await harness.room.state()).fail_open
    for wrong in (0, 86_401):
        with pytest.raises(InvalidOption, match="duration must be"):
            await harness.control.fail_open(wrong)


async def test_by_chance_everybody_may_be_next(harness: Harness) -> None:
    """F39: the random method; each is called once, from the own lane."""
    await harness.open(queueing_method=Method.RANDOM, admission_rate=30, max_active=1000)
    names = [f"v{each}" for each in range(60)]
    await harness.join_all(*names)
    await harness.join_all("p1", "p2", lane=3)
    called = await harness.admit()
    await harness.clock.advance(10)
    called += await harness.admit()
    await harness.clock.advance(10)
    called += await harness.admit()
    assert sorted(called) == sorted([*names, "p1", "p2"])
    assert [name for name in called if name in names] != names


async def test_a_change_of_rate_can_be_spread_over_time(harness: Harness) -> None:
    """F39: from ten to thirty a second in a minute, twelve hundred on the way."""
    await harness.open(admission_rate=10, max_active=100_000, max_queue_size=0)
    await harness.join_all(*(f"v{each}" for each in range(1400)))
    await harness.admit()
    await harness.control.set_rate(30, ramp=60)
    called = 0
    for _ in range(240):
        await harness.clock.advance(0.25)
        called += len(await harness.admit())
    assert called == pytest.approx(1200, abs=3)
    assert (await harness.room.state()).rate == 30
    await harness.control.set_rate(5)
    assert (await harness.room.state()).rate == 5
    await harness.redis.flushdb()


async def test_an_operator_calls_people_in_at_once(harness: Harness) -> None:
    """F39: whatever the rate, but never more than there are seats."""
    await harness.open(admission_rate=0, max_active=3)
    await harness.join_all("a", "b")
    await harness.join_all("v1", "v2", lane=2)
    await harness.admit()
    called = await harness.admission.admit_now(1, lane=Lane.VIP)
    assert harness.names(called.called) == ["v1"]
    assert len((await harness.admission.admit_now(100)).called) == 2
    with pytest.raises(InvalidOption, match="count must be"):
        await harness.admission.admit_now(0)


async def test_a_message_is_one_write_for_everybody(harness: Harness) -> None:
    """F39."""
    await harness.open()
    await harness.control.show_message({"en": "Back at noon", "de": "Um zwölf"}, level="warning")
    assert "zwölf" in (await harness.room.state()).message
    await harness.control.show_message({})
    assert (await harness.room.state()).message == ""
    with pytest.raises(InvalidOption, match="level"):
        await harness.control.show_message({"en": "x"}, level="shout")
    long = {"en": "short", "de": "x" * 501}
    for step in (
        lambda: harness.control.show_message(long),
        lambda: harness.control.close(text=long),
        lambda: harness.control.sell_out(link="https://shop.example/" + "x" * 500),
    ):
        with pytest.raises(InvalidOption, match="a text may have 500 characters, got 5"):
            await step()


async def test_two_operators_do_not_overwrite_each_other(harness: Harness) -> None:
    """F39: a change says which version it is a change of."""
    await harness.open()
    version = (await harness.room.state()).version
    await harness.room.open(RoomOptions(max_active=5), version=version)
    with pytest.raises(WrongState, match="version"):
        await harness.room.open(RoomOptions(max_active=6), version=version)
    assert (await harness.room.state()).options.max_active == 5


async def test_an_operator_takes_somebody_out(harness: Harness) -> None:
    """F24: from the line by id, from the shop by session; both with a reason."""
    await harness.open(max_active=1)
    await harness.join_all("a", "b")
    await harness.admit()
    await harness.come_in("a")
    assert await harness.room.terminate(harness.places["a"], "abuse_detected")
    found = await harness.room.get_place(harness.places["b"].id)
    assert await harness.room.remove(found, "abuse_detected")
    assert await harness.status("b") == Gone()
    events = await harness.events()
    assert [each["event"] for each in events[-2:]] == ["cancelled", "removed"]
    with pytest.raises(InvalidInput, match="reason"):
        await harness.room.remove(found, "")


async def test_what_does_not_exist_is_not_found(harness: Harness) -> None:
    """F23."""
    with pytest.raises(NotFound, match="no room"):
        await harness.join("ann")
    await harness.open()
    with pytest.raises(NotFound, match="no session"):
        await harness.room.get_session("x")
    with pytest.raises(NotFound, match="no place"):
        await harness.room.get_place("x")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_active": -1}, "max_active must be 0"),
        ({"admission_rate": -0.1}, "admission_rate must be"),
        ({"admission_rate": float("nan")}, "admission_rate must be"),
        ({"lane_weights": (0, 1, 2, 3)}, "lane_weights"),
        ({"target_url": "javascript:alert(1)"}, "https"),
        ({"session": 600, "session_max": 500}, "session_max"),
        ({"idle": 1}, "idle must be"),
    ],
)
def test_a_room_that_cannot_be_is_refused_before_anything_is_written(
    options: dict[str, Any], why: str
) -> None:
    """F12: says what was wanted and what came."""
    with pytest.raises(InvalidOption, match=why):
        RoomOptions(**options)


def test_durations_are_timedeltas_or_seconds_and_whole_seconds_where_they_are_stored() -> None:
    options = RoomOptions(idle=timedelta(minutes=5), session=60.0)
    assert options.to_fields()["idle_s"] == "300"
    assert options.to_settings()["session_s"] == 60
    assert RoomOptions.from_fields(options.to_fields()).to_fields() == options.to_fields()
    assert options.changed(idle=timedelta(minutes=4)).to_settings()["idle_s"] == 240
    assert options.with_settings({"idle_s": 20}).to_settings()["idle_s"] == 20


def test_an_option_under_its_other_name_is_refused_with_the_right_one() -> None:
    for asked in (
        lambda: RoomOptions().changed(idle_s=20),
        lambda: RoomOptions().with_settings({"idle": 20}),
    ):
        with pytest.raises(InvalidOption, match=r"a room has no option idle.*it is called idle"):
            asked()
    with pytest.raises(InvalidOption, match="idle_s must be whole seconds, got 'PT5M'"):
        RoomOptions().with_settings({"idle_s": "PT5M"})
    with pytest.raises(InvalidOption, match="cannot be read"):
        RoomOptions.from_fields({"idle_s": "soon"})


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
    ],
)
def test_a_network_is_what_one_household_has(address: str, network: str) -> None:
    """F7: an IPv6 household has more addresses than the old Internet."""
    assert network_of(address) == network


def test_an_ipv6_address_lies_in_three_networks_that_share_limits() -> None:
    assert networks_of("2001:db8:1:2345::6") == (
        "2001:db8:1:2345::/64",
        "2001:db8:1:2300::/56",
        "2001:db8:1::/48",
    )
    assert networks_of("192.0.2.1") == networks_of("::ffff:192.0.2.1") == ("192.0.2.1",)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(InvalidInput, match="IPv4 or IPv6"):
        network_of("not an address")


@pytest.mark.parametrize("metadata", ["x" * 1025, "ü" * 600])
def test_long_metadata_is_refused(metadata: str) -> None:
    """F26: attack 47; everybody in line carries it."""
    with pytest.raises(InvalidInput, match="1024 bytes"):
        JoinRequest(key="k", secret="s", metadata=metadata)


async def test_a_room_is_the_same_with_and_without_braces(redis_url: str) -> None:
    """F20: its keys lie on one node of a cluster, whoever leaves the braces out."""
    async with Room("plain", redis_url) as room, Room("{plain}", redis_url) as same:
        await room.open(RoomOptions(max_active=7))
        entry = await same.join(JoinRequest(key="k", secret="s"))
        assert not isinstance(entry, Refused)
        assert (await room.state()).waiting == 1
        assert (await same.state()).options.max_active == 7
        assert room.queue_id == same.queue_id == "{plain}"


async def test_the_curve_tells_everybody_their_place_without_asking(harness: Harness) -> None:
    """F36: exact where the points are, and never off by more than between two."""
    await harness.open()
    await harness.join_all(*(f"n{each}" for each in range(150)))
    await harness.join_all("v1", "v2", lane=2)
    await harness.join_all(*(f"m{each}" for each in range(50)))
    lanes = await harness.room.curve(points=20)
    assert [len(lane) > 0 for lane in lanes] == [True, False, True, False]
    for name in ("n0", "n77", "m49", "v2"):
        status = await harness.waiting(name)
        curve = lanes[status.lane]
        below = max(ahead for seq, ahead in curve if seq <= status.seq)
        above = min((ahead for seq, ahead in curve if seq >= status.seq), default=below)
        assert below <= status.ahead <= max(above, below)
