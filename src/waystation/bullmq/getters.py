"""What can be asked about a queue."""

from collections.abc import Iterable, Sequence
from typing import cast

from waystation.bullmq.job import Job, QueueRef
from waystation.bullmq.job_steps import Logs, read_logs
from waystation.bullmq.metrics import Kind, Metrics, as_text, read_metrics
from waystation.bullmq.redis import queue_scripts
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.redis.commands import ask
from waystation.bullmq.source.marker import client_name
from waystation.bullmq.states import STATES, JobState, State, known
from waystation.core.events import Line
from waystation.core.line import forecasts
from waystation.core.line.forecasts import Forecast
from waystation.core.store import faults

READ_AT_ONCE = 250


class Getters(QueueClient):
    """The questions; none of them changes anything."""

    async def get_job(self, job_id: str) -> Job | None:
        """The job as it is now; None when there is none."""
        found = await self._read([job_id])
        return found[0] if found else None

    async def get_jobs(
        self,
        states: State | Iterable[State] = STATES,
        start: int = 0,
        end: int = -1,
        *,
        asc: bool = False,
    ) -> list[Job]:
        """Jobs by state, from place `start` to `end` of each, the newest first unless `asc`.

        Ids without a job are passed over, and those behind them fill the page.
        """
        found: dict[str, Job] = {}
        for state in known(states):
            found |= {job.id: job for job in await self._page(state, start, end, asc=asc)}
        return list(found.values())

    async def counts(self, *states: State) -> dict[State, int]:
        """How many jobs are in each state; of all when none is named."""
        client, keys = await self._at_hand()
        wanted = known(states or STATES)
        return dict(
            zip(wanted, await queue_scripts.count_jobs(client, keys, states=wanted), strict=True)
        )

    async def count(self) -> int:
        """How many jobs are still to be done, apart from those that are active."""
        waiting = ("waiting", "prioritized", "delayed", "waiting-children")
        return sum((await self.counts(*waiting)).values())

    async def forecast(self) -> Forecast:
        """What history says of the queue: how it did, when it is empty, how many it asks for.

        `waystation pipeline run` works it out; what is not fresh is None.
        """
        client, _ = await self._at_hand()
        return await forecasts.forecast(client, self.name, line=Line.BULLMQ)

    async def counts_per_priority(self, priorities: Sequence[int]) -> dict[int, int]:
        """How many jobs wait with each of the priorities."""
        client, keys = await self._at_hand()
        unique = list(dict.fromkeys(priorities))
        counted = await queue_scripts.count_priorities(client, keys, priorities=unique)
        return dict(zip(unique, counted, strict=True))

    async def state(self, job_id: str) -> JobState:
        """Where a job is now."""
        client, keys = await self._at_hand()
        return cast(JobState, await queue_scripts.state_of(client, keys, id=job_id))

    async def logs(self, job_id: str, start: int = 0, end: int = -1, *, asc: bool = True) -> Logs:
        """Lines of a job's log, the oldest first unless asked otherwise."""
        client, keys = await self._at_hand()
        return await read_logs(client, keys.of(job_id), start, end, asc=asc)

    async def workers(self) -> list[dict[str, str]]:
        """The workers of this queue, as the server sees their connections."""
        store = await self._connected()
        name = client_name(self.keys)
        with faults.translated():
            found = await store.redis.client_list()
        return [
            {**client, "name": self.name, "rawname": client["name"]}
            for client in found
            if client["name"] == name or client["name"].startswith(f"{name}:w:")
        ]

    async def metrics(self, kind: Kind, start: int = 0, end: int = -1) -> Metrics:
        """How many jobs were completed or failed, minute by minute, the newest first."""
        client, keys = await self._at_hand()
        return await read_metrics(client, keys, kind, start, end)

    async def prometheus_text(self) -> str:
        """The queue in numbers, as Prometheus reads them."""
        client, keys = await self._at_hand()
        completed = await read_metrics(client, keys, "completed", 0, 0)
        failed = await read_metrics(client, keys, "failed", 0, 0)
        forecast = await self.forecast()
        return as_text(self.name, await self.counts(), completed, failed, forecast)

    async def meta(self) -> dict[str, str]:
        """What is written down about the queue as a whole."""
        client, keys = await self._at_hand()
        names = ("opts.maxLenEvents", "version", "paused", "concurrency", "max", "duration")
        values = await ask(client, "HMGET", keys.meta, *names)
        return {name: value.decode() for name, value in zip(names, values, strict=True) if value}

    async def version(self) -> str | None:
        """The library that made the queue, and its version."""
        return (await self.meta()).get("version")

    async def get_deduplication_job_id(self, deduplication_id: str) -> str | None:
        """The job that stands for others like it."""
        client, keys = await self._at_hand()
        owner = await ask(client, "GET", f"{keys.base}de:{deduplication_id}")
        return owner.decode() if owner else None

    async def _page(self, state: State, start: int, end: int, *, asc: bool) -> list[Job]:
        client, keys = await self._at_hand()

        async def ids(first: int, last: int) -> list[str]:
            return await queue_scripts.list_ids(
                client, keys, state=state, first=first, last=last, asc=int(asc)
            )

        listed = await ids(start, end)
        jobs, many = await self._read(listed), len(listed)
        if start < 0 or end < 0:
            return jobs
        size = end - start + 1
        while len(jobs) < many and listed:
            start += size
            listed = await ids(start, start + size - 1)
            jobs += await self._read(listed)
        return jobs[:many]

    async def _read(self, ids: Sequence[str]) -> list[Job]:
        client, keys = await self._at_hand()
        queue, jobs = QueueRef(client, keys), list[Job]()
        for first in range(0, len(ids), READ_AT_ONCE):
            some = ids[first : first + READ_AT_ONCE]
            found = await queue_scripts.read_jobs(client, keys, base=keys.base, ids=some)
            jobs += [
                Job(id, fields, queue) for id, fields in zip(some, found, strict=True) if fields
            ]
        return jobs
