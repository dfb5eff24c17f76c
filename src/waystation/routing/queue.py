"""How jobs get in, and what can be asked about them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from waystation.core import codec, identity
from waystation.core.clock import Clock, SystemClock
from waystation.core.codec import PAYLOAD_LIMIT, check_size
from waystation.core.errors import InvalidInput, InvalidOption, WaystationError
from waystation.core.events import Line
from waystation.core.line import forecasts, prometheus
from waystation.core.line.forecasts import Forecast
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.options import of_kind
from waystation.core.store import faults
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.routing.coverage import Covered, coverage, knows
from waystation.routing.dead_letters import DeadLetters
from waystation.routing.job import Job, checked_type, written
from waystation.routing.limits import Limit
from waystation.routing.options import JobOptions
from waystation.routing.reasons import Reason, why
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import NAMESPACE, RoutingKeys
from waystation.routing.registry import RegisteredWorker, registered
from waystation.routing.results import KEPT_S, CancelledByCaller, Progress, Result, failure
from waystation.routing.schedules import Planned, next_slot, planned
from waystation.routing.stats import Stats, stats
from waystation.routing.target import route

PER_CALL = 500
"""Jobs put into the line in one step."""


class NewJob(NamedTuple):
    """One of many jobs to dispatch at once."""

    type: str
    payload: object = None
    options: JobOptions = JobOptions()


Record: TypeAlias = tuple[str | bytes | int, ...]
"""A job as the script that puts it into the line takes it."""


def record(job: NewJob, *, now_ms: int, payload_limit: int = PAYLOAD_LIMIT) -> Record:
    """Make a job ready for the script, checked; the same for a producer and for a bulk load."""
    of_kind("each of many jobs", job, NewJob)
    of_kind("options", job.options, JobOptions)
    options, schedule = job.options, job.options.schedule
    id = options.job_id or identity.ordered_id(now_ms)
    data = written(id, checked_type(job.type), job.payload, options, now_ms)
    check_size(len(data), payload_limit)
    kind, due = "waiting", ""
    if schedule.cron is not None:
        slot = next_slot(schedule.cron, schedule.timezone, now_ms)
        if slot is None:
            raise InvalidOption(f'Invalid cron expression "{schedule.cron}": it never fires')
        kind, due = "cron", str(slot)
    elif schedule.run_at is not None:
        kind, due = "delayed", str(schedule.run_at)
    elif schedule.delay:
        kind, due = "delayed", f"+{schedule.delay}"
    waits_for = codec.encode(sorted(set(options.depends_on))) if options.depends_on else ""
    where = route(job.type, options.target, options.priority, options.limit)
    return (kind, id, data, where, due, options.idempotency_key or "", KEPT_S, waits_for)


class Queue(StoreClient):
    """The line as producers and operators see it."""

    def __init__(
        self,
        url: str | Store | None = None,
        *,
        namespace: str = NAMESPACE,
        payload_limit: int = PAYLOAD_LIMIT,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(url)
        self.keys = RoutingKeys(namespace)
        self._payload_limit = payload_limit
        # Only tests bring a clock; otherwise the server says what time it is.
        self._clock = clock

    # --- in --------------------------------------------------------------------------------------

    async def dispatch(
        self, type: str, payload: object = None, options: JobOptions | None = None
    ) -> str:
        """Put a job into the line; its id, or that of the job that stands for it already."""
        (id,) = await self.dispatch_many([NewJob(type, payload, options or JobOptions())])
        return id

    async def dispatch_many(self, jobs: Sequence[NewJob]) -> list[str]:
        """Put many jobs into the line, checked before the first one is written.

        They go a few hundred at a time, each time all or none.
        """
        now_ms = (self._clock or SystemClock()).now_ms()
        records = [record(job, now_ms=now_ms, payload_limit=self._payload_limit) for job in jobs]
        client = (await self._connected()).durable
        ids: list[str] = []
        for first in range(0, len(records), PER_CALL):
            some = records[first : first + PER_CALL]
            try:
                ids += await scripts.dispatch(
                    client,
                    self.keys,
                    namespace=self.keys.namespace,
                    now=self._now(),
                    jobs=[part for record in some for part in record],
                )
            except WaystationError as error:
                error.add_note(f"at least {len(ids)} of {len(records)} jobs had been dispatched")
                raise
        return ids

    # --- about one job ---------------------------------------------------------------------------

    async def status(self, id: str) -> str | None:
        """Where a job is: waiting, active, completed, failed, delayed, cron or dead.

        A job that waits for its next attempt is delayed; failed is one that was cancelled.
        """
        found = await self._get(self.keys.of(id).status)
        return found.decode() if found else None

    async def why(self, id: str) -> list[Reason]:
        """Every reason why a job does not run now, runs or ended; none when it is not known."""
        return await why((await self._connected()).hot, self.keys, id, now=self._now())

    async def result(self, id: str) -> Result | None:
        """How the last attempt at a job ended; None when none has, or more than a day ago."""
        found = await self._get(self.keys.of(id).result)
        return codec.decode(found, Result) if found else None

    async def progress(self, id: str) -> Progress | None:
        """How far a job's handler says it is."""
        found = await self._get(self.keys.of(id).progress)
        return codec.decode(found, Progress) if found else None

    async def job(self, id: str) -> Job | None:
        """A job that has not been completed."""
        found = await self._get(self.keys.of(id).data)
        return Job(id, found) if found else None

    async def cancel(self, *ids: str) -> int:
        """Stop jobs that have not ended, running ones too; how many there were.

        The worker of a running job learns it when it next renews its lease.
        """
        if not ids:
            return 0
        error = CancelledByCaller("somebody stopped the job")
        stopped = await scripts.cancel(
            (await self._connected()).hot,
            self.keys,
            namespace=self.keys.namespace,
            now=self._now(),
            keep_s=KEPT_S,
            result=failure(error, (self._clock or SystemClock()).now_ms(), 0),
            ids=ids,
        )
        return sum(stopped)

    # --- about all of them -----------------------------------------------------------------------

    async def dead_letters(self) -> DeadLetters:
        """The jobs that failed for good, to look at, try again or remove."""
        return DeadLetters((await self._connected()).hot, self.keys, now=self._now)

    async def pause(self, type: str) -> bool:
        """Hand out no more jobs of a type; False when it was paused already."""
        return await scripts.pause(
            (await self._connected()).hot,
            self.keys,
            namespace=self.keys.namespace,
            now=self._now(),
            queue=checked_type(type),
        )

    async def resume(self, type: str) -> bool:
        """Hand out jobs of a type again; False when it was not paused."""
        return await scripts.resume(
            (await self._connected()).hot,
            self.keys,
            namespace=self.keys.namespace,
            now=self._now(),
            queue=checked_type(type),
        )

    async def limit(self, type: str, limit: Limit | None) -> None:
        """Set the limits of a type for all workers, or lift them."""
        if limit is not None:
            of_kind("limit", limit, Limit)
        config = codec.encode(limit) if limit else ""
        await scripts.set_limit(
            (await self._connected()).hot,
            self.keys,
            namespace=self.keys.namespace,
            queue=checked_type(type),
            config=config,
        )

    async def limits(self) -> dict[str, Limit]:
        """The limits of every type that has some; what cannot be read limits nothing."""
        with faults.translated():
            found = await (await self._connected()).hot.execute_command("HGETALL", self.keys.limits)
        pairs = zip(found[::2], found[1::2], strict=True)
        read = {type.decode(): _limit(config) for type, config in pairs}
        return {type: limit for type, limit in read.items() if limit is not None}

    async def stats(self) -> Stats:
        """How much is where, and who works."""
        return await stats((await self._connected()).hot, self.keys)

    async def forecast(self, type: str) -> Forecast:
        """What history says of a type: how it did, when it is done, how many it asks for.

        `waystation pipeline run` works it out; what is not fresh is None.
        """
        client = (await self._connected()).hot
        return await forecasts.forecast(client, checked_type(type), line=Line.ROUTING)

    async def prometheus_text(self) -> str:
        """The line in numbers, as Prometheus reads them.

        What history advises stands beside them, for each type that waits or has a worker.
        """
        types = {each.type for each in await self.coverage()}
        types |= {type for worker in await self.workers() if worker.alive for type in worker.types}
        each_forecast = {type: await self.forecast(type) for type in sorted(types)}
        return prometheus.as_text(Line.ROUTING, (await self.stats()).places, each_forecast)

    async def workers(self) -> list[RegisteredWorker]:
        """Every worker in the registry."""
        return await registered((await self._connected()).hot, self.keys)

    async def schedules(self) -> list[Planned]:
        """Every schedule, the next to fire first; `cancel` ends one."""
        return await planned((await self._connected()).hot, self.keys)

    async def coverage(self) -> list[Covered]:
        """What waits, who could do it, and why nobody does: paused, limited, held, nobody fits."""
        return await coverage((await self._connected()).hot, self.keys, now=self._now())

    async def knows(self, type: str) -> bool:
        """Whether a worker handles jobs of a type, or a job of it has not ended."""
        return await knows((await self._connected()).hot, self.keys, checked_type(type))

    async def _get(self, key: str) -> bytes | None:
        client = (await self._connected()).hot
        with faults.translated():
            found: Any = await client.execute_command("GET", key)
        return found

    def _now(self) -> str | int:
        return self._clock.now_ms() if self._clock else SERVER_TIME


def _limit(config: bytes) -> Limit | None:
    try:
        return codec.decode(config, Limit)
    except InvalidInput:
        return None
