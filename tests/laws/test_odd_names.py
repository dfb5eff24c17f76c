"""Whatever name another program puts where rooms and workers are found, the others are served."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import RoomService
from waystation.bullmq import Queue
from waystation.console.context import Console
from waystation.console.names import find_queues
from waystation.console.options import ConsoleOptions
from waystation.core.store.connection import connect
from waystation.waitingroom.http.webhooks import WebhookDispatcher
from waystation.waitingroom.running import RoomMaintenance

ROOMS = [
    b"", b"{}", b"}{", b"{a}{b}", b"{a\x00b}", b"{a:b}", b"{" + b"x" * 600 + b"}", b"{a", b"..",
    b"plain", b"\xff\xfe", b"{\xff\xfe}", b"{a b}", b"{a/b}", b"*", b"{*}", b"{nowhere}",
]  # fmt: skip


async def _stays(service: RoomService) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every duty and every page that goes through all rooms."""
    care = RoomMaintenance(service.rooms, service.context.metrics)
    hooks = WebhookDispatcher(service.store, service.rooms, owner="a")
    admin = await service.operator()

    async def page(path: str) -> None:
        answer = await admin.get(path)
        assert (answer.status_code, '"shop"' in answer.text) == (200, True), answer.text

    async def found() -> None:
        known = await find_queues(service.store)
        assert ("waitingroom", "shop") in [(each.product, each.name) for each in known.queues]

    async def stated() -> None:
        assert "shop" in [room.name for room, _ in await service.rooms.states()]

    duties = (care.admit, care.sweep, care.open_due, care.measure, care.follow, care.watch)
    return {
        **{duty.__name__: duty for duty in duties},
        "webhooks": hooks.carry,
        "rooms": lambda: page("/api/v1/admin/queues"),
        "connectors": lambda: page("/v1/connector-config"),
        "console": found,
        "states": stated,
    }


async def test_what_is_no_room_stops_no_duty_and_no_page(
    redis_url: str, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    store: Any = redis
    async with harness.service(redis_url, admission_rate=1000.0) as service:
        stays = await _stays(service)
        stopped = list[str]()
        for odd in ROOMS:
            await store.sadd("queues", odd)
            service.rooms.forget()
            for name, stay in stays.items():
                try:
                    await stay()
                except Exception as error:
                    stopped.append(f"{odd!r} {name}: {error!r}"[:200])
            await store.srem("queues", odd)
        assert not stopped, "\n".join(stopped)
    said = [each.message for each in caplog.records if "room_left_out" in each.message]
    assert len(said) == len(set(said)) > 5


async def test_people_come_in_beside_what_is_no_room(redis_url: str, redis: Redis) -> None:
    store: Any = redis
    async with harness.service(redis_url, admission_rate=1000.0) as service:
        person = await service.joined()
        await store.sadd("queues", *ROOMS)
        await RoomMaintenance(service.rooms, service.context.metrics).admit()
        assert (await person.claim()).status_code == 200


def _named(queue: bytes) -> str:
    return "bull:" + base64.b64encode(queue).decode()


CLIENTS = [
    "bull:", "bull::w:", "bull::w:a", "bull:abcd:w:", "bull:a", "bull:****", "bull",
    _named(b"a:b"), _named(b"x" * 600), _named(b".."), _named(b"{}"), _named(b"a\x00b"),
    _named(b"\xff\xfe"), _named(b"{a}{b}") + ":w:one", _named(b"mail") + ":w:", _named(b"\n"),
]  # fmt: skip


async def test_a_connection_of_any_name_stops_no_page_of_the_console(redis_url: str) -> None:
    stopped = list[str]()
    async with await connect(redis_url) as store, Queue("mail", store) as queue:
        await queue.add("send")
        for name in CLIENTS:
            console = Console(store, ConsoleOptions())
            async with Redis.from_url(redis_url, client_name=name) as other:
                await other.ping()
                try:
                    overview = await console.sampler.overview()
                    assert [each.name for each in overview.queues] == ["mail"]
                    await console.failing()
                except Exception as error:
                    stopped.append(f"{name[:60]}: {error!r}"[:200])
    assert not stopped, "\n".join(stopped)
