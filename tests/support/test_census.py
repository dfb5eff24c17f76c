from redis.asyncio import Redis

from tests.support.census import strays
from waystation.core.store.keyspace import Keyspace, List, String


class Keys(Keyspace):
    """Two keys, one of which must run out."""

    wait = List("wait", "what waits")
    lock = String("lock", "who holds it", ttl="30 s")


async def found(redis: Redis) -> list[str]:
    return sorted([sentence async for sentence in strays(redis, Keys)])


async def test_keys_as_declared_are_no_strays(redis: Redis) -> None:
    keys = Keys("mail")
    await redis.rpush(keys.wait, "1")
    await redis.set(keys.lock, "me", ex=30)
    assert await found(redis) == []


async def test_every_kind_of_stray_is_told(redis: Redis) -> None:
    await redis.set(Keys("mail").lock, "me")
    await redis.set(Keys("post").wait, "not a list")
    await redis.set("elsewhere", "1")
    assert await found(redis) == [
        "elsewhere (string) is declared by no keyspace",
        "waystation:mail:lock has no TTL, but <prefix>:<name>:lock should live for 30 s",
        "waystation:post:wait is a string, but <prefix>:<name>:wait is declared as list",
    ]
