"""The line in numbers, as Prometheus reads them."""

import time

from prometheus_client.parser import text_string_to_metric_families

from tests.routing.harness import Harness
from waystation.core.line import forecasts
from waystation.core.line.forecasts import DesiredWorkers
from waystation.routing import Schedule, registry
from waystation.routing.registry import Profile


async def samples(harness: Harness, metric: str, label: str) -> dict[str, float]:
    families = text_string_to_metric_families(await harness.queue.prometheus_text())
    return {
        sample.labels[label]: sample.value
        for family in families
        if family.name == metric
        for sample in family.samples
    }


async def test_prometheus_reads_how_much_is_where(harness: Harness) -> None:
    for _ in range(3):
        await harness.add()
    await harness.add(schedule=Schedule(delay=60))
    await harness.claim(harness.source())

    assert await samples(harness, "waystation_jobs", "place") == {
        "waiting": 2,
        "active": 1,
        "delayed": 1,
        "cron": 0,
        "dead": 0,
        "held": 0,
    }


async def test_a_type_is_advised_about_when_it_waits_or_somebody_alive_takes_it(
    harness: Harness,
) -> None:
    now = time.time_ns() // 1_000_000
    piece = DesiredWorkers(workers=3, target_wait_ms=1_000, made_at=now, until=now + 60_000)
    for type in ("waits", "taken", "gone"):
        key = forecasts.key_of(DesiredWorkers, type)
        await harness.redis.hset(key, "routing", forecasts.written(piece).decode())
        await harness.redis.pexpireat(key, piece.until)
    await harness.add("waits")
    for id, type in (("w1", "taken"), ("w2", "gone")):
        profile = Profile(server=id, types=(type,))
        await registry.beat(harness.redis, harness.keys, profile, now=harness.clock.now_ms())
    await harness.redis.delete(harness.keys.worker_at("w2").heartbeat)

    assert await samples(harness, "waystation_workers_wanted", "queue") == {"taken": 3, "waits": 3}
