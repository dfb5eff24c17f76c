"""A console on a port with jobs of the last ninety days, and its file for bull-board."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.console import harness
from tests.pipeline.ask import lakes
from tests.support.ports import free_port
from waystation.core.http.server import serving
from waystation.pipeline.tables import HOURLY

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
OLD = TODAY - timedelta(days=80)
YESTERDAY = TODAY - timedelta(days=1)
PEERS = Path(__file__).with_name("peers")


class Served(NamedTuple):
    """Where the console is, and the file that was fetched from it."""

    url: str
    file: Path


@asynccontextmanager
async def served(redis_url: str, directory: Path) -> AsyncGenerator[Served]:
    """A console over a history with jobs of eighty days ago and of yesterday."""
    root = str(directory / "history")
    rows = [
        _hour("mail", OLD + timedelta(hours=3), 7, 1),
        _hour("mail", OLD + timedelta(hours=9), 5, 0),
        _hour("mail", YESTERDAY + timedelta(hours=4), 40, 2),
        _hour("pay", YESTERDAY + timedelta(hours=4), 100, 0),
    ]
    lakes.store(root, HOURLY, rows, 0)
    options = msgspec.structs.replace(harness.ADMIN, history=root)
    port = free_port()
    async with (
        harness.api(redis_url, options) as api,
        serving(api.app, host="127.0.0.1", port=port),
    ):
        fetched = await api.here.get("/assets/bull-board.js")
        assert fetched.status_code == 200
        file = directory / "waystation-history.mjs"
        file.write_bytes(fetched.content)
        yield Served(f"http://127.0.0.1:{port}", file)


def _hour(queue: str, at: datetime, completed: int, failed: int) -> dict[str, Any]:
    known: dict[str, Any] = {
        "product": "bullmq", "queue": queue, "hour": at, "added": completed + failed,
        "completed": completed, "failed": failed, "retried": 0,
    }  # fmt: skip
    return {name: known.get(name) for name in HOURLY.names}
