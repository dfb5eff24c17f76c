"""Queues of bullmq in the console."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

import msgspec

from waystation.bullmq import (
    FlowJob,
    FlowProducer,
    GroupSettings,
    Job,
    JobOptions,
    Keep,
    Limit,
    Part,
    Queue,
    Schedule,
    Scheduler,
)
from waystation.bullmq.changing import STATES_OF, Change, change
from waystation.bullmq.groups import group_named, reset_named, set_named
from waystation.bullmq.job import queue_of
from waystation.bullmq.options import StoredOptions
from waystation.bullmq.payloads.notes import note_on, note_on_data
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.bullmq.states import STATES, State
from waystation.console.actions.kinds import LONGEST_ID, Act
from waystation.console.products.bullmq_tenants import tenants_of
from waystation.console.products.bullmq_workers import Connections, workers_of
from waystation.console.products.queue import ConsoleQueue, Plan, moments_of
from waystation.console.products.views import (
    SHORT,
    Failure,
    FlowNode,
    JobDetail,
    JobView,
    Levels,
    Moment,
    Relative,
    SchedulerView,
    Tenants,
    WorkerView,
    measured,
    short,
)
from waystation.console.why import Answer, of_bullmq
from waystation.core import codec
from waystation.core.durations import possible_instant, whole_number
from waystation.core.errors import InvalidInput, InvalidOption, Malformed, NotFound, WrongState
from waystation.core.store.connection import Store

_READ = {
    "attempts", "backoff", "priority", "lifo", "removeOnComplete", "removeOnFail",
    "stackTraceLimit", "kl",
}  # fmt: skip
"""Options of a scheduler's jobs that are kept when it is changed."""


def wanted_schedule(asked: Act, known: Scheduler | None) -> Schedule:
    """The schedule that is asked for; limits of the one that is changed stay."""
    if bool(asked.pattern) == bool(asked.every_s):
        raise InvalidOption("a scheduler has either a pattern or every_s")
    kept = known or Scheduler(id=asked.scheduler, name=asked.scheduler, next_ms=None)
    return Schedule(
        pattern=asked.pattern or None,
        every=asked.every_s or None,
        tz=asked.tz or None,
        limit=kept.limit,
        start_date=kept.start_date,
        end_date=kept.end_date,
        # It was made for the old interval, and may be longer than the new one.
        offset=kept.offset if asked.every_s * 1000 == kept.every_ms else None,
    )


async def save_scheduler(queue: Queue, asked: Act, known: Scheduler | None) -> None:
    """Make a scheduler, or change the one of this id; what is not asked for stays."""
    schedule = wanted_schedule(asked, known)
    data = known.data if asked.data is msgspec.UNSET and known else asked.data
    await queue.schedulers.upsert(
        asked.scheduler,
        schedule,
        name=asked.name or (known.name if known else asked.scheduler),
        data=None if data is msgspec.UNSET else data,
        options=options_of(known.options) if known else JobOptions(),
    )


def wanted_limits(asked: Act) -> GroupSettings:
    """The limits of a group that are asked for; a 0 leaves one as it is."""
    return GroupSettings(
        concurrency=asked.concurrency or None,
        rate=Limit(asked.max, asked.duration_s) if asked.max else None,
        budget=asked.budget or None,
        weight=asked.weight or None,
        max_size=asked.max_size or None,
    )


async def run_scheduler(queue: Queue, known: Scheduler) -> None:
    """Add a job of a scheduler now."""
    await queue.add(known.name, known.data, options_of(known.options))


def options_of(stored: Mapping[str, Any]) -> JobOptions:
    """The options of a scheduler's jobs; those that cannot be kept are an error."""
    if unknown := sorted(set(stored) - _READ):
        raise InvalidInput(
            f"its jobs have the options {', '.join(unknown)}, which the console cannot keep; "
            "change it with the library that made it"
        )
    read = StoredOptions(dict(stored))
    return JobOptions(
        attempts=read.attempts,
        backoff=read.backoff,
        priority=int(stored.get("priority") or 0),
        lifo=bool(stored.get("lifo")),
        remove_on_complete=_retention(stored.get("removeOnComplete")),
        remove_on_fail=_retention(stored.get("removeOnFail")),
        stack_trace_limit=stored.get("stackTraceLimit"),
        keep_logs=stored.get("kl"),
    )


def clone_of(stored: Mapping[str, Any]) -> JobOptions:
    """The options of another job like one: without its delay, its id and its parent."""
    read = StoredOptions(dict(stored))
    kept = options_of({name: value for name, value in stored.items() if name in _READ})
    timeout_ms, group = read.terms.timeout, read.group
    return msgspec.structs.replace(
        kept,
        timeout=None if timeout_ms is None else timeout_ms / 1000,
        group=group,
        # That of a job in a group is the group's own.
        priority=0 if group and group.priority else kept.priority,
    )


def _retention(stored: Any) -> bool | int | Keep | None:
    if not isinstance(stored, Mapping):
        return stored
    rule: Mapping[str, Any] = stored  # pyright: ignore[reportUnknownVariableType]
    return Keep(age=rule.get("age"), count=rule.get("count"), limit=rule.get("limit"))


LOG_LINES = 500
LONGEST_NOTE = 500
"""Characters of data in the audit log."""
SAMPLED = 5
"""Jobs whose memory is measured; the others are taken to be like them."""
REFUSED = "nothing was changed: they moved on, a worker holds them, or they keep a scheduler going"
EDITED = ("waiting", "prioritized", "delayed", "waiting-children", "failed")
"""The states of jobs that a worker has not taken, or that may be retried."""
_DEEPEST = 6
_WIDEST = 20


class BullmqQueue(ConsoleQueue):
    """A queue of bullmq."""

    product: ClassVar[str] = "bullmq"
    states: ClassVar[tuple[str, ...]] = STATES
    waiting: ClassVar[tuple[str, ...]] = ("waiting", "prioritized")
    failed: ClassVar[str] = "failed"
    actions: ClassVar[tuple[str, ...]] = (
        "pause", "resume", "retry", "retry-all", "promote", "promote-all", "remove",
        "cancel", "edit", "clone", "set-concurrency", "set-rate",
        "run-scheduler", "set-scheduler", "pause-scheduler", "resume-scheduler",
        "remove-scheduler",
        "pause-group", "resume-group", "set-group", "reset-group",
        "drain", "clean", "obliterate",
    )  # fmt: skip
    states_of: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **STATES_OF, "edit": EDITED, "clone": STATES,
    }  # fmt: skip

    def __init__(
        self,
        store: Store,
        keys: QueueKeys,
        *,
        prefixes: Prefixes,
        connections: Connections | None = None,
    ) -> None:
        self._keys = keys
        self._queue = Queue(keys.name, store, prefix=keys.prefix)
        self._prefixes = prefixes
        self._connections = connections or Connections(store)
        super().__init__(store, self._queue, name=prefixes.shown(keys), stream=keys.events)

    def output(self, id: str, after: str) -> AsyncGenerator[Part]:
        """What a job's handler emits after this place, until the job has ended."""
        return self._queue.stream(id, after=after)

    async def levels(self) -> Levels:
        """Counts, pause and the age of the oldest job."""
        counts: dict[str, int] = {**await self._queue.counts()}
        paused = await self._store.ask("HEXISTS", self._keys.meta, "paused")
        oldest = await self._oldest() if counts["waiting"] else None
        return Levels(counts=counts, paused=bool(paused), oldest_at=oldest)

    async def tenants(self) -> Tenants:
        """Who shares the queue, by the groups of its jobs."""
        return await tenants_of(self._queue, self._store.hot, self.stream)

    async def _oldest(self) -> datetime | None:
        # A queue that BullMQ 5 paused has them in another list.
        first = await self._store.ask("LINDEX", self._keys.wait, -1)
        first = first or await self._store.ask("LINDEX", self._keys.paused, -1)
        ids = [first] if first else []
        ids += await self._store.ask("ZRANGE", self._keys.grouped, 0, 0)
        made = [
            whole_number(await self._store.ask("HGET", self._keys.of(each).job, "timestamp"))
            for each in map(codec.as_text, ids)
        ]
        return min((found for each in made if (found := possible_instant(each))), default=None)

    async def about(self) -> dict[str, Any]:
        """Limits and settings that are stored with the queue."""
        limit = await self._queue.limits.get_rate_limit()
        forecast = await self._queue.forecast()
        return {
            "version": await self._queue.version(),
            "concurrency": await self._queue.limits.get_concurrency(),
            "rate_limit": None if limit is None else {"max": limit.max, "ms": limit.duration_ms},
            "forecast": forecast,
        }

    async def jobs(
        self, state: str, *, offset: int, limit: int, newest_first: bool, most: int = SHORT
    ) -> list[JobView]:
        """A page of the jobs in a state."""
        found = await self._queue.get_jobs(
            cast(Any, state), offset=offset, limit=limit, newest_first=newest_first
        )
        return [view_of(job, state, most=most) for job in found]

    async def job(self, id: str) -> JobDetail | None:
        """Everything about one job; None when there is none."""
        job = await self._queue.get_job(id)
        if job is None:
            return None
        state = await self._queue.state(id)
        logs = await self._queue.logs(id, 0, LOG_LINES)
        moments = await moments_of(self._store, self.stream, id)
        children = await job.dependency_counts()
        return JobDetail(
            job=view_of(job, state),
            product=self.product,
            queue=self.name,
            data=_data(job),
            options=job.options.raw,
            result=job.result,
            traces=job.stacktrace,
            logs=list(logs.lines),
            logs_total=logs.total,
            timeline=moments or _known_moments(job, state),
            parent=self._parent(job),
            children={k: v for k, v in children._asdict().items() if v},
            facts=_facts(job),
            actions=self.actions_in(state),
        )

    async def flow(self, id: str) -> FlowNode | None:
        """The job with its children, some levels down."""
        flows = FlowProducer(self._store, prefix=self._keys.prefix)
        found = await flows.get_flow(self._keys.name, id, depth=_DEEPEST, max_children=_WIDEST)
        return None if found is None else await self._node(found)

    async def _node(self, flow: FlowJob) -> FlowNode:
        job = flow.job
        return FlowNode(
            queue=self._prefixes.shown(queue_of(job).keys),
            id=job.id,
            name=job.name,
            state=await job.state(),
            children=[await self._node(each) for each in flow.children],
        )

    async def workers(self) -> list[WorkerView]:
        """The workers of the queue, and what each holds."""
        return await workers_of(self._store, self._keys, self._connections, shown=self.name)

    async def schedulers(self) -> list[SchedulerView]:
        """What adds jobs to it again and again."""
        return [self._scheduler(each) for each in await self._queue.schedulers.list(limit=None)]

    def _scheduler(self, each: Scheduler) -> SchedulerView:
        return SchedulerView(
            id=each.id,
            product=self.product,
            queue=self.name,
            name=each.name,
            every_s=None if each.every_ms is None else each.every_ms / 1000,
            pattern=each.pattern,
            tz=each.tz,
            next_at=each.next_at,
            runs=each.iteration_count,
            paused_at=each.paused_at,
            paused_by=each.paused_by,
            started_again=each.started_again,
            data=each.data,
        )

    async def failures(self, *, offset: int, limit: int) -> list[Failure]:
        """Jobs that failed for good, the newest first."""
        jobs = await self._queue.get_jobs("failed", offset=offset, limit=limit, newest_first=True)
        return [
            Failure(
                job=view_of(job, "failed"),
                name=job.name,
                reason=job.failed_reason or "",
                trace=job.stacktrace[-1] if job.stacktrace else "",
            )
            # One that was retried since the list was read has not failed any more.
            for job in jobs
            if job.finished_ms
        ]

    async def retry(self, ids: Sequence[str]) -> int:
        """Run failed jobs again; returns how many."""
        return await self._queue.retry(*ids, state="failed")

    async def change(
        self, action: str, jobs: Sequence[JobView], *, reason: str = "", by: str = ""
    ) -> int:
        """Change jobs that are still in the states that they were found in; returns how many."""
        what = cast(Change, action)
        # Together, so that their calls travel together.
        changes = (
            change(self._queue, what, job.id, cast(State, job.state), reason=reason, by=by)
            for job in jobs
        )
        return sum(await asyncio.gather(*changes))

    async def add(self, name: str, data: Any, options: Mapping[str, Any]) -> JobView:
        """Add a job."""
        job = await self._queue.add(name, data, _options(options))
        return view_of(job, await self._queue.state(job.id))

    async def why(self, id: str | None = None) -> Answer | None:
        """Why a job, or the queue itself, is where it is; None when nothing is known of it."""
        if id is None:
            return await of_bullmq.queue(self._store, self._keys, shown=self.name)
        return await of_bullmq.job(self._store, self._keys, id, shown=self.name)

    async def memory(self) -> tuple[int, int]:
        """About how many bytes the queue takes, and how many jobs it has."""
        keys = self._keys
        count = await self._count(*STATES)
        some = await self._queue.get_jobs(limit=2)
        places = (keys.wait, keys.active, keys.delayed, keys.prioritized, keys.completed,
                  keys.failed, keys.events)  # fmt: skip
        jobs = [keys.of(job.id).job for job in some[:SAMPLED]]
        return await measured(self._store, places, jobs, count), count

    async def plan(self, action: str, asked: Act, *, by: str = "") -> Plan:
        """What an action would concern, and the step that takes it."""
        queue, count = self._queue, self._count
        match action:
            case "pause":
                return Plan(await count(*self.waiting), lambda: queue.pause(by=by))
            case "resume":
                return Plan(await count(*self.waiting), queue.resume)
            case "retry" | "promote" | "remove" | "cancel":
                return await self._for_jobs(action, asked, by)
            case "edit":
                return await self._edited(asked)
            case "clone":
                return await self._cloned(asked)
            case "retry-all":
                until = asked.until
                failed = await self._ended_until("failed", until)
                return Plan(failed, lambda: queue.retry_all(until=until))
            case "promote-all":
                return Plan(await count("delayed"), queue.promote_all)
            case "drain":
                return Plan(await count(*self.waiting), queue.drain)
            case "clean":
                state: Any = asked.state or "completed"
                grace = timedelta(seconds=asked.older_than_s)
                return Plan(await self._older(state, grace), lambda: self._clean(grace, state))
            case "obliterate":
                return Plan(await count(*STATES), queue.obliterate)
            case "set-concurrency":
                limits = queue.limits
                step = (lambda: limits.set_concurrency(asked.max)) if asked.max else None
                return Plan(1, step or limits.remove_concurrency)
            case "set-rate":
                limits, every = queue.limits, asked.duration_s
                rate = (lambda: limits.set_rate_limit(asked.max, every)) if asked.max else None
                return Plan(1, rate or limits.remove_rate_limit)
            case "run-scheduler":
                scheduler = await self._known_scheduler(asked.scheduler)
                options_of(scheduler.options)
                return Plan(1, lambda: run_scheduler(queue, scheduler))
            case "set-scheduler":
                known = await queue.schedulers.get(_id_of_scheduler(asked))
                wanted_schedule(asked, known)
                if known:
                    options_of(known.options)
                return Plan(1, lambda: save_scheduler(queue, asked, known))
            case "pause-scheduler":
                await self._known_scheduler(asked.scheduler)
                return Plan(1, lambda: queue.schedulers.pause(asked.scheduler, by=by))
            case "resume-scheduler":
                await self._known_scheduler(asked.scheduler)
                return Plan(1, lambda: queue.schedulers.resume(asked.scheduler))
            case "remove-scheduler":
                await self._known_scheduler(asked.scheduler)
                return Plan(1, lambda: queue.schedulers.remove(asked.scheduler))
            case "pause-group" | "resume-group":
                group = group_named(asked.group)
                step = queue.groups.pause if action == "pause-group" else queue.groups.resume
                return Plan((await queue.groups.get(group)).waiting, lambda: step(group))
            case "set-group":
                _check_group(asked)
                given = wanted_limits(asked)
                return Plan(1, lambda: set_named(queue.groups, asked.group, given))
            case "reset-group":
                _check_group(asked)
                return Plan(1, lambda: reset_named(queue.groups, asked.group))
            case _:
                raise InvalidOption(f"bullmq has no action {action!r}")

    def _parent(self, job: Job) -> Relative | None:
        if not job.parent_key:
            return None
        qualified, _, id = job.parent_key.rpartition(":")
        queue = self._prefixes.shown(QueueKeys.at(qualified))
        return Relative(product=self.product, queue=queue, id=id)

    async def _count(self, *states: str) -> int:
        return sum((await self._queue.counts(*cast(Any, states))).values())

    async def _ended_until(self, state: str, until: datetime | None) -> int:
        last = "+inf" if until is None else int(until.timestamp() * 1000)
        return int(await self._store.ask("ZCOUNT", getattr(self._keys, state), "-inf", last))

    async def _older(self, state: str, grace: timedelta) -> int:
        """How many jobs of a state are older than that: only those that ended have an age that can
        be counted."""
        if not grace:
            return await self._count(state)
        if state not in ("completed", "failed"):
            raise InvalidOption(f"older_than_s is for completed and failed jobs, got {state}")
        return await self._ended_until(state, datetime.now(UTC) - grace)

    async def _for_jobs(self, action: Change, asked: Act, by: str) -> Plan:
        found = await self.fitting(action, asked.ids)

        async def take() -> int:
            done = await self.change(action, found, reason=asked.reason, by=by)
            if found and not done:
                raise WrongState(REFUSED)
            return done

        return Plan(len(found), take)

    async def _edited(self, asked: Act) -> Plan:
        if len(asked.ids) != 1 or asked.data is msgspec.UNSET:
            raise InvalidOption("edit needs the id of one job and its data")
        id, data = asked.ids[0], asked.data
        job = await self._queue.get_job(id)
        if job is None or await self._queue.state(id) not in EDITED:
            return Plan(0, _refuse_to_edit)
        if sealed := note_on_data(job):
            raise WrongState(f"the data is {sealed}; only a program that has the keys can edit it")

        async def take() -> int:
            await job.update_data(data)
            # A worker that took it meanwhile has read what was there before.
            return int(await self._queue.state(id) in EDITED)

        was, now = short(job.data_text, LONGEST_NOTE), codec.encode(data).decode()
        return Plan(1, take, {"was": was, "data": short(now, LONGEST_NOTE)})

    async def _cloned(self, asked: Act) -> Plan:
        if len(asked.ids) != 1:
            raise InvalidOption("clone needs the id of one job")
        job = await self._queue.get_job(asked.ids[0])
        if job is None:
            return Plan(0, _nothing_to_clone)
        if asked.data is msgspec.UNSET and (sealed := note_on_data(job)):
            raise WrongState(f"the data is {sealed}; only a program that has the keys can clone it")
        options, name = clone_of(job.options.raw), asked.name or job.name
        data = _data(job) if asked.data is msgspec.UNSET else asked.data
        made: dict[str, Any] = {}

        async def take() -> int:
            made["made"] = (await self._queue.add(name, data, options)).id
            return 1

        return Plan(1, take, made)

    async def _clean(self, grace: timedelta, state: Any) -> int:
        return len(await self._queue.clean(grace, 0, state))

    async def _known_scheduler(self, id: str) -> Scheduler:
        found = await self._queue.schedulers.get(id)
        if found is None:
            raise NotFound(f"there is no scheduler {id}")
        return found


def view_of(job: Job, state: str, *, most: int = SHORT) -> JobView:
    """A job as a list shows it.

    A job that was completed after all keeps the reason of an attempt before, as in BullMQ.
    """
    due = job.created_at + job.delay if state == "delayed" and job.delay_ms else None
    return JobView(
        id=job.id,
        name=job.name,
        state=state,
        created_at=job.created_at if job.created_ms else None,
        started_at=job.started_at,
        finished_at=job.finished_at,
        due_at=due,
        attempts=job.attempts_made,
        max_attempts=job.max_attempts,
        priority=job.priority,
        progress=job.progress,
        error=short(job.failed_reason) if job.failed_reason and state != "completed" else None,
        worker=job.processed_by,
        data=short(job.data_text, most),
    )


async def _nothing_to_clone() -> None:
    raise NotFound("there is no such job")


async def _refuse_to_edit() -> None:
    raise WrongState("a job can be edited before it starts, or after it failed")


def _data(job: Job) -> Any:
    try:
        return job.data
    except Malformed:
        return job.data_text


def _known_moments(job: Job, state: str) -> list[Moment]:
    named = (
        (job.created_at if job.created_ms else None, "added", ""),
        (job.started_at, "active", job.processed_by or ""),
        (job.finished_at, "failed" if state == "failed" else "completed", ""),
    )
    return [Moment(at=at, what=what, note=note) for at, what, note in named if at]


def _facts(job: Job) -> dict[str, Any]:
    facts = {
        "deduplication": job.deduplication_id,
        "scheduler": job.scheduler_id,
        "stalled": job.stalled_count or None,
        "times started": job.attempts_started or None,
        "payload": note_on(job),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _id_of_scheduler(asked: Act) -> str:
    if not asked.scheduler or len(asked.scheduler) > LONGEST_ID:
        raise InvalidOption(f"a scheduler needs an id of 1 to {LONGEST_ID} characters")
    return asked.scheduler


def _check_group(asked: Act) -> None:
    if not asked.group:
        raise InvalidOption("a group has an id, such as acme, or acme/key")


def _options(given: Mapping[str, Any]) -> JobOptions:
    known = set(JobOptions.__struct_fields__)
    if unknown := sorted(set(given) - known):
        raise InvalidInput(f"options are {', '.join(sorted(known))}, got {', '.join(unknown)}")
    return JobOptions(**given)
