from redis.asyncio import Redis


async def test_the_fixture_is_an_empty_real_server(redis: Redis) -> None:
    assert await redis.dbsize() == 0
    await redis.set("a", "b")
    assert await redis.get("a") == b"b"
