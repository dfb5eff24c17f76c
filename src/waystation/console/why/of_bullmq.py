"""Why a job of BullMQ, or a queue of it, does not move."""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from waystation.bullmq.fields import FailureCause, JobFields, awaited_signal, failure_cause
from waystation.bullmq.payloads.notes import note_on
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.replies import Standing
from waystation.bullmq.scheduling import schedulers
from waystation.console.names import bullmq_workers
from waystation.console.why import of_groups
from waystation.console.why.answer import Answer, Cause, Finding, at, count, iso, line, span
from waystation.console.why.recent import failing, newest, pace
from waystation.core.codec import as_text
from waystation.core.errors import StoreBusy, StoreError, StoreUnreachable
from waystation.core.events import Product
from waystation.core.store.commands import MOST_EVENTS, ask
from waystation.core.store.connection import Store

_BLOCKED = 2**53 - 1
"""What a limiter holds while a handler has asked for a pause."""
_CHILDREN = 1000
"""Children that are looked at, to find one that has failed."""
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
"""A line of a traceback of Python."""


async def job(store: Store, keys: QueueKeys, id: str, *, shown: str) -> Answer | None:
    """Why a job is where it is; None when nothing is known of it."""
    found = await _job(store, keys, id, shown)
    return None if found is None else found.about(Product.BULLMQ, shown, "job", id)


async def queue(store: Store, keys: QueueKeys, *, shown: str) -> Answer:
    """Why a queue does not move, or that it does."""
    standing = await scripts.standing(store.hot, keys, id="")
    found = await _held_back(store, keys, standing)
    if found is None and (seen := await failing(store.hot, keys.events)):
        found = seen.found()
    found = found or await _moves(store, keys, standing)
    return found.about(Product.BULLMQ, shown, "queue", shown)


async def scheduler(store: Store, keys: QueueKeys, id: str, *, shown: str) -> Answer | None:
    """When a scheduler adds its next job; None when there is none of this id."""
    found = await schedulers.get(store.hot, keys, id)
    if found is None:
        return None
    rule = (
        f"every {span(found.every_ms / 1000)}"
        if found.every_ms
        else f"by the pattern {found.pattern}{f' in {found.tz}' if found.tz else ''}"
    )
    known = {"name": found.name, "jobs": found.iteration_count, "ends_at": iso(found.end_ms)}
    if found.paused_ms is not None:
        by = f" by {found.paused_by}" if found.paused_by else ""
        return Finding(
            Cause.PAUSED,
            f"of queue {shown}, which adds jobs {rule}, was paused{by} at "
            f"{at(found.paused_ms)}; it adds none until it is resumed",
            known | {"paused_at": iso(found.paused_ms), "paused_by": found.paused_by},
        ).about(Product.BULLMQ, shown, "scheduler", id)
    return Finding(
        Cause.SCHEDULED,
        f"of queue {shown} adds jobs {rule}; the next is due at {at(found.next_ms)}",
        known,
        until_ms=found.next_ms,
    ).about(Product.BULLMQ, shown, "scheduler", id)


async def _job(store: Store, keys: QueueKeys, id: str, shown: str) -> Finding | None:
    standing = await scripts.standing(store.hot, keys, id=id)
    job = JobFields[Any, Any](id, standing.fields)
    match standing.state:
        case "completed":
            return _completed(keys, job, shown)
        case "failed":
            return _failed(job)
        case "delayed":
            return await _delayed(store, keys, standing, job)
        case "waiting-children":
            return await _dependent(store, keys, job)
        case "active":
            return await _active(store, keys, standing, job)
        case "waiting" | "prioritized":
            return await _waiting(store, keys, standing, job)
        case _ if standing.fields:
            return Finding(
                Cause.ORPHANED,
                "is stored, but in no state, so no worker finds it; `remove_orphans` "
                "deletes such jobs",
                _facts(job),
            )
        case _:
            return await _gone(store, keys, id)


def _completed(keys: QueueKeys, job: JobFields, shown: str) -> Finding:
    under = "" if shown == keys.name else f"--prefix {keys.prefix} "
    where = f"`waystation bullmq {under}job {keys.name} {job.id}` shows its result"
    return Finding(
        Cause.COMPLETED,
        f"was completed by {job.processed_by or 'a worker'} at {at(job.finished_ms)}; {where}",
        _facts(job),
    )


def _failed(job: JobFields) -> Finding:
    reason, when = line(job.failed_reason), at(job.finished_ms)
    match failure_cause(job):
        case FailureCause.NO_HANDLER:
            cause = Cause.NO_HANDLER
            text = f"failed for good at {when}: worker {job.processed_by or '?'} has {reason}"
        case FailureCause.CANCELLED:
            cause, text = Cause.CANCELLED, f"was cancelled at {when} ({reason})"
        case FailureCause.STALLED:
            cause = Cause.LOST
            lost = f"it lost its worker {count(job.stalled_count, 'time')}, more than it may"
            text = f"failed for good at {when}: {lost}"
        case None:
            tried = count(max(1, job.attempts_made), "attempt")
            cause = Cause.FAILED
            text = f"failed for good at {when} after {tried}: {reason or 'no reason'}"
    return Finding(cause, text, _facts(job))


async def _delayed(store: Store, keys: QueueKeys, standing: Standing, job: JobFields) -> Finding:
    due = standing.due_ms or 0
    late = ", and its queue is paused" if standing.paused else ""
    if not standing.paused and standing.now_ms - due >= 1000:
        late = f", which was {span((standing.now_ms - due) / 1000)} ago"
        if await _has_nobody(store, keys):
            late += ": nobody works on this queue"
    if (awaited := awaited_signal(job, due)) is not None:
        text = f"sleeps until {at(due)}, between two of its steps"
        if awaited:
            text = f"waits for the signal {awaited!r}; without it, it runs again at {at(due)}"
        text += late
        return Finding(Cause.DELAYED, text, _facts(job), until_ms=due)
    if job.attempts_made:
        reason = line(job.failed_reason)
        text = (
            f"failed {job.attempts_made} of {job.max_attempts} attempts"
            f"{f' ({reason})' if reason else ''}; the next one is at {at(due)}{late}"
        )
        return Finding(Cause.RETRYING, text, _facts(job), until_ms=due)
    scheduler = f" by scheduler {job.scheduler_id}" if job.scheduler_id else ""
    return Finding(
        Cause.SCHEDULED if scheduler else Cause.DELAYED,
        f"is delayed{scheduler} until {at(due)}{late}",
        _facts(job),
        until_ms=due,
    )


async def _active(store: Store, keys: QueueKeys, standing: Standing, job: JobFields) -> Finding:
    holder, since = job.processed_by or "a worker", at(job.started_ms)
    workers = found_workers(await bullmq_workers(store, keys.prefix), keys.name)
    facts = _facts(job) | {"lock_ms": standing.lock_ms if standing.lock else None}
    then = "the next check for stalled jobs puts it back"
    if workers == []:
        then += ", which workers make, and none is connected"
    if standing.lock is None:
        return Finding(
            Cause.LOST,
            f"was started by {holder} at {since}, but its lock has run out; {then}",
            facts,
        )
    if job.processed_by and workers is not None and job.processed_by not in workers:
        left = span(standing.lock_ms / 1000)
        return Finding(
            Cause.LOST,
            f"is held by {holder} since {since}, but no worker of that name is connected any "
            f"more; its lock runs out in {left}, and then {then}",
            facts | {"workers": workers},
            until_ms=standing.now_ms + standing.lock_ms,
        )
    again = ""
    if job.stalled_count:
        again = f"lost its lock {count(job.stalled_count, 'time')} and was picked up again: it "
    left = f"its lock was renewed and has {span(standing.lock_ms / 1000)} left"
    return Finding(Cause.HELD, f"{again}is held by {holder} since {since}; {left}", facts)


def _as_asked(keys: QueueKeys, key: str) -> str:
    """A job as `why` takes it: node/17, or trial:node/17 under another prefix."""
    base, _, id = key.removeprefix(f"{keys.prefix}:").rpartition(":")
    return f"{base}/{id}"


async def _dependent(store: Store, keys: QueueKeys, job: JobFields) -> Finding:
    own = keys.of(job.id)
    raw = await ask(store.hot, "SSCAN", own.dependencies, 0, "COUNT", _CHILDREN)
    waits_for = [as_text(key) for key in raw[1]]
    total = await ask(store.hot, "SCARD", own.dependencies)
    states: dict[str, str] = {}
    for key in sorted(waits_for):
        base, _, id = key.rpartition(":")
        child = await scripts.standing(store.hot, QueueKeys.at(base), id=id)
        states[key] = child.state
    failed = [key for key, state in states.items() if state == "failed"]
    chosen = (failed or sorted(states) or ["?"])[0]
    state = states.get(chosen, "unknown").replace("unknown", "gone")
    others = f", and for {count(total - 1, 'other')}" if total > 1 else ""
    has = "has failed" if state == "failed" else f"is {state}"
    text = f"waits for child {_as_asked(keys, chosen)}, which {has}{others}"
    if failed:
        text += "; retry or remove the child, or make it with `ignore_dependency_on_failure`"
    facts = _facts(job) | {
        "children": total,
        "failed": failed[:10] or None,
        "failed_in_all": len(failed) or None,
    }
    return Finding(Cause.DEPENDENT, text, facts)


async def _waiting(store: Store, keys: QueueKeys, standing: Standing, job: JobFields) -> Finding:
    facts = _facts(job) | {"ahead": standing.ahead, "priority": job.priority or None}
    if found := await _held_back(store, keys, standing):
        return Finding(
            found.cause,
            f"waits because its queue {found.text}",
            facts | found.evidence,
            until_ms=found.until_ms,
        )
    workers = found_workers(await bullmq_workers(store, keys.prefix), keys.name)
    facts["workers"] = workers
    if standing.turns:
        return _of_group(job, await of_groups.waiting(store, keys, standing), facts)
    others = f"behind {count(standing.ahead, 'other')}" if standing.ahead else "as the next one"
    seen = await pace(store.hot, keys.events, standing.now_ms)
    takes = seen.sentence(standing.ahead) if standing.ahead else ""
    if job.stalled_count:
        text = f"lost its worker {job.processed_by or ''}".rstrip() + (
            f", whose lock ran out, and waits to be picked up again {others}{takes}"
        )
        return Finding(Cause.LOST, text, facts)
    if standing.ahead:
        return Finding(Cause.BEHIND, f"waits {others}{takes}", facts)
    busy = count(standing.active, "job")
    return Finding(
        Cause.READY,
        f"is the next one; {busy} {'is' if standing.active == 1 else 'are'} active",
        facts,
    )


def _of_group(job: JobFields, found: Finding, facts: dict[str, Any]) -> Finding:
    """Why a job of a group waits, as the one that it is."""
    cause, text = found.cause, found.text
    if job.stalled_count:
        cause = Cause.LOST
        text = f"lost its worker {job.processed_by or ''}".rstrip() + f", and {text}"
    return Finding(cause, text, facts | found.evidence, until_ms=found.until_ms)


async def _held_back(store: Store, keys: QueueKeys, standing: Standing) -> Finding | None:
    """What holds the whole queue back, if something does."""
    if standing.paused:
        return await _paused(store, keys)
    if limited := _limited(standing):
        return limited
    if standing.concurrency is not None and standing.active >= standing.concurrency:
        return Finding(
            Cause.FULL,
            f"may have {count(standing.concurrency, 'active job')} at a time, and "
            f"{standing.active:,} are active",
            {"active": standing.active, "concurrency": standing.concurrency},
        )
    if (standing.waiting or standing.active) and await _has_nobody(store, keys):
        return Finding(
            Cause.NOBODY, "has nobody who works on it: no worker is connected", {"workers": []}
        )
    return None


def found_workers(known: dict[str, list[str]] | None, queue: str) -> list[str] | None:
    """The workers of one queue; None where the server does not say."""
    return None if known is None else known.get(queue, [])


async def _paused(store: Store, keys: QueueKeys) -> Finding:
    last = await _newest(store, keys, lambda event: event.get("event") in ("paused", "resumed"))
    if last and last[1]["event"] == "paused":
        at_ms, event = last
        by = f" by {event['by']}" if event.get("by") else ""
        known = {"paused_at": iso(at_ms), "paused_by": event.get("by")}
        return Finding(Cause.PAUSED, f"was paused{by} at {at(at_ms)}", known)
    text = f"is paused; none of its newest {MOST_EVENTS:,} events says since when"
    return Finding(Cause.PAUSED, text)


def _limited(standing: Standing) -> Finding | None:
    started, left = standing.started, standing.window_ms
    if not started or left <= 0:
        return None
    until = standing.now_ms + left
    if started >= _BLOCKED:
        text = "a handler asked for a pause"
    elif standing.limit is not None and started >= standing.limit:
        text = f"{started:,} of {standing.limit:,} jobs were started in this window"
    elif standing.limit is None and standing.waiting and not standing.active:
        text = f"workers have a limit of their own, and started {count(started, 'job')}"
    else:
        return None
    return Finding(
        Cause.LIMITED,
        f"is rate-limited until {at(until)}: {text}",
        {"started": started, "limit": standing.limit, "until": iso(until)},
        until_ms=until,
    )


async def _has_nobody(store: Store, keys: QueueKeys) -> bool:
    known = await bullmq_workers(store, keys.prefix)
    return known is not None and not known.get(keys.name)


async def _moves(store: Store, keys: QueueKeys, standing: Standing) -> Finding:
    workers = found_workers(await bullmq_workers(store, keys.prefix), keys.name)
    facts = {"waiting": standing.waiting, "active": standing.active, "workers": workers}
    if not standing.waiting and not standing.active:
        delayed = await ask(store.hot, "ZCARD", keys.delayed)
        failed = await ask(store.hot, "ZCARD", keys.failed)
        are = "is" if delayed == 1 else "are"
        later = f"; {count(delayed, 'job')} {are} delayed"
        overdue = await ask(store.hot, "ZCOUNT", keys.delayed, 0, (standing.now_ms - 1) * 4096)
        if overdue and await _has_nobody(store, keys):
            return Finding(
                Cause.NOBODY,
                f"has nobody who works on it: no worker is connected, and {overdue:,} of "
                f"{count(delayed, 'delayed job')} {'is' if overdue == 1 else 'are'} due",
                {"workers": [], "delayed": delayed},
            )
        return Finding(
            Cause.EMPTY,
            f"has nothing to do now{later if delayed else ''}",
            facts | {"delayed": delayed or None, "failed": failed or None},
        )
    seen = await pace(store.hot, keys.events, standing.now_ms)
    takes = seen.sentence(standing.waiting) if standing.waiting else ""
    return Finding(
        Cause.WORKING,
        f"is at work: {standing.active:,} active and {standing.waiting:,} waiting{takes}",
        facts,
    )


_ENDS = {
    "completed": (Cause.COMPLETED, "was completed"),
    "failed": (Cause.FAILED, "failed for good"),
    "removed": (Cause.REMOVED, "was removed"),
}
_AFTER_THE_END = ("retries-exhausted", "kept")


async def _gone(store: Store, keys: QueueKeys, id: str) -> Finding | None:
    """What the events say of a job that is not stored any more."""
    last = await _newest(
        store,
        keys,
        lambda event: event.get("jobId") == id and event.get("event") not in _AFTER_THE_END,
    )
    if last is None:
        return None
    at_ms, event = last
    name = event.get("event", "")
    cause, did = _ENDS.get(name, (Cause.REMOVED, f"is gone; its last event was {name}"))
    text = f"{did}{_by(event, name)} at {at(at_ms)}"
    if name in ("completed", "failed"):
        reason = line(event.get("failedReason"))
        text += f"{f' ({reason})' if reason else ''}, and was not kept"
    facts = {"event": name, "at": iso(at_ms), "removed_by": event.get("by")}
    if name == "completed":
        facts["result"] = event.get("returnvalue")
    return Finding(cause, text, facts)


def _by(event: dict[str, str], name: str) -> str:
    if event.get("by"):
        return f" by {event['by']}"
    prev = event.get("prev")
    return f" while it was {prev}" if name == "removed" and prev else ""


async def _newest(
    store: Store, keys: QueueKeys, wanted: Callable[[dict[str, str]], bool]
) -> tuple[float, dict[str, str]] | None:
    try:
        return await newest(store.hot, keys.events, wanted)
    except (StoreUnreachable, StoreBusy):
        raise
    except StoreError:
        return None  # another type of key lies there: there are no events


def _facts(job: JobFields) -> dict[str, Any]:
    return {
        "name": job.name,
        "created_at": iso(job.created_ms),
        "attempts_made": job.attempts_made,
        "attempts": job.max_attempts,
        "stalled": job.stalled_count or None,
        "worker": job.processed_by,
        "started_at": iso(job.started_ms),
        "finished_at": iso(job.finished_ms),
        "failed_reason": line(job.failed_reason) or None,
        "raised_at": _place(job.stacktrace),
        "payload": note_on(job),
    }


def _place(traces: Sequence[str]) -> str | None:
    """The file, line and function that raised the last error, where its worker was in Python."""
    frames = _FRAME.findall(traces[-1]) if traces else []
    if not frames:
        return None
    path, number, function = frames[-1]
    return f"{PurePath(path).name}:{number} {function}"
