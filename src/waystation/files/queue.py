"""The queue of files: add files, look at jobs, retry what failed."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Any

import msgspec

from waystation.core.codec import as_text
from waystation.core.durations import Duration, possible_instant, seconds
from waystation.core.errors import (
    InvalidInput,
    InvalidOption,
    JobFailed,
    NotFound,
    StoreBusy,
    StoreUnreachable,
)
from waystation.core.events import Product
from waystation.core.line import forecasts, prometheus
from waystation.core.line.forecasts import Forecast
from waystation.core.options import at_least, checked
from waystation.core.runtime.tasks import end
from waystation.core.store.client import StoreClient
from waystation.core.store.commands import newest_id
from waystation.core.store.connection import Store
from waystation.files import events
from waystation.files import job as jobs
from waystation.files.dead_letters import DeadLetters
from waystation.files.directory.intake import Entry, Intake, entry
from waystation.files.directory.scan import PathLike, ScannedFile, examine
from waystation.files.events import Event
from waystation.files.job import Job
from waystation.files.options import Layout, QueueOptions, layout_of
from waystation.files.redis import lists, scripts
from waystation.files.redis.keys import FileKeys
from waystation.files.redis.lists import Place, State
from waystation.files.redis.replies import NEW, heartbeat

_PER_CALL = 500
"""Files added in one step."""
_LOOK_S = 2.0
_LONGEST_LOOK_S = 60.0
"""How often `wait` examines a job whose event may have been trimmed, which reads every list."""


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker that is registered with a queue."""

    name: str
    """The name of the worker."""
    alive: bool
    """False once its heartbeat has lapsed; its jobs are then taken back."""
    seen_at: datetime | None
    """Its latest heartbeat."""
    patterns: tuple[str, ...]
    """The files that it has handlers for."""
    active: int
    """Jobs that it holds."""


@checked
class Queue(StoreClient):
    """A queue of files, with one list for each priority.

    `prefix` starts all its keys, `layout` names them one by one. Jobs of this queue are known to
    Redis by their bytes only, so `get_job` and `state` read every list.
    """

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        prefix: str | None = None,
        layout: Layout | None = None,
        options: QueueOptions | None = None,
    ) -> None:
        super().__init__(url)
        self.keys = FileKeys(layout_of(prefix, layout))
        """The names of its keys in Redis."""
        self._options = options = options or QueueOptions()
        self.dead_letters = DeadLetters(self._connected, self.keys, options)
        """Jobs that failed for good."""
        self.intake = Intake(self._connected, self.keys, options)
        """Internal: the way in for producers, which examine files themselves."""

    # --- add -------------------------------------------------------------------------------------

    async def add(
        self, path: PathLike, *, priority: str | None = None, force: bool = False
    ) -> Job | None:
        """Add one file; None when it was added before and has not changed since.

        Without a priority it gets the least urgent one. `force` adds it in any case.
        """
        if isinstance(path, list | tuple | set):
            raise InvalidInput(f"add takes one path, and add_many takes several, got {path!r}")
        (job,) = await self.add_many([path], priority=priority, force=force)
        return job

    async def add_many(
        self, paths: Iterable[PathLike], *, priority: str | None = None, force: bool = False
    ) -> list[Job | None]:
        """Add files; each one's job, or None when it was added before and has not changed since.

        All of them are examined before the first is added.
        """
        many: Any = paths
        if not isinstance(many, Iterable) or isinstance(many, str | bytes | os.PathLike):
            raise InvalidInput(f"add_many takes a list of paths, and add takes one, got {paths!r}")
        chosen = self.keys.layout.priorities[-1] if priority is None else priority
        lists.require_priority(self.keys, chosen)
        found = await asyncio.to_thread(_examined, list(paths))
        now_ns = time.time_ns()
        entries = [entry(self.keys, file, priority=chosen, now_ns=now_ns) for file in found]
        added: list[Job | None] = []
        for first in range(0, len(entries), _PER_CALL):
            added += await self._add(entries[first : first + _PER_CALL], force=force)
        return added

    async def _add(self, entries: Sequence[Entry], *, force: bool) -> list[Job | None]:
        codes = (await self.intake.put(entries)).codes
        if force:
            # An entry without a digest counts as new; the digest itself is stored by now.
            known = zip(entries, codes, strict=True)
            await self.intake.put([each._replace(digest=b"") for each, code in known if not code])
        return [
            jobs.read(each.payload) if force or code == NEW else None
            for each, code in zip(entries, codes, strict=True)
        ]

    # --- jobs ------------------------------------------------------------------------------------

    async def get_job(self, id: str) -> Job | None:
        """The job of that id; None when it is in none of the lists. Reads every list."""
        found = await lists.find((await self._connected()).redis, self.keys, id)
        return found.job if found else None

    async def get_jobs(
        self,
        *states: State,
        priority: str | None = None,
        offset: int = 0,
        limit: int = 100,
        newest_first: bool = False,
    ) -> list[Job]:
        """Jobs in these states, or in any: state by state, the most urgent priority first.

        `priority` restricts waiting and delayed jobs. What is no job is left out; `payloads` has
        it.
        """
        at_least("offset", offset, 0)
        left = at_least("limit", limit, 1)
        redis: Any = (await self._connected()).redis
        found: list[Job] = []
        for place in await lists.places(redis, self.keys, *states, priority=priority):
            raws = await lists.page(redis, place, offset, left, newest_first=newest_first)
            found += [job for raw in raws if (job := lists.read(raw))]
            offset = 0 if raws else max(0, offset - await lists.length(redis, place))
            left -= len(raws)
            if not left:
                break
        return found

    async def state(self, id: str) -> State | None:
        """The state of a job; None when it is in none of the lists. Reads every list."""
        found = await lists.find((await self._connected()).redis, self.keys, id)
        return found.place.state if found else None

    async def counts(self, *states: State) -> dict[State, int]:
        """The number of jobs in these states, or in each."""
        redis: Any = (await self._connected()).redis
        places = await lists.places(redis, self.keys, *states)
        counts: dict[State, int] = dict.fromkeys(states or lists.STATES, 0)
        for place, count in zip(places, await lists.lengths(redis, places), strict=True):
            counts[place.state] += count
        return counts

    async def cancel(self, *ids: str) -> int:
        """Remove jobs that have not ended, running ones too; how many there were. Reads every list.

        The worker of a running job learns of it with its next renewal, within a third of its
        lease, and stops the handler; whatever that returns is refused.
        """
        return await self._remove(ids, "delayed", "waiting", "unmatched", "active")

    async def retry(self, *ids: str) -> int:
        """Put failed jobs back into their queues; the same as `dead_letters.retry`."""
        return await self.dead_letters.retry(*ids)

    async def wait(self, id: str, timeout: Duration | None = None) -> None:
        """Return when a job is completed; a handler's result is not stored, so there is none.

        JobFailed when it becomes a dead letter, NotFound when the queue knows no such job,
        TimeoutError when it takes longer than `timeout`.
        """
        async with asyncio.timeout(None if timeout is None else seconds(timeout, "timeout")):
            await self._unless_closed(lambda: self._until_ended(id))

    async def _until_ended(self, id: str) -> None:
        store = await self._connected()
        newest = await newest_id(store.hot, self.keys.events)
        if await self._has_ended(store, id):
            return
        following = asyncio.create_task(self._follow_to_end(id, newest))
        pause_s = _LOOK_S
        try:
            # Its event may be trimmed before it is read, so the job is examined now and then.
            while not (await asyncio.wait([following], timeout=pause_s))[0]:
                pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
                with suppress(StoreUnreachable, StoreBusy):
                    if await self._has_ended(store, id):
                        return
            await following
        finally:
            await end([following])

    async def _has_ended(self, store: Store, id: str) -> bool:
        last = await events.last_event_of(store, self.keys, id)
        if last:
            name, reason = as_text(last[b"event"]), as_text(last.get(b"reason", b""))
        else:
            name, reason = _EVENT_OF.get(await self.state(id), ""), ""
        return _has_ended(id, name, reason)

    async def _follow_to_end(self, id: str, after: str) -> None:
        async with aclosing(self._follow(self.keys.events, after)) as pages:
            async for page in pages:
                for event in (Event.read(*entry) for entry in page):
                    reason = event.fields.get("reason", "")
                    if event.job_id == id and _has_ended(id, event.name, reason):
                        return
        raise self._closed_error()

    async def events(self, after: str | None = None) -> AsyncGenerator[Event]:
        """Events as they come; with `after`, also those behind the event of that id.

        `after="0-0"` begins with the oldest event that is kept. They go on after an outage of the
        store, and end when the queue is closed.
        """
        async with aclosing(self._follow(self.keys.events, after)) as pages:
            async for page in pages:
                for entry in page:
                    yield Event.read(*entry)

    async def _remove(self, ids: Sequence[str], *states: State) -> int:
        store, removed, most = await self._connected(), 0, self._options.events_max_len
        for id in ids:
            # A job that moves while its lists are read is found by the second look.
            for _ in range(2):
                spot = await lists.find(store.redis, self.keys, id, *states)
                if spot is None or await lists.remove(store.hot, self.keys, spot, most):
                    removed += spot is not None
                    break
        return removed

    # --- the queue as a whole --------------------------------------------------------------------

    async def pause(self, priority: str) -> bool:
        """Let workers take no more jobs of a priority; False when it was paused before.

        Those that run go on. Workers of other programs do not know of it.
        """
        client = (await self._connected()).hot
        return await scripts.pause(client, self.keys, queue=self._queue_of(priority))

    async def resume(self, priority: str) -> bool:
        """Let workers take jobs of a priority again; False when it was not paused."""
        client = (await self._connected()).hot
        return await scripts.resume(client, self.keys, queue=self._queue_of(priority))

    async def paused_priorities(self) -> list[str]:
        """The priorities that are paused, the most urgent first."""
        store, queues = await self._connected(), self.keys.layout.queues
        paused = set(await store.ask("SMEMBERS", self.keys.paused))
        return [name for name, queue in queues.items() if queue.encode() in paused]

    def _queue_of(self, priority: str) -> str:
        return self.keys.queues[lists.require_priority(self.keys, priority) - 1]

    async def workers(self) -> list[WorkerInfo]:
        """The registered workers, by name."""
        store = await self._connected()
        found: list[WorkerInfo] = []
        for name in await lists.workers(store.redis, self.keys):
            keys = self.keys.of(name)
            beat: bytes | None = await store.ask("GET", keys.heartbeat)
            found.append(_worker(name, beat, active=await store.ask("LLEN", keys.processing)))
        return found

    async def forecast(self, priority: str) -> Forecast:
        """Throughput, remaining time and recommended workers of a priority, from its history.

        `waystation pipeline run` computes it; values that are not fresh are None.
        """
        lists.require_priority(self.keys, priority)
        client = (await self._connected()).hot
        queue = self.keys.layout.queues[priority]
        return await forecasts.forecast(client, queue, product=Product.FILES)

    async def prometheus_text(self) -> str:
        """The lengths of the queue and its forecasts in Prometheus' text format."""
        queues = self.keys.layout.queues
        each_forecast = {queues[priority]: await self.forecast(priority) for priority in queues}
        lengths = await self.lengths()
        keys = self.keys
        shared = (*keys.lanes, keys.unmatched, keys.completed, keys.dead_letter)
        places = {name: lengths.pop(name) for name in shared}
        # Workers come and go, and each would leave a series behind.
        places["processing"] = sum(lengths.values())
        return prometheus.as_text(Product.FILES, places, each_forecast)

    async def lengths(self) -> dict[str, int]:
        """The number of jobs in each list, by the name of its key."""
        redis: Any = (await self._connected()).redis
        places = await lists.places(redis, self.keys)
        counts = await lists.lengths(redis, places)
        found = {place.key: count for place, count in zip(places, counts, strict=True)}
        # Each priority with its retries, then the rest.
        return {**{key: found[key] for key in self.keys.lanes}, **found}

    async def orphans(self) -> dict[str, int]:
        """The number of jobs in lists of workers that never registered; scans the whole database.

        The reaper of a running worker finds them, too, and takes their jobs back.
        """
        store = await self._connected()
        redis: Any = store.redis
        counts: dict[str, int] = {}
        async for worker in lists.orphans_everywhere(redis, self.keys):
            if not await store.ask("SISMEMBER", self.keys.workers, worker):
                processing = self.keys.of(worker).processing
                counts[processing] = await store.ask("LLEN", processing)
        return counts

    async def payloads(self, name: str, count: int = 10) -> list[bytes]:
        """The next jobs of one list as they are in Redis, the next to run first.

        The list is a priority, `unmatched`, `completed` or `dead_letter`, or the key of one.
        """
        at_least("count", count, 1)
        keys = self.keys
        known = {
            **{priority: Place("waiting", key) for priority, key in keys.layout.queues.items()},
            "completed": Place("completed", keys.completed),
            "dead_letter": Place("failed", keys.dead_letter),
            "unmatched": Place("unmatched", keys.unmatched, "stream"),
        }
        by_key = {place.key: place for place in known.values()}
        place = known.get(name) or by_key.get(name)
        if place is None:
            wanted = ", ".join(known)
            raise InvalidOption(f"a list must be one of {wanted}, or its key, got {name!r}")
        return await lists.page((await self._connected()).redis, place, 0, count)


_EVENT_OF: Mapping[State | None, str] = {
    "completed": "completed",
    "failed": "dead",
    None: "removed",
}
"""The event that a state follows from, for jobs whose events are no longer kept."""


def _has_ended(id: str, event: str, reason: str) -> bool:
    match event:
        case "completed":
            return True
        case "dead":
            raise JobFailed(f"job {id} failed for good{reason and f' ({reason})'}")
        case "removed":
            raise NotFound(f"there is no job {id}")
        case _:
            return False


def _examined(paths: Sequence[PathLike]) -> list[ScannedFile]:
    return [examine(path) for path in paths]


def _worker(name: str, beat: bytes | None, *, active: int) -> WorkerInfo:
    read = heartbeat(beat)
    seen_at = possible_instant(read.ts) if read.ts else None
    return WorkerInfo(name, beat is not None, seen_at, read.handlers, active)
