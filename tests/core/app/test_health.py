"""Health pages of a process: alive at once, ready when it has started and its store answers."""

import asyncio
import json

from tests.support.patience import until
from tests.support.ports import free_port
from waystation.bullmq import Worker
from waystation.core.app import compose
from waystation.core.app.compose import Health
from waystation.core.app.settings import TelemetrySettings
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral


async def page(port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body.decode()


async def test_a_process_is_alive_before_it_is_ready(redis_url: str) -> None:
    port = free_port()
    async with (
        compose.telemetry(TelemetrySettings(metrics_port=port)) as telemetry,
        await connect(redis_url) as store,
    ):
        assert await page(port, "/healthz") == (200, "alive\n")
        status, body = await page(port, "/readyz")
        assert (status, json.loads(body)) == (503, {"started": False})

        telemetry.health.watch(store)

        status, body = await page(port, "/readyz")
        assert (status, json.loads(body)) == (200, {"store": True})


async def test_a_process_whose_worker_has_ended_is_not_ready(redis_url: str) -> None:
    health = Health()
    async with await connect(redis_url) as store:
        worker = Worker("mail", print, store)
        async with worker:
            health.watch(store, [worker])
            assert await health() == {"store": True, "workers": True}
        assert await health() == {"store": True, "workers": False}


async def test_a_process_without_its_store_is_not_ready(own_server: Ephemeral) -> None:
    health = Health()
    async with await connect(own_server.url) as store:
        health.watch(store)
        assert await health() == {"store": True}
        own_server.kill()

        async def is_away() -> bool:
            return not (await health())["store"]

        await until(is_away)
