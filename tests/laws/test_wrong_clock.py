"""A worker whose clock is wrong waits for as long as the server's clock says."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from waystation import bullmq, files, routing
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.source import BullSource
from waystation.bullmq.source import ClaimOptions as BullOptions
from waystation.core.clock import SystemClock
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled, Source
from waystation.core.store.connection import Store, connect
from waystation.files.claims import FileSource
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile
from waystation.routing.registry import Profile
from waystation.routing.source import RoutingSource

DELAY = 300
HOUR = 3_600


@pytest.fixture
async def store(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A store whose clock is an hour behind ours."""
    right = time.time

    def wrong_ms(clock: SystemClock) -> int:
        return round((right() + HOUR) * 1000)

    monkeypatch.setattr(time, "time", lambda: right() + HOUR)
    monkeypatch.setattr(SystemClock, "now_ms", wrong_ms)
    async with await connect(redis_url) as opened:
        yield opened


async def looks_until_claimed(source: Source[Any]) -> int:
    """How often a worker looks in vain before its delayed job is there."""
    looks = 0
    while not (await source.settle([], claim=1)).claims:
        looks += 1
        await source.wait(10)
    return looks


async def test_a_delayed_job_is_not_asked_for_again_and_again(store: Store) -> None:
    async with bullmq.Queue("mail", store) as queue:
        await queue.add("send", delay=DELAY / 1000)
        source = BullSource(store, QueueKeys("mail"), BullOptions(worker="w"))
        # The first look may be that of the producer's wake-up.
        assert await looks_until_claimed(source) <= 2
        await source.close()


async def test_a_routed_job_is_not_asked_for_again_and_again(store: Store) -> None:
    async with routing.Queue(store) as queue:
        schedule = routing.Schedule(delay=DELAY / 1000)
        await queue.add("mail", {}, routing.JobOptions(schedule=schedule))
        source = RoutingSource(store, queue.keys, Profile(server="w"))
        assert await looks_until_claimed(source) <= 2
        await source.close()


async def test_a_file_is_not_asked_for_again_and_again(store: Store) -> None:
    async with files.Queue(store) as queue:
        file = ScannedFile("a.pdf", 1, 1)
        await queue.intake.put([entry(queue.keys, file, priority="low", now_ns=1)])
        options = files.WorkerOptions(backoff=DELAY / 1000, poll=10)
        source = FileSource(store, queue.keys, options)
        (claim,) = (await source.settle([], claim=1)).claims
        await source.settle([Settled(claim, Failed(RuntimeError("no")))], claim=0)
        # One may be for the wake-up that the job left behind when it came.
        assert await looks_until_claimed(source) <= 2
        await source.close()
