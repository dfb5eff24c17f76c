"""Queue: adds jobs, looks them up, and administers them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, ClassVar, Literal, TypeAlias, Unpack, cast

from msgspec import UNSET

from waystation.bullmq.dead_letters import DeadLetters
from waystation.bullmq.events.event import QueueEvent
from waystation.bullmq.events.stream import NOW, QueueEvents
from waystation.bullmq.groups import Groups
from waystation.bullmq.job import Job, QueueRef
from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.limits import Limits
from waystation.bullmq.metrics import MOST_GROUPS, Metrics, MetricsKind, as_text, read_metrics
from waystation.bullmq.options import JobOptions, instant_ms, stored_options
from waystation.bullmq.parts import BLOCK_S, Part, Reading
from waystation.bullmq.payloads import sweeping
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis import ends, packing, scanning, scripts
from waystation.bullmq.redis.client import BULLMQS_NAMES, QueueClient, client_name
from waystation.bullmq.redis.commands import Logs, page_of, read_logs, sign
from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.packing import Adding, JobLike, NewJob, Packed, Packer
from waystation.bullmq.redis.prefixes import unless_default
from waystation.bullmq.redis.replies import Existing
from waystation.bullmq.schedulers import Schedulers
from waystation.bullmq.scheduling.schedule import RepeatStrategy
from waystation.bullmq.states import STATES, JobState, State, known_states
from waystation.bullmq.steps import send_signal
from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.durations import Duration, milliseconds
from waystation.core.errors import (
    GroupFull,
    InvalidOption,
    NotAdded,
    NotFound,
    StoreError,
    WaystationError,
    WrongState,
)
from waystation.core.events import Product
from waystation.core.line import forecasts
from waystation.core.line.forecasts import Forecast
from waystation.core.options import at_least, checked
from waystation.core.store import faults
from waystation.core.store.commands import ask, server_ms
from waystation.core.store.connection import Store
from waystation.core.store.script import Client

_READ_AT_ONCE = 250
_MOVED_AT_ONCE = 7000
_EVER = "+inf"
WEEK_S = 7 * 86_400

_Added: TypeAlias = Job | WaystationError
"""The job that was added, or the reason why it was refused."""
Cleanable: TypeAlias = Literal[
    "waiting", "wait", "active", "prioritized", "delayed", "completed", "failed"
]
"""A state that `clean` takes."""
Retryable: TypeAlias = Literal["failed", "completed"]
"""A state that `retry_all` takes."""


@checked
class Queue(QueueClient):
    """A queue: adds jobs, looks them up, and administers them.

    `prefix` starts the names of all keys, and must be the same for all who use the queue.
    `default_job_options` are the options of jobs that are added without any. A job may have up to
    `size_limit` bytes of data and options; store larger things elsewhere and send their address.
    `repeat_strategy` reads patterns of custom schedules. `payloads` encrypts data and results, or
    keeps large ones outside the store.
    """

    _blocks: ClassVar[bool] = False
    """Whether its client blocks."""
    _called_elsewhere = BULLMQS_NAMES

    def __init__(
        self,
        name: str,
        url: str | Store | None = None,
        *,
        prefix: str = PREFIX,
        default_job_options: JobOptions | None = None,
        size_limit: int = codec.PAYLOAD_LIMIT,
        repeat_strategy: RepeatStrategy | None = None,
        payloads: PayloadOptions | None = None,
    ) -> None:
        super().__init__(name, url, prefix=prefix)
        # Without options even an envelope is shown as it is stored.
        self._sealing = Sealing(payloads, here=self._blocks) if payloads else None
        self._defaults = default_job_options or JobOptions()
        self._packer = Packer(self._defaults, at_least("size_limit", size_limit, 1))
        self._adding = Adding(self._request)
        self._is_signed = False
        self._events: QueueEvents | None = None
        self.schedulers = Schedulers(
            self._connect_queue,
            self._connect_durably,
            self._defaults,
            repeat_strategy,
            self._sealing,
        )
        """Schedulers, which add jobs again and again."""
        self.limits = Limits(self._connect_queue)
        """Limits of concurrency and rate, over all workers."""
        self.groups = Groups(self._connect_queue)
        """Groups of jobs, which take turns: their limits, weights and pauses."""
        self.dead_letters = DeadLetters(self)
        """Jobs that have failed for good."""

    # Adding

    async def add(
        self,
        name: str,
        data: Any = UNSET,
        options: JobOptions | None = None,
        **given: Unpack[JobKeywords],
    ) -> Job:
        """Add a job; its options are a `JobOptions`, or keywords, which count before it.

        The data is any JSON value, and an empty object when none is given. When there is a job with
        this id already, or the job is a duplicate, the existing job is returned as it is stored.
        """
        chosen = packing.merged(options, given, self._defaults)
        packed = await self._packed([NewJob(name, data, chosen)])
        store = self._store or await self._connected()
        [added] = self._as_added(store, packed, [await self._adding.add(store, packed[0])])
        if isinstance(added, WaystationError):
            raise added
        return added

    async def add_many(self, jobs: Iterable[JobLike]) -> list[Job]:
        """Add many jobs, each a name, its data and perhaps options.

        All of them are checked before the first is sent; then they go a few hundred at a time, and
        none after a batch that the store has refused.
        """
        packed = await self._packed(jobs)
        store = await self._connected()
        sent: list[_Added] = []
        try:
            await self._send_batches(store, packing.chunks(packed), sent)
        except StoreError as error:
            error.add_note(f"at least {len(sent)} of {len(packed)} jobs had been added")
            raise
        return _all_of(sent)

    # Check and encode, send, read the answers. A script that fails has added nothing. If the
    # process ends before the answer, the jobs may be there although nobody knows; whoever adds them
    # again adds them twice, unless they have a `job_id` or a deduplication.

    async def _packed(self, jobs: Iterable[JobLike]) -> list[Packed]:
        if self._sealing is None:
            return self._packer.pack(jobs)
        return self._packer.pack(await self._sealing.jobs(self.name, jobs, self._defaults))

    async def _send_batches(
        self, store: Store, batches: Iterable[list[Packed]], sent: list[_Added]
    ) -> None:
        # Each batch waits for the reply to the last: accepted after one that was refused, it would
        # be ahead of it once that is sent again. Meanwhile the reply before is read, and the next
        # batch is packed, so that the store waits for neither.
        last: list[Packed] = []
        under_way: asyncio.Task[list[Any]] | None = None
        for batch in batches:
            request = self._prepared(store, batch)
            ids = await self._signed(store, under_way) if under_way else []
            under_way = asyncio.create_task(request())
            sent += self._as_added(store, last, ids)
            last = batch
        if under_way:
            sent += self._as_added(store, last, await self._signed(store, under_way))

    async def _request(self, store: Store, packed: list[Packed]) -> list[Any]:
        return await self._signed(store, self._prepared(store, packed)())

    def _prepared(
        self, store: Store, packed: list[Packed]
    ) -> Callable[[], Coroutine[Any, Any, list[Any]]]:
        return scripts.add.prepare(
            store.durable, self._keys, now=SERVER_TIME, jobs=list(chain.from_iterable(packed))
        )

    async def _signed(self, store: Store, request: Awaitable[list[Any]]) -> list[Any]:
        ids = await request
        if not self._is_signed:
            # Not when it is opened: whoever only reads a queue must not make one.
            self._is_signed = await sign(store.hot, self._keys)
        return ids

    def _as_added(self, store: Store, packed: list[Packed], ids: Sequence[Any]) -> list[_Added]:
        queue = self._ref(store.hot)
        now = b"%d" % (time.time_ns() // 1_000_000)
        return [
            _refusal(each[0].decode(), id)
            if isinstance(id, int)
            else _as_stored(id, each, queue, now)
            for id, each in zip(ids, packed, strict=True)
        ]

    # Looking up

    async def get_job(self, job_id: str) -> Job | None:
        """The job as it is now; None when there is none."""
        found = await self._read([job_id])
        if found and self._sealing is not None:
            await self._sealing.fetch(found[0])
        return found[0] if found else None

    async def get_jobs(
        self,
        *states: State,
        offset: int = 0,
        limit: int | None = 100,
        newest_first: bool = False,
    ) -> list[Job]:
        """Jobs of these states, or of all, in this order; a page of each state.

        `offset` and `limit` count in each state; `limit` None means all. Ids without a job are left
        out, and those after them fill the page. Data that is kept outside the store is read when it
        is looked at; `await job.refresh()` before that does not hold up the loop.
        """
        found: dict[str, Job] = {}
        for state in known_states(states or STATES):
            page = await self._page(state, offset, limit, newest_first=newest_first)
            found |= {job.id: job for job in page}
        return list(found.values())

    async def state(self, job_id: str) -> JobState:
        """The state that a job is in."""
        client, keys = await self._connect_queue()
        return cast(JobState, await scripts.state_of(client, keys, id=job_id))

    async def wait(self, job_id: str, timeout: Duration | None = None) -> Any:
        """Wait until a job is finished, and return its result.

        Raises `JobFailed` when it fails for good, and `TimeoutError` after `timeout`.
        """
        stored = await (await self._listener()).wait(job_id, timeout)
        return stored if self._sealing is None else await self._sealing.opened_soon(stored)

    async def events(self, after: str | None = None) -> AsyncGenerator[QueueEvent]:
        """Events of the queue as they happen, or after the event with this id."""
        listener = await self._listener()
        async with contextlib.aclosing(listener.listen(NOW if after is None else after)) as events:
            async for event in events:
                yield event

    async def signal(self, job_id: str, signal: str, data: Any = None) -> bool:
        """Send a signal to a job that waits for it, or will; False when the job has ended."""
        client, keys = await self._connect_durably()
        return await send_signal(client, keys, job_id, signal, data, self._sealing or Sealing())

    async def stream(self, job_id: str, after: str = "0") -> AsyncGenerator[Part]:
        """The job's output in parts, as it is emitted, until the job ends.

        A reader who comes back gives the id of the last part it got as `after`. Raises `JobFailed`
        after the last part when the job has failed for good.
        """
        hot, keys = await self._connect_queue()
        async with self._reader(BLOCK_S) as client:
            reading = Reading(client, hot, keys, job_id, after)
            while (parts := await self._unless_closed(reading.more)) is not None:
                for part in parts:
                    yield part

    async def logs(
        self,
        job_id: str,
        offset: int = 0,
        limit: int | None = None,
        *,
        newest_first: bool = False,
    ) -> Logs:
        """Lines of a job's log; `limit` None means all."""
        client, keys = await self._connect_queue()
        return await read_logs(client, keys.of(job_id), offset, limit, newest_first=newest_first)

    async def get_deduplication_job_id(self, deduplication_id: str) -> str | None:
        """The id of the job that owns a deduplication id."""
        client, keys = await self._connect_queue()
        owner = await ask(client, "GET", f"{keys.base}de:{deduplication_id}")
        return owner.decode() if owner else None

    # Numbers

    async def counts(self, *states: State) -> dict[State, int]:
        """How many jobs are in each of these states, or in all."""
        client, keys = await self._connect_queue()
        wanted = known_states(states or STATES)
        counted = await scripts.count_jobs(client, keys, states=wanted)
        return dict(zip(wanted, counted, strict=True))

    async def count(self) -> int:
        """How many jobs are still to be done, without those that are active."""
        waiting = ("waiting", "prioritized", "delayed", "waiting-children")
        return sum((await self.counts(*waiting)).values())

    async def counts_per_priority(self, priorities: Sequence[int]) -> dict[int, int]:
        """How many jobs wait with each of the priorities."""
        client, keys = await self._connect_queue()
        unique = list(dict.fromkeys(priorities))
        counted = await scripts.count_priorities(client, keys, priorities=unique)
        return dict(zip(unique, counted, strict=True))

    async def forecast(self) -> Forecast:
        """What the history says of the queue: its throughput, when it is empty, workers needed.

        `waystation pipeline run` computes it; values that are not fresh are None.
        """
        client, keys = await self._connect_queue()
        prefix = unless_default(keys.prefix)
        return await forecasts.forecast(client, self.name, product=Product.BULLMQ, prefix=prefix)

    async def metrics(
        self, kind: MetricsKind, offset: int = 0, limit: int | None = None
    ) -> Metrics:
        """How many jobs were completed or failed, by the minute, the newest first."""
        client, keys = await self._connect_queue()
        return await read_metrics(client, keys, kind, *page_of(offset, limit))

    async def prometheus_text(self) -> str:
        """The queue's numbers in Prometheus' text format."""
        client, keys = await self._connect_queue()
        completed = await read_metrics(client, keys, "completed", 0, 0)
        failed = await read_metrics(client, keys, "failed", 0, 0)
        groups = await scripts.count_groups(client, keys, most=MOST_GROUPS)
        forecast = await self.forecast()
        return as_text(self.name, await self.counts(), completed, failed, groups, forecast)

    async def workers(self) -> list[dict[str, str]]:
        """The workers of this queue, as the server lists their connections."""
        store = await self._connected()
        name = client_name(self._keys)
        with faults.translated():
            found = await store.redis.client_list()
        return [
            {**client, "name": self.name, "rawname": client["name"]}
            for client in found
            if client["name"] == name or client["name"].startswith(f"{name}:w:")
        ]

    async def meta(self) -> dict[str, str]:
        """The settings that are stored with the queue: limits, pause, version, cap of events."""
        client, keys = await self._connect_queue()
        names = ("opts.maxLenEvents", "version", "paused", "concurrency", "max", "duration")
        values = await ask(client, "HMGET", keys.meta, *names)
        known = zip(names, values, strict=True)
        return {name: codec.as_text(value) for name, value in known if value}

    async def version(self) -> str | None:
        """The library that made the queue, and its version."""
        return (await self.meta()).get("version")

    # Pausing

    async def pause(self, *, by: str = "") -> None:
        """Start no jobs until the queue is resumed; active ones go on. The event names `by`."""
        client, keys = await self._connect_queue()
        while await scripts.pause(client, keys, by=by, most=_MOVED_AT_ONCE):
            pass

    async def resume(self) -> None:
        """Start jobs again."""
        client, keys = await self._connect_queue()
        while await scripts.resume(client, keys, most=_MOVED_AT_ONCE):
            pass

    async def is_paused(self) -> bool:
        """True when the queue is paused."""
        client, keys = await self._connect_queue()
        return bool(await ask(client, "HEXISTS", keys.meta, "paused"))

    # Running again

    async def retry(self, *ids: str, state: Retryable | None = None) -> int:
        """Run these finished jobs again, or those of one state; returns how many there were."""
        if state not in (None, "failed", "completed"):
            raise InvalidOption(f"only failed and completed jobs can be retried, got {state!r}")
        client, keys = await self._connect_queue()
        retried = 0
        for job in await self._read(ids):
            for each in ("failed", "completed") if state is None else (state,):
                code = await ends.retry_finished(client, keys, job.id, each, lifo=job.options.lifo)
                if code >= 0:
                    # Asked again, a job that has been completed meanwhile would run once more.
                    retried += 1
                    break
        return retried

    async def retry_all(
        self,
        state: Retryable = "failed",
        *,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> int:
        """Run all finished jobs of a state again that ended up to `until`; returns how many."""
        if state not in ("failed", "completed"):
            raise InvalidOption(f"only failed and completed jobs can be retried, got {state!r}")
        client, keys = await self._connect_queue()
        last = await server_ms(client) if until is None else instant_ms("until", until)
        return await ends.wait_again(client, keys, state, last, limit)

    async def promote_all(self, *, limit: int | None = None) -> int:
        """Make all delayed jobs ready to run now, at most `limit`; returns how many."""
        return await ends.wait_again(*await self._connect_queue(), "delayed", _EVER, limit)

    # Removing

    async def cancel(self, *ids: str, reason: str = "") -> int:
        """Make jobs fail for good that have not ended, running ones too; returns how many.

        The worker of a running job notices it when it next renews its lock, and stops the handler.
        """
        return sum([await job.cancel(reason) for job in await self._read(ids)])

    async def drain(self, delayed: bool = False) -> int:
        """Remove all jobs that wait and, with `delayed`, those that are delayed; returns how many.

        The next jobs of schedulers stay.
        """
        states = ["wait", "paused", "grouped", "prioritized", *(["delayed"] if delayed else [])]
        client, keys = await self._connect_queue()
        return sum([await ends.empty(client, keys, state) for state in states])

    async def clean(
        self, grace: Duration, limit: int = 1000, state: Cleanable = "completed"
    ) -> list[str]:
        """Remove jobs of a state that are older than `grace`, at most `limit`, or all with 0.

        Returns the ids of the jobs removed.
        """
        ms = milliseconds(grace, "grace")
        at_least("limit", limit, 0)
        return await ends.clean(*await self._connect_queue(), state, grace=ms, limit=limit)

    async def obliterate(self, *, force: bool = False) -> None:
        """Delete the queue with everything in it; `force` deletes active jobs, too."""
        client, keys = await self._connect_queue()
        more = 1
        while more == 1:
            more = await scripts.obliterate(
                client, keys, most=ends.SWEPT_AT_ONCE, force="1" if force else ""
            )
        if more < 0:
            raise WrongState(f"the queue {self.name} has active jobs: `force` deletes them, too")

    async def remove(
        self, job_id: str, *, remove_children: bool = True, by: str = "", state: State | None = None
    ) -> bool:
        """Remove a job and, by default, its children; False when held, or not in that `state`."""
        only = None if state is None else known_states(state)[0]
        client, keys = await self._connect_queue()
        return await ends.remove_job(
            client, keys, job_id, remove_children=remove_children, by=by, state=only
        )

    async def remove_orphans(
        self, *, count: int = 1000, limit: int = 0, dry_run: bool = False
    ) -> list[str]:
        """Delete jobs that are in no state, at most `limit`, or all with 0; returns their ids.

        With `dry_run` they are found and stay. All keys of the store are scanned, about `count` at
        a time.
        """
        client, keys = await self._connect_queue()
        found: list[str] = []
        async for ids in scanning.suspects(await self._connected(), keys, count):
            found += await scripts.remove_orphans(
                client,
                keys,
                most=limit - len(found) if limit else len(ids),
                dry_run="1" if dry_run else "",
                ids=ids,
            )
            if limit and len(found) >= limit:
                break
        return found

    async def remove_deduplication_key(self, deduplication_id: str) -> bool:
        """Allow another job with this deduplication id; False when no job owned it."""
        client, keys = await self._connect_queue()
        return bool(await ask(client, "DEL", f"{keys.base}de:{deduplication_id}"))

    async def trim_events(self, max_len: int) -> int:
        """Keep about `max_len` of the newest events; returns how many were deleted."""
        at_least("max_len", max_len, 0)
        client, keys = await self._connect_queue()
        return await ask(client, "XTRIM", keys.events, "MAXLEN", "~", max_len)

    async def sweep_blobs(self, *, older: Duration = WEEK_S, dry_run: bool = False) -> int:
        """Delete blobs older than that which no job mentions any more; returns how many.

        All jobs under the queue's prefix are read, because a parent may be in another queue.
        """
        blobs = self._sealing and self._sealing.blobs
        return await sweeping.sweep(
            await self._connected(), blobs, [self._keys], older=older, dry_run=dry_run
        )

    # Internal: reading

    async def _page(
        self, state: State, offset: int, limit: int | None, *, newest_first: bool
    ) -> list[Job]:
        client, keys = await self._connect_queue()

        async def ids(first: int, last: int) -> list[str]:
            return await scripts.list_ids(
                client, keys, state=state, first=first, last=last, asc=int(not newest_first)
            )

        start, end = page_of(offset, limit)
        listed = await ids(start, end)
        jobs, many = await self._read(listed), len(listed)
        while limit is not None and len(jobs) < many and listed:
            start += limit
            listed = await ids(start, start + limit - 1)
            jobs += await self._read(listed)
        return jobs[:many]

    async def _read(self, ids: Sequence[str]) -> list[Job]:
        client, keys = await self._connect_queue()
        queue, jobs = self._ref(client), list[Job]()
        for first in range(0, len(ids), _READ_AT_ONCE):
            some = ids[first : first + _READ_AT_ONCE]
            found = await scripts.read_jobs(client, keys, ids=some)
            jobs += [
                Job(id, fields, queue) for id, fields in zip(some, found, strict=True) if fields
            ]
        return jobs

    def _ref(self, client: Client) -> QueueRef:
        return QueueRef(client, self._keys, sealing=self._sealing)

    async def _listener(self) -> QueueEvents:
        store = await self._connected()
        if self._events is None:
            self._events = QueueEvents(self.name, store, prefix=self._keys.prefix)
        return self._events

    async def _close(self) -> None:
        if self._events is not None:
            await self._events.close()
        await super()._close()


def _all_of(jobs: list[_Added]) -> list[Job]:
    """All jobs; raises when one was refused."""
    added = [job for job in jobs if isinstance(job, Job)]
    if len(added) == len(jobs):
        return added
    refused = {n: job for n, job in enumerate(jobs) if isinstance(job, WaystationError)}
    raise NotAdded(refused, [job if isinstance(job, Job) else None for job in jobs])


def _refusal(name: str, code: int) -> WaystationError:
    """Why a job was refused."""
    if code == -5:
        return NotFound(f"the parent of {name!r} does not exist")
    if code == -7:
        return WrongState(f"{name!r} already has another parent")
    if code == -11:
        return GroupFull(
            f"{name!r} was refused: as many jobs wait in its group, or in the parent of that, "
            "as max_size allows"
        )
    return WrongState(f"{name!r} was refused with {code}")


def _as_stored(id: str, packed: Packed, queue: QueueRef, now_ms: bytes) -> Job:
    """The job as it is stored; a new one as it was sent, with our clock instead of the server's."""
    if isinstance(id, Existing) and id.fields:
        return Job(str(id), id.fields, queue)
    name, data, opts, wanted = packed
    fields = {b"name": name, b"data": data, b"opts": opts, b"timestamp": now_ms}
    if wanted:
        asked = stored_options(opts).raw
        for field in ("timestamp", "delay", "priority"):
            if field in asked:
                fields[field.encode()] = b"%d" % asked[field]
        if deduplication := asked.get("de"):
            fields[b"deid"] = deduplication["id"].encode()
    return Job(str(id), fields, queue)
