"""Who comes first: what would go wrong with the spec's own scripts."""

import asyncio

import pytest
from redis.asyncio import Redis

from tests.waitingroom.hands import Hands
from waystation.waitingroom.visitor import Gone, Joined, JoinRequest, Kept, Lane, Waiting

T0 = 1_700_000_000


async def test_the_premium_lane_goes_before_the_normal_one(hands: Hands) -> None:
    """F1, F-W1: the spec's dequeue starts with the normal list."""
    await hands.open(admission_rate=1, burst=1)
    await hands.join("normal")
    await hands.join("premium", lane=3)
    assert await hands.admit() == ["premium"]


async def test_the_normal_lane_gets_its_share_while_premium_visitors_keep_coming(
    hands: Hands,
) -> None:
    """F1, F-W1: weights 8:4:2:1, so that nobody starves."""
    await hands.open(admission_rate=45, burst=45, max_active=1000)
    await hands.join_all(*(f"n{each}" for each in range(60)))
    await hands.join_all(*(f"p{each}" for each in range(60)), lane=3)
    called = await hands.admit()
    assert sum(name.startswith("p") for name in called) == 40
    assert sum(name.startswith("n") for name in called) == 5


async def test_strict_lanes_let_a_higher_lane_go_first_always(hands: Hands) -> None:
    """F1: strict order is a setting."""
    await hands.open(admission_rate=3, strict_lanes=True)
    await hands.join_all("n1", "n2")
    await hands.join_all("v1", "v2", lane=2)
    assert await hands.admit() == ["v1", "v2", "n1"]


async def test_people_of_a_lane_come_in_as_they_came(hands: Hands) -> None:
    """F2, F-W11: the spec puts priority visitors at the front, so the last comes first."""
    await hands.open(admission_rate=1, burst=1)
    await hands.join_all("first", "second", lane=2)
    assert await hands.admit() == ["first"]


async def test_nobody_is_called_who_has_gone(hands: Hands) -> None:
    """F3, F-W2: the spec's cleanup leaves the list as it is."""
    await hands.open(admission_rate=1, burst=1)
    await hands.join("ghost")
    await hands.clock.advance(200)
    await hands.join("here")
    await hands.clock.advance(101)
    assert await hands.expire() == ["ghost"]
    assert await hands.admit() == ["here"]
    assert await hands.status("ghost") == Gone()


async def test_a_list_that_was_lost_changes_nothing_for_those_in_line(hands: Hands) -> None:
    """F3: the sorted sets are the truth, the list only makes it quick."""
    await hands.open(admission_rate=2)
    await hands.join_all("a", "b", "c")
    await hands.redis.delete(hands.keys.normal_list)
    await hands.join("late")
    assert await hands.admit() == ["a", "b"]
    await hands.clock.advance(1)
    assert await hands.admit() == ["c", "late"]


async def test_the_head_of_a_lost_list_is_found_among_other_lanes(hands: Hands) -> None:
    """F3: the normal lane has no set of its own, and needs none."""
    await hands.open(admission_rate=15, max_active=100)
    await hands.join_all(*(f"p{each}" for each in range(20)), lane=3)
    await hands.join_all("a", "b")
    await hands.redis.delete(hands.keys.normal_list)
    called = await hands.admit()
    assert [name for name in called if name in "ab"] == ["a", "b"]


async def test_a_hundred_thousand_ghosts_at_the_head_hold_up_no_call_for_long(
    hands: Hands,
) -> None:
    """F3, F21: attack 49; a call looks at five thousand and goes on next time."""
    await hands.open(admission_rate=1000)
    for _ in range(20):
        await hands.redis.rpush(hands.keys.normal_list, *("ghost",) * 600)  # pyright: ignore
    await hands.join("alive")
    rounds = [await hands.admit() for _ in range(3)]
    assert rounds == [[], [], ["alive"]]


async def test_what_was_forgotten_does_not_come_back_without_an_end(
    redis: Redis, hands: Hands
) -> None:
    """F4, F-W6: the spec writes into hashes that have expired, and they stay for ever."""
    await hands.open()
    place = await hands.join("x")
    position = hands.keys.of(place.id).position
    await redis.delete(position)
    await hands.beat("x")
    await hands.admit()
    await hands.claim("x")
    await hands.clock.advance(1000)
    await hands.admit()
    await hands.expire()
    assert await redis.exists(position) == 0


async def test_whoever_expired_can_join_again(hands: Hands) -> None:
    """F5, F-W3: the spec hands the dead place out for half an hour."""
    await hands.open()
    old = await hands.join("ann")
    await hands.clock.advance(301)
    await hands.expire()
    new = await hands.join("ann")
    assert new.id != old.id
    await hands.waiting("ann")


async def test_one_place_stays_one_place_however_long_the_wait(redis: Redis, hands: Hands) -> None:
    """F6, F-W3: the spec's heartbeat does not keep the visitor's entry alive."""
    await hands.open(position_ttl=1800)
    place = await hands.join("ann")
    owner = hands.keys.of(place.id, visitor=place.owner).owner
    await redis.expire(owner, 10)
    await hands.beat("ann")
    assert await redis.ttl(owner) > 1000
    assert await hands.join("ann") == place


@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.PREMIUM])
async def test_somebody_who_asks_twice_at_the_same_moment_has_one_place(
    hands: Hands, lane: Lane
) -> None:
    """F7: two tabs opened together, among others who come in the same call."""
    await hands.open()
    await hands.room.state()
    people = [JoinRequest(key=key, secret="s", lane=lane) for key in ("ann", "bob", "ann", "eve")]
    entries = await asyncio.gather(*(hands.room.join(each) for each in people))
    first, _, again, last = entries
    assert isinstance(first, Joined)
    assert isinstance(last, Joined)
    assert isinstance(again, Kept)
    assert again.place == first.place
    assert isinstance(again.status, Waiting)
    assert again.status.ahead == 0
    assert isinstance(last.status, Waiting)
    assert last.status.ahead == 2
    assert (await hands.room.state()).waiting == 3


async def test_a_called_visitor_is_not_taken_for_silent(hands: Hands) -> None:
    """F8, F-W4: the spec leaves the admitted among those who must beat."""
    await hands.open(claim_window=600)
    await hands.join("ann")
    assert await hands.admit() == ["ann"]
    await hands.clock.advance(400)
    assert await hands.expire() == []
    await hands.come_in("ann")


async def test_rooms_do_not_clean_up_each_other(hands: Hands) -> None:
    """F9, F-W5: the spec has one set of heartbeats for all rooms."""
    await hands.open()
    others = Hands(hands.store, "{other}")
    await others.open()
    await others.join("theirs")
    await hands.clock.advance(301)
    assert await hands.expire() == []
    await others.clock.advance(301)
    assert await others.expire() == ["theirs"]


async def test_the_order_does_not_depend_on_anybodys_clock(hands: Hands) -> None:
    """F13: attack 21; with the spec's scores a slow server puts late comers first."""
    await hands.open(admission_rate=1, burst=1)
    await hands.join("first")
    behind = Hands(hands.store)
    behind.clock = hands.clock.__class__(hands.clock.now_ms() - 5000)
    behind.room.store._clock = behind.clock  # pyright: ignore[reportPrivateUsage]
    await behind.join("second")
    assert await hands.admit() == ["first"]


async def test_people_of_the_same_microsecond_have_an_order(hands: Hands) -> None:
    """F13, F-W12: scores are unique and rise, whatever the clock says."""
    await hands.open(admission_rate=50, max_active=100)
    names = [f"v{each}" for each in range(30)]
    await hands.join_all(*names)
    assert await hands.admit() == names


async def test_everybody_sees_the_place_in_the_own_lane(hands: Hands) -> None:
    """F16, F-W12: with the spec's rank a VIP sees sixth of six though next."""
    await hands.open()
    await hands.join_all("n0", "n1", "n2")
    await hands.join("vip", lane=2)
    await hands.join("n3")
    status = await hands.waiting("vip")
    assert (status.ahead, status.length) == (0, 1)
    normal = await hands.waiting("n3")
    assert (normal.ahead, normal.length) == (3, 4)


async def test_the_number_shown_never_rises(hands: Hands) -> None:
    """F16, F-W12: neither for a VIP who joins nor for one who takes a turn back."""
    await hands.open(admission_rate=1, burst=1)
    await hands.join_all("missing", "n1", "n2")
    await hands.admit()
    await hands.clock.advance(121)
    shown: list[int] = []
    for name, lane in (("v1", 3), ("v2", 3), ("v3", 2)):
        await hands.join(name, lane)
        status = await hands.waiting("n2")
        shown.append(status.ahead)
    await hands.room.recover(hands.places["missing"], "missing")
    status = await hands.waiting("n2")
    shown.append(status.ahead)
    assert shown == sorted(shown, reverse=True)


async def test_ten_thousand_who_left_are_gone_after_one_pass(redis: Redis, hands: Hands) -> None:
    """F21: the spec takes a hundred every five seconds, eight minutes for ten thousand."""
    await hands.open()
    await hands.join_all(*(f"x{each}" for each in range(1200)))
    await hands.clock.advance(301)
    assert len(await hands.expire()) == 1200
    await redis.flushdb()


async def test_lists_full_of_ghosts_are_made_anew(hands: Hands) -> None:
    """F3: ghosts are not kept once they are the greater part."""
    await hands.open()
    await hands.redis.rpush(hands.keys.normal_list, *("ghost",) * 2000)  # pyright: ignore
    await hands.join_all("a", "b")
    await hands.join("v", lane=2)
    assert await hands.upkeep.compact() == 2000
    assert await hands.redis.llen(hands.keys.normal_list) == 2  # pyright: ignore
    assert sorted(await hands.admit()) == ["a", "b", "v"]


async def test_silence_is_forgiven_while_nobody_could_come_in(hands: Hands) -> None:
    """F-W21, F27: hidden tabs and pauses throw nobody out."""
    await hands.open(idle=300, paused_idle=1500)
    await hands.join("ann")
    await hands.control.pause()
    await hands.clock.advance(400)
    assert await hands.expire() == []
    await hands.control.resume()
    assert await hands.expire() == []
    await hands.clock.advance(299)
    assert await hands.expire() == []
    await hands.clock.advance(2)
    assert await hands.expire() == ["ann"]


async def test_a_tab_that_is_throttled_to_once_a_minute_keeps_its_place(hands: Hands) -> None:
    """F27: sixty seconds of silence are what browsers do to hidden tabs."""
    await hands.open()
    await hands.join("ann")
    for _ in range(5):
        await hands.clock.advance(120)
        assert await hands.expire() == []
        await hands.beat("ann")


async def test_closing_the_page_only_shortens_the_patience(hands: Hands) -> None:
    """F28: a reload looks the same, so the place is kept for two minutes at least."""
    await hands.open(idle=300)
    place = await hands.join("ann")
    await hands.room.heartbeat(place, leaving=120)
    await hands.clock.advance(119)
    assert await hands.expire() == []
    await hands.beat("ann")
    await hands.clock.advance(290)
    assert await hands.expire() == []
    await hands.room.heartbeat(place, leaving=120)
    await hands.clock.advance(122)
    assert await hands.expire() == ["ann"]


async def test_a_heartbeat_cannot_bring_back_the_dead(redis: Redis, hands: Hands) -> None:
    """F-W7: the spec's heartbeat tells an expired visitor that all is well."""
    await hands.open()
    place = await hands.join("ann")
    await hands.clock.advance(301)
    await hands.expire()
    assert await hands.room.heartbeat(place) == Gone()
    assert await redis.zcard(hands.keys.heartbeat) == 0  # pyright: ignore
