"""The reaper: takes jobs back from dead workers; and retries that are due."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from waystation.core.clock import Clock
from waystation.core.durations import seconds
from waystation.core.errors import Malformed, StoreBusy, StoreUnreachable
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store.commands import ask
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import describe, get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.files import job as jobs
from waystation.files.options import ReaperOptions, WorkerOptions
from waystation.files.reasons import Reason
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import Record, abandoned, dead, reason_in
from waystation.files.upkeep.orphans import Orphans

_log = get_logger(__name__)


class Reaper:
    """Examines the registered workers, a page at a time, and remembers where it stopped."""

    def __init__(
        self,
        client: Client,
        keys: FileKeys,
        work: WorkerOptions | None = None,
        options: ReaperOptions | None = None,
        *,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        timer: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._client = client
        self._keys = keys
        self._work = work or WorkerOptions()
        self._options = options or ReaperOptions()
        self._metrics = metrics
        self._clock = clock
        self._timer = timer
        self._uniform = uniform
        self._cursor = "0"
        self._orphans = Orphans(client, keys)

    async def reap(self) -> int:
        """Make one pass within its budget; how many jobs were taken back."""
        deadline = self._timer() + seconds(self._options.budget)
        moved = 0
        while True:
            workers = await self._page()
            for worker in workers:
                moved += await self._reap_alone(worker, deadline)
            if self._cursor == "0" or self._timer() >= deadline:
                break
            # ±50 %, so that reapers that started together do not stay together.
            await asyncio.sleep(seconds(self._options.page_delay) * self._uniform(0.5, 1.5))
        # After the pass, so that a worker registered only now has until the next one to appear.
        await self._orphans.register()
        return moved

    async def _page(self) -> list[str]:
        step = (self._cursor, "COUNT", self._options.count)
        self._cursor, page = _scanned(await ask(self._client, "SSCAN", self._keys.workers, *step))
        return page

    async def _reap_alone(self, worker: str, deadline: float) -> int:
        try:
            return await self._reap_one(worker, deadline)
        except (StoreUnreachable, StoreBusy):
            raise
        except Exception as error:
            # Whatever is wrong with one worker's list must not keep the others waiting.
            _log.error("worker_not_reaped", worker_id=worker, **describe(error))
            return 0

    async def _reap_one(self, worker: str, deadline: float) -> int:
        keys, moved = self._keys.of(worker), 0
        if await ask(self._client, "EXISTS", keys.heartbeat):
            return 0
        while True:
            held: list[bytes] = await ask(
                self._client, "LRANGE", keys.processing, -self._options.count, -1
            )
            taken = [self._record(raw) for raw in reversed(held)]
            there = await scripts.reap(
                self._client,
                keys,
                now=self._clock.now_ms() if self._clock else SERVER_TIME,
                worker=worker,
                events_cap=self._work.events_max_len,
                taken=[part for record in taken for part in record],
            )
            if there is None:
                return moved  # It is alive after all.
            ours = [record for record, was_there in zip(taken, there, strict=True) if was_there]
            moved += len(ours)
            self._report(worker, ours)
            self._count(ours)
            if len(held) < self._options.count or self._timer() >= deadline:
                return moved

    def _record(self, raw: bytes) -> Record:
        keys = self._keys
        try:
            job = jobs.read(raw)
        except Malformed as error:
            return dead(raw, jobs.poison_id(raw), len(keys.queues), 1, raw, Reason.MALFORMED, error)
        lane = keys.lane_of(job.origin_queue, job.priority)
        return abandoned(raw, job, lane, keys.queues[lane - 1], self._work.max_retries)

    def _report(self, worker: str, records: list[Record]) -> None:
        for kind, _, id, lane, attempt, *rest in records:
            log = _log.bind(
                job_id=id, queue=self._keys.queues[int(lane) - 1], worker_id=worker, attempt=attempt
            )
            log.warning("job_stalled")
            if kind == "dead":
                log.error("job_failed", error_code=rest[1], error=rest[2])

    def _count(self, records: list[Record]) -> None:
        if self._metrics is None or not records:
            return
        self._metrics.reaper_jobs_moved.of().inc(len(records))
        self._metrics.reaper_recovered.of().inc(len(records))
        for record in records:
            queue = self._keys.queues[int(record[3]) - 1]
            self._metrics.jobs_failed.of(queue, reason_in(record)).inc()
            is_retry = record[0] == "retry"
            after = self._metrics.jobs_retried if is_retry else self._metrics.jobs_dead_letter
            after.of(queue).inc()


async def promote_due(
    client: Client, keys: FileKeys, work: WorkerOptions | None = None, *, now_ms: int | None = None
) -> int:
    """Move retries that are due into their queues, however busy the workers are."""
    now = SERVER_TIME if now_ms is None else now_ms
    cap = (work or WorkerOptions()).events_max_len
    promoted = 0
    while True:
        moved = await scripts.promote(client, keys, now=now, events_cap=cap, most=100)
        promoted += moved
        if moved < 100:
            return promoted


async def sample_lengths(client: Client, keys: FileKeys, metrics: Metrics) -> None:
    """Set the metrics of the queues' lengths."""
    lists = (*keys.queues, keys.completed, keys.dead_letter)
    for key in lists:
        metrics.queue_length.of(key).set(await ask(client, "LLEN", key))
    unmatched = await ask(client, "XLEN", keys.unmatched)
    metrics.queue_length.of(keys.unmatched).set(unmatched)


def _scanned(answer: Any) -> tuple[str, list[str]]:
    cursor, page = answer
    text = cursor.decode() if isinstance(cursor, bytes) else str(cursor)
    return text, [worker.decode(errors="replace") for worker in page]
