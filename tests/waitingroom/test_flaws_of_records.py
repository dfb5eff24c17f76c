"""Flaws of what the spec writes down about visitors, and not here."""

import random
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.size import size
from tests.waitingroom.harness import Harness
from waystation.waitingroom.visitor import Begun, Called, Late, Returned, VisitorStatus, Waiting

T0 = 1_700_000_000
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130 Safari"


async def test_whoever_is_called_and_does_not_come_takes_no_seat(harness: Harness) -> None:
    """F11: the spec seats a session that nobody holds, and its place is gone for good."""
    await harness.open()
    await harness.join("x")
    await harness.admit()
    assert (await harness.room.state()).inside == 0
    assert isinstance(await harness.claim("x"), Begun)
    first = (await harness.room.state()).inside
    assert isinstance(await harness.claim("x"), Begun)
    assert (first, (await harness.room.state()).inside) == (1, 1)


async def test_instants_have_one_unit_before_and_after_a_heartbeat(
    redis: Redis, harness: Harness
) -> None:
    """F14: the spec writes microseconds on joining and seconds on the first heartbeat."""
    await harness.open()
    place = await harness.join("x")
    position = harness.keys.of(place.id).position
    joined = await _field(redis, position, "last_heartbeat")
    await harness.clock.advance(10)
    await harness.beat("x")
    assert await _field(redis, position, "last_heartbeat") == joined + 10
    assert await _field(redis, position, "enqueued_at") == joined


async def test_a_place_says_what_the_table_of_its_fields_says(
    redis: Redis, harness: Harness
) -> None:
    """F15: the spec's script writes four of its ten documented fields."""
    wanted = {"queue_id", "status", "priority", "enqueued_at", "last_heartbeat", "ip_hash"}
    await harness.open()
    place = await harness.join("x", agent=AGENT)
    assert wanted | {"ua_hash"} <= await _fields(redis, harness.keys.of(place.id).position)


async def test_turns_are_counted_with_their_instant_and_never_below_none(
    redis: Redis, harness: Harness
) -> None:
    """F17: the spec's commands start with a thousand turns and take what is not there."""
    await harness.open(admission_rate=10, max_active=1000)
    await harness.join_all(*(f"v{number}" for number in range(200)))
    # A second's worth at once, not a thousand.
    assert len(await harness.admit()) == 10
    for _ in range(5):
        assert await harness.admit() == []
    assert float(await redis.get(harness.keys.tokens) or -1) >= 0


async def test_a_long_name_of_a_browser_makes_nobody_s_record_larger(
    redis: Redis, harness: Harness
) -> None:
    """F26: one value beyond 64 bytes costs the spec's record its compact form."""
    await harness.open()
    place = await harness.join("x", agent=AGENT)
    position = harness.keys.of(place.id).position
    assert await redis.object("ENCODING", position) == b"listpack"


LENGTHS = (5, 10, 60, 300, 1500, 7200, 86_400)


@pytest.mark.parametrize("seed", range(size(20, full=400)))
async def test_whoever_has_a_place_can_do_with_it_what_its_status_says(
    harness: Harness, seed: int
) -> None:
    """However long an operator lets people wait, come and return, their records live as long."""
    dice = random.Random(seed)
    names = ("idle", "paused_idle", "claim_window", "missed")
    lasts = {name: max(10, dice.choice(LENGTHS)) for name in names}
    await harness.open(position_ttl=dice.choice([60, 1800, 864_000]), **lasts)
    steps = [1, *lasts.values(), *(each - 1 for each in lasts.values())]
    await harness.join("v0")
    for _ in range(30):
        match dice.randrange(5):
            case 0:
                await harness.join(f"v{len(harness.places)}")
            case 1:
                await harness.control.pause()
            case 2:
                await harness.control.resume()
            case 3:
                await harness.beat(dice.choice(list(harness.places)))
            case _:
                await harness.pass_time(dice.choice(steps))
        # As in a room that is served, where nobody stands in line for long who fell silent.
        await harness.expire()
        await harness.admit()
        for name, place in harness.places.items():
            status = await harness.status(name)
            if not isinstance(status, Waiting | Called | Late | Returned):
                continue
            assert await harness.room.notify(place, name, "tel:1") is True, (name, status)
            assert (await harness.join(name)) == place
            if dice.random() < 0.1:
                assert await _does(harness, name, status) is True, (name, status)


async def _does(harness: Harness, name: str, status: VisitorStatus) -> object:
    """Do what somebody of this status may do, and say whether it was done."""
    place = harness.places[name]
    match status:
        case Called():
            return isinstance(await harness.claim(name), Begun)
        case Late():
            return isinstance(await harness.room.recover(place, name), Returned)
        case _:
            return await harness.room.leave(place, name)


async def test_whoever_is_called_and_stays_on_the_page_keeps_the_record(
    redis: Redis, harness: Harness
) -> None:
    """Also where the operator has given them longer since they last were heard."""
    await harness.open(position_ttl=60, idle=10, paused_idle=10, claim_window=5, missed=0)
    place = await harness.join("x")
    await harness.open(position_ttl=60, idle=10, paused_idle=10, claim_window=600, missed=600)
    await harness.admit()
    keys = harness.keys.of(place.id, visitor=place.owner)
    assert isinstance(await harness.room.heartbeat(place), Called)
    assert min(await redis.ttl(keys.position), await redis.ttl(keys.owner)) > 1200
    await harness.clock.advance(601)
    await redis.expire(keys.position, 5)
    assert isinstance(await harness.room.heartbeat(place), Late)
    assert await redis.ttl(keys.position) > 1200
    assert await harness.redis.zcard(harness.keys.heartbeat) == 0  # pyright: ignore


async def _field(redis: Redis, key: str, name: str) -> int:
    found: Any = await redis.hget(key, name)  # pyright: ignore
    return int(found)


async def _fields(redis: Redis, key: str) -> set[str]:
    found: Any = await redis.hkeys(key)  # pyright: ignore
    return {each.decode() for each in found}
