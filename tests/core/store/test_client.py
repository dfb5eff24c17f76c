import asyncio

import pytest

from waystation.bullmq.redis.client import QueueClient
from waystation.core.errors import StoreUnreachable
from waystation.core.store.connection import Store, connect

CONFIGURED = "WAYSTATION_STORE__URL"


class Thing(QueueClient):
    async def store(self) -> Store:
        return await self._connected()


async def test_nothing_is_opened_before_it_is_needed() -> None:
    thing = Thing("mail", "redis://127.0.0.1:1")

    assert thing.name == "mail"
    await thing.close()


async def test_everybody_who_asks_gets_the_same_store(redis_url: str) -> None:
    async with Thing("mail", redis_url) as thing:
        first, second = await asyncio.gather(thing.store(), thing.store())

        assert first is second


async def test_its_own_store_is_closed_with_it(redis_url: str) -> None:
    async with Thing("mail", redis_url) as thing:
        store = await thing.store()
        await store.hot.execute_command("PING")

    with pytest.raises(StoreUnreachable):
        await store.hot.execute_command("PING")


async def test_a_store_that_was_handed_in_stays_open(redis_url: str) -> None:
    async with await connect(redis_url) as store:
        async with Thing("mail", store) as thing:
            assert await thing.store() is store

        assert await store.hot.execute_command("PING") == b"PONG"


async def test_an_attempt_that_failed_can_be_made_again(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CONFIGURED, "redis://127.0.0.1:1")
    thing = Thing("mail")
    with pytest.raises(StoreUnreachable):
        await thing.store()

    monkeypatch.setenv(CONFIGURED, redis_url)
    assert await thing.store()
    await thing.close()


async def test_what_was_closed_stays_closed(redis_url: str) -> None:
    thing = Thing("mail", redis_url)
    await thing.close()

    with pytest.raises(StoreUnreachable, match="has been closed"):
        await thing.store()
