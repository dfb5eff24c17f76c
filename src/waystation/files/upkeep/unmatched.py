"""Files that nobody has a handler for: left to workers that may come, then set aside."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from waystation.core.clock import Clock
from waystation.core.errors import InvalidOption, NoHandler
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import get_logger
from waystation.core.telemetry.metrics import Metrics
from waystation.files import job as jobs
from waystation.files.directory.globs import Globs, path_in
from waystation.files.fetch import unmatched as handover
from waystation.files.fetch.unmatched import START, Entry
from waystation.files.options import WorkOptions
from waystation.files.reasons import Reason
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.records import Record, dead

_log = get_logger(__name__)


class _Heartbeat(msgspec.Struct):
    handlers: tuple[str, ...] = ()


class Unhandled:
    """Sets files in the handover aside when no live worker has had a handler for them for long."""

    def __init__(
        self,
        client: Client,
        keys: FileKeys,
        work: WorkOptions | None = None,
        *,
        worker: str = "",
        metrics: Metrics | None = None,
        clock: Clock | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._keys = keys
        self._options = work or WorkOptions()
        self._worker = worker
        self._metrics = metrics
        self._clock = clock
        self._timer = timer
        self._cursor = START
        self._patterns: frozenset[str] = frozenset()
        self._since: float | None = None

    async def give_up(self) -> int:
        """Make one pass over a page of the handover; how many files were set aside."""
        if not await self._exists():
            self._since, self._cursor = None, START
            return 0
        await self._ask_who_handles_what()
        if not self._is_settled():
            return 0
        page = await handover.read(
            self._client, self._keys, after=self._cursor, until=await self._oldest_to_leave()
        )
        self._cursor = page[-1].id if len(page) == handover.PAGE else START
        return await self._bury(self._hopeless(page))

    async def _exists(self) -> bool:
        with faults.translated():
            return bool(await self._client.execute_command("EXISTS", self._keys.handover))

    async def _ask_who_handles_what(self) -> None:
        """Learn what live workers have handlers for; whoever is missed may come back."""
        with faults.translated():
            workers = list(await self._client.execute_command("SMEMBERS", self._keys.workers))
            patterns: set[str] = set()
            for first in range(0, len(workers), handover.PAGE):
                some = workers[first : first + handover.PAGE]
                keys = [self._keys.of(each.decode(errors="replace")).heartbeat for each in some]
                for beat in await self._client.execute_command("MGET", *keys):
                    patterns.update(_handlers(beat))
        if self._since is None or self._patterns - patterns:
            self._since = self._timer()
        self._patterns = frozenset(patterns)

    def _is_settled(self) -> bool:
        """Whether nobody with handlers of its own has left for as long as files are left to it."""
        since = self._timer() if self._since is None else self._since
        return self._timer() - since >= self._options.no_handler_s

    async def _oldest_to_leave(self) -> str:
        with faults.translated():
            seconds, micros = await self._client.execute_command("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        return str(max(0, now_ms - round(self._options.no_handler_s * 1000)))

    def _hopeless(self, page: Sequence[Entry]) -> list[tuple[str, Record]]:
        globs = [found for pattern in sorted(self._patterns) if (found := _globs(pattern))]
        return [
            (entry.id, self._record(entry))
            for entry in page
            if entry.job is None or not any(path_in(entry.job) in each for each in globs)
        ]

    def _record(self, entry: Entry) -> Record:
        job, raw, lane = entry.job, entry.raw, entry.lane
        if job is None:
            return dead(raw, jobs.name_of(raw), lane, 1, raw, Reason.MALFORMED, "this is no job")
        kind = job.path.suffix or job.path.name
        known = ", ".join(sorted(self._patterns)) or "nothing"
        error = NoHandler(f"no live worker has a handler for {kind!r}; there are some for {known}")
        return dead(raw, job.id, lane, job.attempt, raw, Reason.NO_HANDLER, error)

    async def _bury(self, hopeless: Sequence[tuple[str, Record]]) -> int:
        if not hopeless:
            return 0
        there = await scripts.give_up(
            self._client,
            self._keys,
            now=self._clock.now_ms() if self._clock else SERVER_TIME,
            worker=self._worker,
            events_cap=self._options.events_max_len,
            entries=[part for id, record in hopeless for part in (id, *record[2:])],
        )
        ours = [record for (_, record), was in zip(hopeless, there, strict=True) if was]
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
