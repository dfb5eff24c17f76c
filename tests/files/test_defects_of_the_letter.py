"""What would go wrong if the spec were taken at its word."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.crc import key_slot

from tests.files.harness import Harness, harness_on
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Claim, Settled
from waystation.core.settings.section import rows
from waystation.core.telemetry import logs
from waystation.core.telemetry.metrics import Metrics
from waystation.files.job import Job
from waystation.files.options import Layout
from waystation.files.redis import scripts
from waystation.files.settings import FilesSettings

WORKER = "w1"
SETTINGS = frozenset(
    f"{section}.{name}"
    for section, names in {
        "redis": "addr username password db pool_size_multiplier min_idle_conns dial_timeout "
        "read_timeout write_timeout max_retries",
        "worker": "count heartbeat_ttl max_retries backoff.base backoff.max priorities queues "
        "processing_list_pattern heartbeat_key_pattern completed_list dead_letter_list "
        "brpoplpush_timeout",
        "producer": "scan_dir include_globs exclude_globs default_priority high_priority_exts "
        "rate_limit_per_sec rate_limit_key",
        "circuit_breaker": "failure_threshold window cooldown_period min_samples",
        "observability": "metrics_port log_level queue_sample_interval tracing.enabled "
        "tracing.endpoint",
    }.items()
    for name in names.split()
)


class System:
    """One queue of files with one worker, which does one thing at a time."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self._held: dict[str, Claim[Job]] = {}

    @property
    def _source(self) -> Any:
        made = self.harness.sources
        return made[0] if made else self.harness.source(worker=WORKER)

    async def put(self, id: str, *, priority: str = "low") -> None:
        await self.harness.add(f"/{id}", priority=priority, id=id)

    async def fetch(self) -> str | None:
        claims = (await self._source.settle([], claim=1)).claims
        self._held.update((claim.id, claim) for claim in claims)
        return claims[0].id if claims else None

    async def fail(self, id: str) -> None:
        failed = Settled(self._held.pop(id), Failed(RuntimeError("no")))
        await self._source.settle([failed], claim=0)

    def slots(self) -> set[int]:
        keys = self.harness.keys.of(WORKER)
        named = [getattr(keys, name) for name in scripts.settle.header.keys]
        return {key_slot(key.encode()) for key in (*named, *keys.lanes)}


@pytest.fixture
def layout() -> Layout | None:
    return None


@pytest.fixture
async def system(redis_url: str, layout: Layout | None) -> AsyncIterator[System]:
    async with harness_on(redis_url, layout) as harness:
        yield System(harness)


async def test_a_pause_is_not_spent_in_the_hands_of_a_worker(system: System) -> None:
    """F-T7: it sleeps, holds what has failed, and lets everything else wait."""
    system.harness.set(backoff=10)
    await system.put("a")
    await system.put("b")
    await system.fetch()
    began = system.harness.clock.now_ms()
    await system.fail("a")
    assert await system.fetch() == "b"
    assert system.harness.clock.now_ms() == began


async def test_no_job_waits_for_a_queue_that_is_empty(system: System) -> None:
    """F-T12: each of the more urgent queues is waited for, up to a second."""
    await system.put("a")
    assert await blocked_while(system) == ("a", False)


OURS = frozenset(setting.name for setting in rows(FilesSettings))


def test_every_number_of_the_algorithms_can_be_set() -> None:
    """F-T17: the reaper's numbers and the names that metrics may have are nowhere in the schema."""
    needed = {"interval", "scan_count", "budget", "base_delay"}
    assert {*(f"reaper.{name}" for name in needed), "metrics.allowed_queues"} <= OURS


def test_no_setting_of_the_schema_is_missing() -> None:
    """F-T17, T-1, T-2, T-3, T-4, T-5: what was added took nothing away."""
    assert SETTINGS <= OURS


def test_a_log_line_never_ends_the_work() -> None:
    """F-T18: a helper that raises would take the worker with it."""
    stream, metrics = io.StringIO(), Metrics()
    logs.configure(stream=stream, on_rejected=metrics.log_rejected_keys.of().inc)
    log = logs.get_logger("test")
    log.info("a file is done", job_id="7", password="hunter2")
    log.info("a file has failed", job_id="7", error_class="ValueError")
    assert "ValueError" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert metrics.registry.get_sample_value("log_rejected_keys_total") == 1


@pytest.mark.parametrize("layout", [Layout(prefix="{jobqueue}")])
async def test_one_step_stays_in_one_slot_of_a_cluster(system: System) -> None:
    """F-T19: the queue and the worker's list are under names that a cluster puts apart."""
    assert len(system.slots()) == 1


async def blocked_while(system: System) -> tuple[str | None, bool]:
    """Fetch, and tell whether the worker's connection was seen to wait in the meantime."""
    redis, was_blocked = system.harness.redis, False
    fetching = asyncio.create_task(system.fetch())
    while not fetching.done():
        clients = await redis.info("clients")
        was_blocked = was_blocked or clients["blocked_clients"] > 0
    return await fetching, was_blocked
