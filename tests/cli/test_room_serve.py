"""`room serve` as a process."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import httpx2
import pytest

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
        _, output = await process.communicate()
        assert process.returncode != 0
        assert b"there is no room shop; `waystation room open shop` opens it" in output
    async with await connect(redis_url) as store:
        assert await Rooms(store).look() == []


async def test_the_room_starts_serves_and_stops(redis_url: str, tmp_path: Path) -> None:
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
        _, output = await second.communicate()
        assert second.returncode == 2
        assert f"wanted a port that can be listened on, got 127.0.0.1:{port}".encode() in output
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            _, output = await process.communicate()
        assert process.returncode == 0
        assert output.count(f"waiting page at http://127.0.0.1:{port}/wait/shop\n".encode()) == 1
        assert f"operators at http://127.0.0.1:{port}/operate\n".encode() in output
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    kept = tmp_path / ".waystation" / "room-keys.json"
    assert kept.stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_several_processes_share_one_port_and_one_is_replaced(
    redis_url: str, tmp_path: Path
) -> None:
    port = free_port()
    async with Room("shop", redis_url) as room:
        await room.open(RoomOptions(admission_rate=1000, newcomers_per_minute=0))
        serve = ("serve", "--port", str(port), "--room", "shop", "--workers", "2")
        process = await _room(redis_url, tmp_path, *serve)
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                async with asyncio.timeout(LIMIT_S):
                    while len(_members(process)) < 2 or not await _is_ready(client):
                        await asyncio.sleep(0.1)
            await _enter(port, 20)
            assert (await room.state()).inside == 20
            async with asyncio.timeout(LIMIT_S):
                # Every process measures the same room; their counts add up, the room does not.
                while (await _numbers(port)) != (20, 20):
                    await asyncio.sleep(0.1)
            before = _members(process)
            os.kill(min(before), signal.SIGKILL)
            async with asyncio.timeout(LIMIT_S):
                while len(_members(process) - before) < 1:
                    await asyncio.sleep(0.1)
            await _enter(port, 5)
            assert (await room.state()).inside == 25
            second = await _room(redis_url, tmp_path, *serve)
            _, output = await second.communicate()
            assert second.returncode == 2
            assert b"wanted a port that can be listened on" in output
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(LIMIT_S):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _members(process: Process) -> set[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return {int(each) for each in children.split()}


async def _enter(port: int, count: int) -> None:
    """Let that many visitors in, each over a connection of its own."""
    entered = 0
    async with asyncio.timeout(LIMIT_S):
        while entered < count:
            try:
                async with httpx2.AsyncClient() as client:
                    url = f"http://127.0.0.1:{port}/v1/enter"
                    answer = await client.post(url, json={"queue": "shop"})
            except httpx2.TransportError:
                # It had come to a process that is not there any more.
                continue
            if answer.status_code == 200:
                entered += 1


async def _numbers(port: int) -> tuple[float, float]:
    """Visitors who passed, and visitors inside, by the metrics of whichever process answers."""
    async with httpx2.AsyncClient() as client:
        page = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    found = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("waiting"))
    passed = found.get('waiting_room_arrivals_total{queue="shop",result="passed"}', 0)
    return float(passed), float(found.get('waiting_room_active_sessions{queue="shop"}', 0))


async def _is_ready(client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get("/health/ready")).status_code == 200
    except httpx2.TransportError:
        return False
