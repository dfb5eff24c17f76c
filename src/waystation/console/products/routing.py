"""The queue of routing in the console."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, cast

import msgspec

from waystation.console.actions.kinds import Act
from waystation.console.products.queue import ConsoleQueue, Plan, moments_of, require_no_until
from waystation.console.products.views import (
    SHORT,
    Failure,
    JobDetail,
    JobView,
    Levels,
    SchedulerView,
    WorkerView,
    measured,
    short,
)
from waystation.console.why import Answer, of_routing
from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidOption, Malformed, NotFound
from waystation.core.store.connection import Store
from waystation.routing import Covered, DeadLetter, Job, JobOptions, Queue, Result

STATES = ("waiting", "active", "delayed", "held", "cron", "dead")

SAMPLED = 5


class RoutingQueue(ConsoleQueue):
    """All jobs under one prefix of routing."""

    product: ClassVar[str] = "routing"
    states: ClassVar[tuple[str, ...]] = STATES
    waiting: ClassVar[tuple[str, ...]] = ("waiting",)
    failed: ClassVar[str] = "dead"
    actions: ClassVar[tuple[str, ...]] = (
        "retry", "retry-all", "remove", "cancel", "remove-scheduler",
    )  # fmt: skip
    states_of: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "retry": ("dead",), "remove": ("dead",), "cancel": ("waiting", "active", "delayed", "held"),
    }  # fmt: skip

    def __init__(self, store: Store, namespace: str) -> None:
        self._queue = Queue(store, prefix=namespace)
        self._keys = self._queue.keys
        super().__init__(store, self._queue, name=namespace, stream=self._keys.events)

    async def exists(self) -> bool:
        """Whether anybody has used it."""
        keys = self._keys
        return bool(await self._store.ask("EXISTS", keys.events, keys.registered, keys.waiting))

    async def levels(self) -> Levels:
        """Counts and the age of the oldest job."""
        counts: dict[str, int] = {**await self._queue.counts()}
        oldest = await self._oldest() if counts["waiting"] else None
        return Levels(counts=counts, oldest_at=oldest)

    async def _oldest(self) -> datetime | None:
        first = await self._queue.get_jobs("waiting", limit=1)
        return first[0].created_at if first else None

    async def about(self) -> dict[str, Any]:
        """Limits and pauses of the types."""
        return {
            "paused_types": await self._queue.paused_types(),
            "limits": await self._queue.limits.all(),
            "running": await self._queue.limits.running(),
        }

    async def coverage(self) -> list[Covered]:
        """Waiting jobs by their needs, and who could do them."""
        return await self._queue.coverage()

    async def jobs(
        self, state: str, *, offset: int, limit: int, newest_first: bool, most: int = SHORT
    ) -> list[JobView]:
        """A page of the jobs in a state."""
        found = await self._queue.get_jobs(
            cast(Any, state), offset=offset, limit=limit, newest_first=newest_first
        )
        errors = await self._reasons([job.id for job in found]) if state == "dead" else {}
        return [view_of(job, state, errors.get(job.id), most=most) for job in found]

    async def _reasons(self, ids: Sequence[str]) -> dict[str, str]:
        if not ids:
            return {}
        metas = await self._store.ask("HMGET", self._keys.meta, *ids)
        texts = {id: meta for id, meta in zip(ids, metas, strict=True) if meta}
        return {id: _reason(raw) for id, raw in texts.items()}

    async def job(self, id: str) -> JobDetail | None:
        """Everything about one job; None when there is none."""
        state, result = await self._queue.state(id), await self._queue.result(id)
        if state is None:
            return None
        job = await self._queue.get_job(id)
        moments = await moments_of(self._store, self.stream, id)
        progress = await self._queue.progress(id)
        error = result.error if result and not result.success else None
        view = view_of(job, state, error and f"{error.name}: {error.message}") if job else None
        if view is None:
            view = JobView(id=id, name="", state=state, finished_at=_ended(result))
        view.progress = None if progress is None else progress.percent
        return JobDetail(
            job=view,
            product=self.product,
            queue=self.name,
            data=_data(job) if job else None,
            options=_options_of(job) if job else None,
            result=result.data if result and result.success else None,
            traces=[error.stack] if error and error.stack else [],
            timeline=moments,
            actions=self.actions_in(state),
        )

    async def workers(self) -> list[WorkerView]:
        """The workers of the queue."""
        return [
            WorkerView(
                name=each.server,
                product=self.product,
                queues=list(each.types),
                alive=each.alive,
                seen_at=each.seen_at,
                facts={
                    "stack": each.stack,
                    "region": each.region,
                    "capabilities": list(each.capabilities),
                    "host": each.hostname,
                    "pid": each.pid,
                },
            )
            for each in await self._queue.workers()
        ]

    async def schedulers(self) -> list[SchedulerView]:
        """What adds jobs to it again and again."""
        return [
            SchedulerView(
                id=each.id,
                product=self.product,
                queue=self.name,
                name=each.type,
                pattern=each.cron,
                tz=each.timezone,
                next_at=each.next_at,
            )
            for each in await self._queue.schedules.list()
        ]

    async def failures(self, *, offset: int, limit: int) -> list[Failure]:
        """Jobs that failed for good, the newest first."""
        letters = await self._queue.dead_letters.list(offset, limit)
        names = await self._types([each.id for each in letters])
        return [_failure(each, names.get(each.id, "")) for each in letters]

    async def _types(self, ids: Sequence[str]) -> dict[str, str]:
        if not ids:
            return {}
        raws = await self._store.ask("MGET", *(self._keys.of(id).data for id in ids))
        return {
            id: codec.text_at(raw, "type") or "" for id, raw in zip(ids, raws, strict=True) if raw
        }

    async def retry(self, ids: Sequence[str]) -> int:
        """Run failed jobs again; returns how many."""
        return await self._queue.retry(*ids)

    async def change(
        self, action: str, jobs: Sequence[JobView], *, reason: str = "", by: str = ""
    ) -> int:
        """Change jobs, whose states the scripts look at again; returns how many."""
        queue, ids = self._queue, [job.id for job in jobs]
        match action:
            case "retry":
                return await queue.retry(*ids)
            case "remove":
                return await queue.dead_letters.remove(*ids)
            case _:
                return await queue.cancel(*ids, by=by)

    async def add(self, name: str, data: Any, options: Mapping[str, Any]) -> JobView:
        """Add a job."""
        try:
            chosen = msgspec.convert(dict(options), JobOptions)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"options: {error}") from None
        job = await self._queue.add(name, data, chosen)
        return view_of(job, await self._queue.state(job.id) or "waiting", None)

    async def why(self, id: str | None = None) -> Answer | None:
        """Why a job, or the queue itself, is where it is; None when nothing is known of it."""
        if id is None:
            return await of_routing.every(self._store, namespace=self.name)
        return await of_routing.job(self._store, id, namespace=self.name)

    async def memory(self) -> tuple[int, int]:
        """About how many bytes the queue takes, and how many jobs it has."""
        keys = self._keys
        count = sum((await self._queue.counts()).values())
        ids = await self._store.ask("LRANGE", keys.waiting, 0, SAMPLED - 1)
        jobs = [keys.of(codec.as_text(id)).data for id in ids]
        places = (keys.waiting, keys.delayed, keys.deadletter, keys.routes, keys.events)
        return await measured(self._store, places, jobs, count), count

    async def plan(self, action: str, asked: Act, *, by: str = "") -> Plan:
        """What an action would concern, and the step that takes it."""
        queue = self._queue
        match action:
            case "retry" | "remove" | "cancel":
                found = await self.fitting(action, asked.ids)
                return Plan(len(found), lambda: self.change(action, found, by=by))
            case "retry-all":
                require_no_until(asked)
                return Plan(await queue.dead_letters.count(), queue.dead_letters.retry_all)
            case "remove-scheduler":
                if await queue.schedules.get(asked.scheduler) is None:
                    raise NotFound(f"there is no schedule {asked.scheduler}")
                return Plan(1, lambda: queue.schedules.remove(asked.scheduler))
            case _:
                raise InvalidOption(f"routing has no action {action!r}")


def view_of(job: Job, state: str, error: str | None, *, most: int = SHORT) -> JobView:
    """A job as a list shows it."""
    return JobView(
        id=job.id,
        name=job.type,
        state=state,
        created_at=job.created_at,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        priority=job.priority,
        error=short(error) if error else None,
        data=short(_text(job), most),
    )


def _failure(letter: DeadLetter, name: str) -> Failure:
    error = letter.error
    reason = f"{error.name}: {error.message}" if error.name else ""
    job = JobView(
        id=letter.id,
        name=name,
        state="dead",
        finished_at=letter.failed_at,
        attempts=letter.attempts,
        error=short(reason),
    )
    return Failure(job=job, name=name, reason=reason, trace=error.stack)


def _text(job: Job) -> str:
    return codec.encode_shown(_data(job)).decode()


def _data(job: Job) -> Any:
    try:
        return job.data
    except Malformed:
        return job.raw.decode("utf-8", "replace")


def _options_of(job: Job) -> dict[str, Any]:
    return {
        "target": job.target,
        "priority": job.priority,
        "retry": job.retry,
        "limit": job.limit,
        "depends_on": job.depends_on,
        "metadata": job.metadata,
    }


def _ended(result: Result | None) -> datetime | None:
    return result.completed_at if result else None


def _reason(raw: bytes) -> str:
    found = codec.decode_or_text(raw)
    error = cast(dict[str, Any], found).get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict):
        return ""
    fields = cast(dict[str, Any], error)
    return f"{fields.get('name', '')}: {fields.get('message', '')}"
