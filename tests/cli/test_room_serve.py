"""The doors as a process."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import httpx2

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from waystation.core.store.connection import connect
from waystation.waitingroom import Room, RoomOptions
from waystation.waitingroom.rooms import Rooms


async def _room(redis_url: str, folder: Path, *args: str) -> Process:
    environment = {**os.environ, "WAYSTATION_STORE__URL": redis_url}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "waystation", "room", *args,
        cwd=folder, env=environment, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def test_a_room_that_was_never_opened_is_not_served(redis_url: str, tmp_path: Path) -> None:
    for spelled in ("shop", "{shop}"):
        process = await _room(redis_url, tmp_path, "serve", "--room", spelled)
        _, told = await process.communicate()
        assert process.returncode != 0
        assert b"there is no room shop; `waystation room open shop` opens it" in told
    async with await connect(redis_url) as store:
        assert await Rooms(store).look() == []


async def test_the_doors_open_serve_and_close(redis_url: str, tmp_path: Path) -> None:
    port = free_port()
    async with Room("shop", redis_url) as room:
        await room.open(RoomOptions(admission_rate=33))
    process = await _room(
        redis_url, tmp_path, "serve", "--port", str(port), "--room", "shop", "--room", "{shop}"
    )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            async with asyncio.timeout(LIMIT_S):
                while not await _is_ready(client):
                    await asyncio.sleep(0.1)
            page = await client.get("/wait/shop")
            assert page.status_code == 200
            seen = await client.get("/api/v1/queues/shop/snapshot")
            assert seen.json()["rate_per_minute"] == 33 * 60
            keys = await client.get("/.well-known/jwks.json")
            assert len(keys.json()["keys"]) == 2
        second = await _room(redis_url, tmp_path, "serve", "--port", str(port), "--room", "shop")
        _, told = await second.communicate()
        assert second.returncode == 2
        assert f"wanted a port that can be listened on, got 127.0.0.1:{port}".encode() in told
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    kept = tmp_path / ".waystation" / "room-keys.json"
    assert kept.stat().st_mode & 0o077 == 0


async def _is_ready(client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get("/health/ready")).status_code == 200
    except httpx2.TransportError:
        return False
