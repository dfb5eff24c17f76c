"""Upkeep: jobs of dead workers, retries that are due, files without a handler."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from waystation.core.clock import SERVER_TIME, Clock
from waystation.core.durations import milliseconds, seconds
from waystation.core.errors import InvalidOption, Malformed, NoHandler, StoreBusy, StoreUnreachable
from waystation.core.store.commands import ask, server_ms
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import describe, get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.files import job as jobs
from waystation.files.directory.globs import Globs, path_in
from waystation.files.fetch import PAGE, START, Entry, read_unmatched
from waystation.files.options import ReaperOptions, WorkerOptions
from waystation.files.reasons import Reason
from waystation.files.redis import lists, scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import Record, abandoned, dead, reason_in
from waystation.files.redis.replies import heartbeat

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


ROUND_S = 30
"""Between two scans of all keys, by any process."""
STEPS_A_PASS = 10


class Orphans:
    """Finds lists of workers that never registered, such as another program left behind.

    They can only be found among all keys of the database, so one process of a fleet scans a part of
    them at a time. Their workers are registered, and the reaper treats them like every other.
    """

    def __init__(self, client: Client, keys: FileKeys) -> None:
        self._client = client
        self._keys = keys
        self._cursor = 0

    async def register(self) -> list[str]:
        """Scan a bounded part of the keys; the workers that were registered."""
        if not await self._is_our_turn():
            return []
        registered: list[str] = []
        for _ in range(STEPS_A_PASS):
            self._cursor, workers = await lists.look_on(self._client, self._keys, self._cursor)
            registered += [worker for worker in workers if await self._register(worker)]
            if not self._cursor:
                break
        return registered

    async def _is_our_turn(self) -> bool:
        # The process that began a scan continues it; others wait until its lock lapses.
        begins = () if self._cursor else ("NX",)
        return bool(await ask(self._client, "SET", self._keys.orphans, "1", "EX", ROUND_S, *begins))

    async def _register(self, worker: str) -> bool:
        keys = self._keys.of(worker)
        oldest: list[bytes] = await ask(self._client, "LRANGE", keys.processing, -1, -1)
        # A wide pattern may match other lists; only one that holds our jobs is a worker's.
        if not oldest or not _is_ours(oldest[0], self._keys):
            return False
        if not await scripts.register(self._client, keys, worker=worker):
            return False
        _log.warning("orphan_found", worker_id=worker)
        return True


def _is_ours(raw: bytes, keys: FileKeys) -> bool:
    try:
        job = jobs.read(raw)
    except Malformed:
        return False
    # Fleets with other queues may share the pattern of these lists.
    return job.origin_queue is None or job.origin_queue in keys.queues


class UnmatchedSweep:
    """Makes dead letters of unmatched files once no live worker has had a handler for long."""

    def __init__(
        self,
        client: Client,
        keys: FileKeys,
        work: WorkerOptions | None = None,
        *,
        worker: str = "",
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._keys = keys
        self._options = work or WorkerOptions()
        self._worker = worker
        self._metrics = metrics
        self._clock = clock
        self._timer = timer
        self._cursor = START
        self._patterns: frozenset[str] = frozenset()
        self._since: float | None = None

    async def sweep(self) -> int:
        """Examine one page of unmatched files; how many became dead letters."""
        if not await self._exists():
            self._since, self._cursor = None, START
            return 0
        await self._read_patterns()
        if not self._is_stable():
            return 0
        page = await read_unmatched(
            self._client, self._keys, after=self._cursor, until=await self._newest_to_end()
        )
        self._cursor = page[-1].id if len(page) == PAGE else START
        return await self._end(self._without_handler(page))

    async def _exists(self) -> bool:
        return bool(await ask(self._client, "EXISTS", self._keys.unmatched))

    async def _read_patterns(self) -> None:
        """Read what live workers have handlers for; one that is missing may come back."""
        workers = list(await ask(self._client, "SMEMBERS", self._keys.workers))
        patterns: set[str] = set()
        for first in range(0, len(workers), PAGE):
            some = workers[first : first + PAGE]
            keys = [self._keys.of(each.decode(errors="replace")).heartbeat for each in some]
            for beat in await ask(self._client, "MGET", *keys):
                patterns.update(heartbeat(beat).handlers)
        if self._since is None or self._patterns - patterns:
            self._since = self._timer()
        self._patterns = frozenset(patterns)

    def _is_stable(self) -> bool:
        """True when no pattern has disappeared for `no_handler_after`."""
        since = self._timer() if self._since is None else self._since
        return self._timer() - since >= seconds(self._options.no_handler_after)

    async def _newest_to_end(self) -> str:
        now_ms = await server_ms(self._client)
        return str(max(0, now_ms - milliseconds(self._options.no_handler_after)))

    def _without_handler(self, page: Sequence[Entry]) -> list[tuple[str, Record]]:
        globs = [found for pattern in sorted(self._patterns) if (found := _globs(pattern))]
        return [
            (entry.id, self._record(entry))
            for entry in page
            if entry.job is None or not any(path_in(entry.job) in each for each in globs)
        ]

    def _record(self, entry: Entry) -> Record:
        job, raw, lane = entry.job, entry.raw, entry.lane
        if job is None:
            return dead(raw, jobs.poison_id(raw), lane, 1, raw, Reason.MALFORMED, "this is no job")
        kind = job.path.suffix or job.path.name
        known = ", ".join(sorted(self._patterns)) or "nothing"
        error = NoHandler(f"no live worker has a handler for {kind!r}; there are some for {known}")
        return dead(raw, job.id, lane, job.attempt, raw, Reason.NO_HANDLER, error)

    async def _end(self, ended: Sequence[tuple[str, Record]]) -> int:
        if not ended:
            return 0
        there = await scripts.dead_letter_unmatched(
            self._client,
            self._keys,
            now=self._clock.now_ms() if self._clock else SERVER_TIME,
            worker=self._worker,
            events_cap=self._options.events_max_len,
            entries=[part for id, record in ended for part in (id, *record[2:])],
        )
        ours = [record for (_, record), was in zip(ended, there, strict=True) if was]
        for _, _, id, lane, _, _, reason, _ in ours:
            queue = self._keys.queues[int(lane) - 1]
            error = "no live worker has a handler for it"
            _log.error("job_failed", job_id=id, queue=queue, error_code=reason, error=error)
            if self._metrics:
                self._metrics.jobs_failed.of(queue, str(reason)).inc()
                self._metrics.jobs_dead_letter.of(queue).inc()
        return len(ours)


def _globs(pattern: str) -> Globs | None:
    try:
        return Globs([pattern])
    except InvalidOption:
        return None
