"""What history says of a queue is read in the same way in every line of work."""

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from waystation import bullmq, files, routing
from waystation.core.errors import InvalidOption
from waystation.core.line import forecasts
from waystation.core.line.forecasts import DesiredWorkers, Drain, Forecast, Recommendation
from waystation.core.store.connection import Store, connect


class Asked(NamedTuple):
    """One queue of a line, and what can be asked about it."""

    line: str
    queue: str
    forecast: Callable[[], Awaitable[Forecast]]
    text: Callable[[], Awaitable[str]]

    async def numbers(self) -> dict[tuple[str, str], float]:
        """What Prometheus reads: the advice for this queue, by metric and bound."""
        return {
            (family.name, sample.labels.get("bound", "")): sample.value
            for family in text_string_to_metric_families(await self.text())
            for sample in family.samples
            if family.name in ("waystation_workers_wanted", "waystation_drain_seconds")
            and sample.labels.get("product") == self.line
            and sample.labels.get("queue") == self.queue
        }


async def in_bullmq(store: Store) -> Asked:
    queue = bullmq.Queue("mail", store)
    return Asked("bullmq", "mail", queue.forecast, queue.prometheus_text)


async def in_routing(store: Store) -> Asked:
    queue = routing.Queue(store)
    await queue.add("mail")
    return Asked("routing", "mail", lambda: queue.forecast("mail"), queue.prometheus_text)


async def in_files(store: Store) -> Asked:
    queue = files.Queue(store)
    low = queue.keys.layout.queues["low"]
    return Asked("files", low, lambda: queue.forecast("low"), queue.prometheus_text)


@pytest.mark.parametrize("opened", [in_bullmq, in_routing, in_files])
async def test_what_history_advises_counts_while_it_is_fresh(
    redis: Redis, redis_url: str, opened: Callable[[Store], Awaitable[Asked]]
) -> None:
    now = time.time_ns() // 1_000_000
    life = {"made_at": now, "until": now + 60_000}
    wanted = DesiredWorkers(workers=7, target_wait_ms=1_000, **life)
    drain = Drain(waiting=9, low_s=1, likely_s=2.5, high_s=4, band=0.8, **life)

    async def put(asked: Asked, *pieces: Recommendation) -> None:
        for piece in pieces:
            key = forecasts.key_of(type(piece), asked.queue)
            await redis.hset(key, asked.line, forecasts.written(piece).decode())

    async with await connect(redis_url) as store:
        asked = await opened(store)
        assert await asked.forecast() == Forecast()
        await put(asked, wanted, drain)
        assert await asked.forecast() == Forecast(workers=wanted, drain=drain)
        assert await asked.numbers() == {
            ("waystation_workers_wanted", ""): 7,
            ("waystation_drain_seconds", "low"): 1,
            ("waystation_drain_seconds", "likely"): 2.5,
            ("waystation_drain_seconds", "high"): 4,
        }
        await put(asked, msgspec.structs.replace(wanted, until=now))
        assert ("waystation_workers_wanted", "") not in await asked.numbers()


async def test_a_priority_that_no_file_can_have_is_refused(redis_url: str) -> None:
    async with files.Queue(redis_url) as queue:
        with pytest.raises(InvalidOption, match="priority must be one of high, low, got 'urgent'"):
            await queue.forecast("urgent")
