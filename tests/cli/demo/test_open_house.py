"""The open house of the demo: what it promises to show is there."""

import asyncio

import httpx2

from tests.support.patience import LIMIT_S, limit
from tests.support.ports import free_port
from waystation.cli.demo.open_house import opened


async def test_console_room_and_sale_are_open(redis_url: str) -> None:
    console_port, room_port = free_port(), free_port()
    async with (
        opened(redis_url, room_port=room_port, console_port=console_port) as addresses,
        httpx2.AsyncClient(timeout=limit(60), trust_env=False) as client,
    ):
        for address in addresses:
            answer = await client.get(address.url.replace("localhost", "127.0.0.1"))
            assert answer.status_code in (200, 302, 303, 307), address
        console = f"http://127.0.0.1:{console_port}"
        async with asyncio.timeout(LIMIT_S):
            while True:
                found = (await client.get(f"{console}/api/v1/queues/bullmq/purchases")).json()
                if found.get("counts", {}).get("completed"):
                    break
                await asyncio.sleep(0.1)
        [scheduler] = (await client.get(f"{console}/api/v1/schedulers")).json()["schedulers"]
        assert scheduler["id"] == "daily-takings"
