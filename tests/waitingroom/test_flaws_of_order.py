"""Who comes first: what would go wrong with the spec's own scripts."""

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.size import size
from tests.waitingroom.harness import Harness
from waystation.waitingroom.visitor import Gone, Joined, JoinRequest, Kept, Lane, Waiting


async def test_the_normal_lane_gets_its_share_while_premium_visitors_keep_coming(
    harness: Harness,
) -> None:
    """F1, F-W1: weights 8:4:2:1, so that nobody starves."""
    await harness.open(admission_rate=45, burst=45, max_active=1000)
    await harness.join_all(*(f"n{each}" for each in range(60)))
    await harness.join_all(*(f"p{each}" for each in range(60)), lane=3)
    called = await harness.admit()
    assert sum(name.startswith("p") for name in called) == 40
    assert sum(name.startswith("n") for name in called) == 5


async def test_strict_lanes_let_a_higher_lane_go_first_always(harness: Harness) -> None:
    """F1: strict order is a setting."""
    await harness.open(admission_rate=3, strict_lanes=True)
    await harness.join_all("n1", "n2")
    await harness.join_all("v1", "v2", lane=2)
    assert await harness.admit() == ["v1", "v2", "n1"]


async def test_nobody_is_called_who_has_gone(harness: Harness) -> None:
    """F3, F-W2: the spec's cleanup leaves the list as it is."""
    await harness.open(admission_rate=1, burst=1)
    await harness.join("ghost")
    await harness.clock.advance(200)
    await harness.join("here")
    await harness.clock.advance(101)
    assert await harness.expire() == ["ghost"]
    assert await harness.admit() == ["here"]
    assert await harness.status("ghost") == Gone()


async def test_what_was_forgotten_does_not_come_back_without_an_end(
    redis: Redis, harness: Harness
) -> None:
    """F4, F-W6: the spec writes into hashes that have expired, and they stay for ever."""
    await harness.open()
    place = await harness.join("x")
    position = harness.keys.of(place.id).position
    await redis.delete(position)
    await harness.beat("x")
    await harness.admit()
    await harness.claim("x")
    await harness.clock.advance(1000)
    await harness.admit()
    await harness.expire()
    assert await redis.exists(position) == 0


async def test_whoever_expired_can_join_again(harness: Harness) -> None:
    """F5, F-W3: the spec hands the dead place out for half an hour."""
    await harness.open()
    old = await harness.join("ann")
    await harness.clock.advance(301)
    await harness.expire()
    new = await harness.join("ann")
    assert new.id != old.id
    await harness.waiting("ann")


async def test_one_place_stays_one_place_however_long_the_wait(
    redis: Redis, harness: Harness
) -> None:
    """F6, F-W3: the spec's heartbeat does not keep the visitor's entry alive."""
    await harness.open(position_ttl=1800)
    place = await harness.join("ann")
    owner = harness.keys.of(place.id, visitor=place.owner).owner
    await redis.expire(owner, 10)
    await harness.beat("ann")
    assert await redis.ttl(owner) > 1000
    assert await harness.join("ann") == place


@pytest.mark.parametrize("lane", [Lane.NORMAL, Lane.PREMIUM])
async def test_somebody_who_asks_twice_at_the_same_moment_has_one_place(
    harness: Harness, lane: Lane
) -> None:
    """F7: two tabs opened together, among others who come in the same call."""
    await harness.open()
    await harness.room.state()
    people = [JoinRequest(key=key, secret="s", lane=lane) for key in ("ann", "bob", "ann", "eve")]
    entries = await asyncio.gather(*(harness.room.join(each) for each in people))
    first, _, again, last = entries
    assert isinstance(first, Joined)
    assert isinstance(last, Joined)
    assert isinstance(again, Kept)
    assert again.place == first.place
    assert isinstance(again.status, Waiting)
    assert again.status.ahead == 0
    assert isinstance(last.status, Waiting)
    assert last.status.ahead == 2
    assert (await harness.room.state()).waiting == 3


async def test_a_called_visitor_is_not_taken_for_silent(harness: Harness) -> None:
    """F8, F-W4: the spec leaves the admitted among those who must beat."""
    await harness.open(claim_window=600)
    await harness.join("ann")
    assert await harness.admit() == ["ann"]
    await harness.clock.advance(400)
    assert await harness.expire() == []
    await harness.come_in("ann")


async def test_rooms_do_not_clean_up_each_other(harness: Harness) -> None:
    """F9, F-W5: the spec has one set of heartbeats for all rooms."""
    await harness.open()
    others = Harness(harness.store, "{other}")
    await others.open()
    await others.join("theirs")
    await harness.clock.advance(301)
    assert await harness.expire() == []
    await others.clock.advance(301)
    assert await others.expire() == ["theirs"]


async def test_the_order_does_not_depend_on_anybodys_clock(harness: Harness) -> None:
    """F13: attack 21; with the spec's scores a slow server puts late comers first."""
    await harness.open(admission_rate=1, burst=1)
    await harness.join("first")
    behind = Harness(harness.store)
    behind.clock = harness.clock.__class__(harness.clock.now_ms() - 5000)
    behind.room.store._clock = behind.clock  # pyright: ignore[reportPrivateUsage]
    await behind.join("second")
    assert await harness.admit() == ["first"]


async def test_people_of_the_same_microsecond_have_an_order(harness: Harness) -> None:
    """F13, F-W12: scores are unique and rise, whatever the clock says."""
    await harness.open(admission_rate=50, max_active=100)
    names = [f"v{each}" for each in range(30)]
    await harness.join_all(*names)
    assert await harness.admit() == names


async def test_everybody_sees_the_place_in_the_own_lane(harness: Harness) -> None:
    """F16, F-W12: with the spec's rank a VIP sees sixth of six though next."""
    await harness.open()
    await harness.join_all("n0", "n1", "n2")
    await harness.join("vip", lane=2)
    await harness.join("n3")
    status = await harness.waiting("vip")
    assert (status.ahead, status.length) == (0, 1)
    normal = await harness.waiting("n3")
    assert (normal.ahead, normal.length) == (3, 4)


async def test_the_number_shown_never_rises(harness: Harness) -> None:
    """F16, F-W12: neither for a VIP who joins nor for one who takes a turn back."""
    await harness.open(admission_rate=1, burst=1)
    await harness.join_all("missing", "n1", "n2")
    await harness.admit()
    await harness.clock.advance(121)
    shown: list[int] = []
    for name, lane in (("v1", 3), ("v2", 3), ("v3", 2)):
        await harness.join(name, lane)
        status = await harness.waiting("n2")
        shown.append(status.ahead)
    await harness.room.recover(harness.places["missing"], "missing")
    status = await harness.waiting("n2")
    shown.append(status.ahead)
    assert shown == sorted(shown, reverse=True)


async def test_ten_thousand_who_left_are_gone_after_one_pass(
    redis: Redis, harness: Harness
) -> None:
    """F21: the spec takes a hundred every five seconds, eight minutes for ten thousand."""
    await harness.open()
    await harness.join_all(*(f"x{each}" for each in range(1200)))
    await harness.clock.advance(301)
    assert len(await harness.expire()) == 1200
    await redis.flushdb()


async def test_lists_full_of_ghosts_are_made_anew(harness: Harness) -> None:
    """F3: ghosts are not kept once they are the greater part."""
    await harness.open()
    await harness.redis.rpush(harness.keys.normal_list, *("ghost",) * 2000)  # pyright: ignore
    await harness.join_all("a", "b")
    await harness.join("v", lane=2)
    assert await harness.upkeep.compact() == 2000
    assert await harness.redis.llen(harness.keys.normal_list) == 2  # pyright: ignore
    assert sorted(await harness.admit()) == ["a", "b", "v"]


async def test_silence_is_forgiven_while_nobody_could_come_in(harness: Harness) -> None:
    """F-W21, F27: hidden tabs and pauses throw nobody out."""
    await harness.open(idle=300, paused_idle=1500)
    await harness.join("ann")
    await harness.control.pause()
    await harness.clock.advance(400)
    assert await harness.expire() == []
    await harness.control.resume()
    assert await harness.expire() == []
    await harness.clock.advance(299)
    assert await harness.expire() == []
    await harness.clock.advance(2)
    assert await harness.expire() == ["ann"]


async def test_closing_the_page_only_shortens_the_patience(harness: Harness) -> None:
    """F28: a reload looks the same, so the place is kept for two minutes at least."""
    await harness.open(idle=300)
    place = await harness.join("ann")
    await harness.room.heartbeat(place, leaving=120)
    await harness.clock.advance(119)
    assert await harness.expire() == []
    await harness.beat("ann")
    await harness.clock.advance(290)
    assert await harness.expire() == []
    await harness.room.heartbeat(place, leaving=120)
    await harness.clock.advance(122)
    assert await harness.expire() == ["ann"]


BOUNDS = (1000, 5000, 20_000)
"""How far the scripts look in one call, be it along a list or along the line."""
AROUND = [bound + by for bound in size(BOUNDS[2:], full=BOUNDS) for by in (-1, 0, 1)]


async def _fill(harness: Harness, lane: Lane, count: int, *, listed: bool = True) -> None:
    """So many in line, in a lane of its own set, as joining leaves them there."""
    keys, before = harness.keys, harness.clock.now_ms() * 1000 - 10 * count
    lists = keys.normal_list, keys.elevated_list, keys.vip_list, keys.premium_list
    sets = keys.elevated, keys.vip, keys.premium
    for start in range(0, count, 1000):
        ids = [f"{lane.name}{each}" for each in range(start, min(start + 1000, count))]
        scores: dict[Any, float] = {id: before + start + at for at, id in enumerate(ids)}
        await harness.redis.zadd(keys.positions, scores)
        if lane:
            await harness.redis.zadd(sets[lane - 1], scores)
        if listed:
            await harness.redis.rpush(lists[lane], *ids)  # pyright: ignore


@pytest.mark.parametrize("wrong", ["came back", "list lost", "half a list", "ghosts", "behind"])
@pytest.mark.parametrize("ahead", sorted({0, *BOUNDS, *AROUND, 40_001}))
async def test_every_lane_gets_its_share_in_its_order_however_many_stand_before(
    harness: Harness, ahead: int, wrong: str
) -> None:
    """F2, F3, F-W11: the lists only make it quick, the sorted sets say who is next."""
    await harness.open(admission_rate=30, burst=30, max_active=100_000, max_queue_size=0)
    keys, names = harness.keys, [f"n{each}" for each in range(60)]
    if wrong == "ghosts":
        await _fill(harness, Lane.ELEVATED, 100)
        for start in range(0, ahead, 1000):
            ghosts = ["ghost"] * min(1000, ahead - start)
            await harness.redis.rpush(keys.normal_list, *ghosts)  # pyright: ignore
    else:
        await _fill(harness, Lane.ELEVATED, max(ahead, 100))
    await harness.join_all(*names)
    if wrong == "came back":
        await harness.room.leave(harness.places["n0"], "n0")
        await harness.admission.admit_now(1, lane=Lane.NORMAL)
        names.remove("n1")
        await harness.room.rejoin(harness.places["n0"], "n0")
    elif wrong == "list lost":
        await harness.redis.delete(keys.normal_list)
    elif wrong == "half a list":
        await harness.redis.ltrim(keys.normal_list, 20, -1)  # pyright: ignore
    elif wrong == "behind":
        # Whoever was put back stands in front of those who came before.
        await harness.redis.lpush(keys.normal_list, harness.places["n59"].id)  # pyright: ignore
    called: list[str] = []
    turns = 0
    # Each look along the list takes away five thousand ghosts.
    looks = len(range(0, ahead, 5000)) if wrong == "ghosts" else 0
    for nth in range(9 + looks):
        found = (await harness.admission.admit()).called
        await harness.clock.advance(1)
        theirs = [each for each in found if not each.startswith("ELEVATED")]
        called += harness.names(theirs)
        turns += len(found) if nth >= looks else 0
        assert len(called) >= min(len(names), turns // 3 - 1), (nth, len(called), turns)
    assert called == names
