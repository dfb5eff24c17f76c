"""Files without a handler: kept for workers that may start, then made dead letters."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from waystation.core.clock import Clock
from waystation.core.durations import milliseconds, seconds
from waystation.core.errors import InvalidOption, NoHandler
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store.commands import ask, server_ms
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.files import job as jobs
from waystation.files.directory.globs import Globs, path_in
from waystation.files.fetch.unmatched import PAGE, START, Entry, read
from waystation.files.options import WorkerOptions
from waystation.files.reasons import Reason
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import Record, dead

_log = get_logger(__name__)


class _Heartbeat(msgspec.Struct):
    handlers: tuple[str, ...] = ()


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
        page = await read(
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
                patterns.update(_handlers(beat))
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


def _handlers(beat: Any) -> Sequence[str]:
    try:
        return msgspec.json.decode(beat or b"{}", type=_Heartbeat).handlers
    except (msgspec.DecodeError, UnicodeError):
        return ()


def _globs(pattern: str) -> Globs | None:
    try:
        return Globs([pattern])
    except InvalidOption:
        return None
