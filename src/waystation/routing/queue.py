"""The queue: add jobs, look at them, cancel and retry them."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal, NamedTuple, TypeAlias, Unpack, cast

from waystation.core import codec, identity
from waystation.core.clock import SERVER_TIME, Clock, SystemClock
from waystation.core.codec import PAYLOAD_LIMIT, as_text, check_size
from waystation.core.durations import Duration, seconds
from waystation.core.errors import (
    InvalidOption,
    JobFailed,
    Malformed,
    NotFound,
    StoreError,
    WaystationError,
)
from waystation.core.events import Product
from waystation.core.line import forecasts, prometheus
from waystation.core.line.forecasts import Forecast
from waystation.core.options import at_least, checked, of_kind, with_keywords
from waystation.core.store.client import StoreClient
from waystation.core.store.commands import Entry, newest_id, server_ms
from waystation.core.store.connection import Store
from waystation.core.store.reconnect import reconnecting
from waystation.core.store.script import texts
from waystation.routing.coverage import Covered, coverage, knows
from waystation.routing.dead_letters import DeadLetters
from waystation.routing.events import Event
from waystation.routing.job import Job
from waystation.routing.keywords import JobKeywords
from waystation.routing.limits import Limits
from waystation.routing.options import JobOptions
from waystation.routing.reasons import Reason, why
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import NAMESPACE, RoutingKeys, checked_type
from waystation.routing.redis.replies import Added
from waystation.routing.redis.wire import rewritten, written
from waystation.routing.registry import WorkerInfo, registered
from waystation.routing.results import KEPT_S, CancelledByCaller, Progress, Result, failure
from waystation.routing.schedules import Schedules, next_slot
from waystation.routing.target import route

PER_CALL = 500
"""Jobs added, cancelled or listed in one step."""
SORTED = 1_000
"""So many active or held jobs are listed in order."""
LOOK_S = 5.0
"""How often whoever waits for a job looks at its state, whatever events come."""

JobState: TypeAlias = Literal[
    "waiting", "active", "delayed", "held", "cron", "dead", "completed", "failed"
]
"""`held` jobs wait for other jobs, `cron` ones are schedules, `failed` ones were cancelled."""

STATES: tuple[JobState, ...] = ("waiting", "active", "delayed", "held", "cron", "dead")
"""The states in which a queue lists its jobs; of those that have ended only results are kept."""


class NewJob(NamedTuple):
    """One of many jobs to add at once."""

    type: str
    data: object = None
    options: JobOptions = JobOptions()


Record: TypeAlias = tuple[str | bytes | int, ...]
"""A job as the script that adds it takes it."""


def record(
    job: NewJob, *, now_ms: int, store_ms: int | None = None, payload_limit: int = PAYLOAD_LIMIT
) -> Record:
    """Make a job ready for the script, checked; `store_ms` is the store's time. Internal."""
    of_kind("each of many jobs", job, NewJob)
    of_kind("options", job.options, JobOptions)
    options, schedule = job.options, job.options.schedule
    id = options.job_id or identity.ordered_id(now_ms)
    data = written(id, checked_type(job.type), job.data, options, now_ms)
    check_size(len(data), payload_limit)
    kind, due = "waiting", ""
    if schedule.cron is not None:
        slot = next_slot(schedule.cron, schedule.timezone, now_ms if store_ms is None else store_ms)
        if slot is None:
            raise InvalidOption(f'Invalid cron expression "{schedule.cron}": it never fires')
        kind, due = "cron", str(slot)
    elif schedule.run_at is not None:
        kind, due = "delayed", str(schedule.run_at_ms)
    elif schedule.delay:
        kind, due = "delayed", f"+{schedule.delay_ms}"
    waits_for = codec.encode(options.depends_on) if options.depends_on else ""
    where = route(job.type, options.target, options.priority, options.limit)
    return (kind, id, data, where, due, options.idempotency_key or "", KEPT_S, waits_for)


@checked
class Queue(StoreClient):
    """The queue of all jobs under one prefix; a job's type decides which handler runs it."""

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        prefix: str = NAMESPACE,
        payload_limit: int = PAYLOAD_LIMIT,
        clock: Clock | None = None,
    ) -> None:
        """`payload_limit` is the largest JSON of a job in bytes; `clock` is for tests."""
        super().__init__(url)
        self.keys = RoutingKeys(prefix)
        """The names of its keys in Redis."""
        self._payload_limit = payload_limit
        # Without a clock the server's time counts.
        self._clock = clock
        self.dead_letters = DeadLetters(self._connected, self.keys, now=self._now)
        """Jobs that failed for good."""
        self.limits = Limits(self._connected, self.keys)
        """Limits of each type over all workers."""
        self.schedules = Schedules(self._connected, self.keys, self.cancel)
        """Cron schedules."""

    @property
    def prefix(self) -> str:
        """What every key of it starts with."""
        return self.keys.namespace

    # --- add -------------------------------------------------------------------------------------

    async def add(
        self,
        type: str,
        data: object = None,
        options: JobOptions | None = None,
        **given: Unpack[JobKeywords],
    ) -> Job:
        """Add a job; keywords are the fields of `JobOptions` and count before `options`.

        Where another job has the same id or idempotency key, none is added, and the other one is
        returned; if that has ended, only its id is left.
        """
        options = options or JobOptions()
        if given:
            of_kind("options", options, JobOptions)
            options = with_keywords(options, given, of="a job")
        (job,) = await self.add_many([NewJob(type, data, options)])
        return job

    async def add_many(self, jobs: Sequence[NewJob]) -> list[Job]:
        """Add many jobs, all checked before the first is added; they may wait for each other.

        A few hundred are added in one step, all of them or none.
        """
        now_ms = (self._clock or SystemClock()).now_ms()
        # A schedule begins by the clock that it is fired by, whatever the producer's says.
        store_ms = await self._store_ms() if any(map(_repeats, jobs)) else None
        records = [
            record(job, now_ms=now_ms, store_ms=store_ms, payload_limit=self._payload_limit)
            for job in jobs
        ]
        if order := _parents_first([(str(each[1]), each[7]) for each in records]):
            found = await self._add([records[place] for place in order])
            added = [each for _, each in sorted(zip(order, found, strict=True))]
        else:
            added = await self._add(records)
        stands = _stands(records, added)
        return [
            Job(each.id, each.data)
            if each.data
            else Job(each.id, cast(bytes, _renamed(record, stands)[2]), type=job.type)
            for each, record, job in zip(added, records, jobs, strict=True)
        ]

    async def _add(self, records: Sequence[Record]) -> list[Added]:
        client = (await self._connected()).durable
        added: list[Added] = []
        for first in range(0, len(records), PER_CALL):
            stands = _stands(records, added)
            some = [_renamed(each, stands) for each in records[first : first + PER_CALL]]
            try:
                added += await scripts.dispatch(
                    client,
                    self.keys,
                    now=self._now(),
                    jobs=[part for record in some for part in record],
                )
            except WaystationError as error:
                error.add_note(f"at least {len(added)} of {len(records)} jobs had been added")
                raise
        return added

    # --- one job ---------------------------------------------------------------------------------

    async def get_job(self, id: str) -> Job | None:
        """A job that has not been completed or cancelled; None when there is no such job."""
        found = await self._get(self.keys.of(id).data)
        return Job(id, found) if found else None

    async def state(self, id: str) -> JobState | None:
        """The state of a job; None when it is not known, or ended more than a day ago.

        A job that waits for its next attempt is delayed.
        """
        store = await self._connected()
        found = await store.ask("GET", self.keys.of(id).status)
        if found == b"delayed" and await store.ask("HEXISTS", self.keys.held, id):
            return "held"
        return cast(JobState, as_text(found)) if found else None

    async def result(self, id: str) -> Result | None:
        """How the last attempt at a job ended; None when none has, or more than a day ago."""
        found = await self._get(self.keys.of(id).result)
        return codec.decode(found, Result) if found else None

    async def progress(self, id: str) -> Progress | None:
        """How far a job's handler is; None when it has not reported it."""
        found = await self._get(self.keys.of(id).progress)
        return codec.decode(found, Progress) if found else None

    async def why(self, id: str) -> list[Reason]:
        """All reasons why a job waits, runs or has ended; none when the job is not known."""
        return await why((await self._connected()).hot, self.keys, id, now=self._now())

    async def wait(self, id: str, timeout: Duration | None = None) -> Any:
        """Return a job's result when it is completed.

        JobFailed when it becomes a dead letter or is cancelled, NotFound when there is no such
        job, TimeoutError with what keeps it when it takes longer than `timeout`.
        """
        try:
            async with asyncio.timeout(None if timeout is None else seconds(timeout, "timeout")):
                if ended := await self._ended(id):
                    return ended.data
                return await self._unless_closed(lambda: reconnecting(lambda: self._result_of(id)))
        except TimeoutError:
            sentence = f"job {id} has not finished within {timeout} s"
            with suppress(StoreError):
                reasons = [reason.text for reason in await self.why(id)]
                sentence += f": {'; '.join(reasons)}"
            raise TimeoutError(sentence) from None

    async def _result_of(self, id: str) -> Any:
        store = await self._connected()
        newest, looked = await newest_id(store.hot, self.keys.events), time.monotonic()
        if ended := await self._ended(id):
            return ended.data
        async with aclosing(self._follow(self.keys.events, newest)) as pages:
            async for page in pages:
                # Its event may have been trimmed before it was read, so the state is asked as well.
                is_old = time.monotonic() - looked >= LOOK_S
                if not page or is_old or _may_have_ended(id, page):
                    looked = time.monotonic()
                    if ended := await self._ended(id):
                        return ended.data
        raise self._closed_error()

    async def cancel(self, *ids: str, by: str = "") -> int:
        """Stop jobs that have not ended, running ones too; how many there were.

        The worker of a running job is told at once and stops its handler, which keeps its place
        under a limit until it has ended. `by` names whoever cancels them in the event.
        """
        error = CancelledByCaller("the job was cancelled")
        client, stopped = (await self._connected()).hot, 0
        for first in range(0, len(ids), PER_CALL):
            found = await scripts.cancel(
                client,
                self.keys,
                now=self._now(),
                keep_s=KEPT_S,
                result=failure(error, (self._clock or SystemClock()).now_ms(), 0),
                by=by,
                ids=ids[first : first + PER_CALL],
            )
            stopped += sum(found)
        return stopped

    async def retry(self, *ids: str) -> int:
        """Run dead letters again; the same as `dead_letters.retry`."""
        return await self.dead_letters.retry(*ids)

    # --- all jobs --------------------------------------------------------------------------------

    async def get_jobs(
        self,
        *states: JobState,
        offset: int = 0,
        limit: int = 100,
        newest_first: bool = False,
    ) -> list[Job]:
        """Jobs in these states, or in any: state by state. What cannot be read is left out.

        Where more than a thousand are active or held, those come in no order.
        """
        left = at_least("limit", limit, 1)
        at_least("offset", offset, 0)
        store = await self._connected()
        found: list[Job] = []
        sizes = await self.counts(*states)
        for state, size in sizes.items():
            some = (
                await self._ids(state, size, offset, left, newest_first=newest_first)
                if offset < size
                else []
            )
            offset = max(0, offset - size)
            left -= len(some)
            if some:
                raws = await store.ask("MGET", *(self.keys.of(id).data for id in some))
                found += _readable(zip(some, raws, strict=True))
            if not left:
                break
        return found

    async def counts(self, *states: JobState) -> dict[JobState, int]:
        """The number of jobs in these states, or in each."""
        store = await self._connected()
        wanted = _listed(states)
        lengths = await asyncio.gather(
            *(store.ask(_SIZES[each], self._place(each)) for each in wanted)
        )
        return dict(zip(wanted, lengths, strict=True))

    async def events(self, after: str | None = None) -> AsyncGenerator[Event]:
        """Events as they come; with `after`, also those behind the event of that id.

        `after="0-0"` begins with the oldest event that is kept. They go on after an outage of the
        store, and end when the queue is closed.
        """
        async with aclosing(self._follow(self.keys.events, after)) as pages:
            async for page in pages:
                for entry in page:
                    yield Event.read(*entry)

    # --- the queue as a whole --------------------------------------------------------------------

    async def pause(self, type: str, *, by: str = "") -> bool:
        """Hand out no more jobs of a type; False when it was paused before.

        `by` names whoever pauses it in the event.
        """
        return await scripts.pause(
            (await self._connected()).hot,
            self.keys,
            now=self._now(),
            queue=checked_type(type),
            by=by,
        )

    async def resume(self, type: str) -> bool:
        """Hand out jobs of a type again; False when it was not paused."""
        return await scripts.resume(
            (await self._connected()).hot, self.keys, now=self._now(), queue=checked_type(type)
        )

    async def is_paused(self, type: str) -> bool:
        """Whether a type is paused."""
        return checked_type(type) in await self.paused_types()

    async def paused_types(self) -> list[str]:
        """The types that are paused."""
        store = await self._connected()
        return sorted(texts(await store.ask("SMEMBERS", self.keys.paused)))

    async def workers(self) -> list[WorkerInfo]:
        """The registered workers, by name."""
        return await registered((await self._connected()).hot, self.keys)

    async def coverage(self) -> list[Covered]:
        """Waiting jobs by their needs, with the workers that fit and the reasons why none runs."""
        return await coverage((await self._connected()).hot, self.keys, now=self._now())

    async def knows(self, type: str) -> bool:
        """Whether a worker handles jobs of a type, or a job of it has not ended."""
        return await knows((await self._connected()).hot, self.keys, checked_type(type))

    async def forecast(self, type: str) -> Forecast:
        """Throughput, remaining time and recommended workers of a type, from its history.

        `waystation pipeline run` computes it; values that are not fresh are None.
        """
        client = (await self._connected()).hot
        return await forecasts.forecast(client, checked_type(type), product=Product.ROUTING)

    async def prometheus_text(self) -> str:
        """The counts of the queue, and the forecasts of its types, in Prometheus' text format."""
        types = {each.type for each in await self.coverage()}
        types |= {type for worker in await self.workers() if worker.alive for type in worker.types}
        each_forecast = {type: await self.forecast(type) for type in sorted(types)}
        counts: dict[str, int] = {**await self.counts()}
        return prometheus.as_text(Product.ROUTING, counts, each_forecast)

    async def _ended(self, id: str) -> Result | None:
        """The result of a completed job; None while it has not ended."""
        state, result = await self.state(id), await self.result(id)
        if state is None:
            raise NotFound(f"there is no job {id}")
        if state == "completed":
            return result or Result(success=True)
        if state in ("dead", "failed"):
            error = result.error if result and result.error else None
            reason = f": {error.name}: {error.message}" if error else ""
            raise JobFailed(f"job {id} failed for good{reason}")
        return None

    async def _ids(
        self, state: JobState, size: int, offset: int, count: int, *, newest_first: bool
    ) -> list[str]:
        """A page of the ids in a state, of which there are `size`."""
        ask, key = (await self._connected()).ask, self._place(state)
        # Dead letters are listed with the newest first.
        backwards = newest_first != (state == "dead")
        first, last = offset, min(offset + count, size) - 1
        if backwards:
            first, last = size - 1 - last, size - 1 - first
        match _SIZES[state]:
            case "LLEN":
                found = texts(await ask("LRANGE", key, first, last))
            case "ZCARD":
                found = texts(await ask("ZRANGE", key, first, last))
            case size_of:
                scan = "SSCAN" if size_of == "SCARD" else "HSCAN"
                ids = await self._scanned(scan, key, max(SORTED, last + 1))
                # Ids are made in the order of time.
                found = (sorted(ids) if size <= SORTED else ids)[first : last + 1]
        return found[::-1] if backwards else found

    async def _scanned(self, scan: str, key: str, count: int) -> list[str]:
        store, cursor, found = await self._connected(), 0, dict[str, None]()
        while True:
            cursor, some = await store.ask(scan, key, cursor, "COUNT", PER_CALL)
            found |= dict.fromkeys(texts(some if scan == "SSCAN" else some[::2]))
            if not (cursor := int(cursor)) or len(found) >= count:
                return list(found)

    def _place(self, state: JobState) -> str:
        return self.keys.deadletter if state == "dead" else getattr(self.keys, state)

    async def _get(self, key: str) -> bytes | None:
        return await (await self._connected()).ask("GET", key)

    async def _store_ms(self) -> int:
        if self._clock:
            return self._clock.now_ms()
        return await server_ms((await self._connected()).hot)

    def _now(self) -> str | int:
        return self._clock.now_ms() if self._clock else SERVER_TIME


_ENDS = ("completed", "dead", "cancelled", "removed")
"""Events after which a job may have ended."""


def _may_have_ended(id: str, page: Sequence[Entry]) -> bool:
    events = (Event.read(*entry) for entry in page)
    return any(event.job_id == id and event.name in _ENDS for event in events)


_SIZES = {
    "waiting": "LLEN",
    "active": "SCARD",
    "delayed": "ZCARD",
    "held": "HLEN",
    "cron": "ZCARD",
    "dead": "LLEN",
}


def _repeats(job: NewJob) -> bool:
    # What it was given is checked when its record is made.
    schedule = getattr(getattr(job, "options", None), "schedule", None)
    return getattr(schedule, "cron", None) is not None


def _stands(records: Iterable[Record], added: Iterable[Added]) -> dict[str, str]:
    """The ids of jobs that were not added, with those of the jobs that stand for them."""
    found = {str(each[1]): now.id for each, now in zip(records, added, strict=False)}
    return {id: other for id, other in found.items() if id != other}


def _renamed(record: Record, stands: dict[str, str]) -> Record:
    """The same job, waiting for what stands for those it names, as the script has it."""
    if not stands or not record[7]:
        return record
    names = [stands.get(id, id) for id in codec.decode(cast(bytes, record[7]), list[str])]
    data = rewritten(cast(bytes, record[2]), dependsOn=names)
    return (*record[:2], data, *record[3:7], codec.encode(names))


def _parents_first(jobs: Sequence[tuple[str, Any]]) -> list[int] | None:
    """The places of the jobs, each behind those it waits for; None when none waits."""
    waits = [set(codec.decode(names, list[str]) if names else ()) for _, names in jobs]
    if not any(waits):
        return None
    given = {id: place for place, (id, _) in enumerate(jobs)}
    sorter = TopologicalSorter(
        {place: sorted(given[id] for id in each if id in given) for place, each in enumerate(waits)}
    )
    try:
        return [*sorter.static_order()]
    except CycleError as error:
        places: list[int] = error.args[1]
        names = ", ".join(sorted({jobs[place][0] for place in places}))
        raise InvalidOption(f"jobs must not wait for each other, got {names}") from None


def _listed(states: Sequence[JobState]) -> Sequence[JobState]:
    for state in states:
        if state not in _SIZES:
            raise InvalidOption(f"a state must be one of {', '.join(_SIZES)}, got {state!r}")
    return states or STATES


def _readable(found: Iterable[tuple[str, bytes | None]]) -> list[Job]:
    jobs: list[Job] = []
    for id, raw in found:
        try:
            jobs += [Job(id, raw)] if raw else []
        except Malformed:
            continue
    return jobs
