"""How many come in: what would go wrong with the spec's own scripts."""

from typing import Any

from redis.asyncio import Redis

from tests.waitingroom.hands import Hands
from waystation.waitingroom.visitor import Begun, Joined, JoinRequest, Refused, Waiting

T0 = 1_700_000_000


async def newcomer(hands: Hands, name: str, **more: Any) -> object:
    return await hands.room.join(JoinRequest(key=name, secret=name, **more))


async def test_an_office_behind_one_address_has_a_place_for_each(hands: Hands) -> None:
    """F7, F-W17: the spec gives the second of them the first one's place."""
    await hands.open(newcomers_per_minute=50)
    ann = await hands.join("ann", address="192.0.2.1")
    bob = await hands.join("bob", address="192.0.2.1")
    assert ann.id != bob.id


async def test_one_network_gets_so_many_places_a_minute(hands: Hands) -> None:
    """F7: attack 19; the address limits how many come, and whoever is refused pays nothing."""
    await hands.open(newcomers_per_minute=3)
    for each in range(3):
        await hands.join(f"v{each}", address=f"2001:db8::{each}")
    refused = await newcomer(hands, "v3", address="2001:db8::ffff")
    assert refused == Refused("crowded", 60_000)
    assert await hands.join("v1", address="2001:db8::1") == hands.places["v1"]
    await hands.join("elsewhere", address="2001:db8:0:1::1")
    await hands.clock.advance(60.001)
    await hands.join("v3", address="2001:db8::ffff")


async def test_whoever_has_many_ipv6_networks_is_limited_by_the_wider_ones(hands: Hands) -> None:
    """F7: attack 44; one customer may have a /64, a /56 or a /48, and any address in it."""
    await hands.open(newcomers_per_minute=2)

    async def places(*addresses: str) -> int:
        entries = [await newcomer(hands, each, address=each) for each in addresses]
        return sum(isinstance(each, Joined) for each in entries)

    assert await places(*(f"2001:db8:0:{each:x}::1" for each in range(12))) == 4 * 2
    # Another /56 of the same /48, and what is left of the /48 after both.
    assert await places(*(f"2001:db8:0:1{each:02x}::1" for each in range(12))) == 4 * 2
    left = [f"2001:db8:0:{block:x}{each:02x}::1" for block in range(2, 9) for each in range(8)]
    assert await places(*left) == 16 * 2 - 16
    assert await places("2001:db8:1::1", "192.0.2.1") == 2
    await hands.clock.advance(60.001)
    assert await places("2001:db8:0:f::1") == 1


async def test_whoever_solved_a_challenge_comes_in_from_a_crowded_network(hands: Hands) -> None:
    await hands.open(newcomers_per_minute=2)
    for each in range(2):
        await hands.join(f"v{each}", address="192.0.2.1")
    assert await hands.room.crowd("192.0.2.1") == 1
    assert await hands.room.crowd("192.0.2.2") == 0
    assert isinstance(await newcomer(hands, "idle", address="192.0.2.1"), Refused)
    for each in range(18):
        await hands.join(f"worked {each}", address="192.0.2.1", solved=True)
    refused = await newcomer(hands, "one too many", address="192.0.2.1", solved=True)
    assert isinstance(refused, Refused)
    assert refused.reason == "crowded"


async def test_joining_ten_thousand_times_gives_one_place(hands: Hands) -> None:
    """F7: attack 19; the same key is the same visitor."""
    await hands.open()
    places = {(await hands.join("ann")).id for _ in range(300)}
    assert len(places) == 1
    assert await hands.redis.llen(hands.keys.normal_list) == 1  # pyright: ignore


async def test_seats_are_free_again_when_sessions_end(redis: Redis, hands: Hands) -> None:
    """F10, F-W9: with the spec the set of sessions never shrinks, and the room jams."""
    await hands.open(max_active=1, session=60, session_max=60)
    await hands.join_all("a", "b")
    assert await hands.admit() == ["a"]
    await hands.come_in("a")
    await hands.clock.advance(30)
    assert await hands.admit() == []
    await hands.clock.advance(31)
    assert await hands.admit() == ["b"]
    assert await redis.scard(hands.keys.sessions) == 0  # pyright: ignore


async def test_claiming_twice_gives_one_session(hands: Hands) -> None:
    """F11: attack 18; a retry is answered with the same session and counted once."""
    await hands.open()
    place = await hands.join("ann")
    await hands.admit()
    answers = {await hands.room.claim(place, "ann") for _ in range(100)}
    assert len(answers) == 1
    assert isinstance(answers.pop(), Begun)
    assert (await hands.room.statistics())["total_claimed"] == 1
    assert (await hands.event_names("ann")).count("claimed") == 1


async def test_a_room_that_is_full_paused_or_crowded_admits_nobody(hands: Hands) -> None:
    """F12, F-W8: the spec's dequeue asks for neither status nor seats nor tokens."""
    await hands.open(max_active=1, admission_rate=100, max_queue_size=3)
    await hands.join_all("a", "b", "c")
    assert await newcomer(hands, "d") == Refused("full")
    await hands.control.pause()
    assert await hands.admit() == []
    await hands.control.resume()
    assert await hands.admit() == ["a"]
    assert await hands.admit() == []


async def test_two_minutes_at_ten_a_second_admit_what_they_should(hands: Hands) -> None:
    """F17, F-W10: the origin's bucket admits 44 where 1209 are due."""
    await hands.open(admission_rate=10, max_active=10_000, claim_window=3600)
    await hands.join_all(*(f"v{each}" for each in range(1300)))
    called = len(await hands.admit())
    for _ in range(240):
        await hands.clock.advance(0.5)
        called += len(await hands.admit())
    assert called == 10 + 1200
    await hands.redis.flushdb()


async def test_the_bucket_loses_nothing_however_often_it_is_asked(hands: Hands) -> None:
    """F17, F-W10, W-19: fractions are kept, so that asking often is no slower."""
    await hands.open(admission_rate=0.3, burst=1, max_active=1000, claim_window=3600)
    await hands.join_all(*(f"v{each}" for each in range(40)))
    called = len(await hands.admit())
    for _ in range(1000):
        await hands.clock.advance(0.1)
        called += len(await hands.admit())
    assert called == 1 + 30


async def test_the_start_of_a_sale_is_no_stampede(hands: Hands) -> None:
    """F17: the spec starts with a full bucket as large as the shop."""
    await hands.open(admission_rate=10, max_active=1000)
    await hands.join_all(*(f"v{each}" for each in range(100)))
    assert len(await hands.admit()) == 10


async def test_a_call_that_is_refused_does_not_prolong_the_ban(hands: Hands) -> None:
    """F18, F-W16, W-15, W-16, W-17: the spec adds every call, refused or not."""
    await hands.open(newcomers_per_minute=2)
    for name in "ab":
        await hands.join(name, address="192.0.2.1")
    for second in range(1, 60):
        await hands.clock.advance(1)
        refused = await newcomer(hands, "c", address="192.0.2.1")
        assert refused == Refused("crowded", 60_000 - second * 1000)
    await hands.clock.advance(1.001)
    await hands.join("c", address="192.0.2.1")


async def test_as_many_come_in_as_should_though_some_stay_away(hands: Hands) -> None:
    """F11: a turn that nobody took is given again."""
    await hands.open(admission_rate=1, burst=1, max_active=10_000, claim_window=10)
    await hands.join_all(*(f"v{each}" for each in range(400)))
    inside = 0
    for second in range(220):
        for name in await hands.admit():
            if int(name[1:]) % 10 >= 3:
                await hands.come_in(name)
                inside += second >= 20
        await hands.clock.advance(1)
    assert abs(inside - 200) <= 4
    await hands.redis.flushdb()


async def test_statistics_know_how_long_people_waited(hands: Hands) -> None:
    """F22, F-W18, W-23, W-24, W-25, W-27: sums and buckets instead of one number that races."""
    await hands.open(admission_rate=1, burst=1)
    await hands.join_all("a", "b", "c")
    for _ in range(3):
        await hands.admit()
        await hands.clock.advance(4)
    found = await hands.room.statistics()
    assert found["total_enqueued"] == 3
    assert found["total_admitted"] == 3
    assert found["peak_queue_size"] == 3
    assert (found["wait_n"], found["wait_sum"]) == (3, 3 + 7)
    assert found["avg_wait_time"] == 3
    assert sum(value for name, value in found.items() if name.startswith("wait_le_")) == 3
    keys = hands.room.store.keys_now()
    assert keys.stats == f"stats:{hands.keys.name}:hourly:2023111422"
    assert 0 < await hands.redis.ttl(keys.stats) <= 86_400


async def test_counting_sessions_reads_none_of_them(hands: Hands) -> None:
    """F23: one command, whatever the number."""
    await hands.open()
    await hands.join_all("a", "b")
    await hands.admit()
    await hands.come_in("a")
    seen = await hands.room.state()
    assert (seen.inside, seen.called) == (1, 1)


async def test_a_heartbeat_makes_no_event(hands: Hands) -> None:
    """F37: a hundred thousand who wait would write ten thousand events a second."""
    await hands.open()
    await hands.join("ann")
    before = len(await hands.events())
    for _ in range(5):
        await hands.beat("ann")
    assert len(await hands.events()) == before


async def test_every_step_of_a_visit_is_told(hands: Hands) -> None:
    """F37, F39: in the envelope that all lines share."""
    await hands.open()
    place = await hands.join("ann", address="192.0.2.1", agent="Mozilla/5.0")
    await hands.admit()
    await hands.come_in("ann")
    await hands.clock.advance(90)
    await hands.room.complete(place)
    assert await hands.event_names("ann") == ["waiting", "admitted", "claimed", "completed"]
    for event in (await hands.events())[1:]:
        assert event["line"] == "waitingroom"
        assert event["queue"] == hands.keys.name
        assert event["v"] == "1"
    last = (await hands.events())[-1]
    assert last["held"] == "90000"
    assert "192.0.2.1" not in str(await hands.events())


async def test_an_enquiry_changes_nothing(hands: Hands) -> None:
    """F4: status reads, and only reads."""
    await hands.open()
    place = await hands.join("ann")
    redis: Any = hands.redis
    keys: list[bytes] = sorted([key async for key in redis.scan_iter()])
    before = [await redis.dump(key) for key in keys]
    assert isinstance(await hands.room.status(place), Waiting)
    assert [await redis.dump(key) for key in keys] == before
