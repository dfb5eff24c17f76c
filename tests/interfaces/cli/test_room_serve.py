"""The doors as a process."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import httpx2

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port


async def test_the_doors_open_serve_and_close(redis_url: str, tmp_path: Path) -> None:
    port = free_port()
    environment = {**os.environ, "WAYSTATION_STORE__URL": redis_url}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "waystation", "room", "serve",
        "--port", str(port), "--room", "shop",
        cwd=tmp_path, env=environment, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            async with asyncio.timeout(LIMIT_S):
                while not await _is_ready(client):
                    await asyncio.sleep(0.1)
            page = await client.get("/wait/shop")
            assert page.status_code == 200
            keys = await client.get("/.well-known/jwks.json")
            assert len(keys.json()["keys"]) == 2
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
