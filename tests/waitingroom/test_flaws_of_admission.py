"""How many come in: what would go wrong with the spec's own scripts."""

from typing import Any

from redis.asyncio import Redis

from tests.waitingroom.harness import Harness
from waystation.waitingroom.visitor import Begun, Joined, JoinRequest, Refused, Waiting


async def newcomer(harness: Harness, name: str, **more: Any) -> object:
    return await harness.room.join(JoinRequest(key=name, secret=name, **more))


async def test_an_office_behind_one_address_has_a_place_for_each(harness: Harness) -> None:
    """F7, F-W17: the spec gives the second of them the first one's place."""
    await harness.open(newcomers_per_minute=50)
    ann = await harness.join("ann", address="192.0.2.1")
    bob = await harness.join("bob", address="192.0.2.1")
    assert ann.id != bob.id


async def test_one_network_gets_so_many_places_a_minute(harness: Harness) -> None:
    """F7: attack 19; the address limits how many come, and whoever is refused pays nothing."""
    await harness.open(newcomers_per_minute=3)
    for each in range(3):
        await harness.join(f"v{each}", address=f"2001:db8::{each}")
    refused = await newcomer(harness, "v3", address="2001:db8::ffff")
    assert refused == Refused("crowded", 60_000)
    assert await harness.join("v1", address="2001:db8::1") == harness.places["v1"]
    await harness.join("elsewhere", address="2001:db8:0:1::1")
    await harness.clock.advance(60.001)
    await harness.join("v3", address="2001:db8::ffff")


async def test_whoever_has_many_ipv6_networks_is_limited_by_the_wider_ones(
    harness: Harness,
) -> None:
    """F7: attack 44; one customer may have a /64, a /56 or a /48, and any address in it."""
    await harness.open(newcomers_per_minute=2)

    async def places(*addresses: str) -> int:
        entries = [await newcomer(harness, each, address=each) for each in addresses]
        return sum(isinstance(each, Joined) for each in entries)

    assert await places(*(f"2001:db8:0:{each:x}::1" for each in range(12))) == 4 * 2
    # Another /56 of the same /48, and what is left of the /48 after both.
    assert await places(*(f"2001:db8:0:1{each:02x}::1" for each in range(12))) == 4 * 2
    left = [f"2001:db8:0:{block:x}{each:02x}::1" for block in range(2, 9) for each in range(8)]
    assert await places(*left) == 16 * 2 - 16
    assert await places("2001:db8:1::1", "192.0.2.1") == 2
    await harness.clock.advance(60.001)
    assert await places("2001:db8:0:f::1") == 1


async def test_seats_are_free_again_when_sessions_end(redis: Redis, harness: Harness) -> None:
    """F10, F-W9: with the spec the set of sessions never shrinks, and the room jams."""
    await harness.open(max_active=1, session=60, session_max=60)
    await harness.join_all("a", "b")
    assert await harness.admit() == ["a"]
    await harness.come_in("a")
    await harness.clock.advance(30)
    assert await harness.admit() == []
    await harness.clock.advance(31)
    assert await harness.admit() == ["b"]
    assert await redis.scard(harness.keys.sessions) == 0  # pyright: ignore


async def test_claiming_twice_gives_one_session(harness: Harness) -> None:
    """F11: attack 18; a retry is answered with the same session and counted once."""
    await harness.open()
    place = await harness.join("ann")
    await harness.admit()
    answers = {await harness.room.claim(place, "ann") for _ in range(100)}
    assert len(answers) == 1
    assert isinstance(answers.pop(), Begun)
    assert (await harness.room.statistics())["total_claimed"] == 1
    assert (await harness.event_names("ann")).count("claimed") == 1


async def test_a_room_that_is_full_paused_or_crowded_admits_nobody(harness: Harness) -> None:
    """F12, F-W8: the spec's dequeue asks for neither status nor seats nor tokens."""
    await harness.open(max_active=1, admission_rate=100, max_queue_size=3)
    await harness.join_all("a", "b", "c")
    assert await newcomer(harness, "d") == Refused("full")
    await harness.control.pause()
    assert await harness.admit() == []
    await harness.control.resume()
    assert await harness.admit() == ["a"]
    assert await harness.admit() == []


async def test_the_bucket_loses_nothing_however_often_it_is_asked(harness: Harness) -> None:
    """F17, F-W10, W-19: fractions are kept, so that asking often is no slower."""
    await harness.open(admission_rate=0.3, burst=1, max_active=1000, claim_window=3600)
    await harness.join_all(*(f"v{each}" for each in range(40)))
    called = len(await harness.admit())
    for _ in range(1000):
        await harness.clock.advance(0.1)
        called += len(await harness.admit())
    assert called == 1 + 30


async def test_a_call_that_is_refused_does_not_prolong_the_ban(harness: Harness) -> None:
    """F18, F-W16, W-15, W-16, W-17: the spec adds every call, refused or not."""
    await harness.open(newcomers_per_minute=2)
    for name in "ab":
        await harness.join(name, address="192.0.2.1")
    for second in range(1, 60):
        await harness.clock.advance(1)
        refused = await newcomer(harness, "c", address="192.0.2.1")
        assert refused == Refused("crowded", 60_000 - second * 1000)
    await harness.clock.advance(1.001)
    await harness.join("c", address="192.0.2.1")


async def test_as_many_come_in_as_should_though_some_stay_away(harness: Harness) -> None:
    """F11: a turn that nobody took is given again."""
    await harness.open(admission_rate=1, burst=1, max_active=10_000, claim_window=10)
    await harness.join_all(*(f"v{each}" for each in range(400)))
    inside = 0
    for second in range(220):
        for name in await harness.admit():
            if int(name[1:]) % 10 >= 3:
                await harness.come_in(name)
                inside += second >= 20
        await harness.clock.advance(1)
    assert abs(inside - 200) <= 4
    await harness.redis.flushdb()


async def test_statistics_know_how_long_people_waited(harness: Harness) -> None:
    """F22, F-W18, W-23, W-24, W-25, W-27: sums and buckets instead of one number that races."""
    await harness.open(admission_rate=1, burst=1)
    await harness.join_all("a", "b", "c")
    for _ in range(3):
        await harness.admit()
        await harness.clock.advance(4)
    found = await harness.room.statistics()
    assert found["total_enqueued"] == 3
    assert found["total_admitted"] == 3
    assert found["peak_queue_size"] == 3
    assert (found["wait_n"], found["wait_sum"]) == (3, 3 + 7)
    assert found["avg_wait_time"] == 3
    assert sum(value for name, value in found.items() if name.startswith("wait_le_")) == 3
    keys = harness.room.store.keys_now()
    assert keys.stats == f"stats:{harness.keys.name}:hourly:2023111422"
    assert 0 < await harness.redis.ttl(keys.stats) <= 86_400


async def test_a_heartbeat_makes_no_event(harness: Harness) -> None:
    """F37: a hundred thousand who wait would write ten thousand events a second."""
    await harness.open()
    await harness.join("ann")
    before = len(await harness.events())
    for _ in range(5):
        await harness.beat("ann")
    assert len(await harness.events()) == before


async def test_every_step_of_a_visit_is_told(harness: Harness) -> None:
    """F37, F39: in the envelope that all lines share."""
    await harness.open()
    place = await harness.join("ann", address="192.0.2.1", agent="Mozilla/5.0")
    await harness.admit()
    await harness.come_in("ann")
    await harness.clock.advance(90)
    await harness.room.complete(place)
    assert await harness.event_names("ann") == ["waiting", "admitted", "claimed", "completed"]
    for event in (await harness.events())[1:]:
        assert event["line"] == "waitingroom"
        assert event["queue"] == harness.keys.name
        assert event["v"] == "1"
    last = (await harness.events())[-1]
    assert last["held"] == "90000"
    assert "192.0.2.1" not in str(await harness.events())


async def test_an_enquiry_changes_nothing(harness: Harness) -> None:
    """F4: status reads, and only reads."""
    await harness.open()
    place = await harness.join("ann")
    redis: Any = harness.redis
    keys: list[bytes] = sorted([key async for key in redis.scan_iter()])
    before = [await redis.dump(key) for key in keys]
    assert isinstance(await harness.room.status(place), Waiting)
    assert [await redis.dump(key) for key in keys] == before
