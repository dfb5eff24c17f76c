"""Flaws of what the spec writes down about visitors, and not here."""

from typing import Any

from redis.asyncio import Redis

from tests.waitingroom.harness import Harness
from waystation.waitingroom.visitor import Begun

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


async def _field(redis: Redis, key: str, name: str) -> int:
    found: Any = await redis.hget(key, name)  # pyright: ignore
    return int(found)


async def _fields(redis: Redis, key: str) -> set[str]:
    found: Any = await redis.hkeys(key)  # pyright: ignore
    return {each.decode() for each in found}
