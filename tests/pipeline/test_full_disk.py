"""A run on a disk that is full: it stops and says what to do, and goes on when there is room."""

import asyncio
import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.disk import small_disk
from tests.pipeline.rounds import history_at
from waystation.bullmq import Queue
from waystation.core.errors import DiskFull
from waystation.pipeline.progress import NoProgress
from waystation.pipeline.runner import RunOptions, RunResult, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.tables import EVENTS, LEDGER

pytestmark = pytest.mark.full

JOBS = 2_000
SLACK = 150 * 1024
"""Room for what Spark notes about a batch, and not for the batch."""
STOPS = (
    [("reading", 0), ("reading", SLACK), ("folding", 0), ("folding", SLACK), ("refreshing", 0)]
    if os.environ.get("WAYSTATION_FULL")
    else [("reading", SLACK), ("folding", 0), ("refreshing", 0)]
)
"""When the disk runs full, and how much room is left then; a refresh needs less than the slack."""

COUNTED = ("acknowledged", "terminal", "visible", "lost", "duplicated")


class Filling(NoProgress):
    """Lets the disk run full when a part of the run begins."""

    def __init__(self, disk: Path, when: str, *, slack: int = 0) -> None:
        self._ballast = disk / "ballast"
        self._when = when
        self._slack = slack
        self._ballast.unlink(missing_ok=True)

    def begin(self, what: str, total: int | None = None) -> None:
        if what.startswith(self._when):
            with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as ballast:
                while True:
                    ballast.write(bytes(4096))
            with self._ballast.open("r+b") as ballast:
                ballast.truncate(self._ballast.stat().st_size - self._slack)


async def fill(url: str) -> None:
    """Add jobs whose names cannot be made shorter."""
    async with Queue("mail", url) as queue:
        names = (hashlib.sha256(b"%d" % number).hexdigest() for number in range(JOBS))
        await queue.add_many((name, {}) for name in names)


def write_attempts(store: Redis) -> None:
    line: Any = store.pipeline(transaction=False)
    for number in range(1, JOBS, 2):
        line.xadd("bull:mail:events", {"event": "active", "jobId": number, "prev": "waiting"})
        reason = hashlib.sha256(b"%d" % number).hexdigest()
        line.xadd("bull:mail:events", {"event": "failed", "jobId": number, "failedReason": reason})
    line.execute()


@pytest.mark.slow
def test_a_run_stopped_by_a_full_disk_wherever_it_was_goes_on_when_there_is_room(
    spark: SparkSession, store: Redis, redis_url: str, tmp_path: Path
) -> None:
    asyncio.run(fill(redis_url))
    write_attempts(store)
    disk, options = tmp_path / "disk", RunOptions(events=EventOptions(url=redis_url))

    def run_with(progress: Filling) -> RunResult:
        return run(history_at(str(disk / "history")), options, progress)

    with small_disk(disk, "24m"):
        for part, slack in STOPS:
            with pytest.raises(DiskFull, match="Free some space and start again: it continues"):
                run_with(Filling(disk, part, slack=slack))
        assert run_with(Filling(disk, "never")).failed_checks == ()

        history = history_at(str(disk / "history"))
        entries: Any = store.xrange("bull:mail:events")
        kept = [row["entry_id"] for row in history.read(EVENTS).select("entry_id").collect()]
        assert sorted(kept) == sorted(entry_id.decode() for entry_id, _ in entries)
        counted = [sum(row[name] for row in history.read(LEDGER).collect()) for name in COUNTED]
        assert counted == [JOBS, JOBS // 2, JOBS // 2, 0, 0]
        assert history.attempts().count() == JOBS // 2
