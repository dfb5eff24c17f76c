"""Schedulers in Redis: made, read, removed, and advanced by the workers that run their jobs.

A scheduler is a hash and one job. The worker that starts this job adds the next one before it runs
its handler. The script checks that the job is the scheduler's current one, so that two workers
never add two. Internal.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from waystation.bullmq.job import Job, QueueRef
from waystation.bullmq.options import JobOptions, instant_ms, options_as_stored
from waystation.bullmq.payloads.envelope import refuse_imitation
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.commands import hash_at, page_of
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.packing import wire_name
from waystation.bullmq.scheduling import cron, repeatables
from waystation.bullmq.scheduling.schedule import (
    RepeatStrategy,
    Schedule,
    Scheduler,
    in_ms,
    read_scheduler,
    whole,
    wire_times,
)
from waystation.core import codec
from waystation.core.durations import instant
from waystation.core.errors import (
    InvalidOption,
    NotFound,
    StoreBusy,
    StoreError,
    StoreUnreachable,
    WrongState,
)
from waystation.core.options import of_kind
from waystation.core.store.commands import ask, server_ms
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)

_SLOTS_TRIED = 32
_READ_AT_ONCE = 250
_OVERDUE_MS = 10_000
"""After so long the job of a slot has begun, and made the next one, or waits for a worker."""
_REPEATABLE, _ENDED, _TAKEN = -3, -4, -10


async def upsert(
    client: Client,
    keys: QueueKeys,
    scheduler_id: str,
    schedule: Schedule,
    *,
    name: str | None = None,
    data: Any = None,
    options: JobOptions | None = None,
    now: int | None = None,
    strategy: RepeatStrategy | None = None,
) -> str:
    """Make a scheduler, or change the one of this id; returns the id of its next job.

    One that is paused stays so and makes no job; the id is empty then.
    """
    _check_id(scheduler_id)
    of_kind("a schedule", schedule, Schedule)
    template = options_as_stored(options) if options else {}
    _check_template(options)
    payload = codec.encode_data({} if data is None else data)
    codec.check_size(len(payload))
    refuse_imitation(payload)
    now = await server_ms(client) if now is None else now
    times = in_ms(schedule)
    end = times.end
    if end is not None and end <= now:
        raise InvalidOption("end_date must be in the future")
    slot = await _first_slot(scheduler_id, schedule, now, strategy)
    for _ in range(_SLOTS_TRIED):
        if slot is not None and end is not None and slot > end:
            raise InvalidOption("the pattern is not due before end_date")
        made = await scripts.upsert_scheduler(
            client,
            keys,
            scheduler=scheduler_id,
            now=now,
            slot=_or_empty(slot),
            every=times.every or "",
            offset=times.offset or "",
            start_date=_or_empty(times.start),
            end_date=_or_empty(end),
            name=wire_name(name or scheduler_id),
            data=payload,
            fields=_record_fields(schedule, template, payload),
            **_iteration(scheduler_id, template, _repeat(schedule)),
        )
        if isinstance(made, str):
            return made
        if slot is None:
            break
        # The job of that slot has begun early, such as by hand, or has ended.
        slot = await _first_slot(scheduler_id, schedule, slot, strategy, is_later=True)
    raise WrongState(f"the next slots of scheduler {scheduler_id} already have jobs")


async def get(client: Client, keys: QueueKeys, scheduler_id: str) -> Scheduler | None:
    """The scheduler of this id."""
    found = await _read(client, keys, [scheduler_id])
    return found[0] if found else None


async def get_many(
    client: Client, keys: QueueKeys, offset: int = 0, limit: int | None = None
) -> list[Scheduler]:
    """Schedulers, by when their next jobs are due; those that are paused last."""
    found: list[bytes] = await ask(client, "ZRANGE", keys.repeat, *page_of(offset, limit))
    ids = [id.decode("utf-8", "replace") for id in found]
    if limit is None or len(ids) < limit:
        skipped = max(0, offset - await ask(client, "ZCARD", keys.repeat))
        last = None if limit is None else skipped + limit - len(ids)
        ids += (await _paused(client, keys))[skipped:last]
    pages = [ids[first : first + _READ_AT_ONCE] for first in range(0, len(ids), _READ_AT_ONCE)]
    return [scheduler for page in pages for scheduler in await _read(client, keys, page)]


async def _read(client: Client, keys: QueueKeys, ids: Sequence[str]) -> list[Scheduler]:
    found = await scripts.read_schedulers(client, keys, ids=ids)
    each = [_as_read(id, *stored) for id, stored in zip(ids, found, strict=True)]
    return [scheduler for scheduler in each if scheduler]


def _as_read(
    id: str, score: bytes, raw_mark: bytes | None, fields: dict[bytes, bytes]
) -> Scheduler | None:
    mark = _mark_in(raw_mark)
    if not fields or (mark is None and not score):
        return None
    found = read_scheduler(id, fields, score or None)
    if mark is None:
        return found
    if score:
        return msgspec.structs.replace(found, paused_by=mark.by, started_again=True)
    return msgspec.structs.replace(found, paused_ms=mark.at_ms, paused_by=mark.by)


async def count(client: Client, keys: QueueKeys) -> int:
    """How many schedulers there are, those that are paused included."""
    return await ask(client, "ZCARD", keys.repeat) + len(await _paused(client, keys))


async def pause(client: Client, keys: QueueKeys, scheduler_id: str, *, by: str = "") -> bool:
    """Make no jobs until it is resumed; False when it is paused already."""
    code = await scripts.pause_scheduler(client, keys, scheduler=scheduler_id, by=by)
    if code == _REPEATABLE:
        raise WrongState(f"{scheduler_id} is a repeatable job of BullMQ 5, which cannot be paused")
    if code < 0:
        raise NotFound(f"there is no scheduler {scheduler_id}")
    return code == 1


async def resume(
    client: Client,
    keys: QueueKeys,
    scheduler_id: str,
    *,
    now: int | None = None,
    strategy: RepeatStrategy | None = None,
) -> str:
    """Make jobs again, the first when the next is due from now on; returns its id."""
    fields = await _record(client, keys, scheduler_id)
    mark = await _mark(client, keys, scheduler_id)
    if mark is None or not fields:
        raise WrongState(f"scheduler {scheduler_id} is not paused")
    scheduler = read_scheduler(scheduler_id, fields, None)
    if scheduler.limit is not None and mark.made >= scheduler.limit:
        raise WrongState(f"scheduler {scheduler_id} has made all its jobs")
    repeat = {**_repeat_in(fields), "count": mark.made + 1}
    iteration = _iteration(scheduler_id, scheduler.options, repeat)
    now = await server_ms(client) if now is None else now
    slot: int | None = None
    for _ in range(_SLOTS_TRIED):
        if scheduler.pattern is not None:
            slot = await _next_slot(scheduler, max(now, slot or 0), strategy)
            if slot is None:
                raise WrongState(f"scheduler {scheduler_id} is not due before its end")
        made = await scripts.resume_scheduler(
            client, keys, scheduler=scheduler_id, now=now, slot=_or_empty(slot), **iteration
        )
        if made == _ENDED:
            raise WrongState(f"scheduler {scheduler_id} is not due before its end")
        if made == "":
            raise WrongState(f"scheduler {scheduler_id} is not paused")
        if made != _TAKEN:
            return str(made)
    raise WrongState(f"the next slots of scheduler {scheduler_id} already have jobs")


async def remove(client: Client, keys: QueueKeys, scheduler_id: str) -> bool:
    """Remove a scheduler; False when there is none. A job that is due already stays."""
    return await scripts.remove_scheduler(client, keys, scheduler=scheduler_id)


async def advance(
    client: Client,
    keys: QueueKeys,
    job: Job,
    *,
    now: int | None = None,
    strategy: RepeatStrategy | None = None,
) -> str | None:
    """Add the scheduler's next job; returns its id, or None when there is none to add."""
    try:
        return await _advance(client, keys, job, now, strategy)
    except StoreError:
        raise
    except Exception as error:
        # The job itself can run. Another worker may know the calendar, or the calendar answer
        # later, so upkeep asks again.
        _log.error("scheduler_waits", error, queue=keys.name, job_id=job.id)
        return None


async def advance_overdue(
    client: Client, keys: QueueKeys, *, strategy: RepeatStrategy | None = None
) -> list[str]:
    """Make the next jobs of schedulers whose last one ran when nobody could say what comes next.

    A schedule ends by its limit, its end or a person; returns the ids of the jobs.
    """
    until = await server_ms(client) - _OVERDUE_MS
    found: list[bytes] = await ask(client, "ZRANGEBYSCORE", keys.repeat, "-inf", until)
    made: list[str | None] = []
    for first in range(0, len(found), _READ_AT_ONCE):
        ids = [id.decode("utf-8", "replace") for id in found[first : first + _READ_AT_ONCE]]
        for each in await _read(client, keys, ids):
            # Those that have ended stay for ever, so they are asked for nothing more.
            if not _is_over(each, until):
                made.append(await _advance_one(client, keys, each, strategy))
    return [id for id in made if id]


async def _advance_one(
    client: Client, keys: QueueKeys, scheduler: Scheduler, strategy: RepeatStrategy | None
) -> str | None:
    try:
        job = await _last_job(client, keys, scheduler)
        return job and await advance(client, keys, job, strategy=strategy)
    except (StoreUnreachable, StoreBusy):
        raise
    except Exception as error:
        # Whatever is wrong with one scheduler must not keep the others waiting.
        _log.error("scheduler_waits", error, queue=keys.name, job_id=scheduler.id)
        return None


async def _last_job(client: Client, keys: QueueKeys, scheduler: Scheduler) -> Job | None:
    """The job of a scheduler's last slot; None while that is to run yet, or nothing follows it."""
    record = await _record(client, keys, scheduler.id)
    if scheduler.next_ms is None or b"ic" not in record:
        return None
    id = f"repeat:{scheduler.id}:{scheduler.next_ms}"
    if await scripts.state_of(client, keys, id=id) not in ("completed", "failed", "unknown"):
        return None
    fields = await hash_at(client, keys.of(id).job)
    if not fields:
        repeat = {**_repeat_in(record), "count": scheduler.iteration_count}
        fields = {b"rjk": scheduler.id.encode(), b"opts": codec.encode({"repeat": repeat})}
    return Job(id, fields, QueueRef(client, keys))


def _is_over(scheduler: Scheduler, now: int) -> bool:
    limit, end = scheduler.limit, scheduler.end_ms
    is_made = limit is not None and scheduler.iteration_count >= limit
    return is_made or (end is not None and max(scheduler.next_ms or 0, now) >= end)


async def _advance(
    client: Client, keys: QueueKeys, job: Job, now: int | None, strategy: RepeatStrategy | None
) -> str | None:
    scheduler_id = job.scheduler_id or ""
    fields = await _record(client, keys, scheduler_id)
    if b"ic" not in fields:
        # Only a scheduler counts its jobs; without the count it is a repeatable job of BullMQ 5.
        now = await server_ms(client) if now is None else now
        return await repeatables.advance(client, keys, job, now=now)
    scheduler = read_scheduler(scheduler_id, fields, None)
    repeat = _repeat_of(job)
    count = whole(repeat.get("count")) or 1
    now = await server_ms(client) if now is None else now
    if scheduler.limit is not None and count >= scheduler.limit:
        return None
    if scheduler.end_ms is not None and now > scheduler.end_ms:
        return None
    iteration = _iteration(scheduler_id, scheduler.options, {**repeat, "count": count + 1})
    slot: int | None = None
    for _ in range(_SLOTS_TRIED):
        if scheduler.pattern is not None:
            after = max(now, _slot_of(job), slot or 0)
            slot = await _next_slot(scheduler, after, strategy)
            if slot is None:
                return None
        made = await scripts.advance_scheduler(
            client,
            keys,
            scheduler=scheduler_id,
            job=job.id,
            now=now,
            slot=_or_empty(slot),
            **iteration,
        )
        if made != _TAKEN:
            return str(made) or None
    _log.warning("scheduler_slots_taken", job_id=job.id)
    return None


async def _first_slot(
    scheduler_id: str,
    schedule: Schedule,
    now: int,
    strategy: RepeatStrategy | None,
    *,
    is_later: bool = False,
) -> int | None:
    if schedule.pattern is None:
        return None
    if schedule.immediately and not is_later:
        return now
    start = max(now, in_ms(schedule).start or 0)
    if not schedule.custom:
        return cron.next_after(schedule.pattern, schedule.tz, start)
    if strategy is None:
        raise InvalidOption("a custom schedule needs a queue with a repeat_strategy")
    fields = {name.encode(): str(value).encode() for name, value in wire_times(schedule).items()}
    slot = await _asked(strategy, start, read_scheduler(scheduler_id, fields, None))
    if slot is None:
        raise InvalidOption(f"the repeat_strategy has no next time for {schedule.pattern!r}")
    return slot


async def _next_slot(
    scheduler: Scheduler, after: int, strategy: RepeatStrategy | None
) -> int | None:
    start = max(after, scheduler.start_ms or 0)
    if strategy is not None:
        slot = await _asked(strategy, start, scheduler)
    else:
        slot = cron.next_after(scheduler.pattern or "", scheduler.tz, start)
    is_over = slot is not None and scheduler.end_ms is not None and slot > scheduler.end_ms
    return None if is_over else slot


async def _asked(strategy: RepeatStrategy, after: int, scheduler: Scheduler) -> int | None:
    slot = strategy(instant(after), scheduler)
    if isinstance(slot, Awaitable):
        slot = await slot
    return None if slot is None else instant_ms("the time from repeat_strategy", slot)


def _repeat(schedule: Schedule) -> dict[str, Any]:
    """The schedule in a job's options."""
    return {
        "count": 1,
        **wire_times(schedule),
        **({"offset": offset} if (offset := in_ms(schedule).offset) else {}),
    }


def _record_fields(
    schedule: Schedule, template: Mapping[str, Any], payload: bytes
) -> list[str | bytes | int]:
    fields: dict[str, Any] = wire_times(schedule)
    if template:
        fields["opts"] = codec.encode(template)
    if payload != b"{}":
        fields["data"] = payload
    return [part for field in fields.items() for part in field]


def _iteration(
    scheduler_id: str, template: Mapping[str, Any], repeat: Mapping[str, Any]
) -> dict[str, Any]:
    """What the script needs to add a job; it appends to the texts and closes them."""
    opts = codec.encode_as_node({**template, "repeat": repeat, "repeatJobKey": scheduler_id})
    return {
        "opts": opts[:-1],
        "id": codec.encode(f"repeat:{scheduler_id}:")[:-1],
        "priority": max(0, whole(template.get("priority")) or 0),
        "lifo": int(bool(template.get("lifo"))),
        "deduplication": _deduplication_id(template.get("de")),
    }


def _deduplication_id(rule: Any) -> str:
    match rule:
        case {"id": str(id)}:
            return id
        case _:
            return ""


async def _record(client: Client, keys: QueueKeys, scheduler_id: str) -> dict[bytes, bytes]:
    return await hash_at(client, f"{keys.repeat}:{scheduler_id}")


class _Mark(NamedTuple):
    """What is kept about a scheduler that is paused."""

    made: int
    """Jobs that it has made, as its limit counts them."""
    at_ms: int
    by: str


async def _mark(client: Client, keys: QueueKeys, scheduler_id: str) -> _Mark | None:
    return _mark_in(await ask(client, "HGET", keys.paused_schedulers, scheduler_id))


def _mark_in(raw: bytes | None) -> _Mark | None:
    if raw is None:
        return None
    made, _, rest = raw.decode("utf-8", "replace").partition(" ")
    at_ms, _, by = rest.partition(" ")
    return _Mark(whole(made) or 0, whole(at_ms) or 0, by)


async def _paused(client: Client, keys: QueueKeys) -> list[str]:
    """Ids of schedulers that are paused; one that Node has made again is not."""
    found: list[bytes] = await ask(client, "HKEYS", keys.paused_schedulers)
    ids = sorted(id.decode("utf-8", "replace") for id in found)
    scores: list[Any] = await ask(client, "ZMSCORE", keys.repeat, *ids) if ids else []
    return [id for id, score in zip(ids, scores, strict=True) if score is None]


def _repeat_in(fields: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The schedule in a job's options, from the record."""
    known = {name.decode("utf-8", "replace"): value for name, value in fields.items()}
    numbers = ("limit", "startDate", "endDate", "every", "offset")
    found: dict[str, Any] = {
        name: codec.as_text(known[name]) for name in ("tz", "pattern") if name in known
    }
    found |= {name: whole(known[name]) for name in numbers if name in known}
    if "every" not in found:
        found.pop("offset", None)
    return found


def _repeat_of(job: Job) -> dict[str, Any]:
    repeat = job.options.raw.get("repeat")
    return dict(cast(dict[str, Any], repeat)) if isinstance(repeat, dict) else {}


def _slot_of(job: Job) -> int:
    return whole(job.id.rpartition(":")[2]) or 0


def _or_empty(value: int | None) -> str | int:
    return "" if value is None else value


def _check_id(scheduler_id: str) -> None:
    if not scheduler_id:
        raise InvalidOption("a scheduler needs an id")


def _check_template(options: JobOptions | None) -> None:
    if options is None:
        return
    for what in ("job_id", "parent", "created_at"):
        if getattr(options, what) is not None:
            raise InvalidOption(f"a scheduler chooses the {what} of its jobs itself")
    if options.delay:
        raise InvalidOption("a scheduler chooses the delay of its jobs itself")
