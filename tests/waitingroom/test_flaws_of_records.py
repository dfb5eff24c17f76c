"""Flaws of what the spec writes down about visitors, shown on its own scripts and then on ours."""

from typing import Any

from redis.asyncio import Redis

from tests.waitingroom.hands import Hands
from tests.waitingroom.literal.room import LiteralRoom
from waystation.waitingroom.visitor import Begun

T0 = 1_700_000_000
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130 Safari"


async def test_whoever_is_called_and_does_not_come_takes_no_seat(
    redis: Redis, hands: Hands
) -> None:
    """F11: the spec seats a session that nobody holds, and its place is gone for good."""
    literal = LiteralRoom(redis)
    await literal.enqueue("x", ip="1", at_us=T0 * 10**6)
    await literal.dequeue("a-session")
    assert await redis.scard(literal.sessions) == 1  # pyright: ignore
    assert await redis.exists("session:a-session") == 0
    assert await literal.rank("x") is None
    await redis.flushdb()

    await hands.open()
    await hands.join("x")
    await hands.admit()
    assert (await hands.room.state()).inside == 0
    assert isinstance(await hands.claim("x"), Begun)
    first = (await hands.room.state()).inside
    assert isinstance(await hands.claim("x"), Begun)
    assert (first, (await hands.room.state()).inside) == (1, 1)


async def test_instants_have_one_unit_before_and_after_a_heartbeat(
    redis: Redis, hands: Hands
) -> None:
    """F14: the spec writes microseconds on joining and seconds on the first heartbeat."""
    literal = LiteralRoom(redis)
    await literal.enqueue("x", ip="1", at_us=T0 * 10**6)
    joined = await _field(redis, "position:x", "last_heartbeat")
    await literal.heartbeat("x", T0 + 10)
    assert joined > 1000 * await _field(redis, "position:x", "last_heartbeat")
    await redis.flushdb()

    await hands.open()
    place = await hands.join("x")
    position = hands.keys.of(place.id).position
    joined = await _field(redis, position, "last_heartbeat")
    await hands.clock.advance(10)
    await hands.beat("x")
    assert await _field(redis, position, "last_heartbeat") == joined + 10
    assert await _field(redis, position, "enqueued_at") == joined


async def test_a_place_says_what_the_table_of_its_fields_says(redis: Redis, hands: Hands) -> None:
    """F15: the spec's script writes four of its ten documented fields."""
    wanted = {"queue_id", "status", "priority", "enqueued_at", "last_heartbeat", "ip_hash"}
    literal = LiteralRoom(redis)
    await literal.enqueue("x", ip="1", at_us=T0 * 10**6)
    assert not wanted <= await _fields(redis, "position:x")
    await redis.flushdb()

    await hands.open()
    place = await hands.join("x", agent=AGENT)
    assert wanted | {"ua_hash"} <= await _fields(redis, hands.keys.of(place.id).position)


async def test_turns_are_counted_with_their_instant_and_never_below_none(
    redis: Redis, hands: Hands
) -> None:
    """F17: the spec's commands start with a thousand turns and take what is not there."""
    tokens = "admission:concert-tickets:tokens"
    await redis.set(tokens, 1000)
    taken = [await redis.decr(tokens) for _ in range(1002)]
    assert taken[999] == 0
    assert taken[-1] == -2
    await redis.flushdb()

    await hands.open(admission_rate=10, max_active=1000)
    await hands.join_all(*(f"v{number}" for number in range(200)))
    # A second's worth at once, not a thousand.
    assert len(await hands.admit()) == 10
    for _ in range(5):
        assert await hands.admit() == []
    assert float(await redis.get(hands.keys.tokens) or -1) >= 0


async def test_a_long_name_of_a_browser_makes_nobody_s_record_larger(
    redis: Redis, hands: Hands
) -> None:
    """F26: one value beyond 64 bytes costs the spec's record its compact form."""
    literal = LiteralRoom(redis)
    await literal.enqueue("x", ip="1", at_us=T0 * 10**6)
    await redis.hset("position:x", "user_agent", AGENT)  # pyright: ignore
    assert await redis.object("ENCODING", "position:x") == b"hashtable"
    await redis.flushdb()

    await hands.open()
    place = await hands.join("x", agent=AGENT)
    position = hands.keys.of(place.id).position
    assert await redis.object("ENCODING", position) == b"listpack"


async def _field(redis: Redis, key: str, name: str) -> int:
    found: Any = await redis.hget(key, name)  # pyright: ignore
    return int(found)


async def _fields(redis: Redis, key: str) -> set[str]:
    found: Any = await redis.hkeys(key)  # pyright: ignore
    return {each.decode() for each in found}
