"""Why a job of routing, or a type of job, does not move."""

from typing import Any

from waystation.console.why.answer import Answer, Cause, Finding, at, count, iso
from waystation.console.why.recent import failing, newest, pace
from waystation.core.errors import NoHandler
from waystation.core.events import Product
from waystation.core.store.commands import server_ms
from waystation.core.store.connection import Store
from waystation.routing import Lack, Queue, Reason, Why

_CAUSES = {
    Why.READY: Cause.READY,
    Why.UNMATCHED: Cause.UNMATCHED,
    Why.PAUSED: Cause.PAUSED,
    Why.LIMITED: Cause.LIMITED,
    Why.LOCKED: Cause.LOCKED,
    Why.HELD: Cause.DEPENDENT,
    Why.DELAYED: Cause.DELAYED,
    Why.RETRYING: Cause.RETRYING,
    Why.SCHEDULED: Cause.SCHEDULED,
    Why.ACTIVE: Cause.HELD,
    Why.COMPLETED: Cause.COMPLETED,
    Why.CANCELLED: Cause.CANCELLED,
    Why.FAILED: Cause.FAILED,
    Why.DEAD: Cause.FAILED,
}
_URGENT = (Why.PAUSED, Why.UNMATCHED, Why.LIMITED)
"""Of several reasons the first that must change before the others matter."""


async def job(store: Store, id: str, *, namespace: str) -> Answer | None:
    """Why a job is where it is; None when nothing is known of it."""
    queue = Queue(store, prefix=namespace)
    reasons = await queue.why(id)
    if not reasons:
        found, type = await _gone(store, queue, id)
        return found.about(Product.ROUTING, type, "job", id) if found else None
    job = await queue.get_job(id)
    type = job.type if job else ""
    first = sorted(reasons, key=lambda each: _URGENT.index(each.why) if each.why in _URGENT else 9)
    found = await _found(store, queue, type, id, first)
    return found.about(Product.ROUTING, type, "job", id)


async def _found(store: Store, queue: Queue, type: str, id: str, reasons: list[Reason]) -> Finding:
    chosen = reasons[0]
    cause, text = _cause(chosen), chosen.text
    facts: dict[str, Any] = {
        "type": type or None,
        "reasons": [each.text for each in reasons] if len(reasons) > 1 else None,
    }
    match chosen.why:
        case Why.READY:
            facts["ahead"] = chosen.ahead
            if chosen.ahead:
                seen = await pace(store.hot, queue.keys.events, await server_ms(store.hot))
                text = f"{text}{seen.sentence(chosen.ahead)}"
        case Why.UNMATCHED:
            is_alone = cause is Cause.NOBODY
            alone = "waits, and nobody works here: no worker is alive"
            text = alone if is_alone else f"waits because {text}"
        case Why.PAUSED:
            who = await _paused(store, queue, type)
            text = f"waits because {text}{who.pop('text', '')}"
            facts |= who
        case Why.LIMITED:
            text = f"waits: its type is {text}"
        case Why.DELAYED | Why.SCHEDULED:
            text = f"is {text}" if chosen.why is Why.DELAYED else text
        case Why.ACTIVE:
            text = f"is held: {text}{await _heard(queue, chosen.worker)}"
        case Why.COMPLETED:
            text = f"was {text}; `waystation routing show {id}` shows its result for a day"
        case Why.CANCELLED:
            found, _ = await _gone(store, queue, id)
            text = found.text if found and found.cause is Cause.CANCELLED else f"was {text}"
        case Why.DEAD:
            text = f"is {text}; `waystation routing requeue {id}` runs it again"
        case Why.RETRYING:
            text = f"waits: {text}"
        case _:
            pass
    return Finding(cause, text, facts, until_ms=chosen.until_ms)


async def type(store: Store, name: str, *, namespace: str) -> Answer | None:
    """Why jobs of a type do not move, or that they do; None when the type is not known."""
    queue = Queue(store, prefix=namespace)
    workers = [each for each in await queue.workers() if each.alive]
    able = [each.server for each in workers if name in each.types or not each.types]
    covered = [each for each in await queue.coverage() if each.type == name]
    waiting = sum(each.waiting for each in covered)
    facts: dict[str, Any] = {"waiting": waiting, "workers": able}
    if await queue.is_paused(name):
        who = await _paused(store, queue, name)
        text = f"is paused{who.pop('text', '')}; {count(waiting, 'job')} of it wait"
        found = Finding(Cause.PAUSED, text, facts | who)
    elif stuck := next((each for each in covered if each.reasons), None):
        reason = stuck.reasons[0]
        text = f"has {count(waiting, 'waiting job')}: {reason.text}"
        found = Finding(_cause(reason), text, facts, until_ms=reason.until_ms)
    elif bad := await failing(store.hot, queue.keys.events, match={b"queue": name.encode()}):
        found = bad.found()
    elif waiting:
        own = {b"queue": name.encode()}
        seen = await pace(store.hot, queue.keys.events, await server_ms(store.hot), match=own)
        text = f"is at work: {waiting:,} wait{seen.sentence(waiting)}"
        found = Finding(Cause.WORKING, text, facts)
    elif able:
        text = f"has nothing to do; {count(len(able), 'live worker')} would take it"
        found = Finding(Cause.EMPTY, text, facts)
    elif await queue.knows(name):
        text = "has nothing that waits, and no live worker"
        found = Finding(Cause.NOBODY, text, facts)
    else:
        return None
    return found.about(Product.ROUTING, name, "queue", name)


async def every(store: Store, *, namespace: str) -> Answer:
    """Why the jobs of all types do not move, or that they do."""
    queue = Queue(store, prefix=namespace)
    covered = await queue.coverage()
    waiting = sum(each.waiting for each in covered)
    stuck = [each for each in covered if each.reasons]
    facts: dict[str, Any] = {
        "waiting": waiting,
        "workers": [each.server for each in await queue.workers() if each.alive],
    }
    if stuck:
        most = max(stuck, key=lambda each: each.waiting)
        reason = most.reasons[0]
        held = sum(each.waiting for each in stuck)
        text = f"has {count(waiting, 'waiting job')}, of which {held:,} cannot start; "
        text += f"those of type {most.type}: {reason.text}"
        found = Finding(_cause(reason), text, facts, until_ms=reason.until_ms)
    elif bad := await failing(store.hot, queue.keys.events):
        found = bad.found()
    elif waiting:
        seen = await pace(store.hot, queue.keys.events, await server_ms(store.hot))
        text = f"is at work: {waiting:,} {'waits' if waiting == 1 else 'wait'}"
        found = Finding(Cause.WORKING, text + seen.sentence(waiting), facts)
    else:
        found = Finding(Cause.EMPTY, "has no job that waits", facts)
    return found.about_all(Product.ROUTING, namespace)


def _cause(reason: Reason) -> Cause:
    if Lack.WORKER in reason.lacks:
        return Cause.NOBODY
    if Lack.TYPE in reason.lacks or reason.code == NoHandler.code:
        return Cause.NO_HANDLER
    return Cause.BEHIND if reason.ahead else _CAUSES[reason.why]


async def _heard(queue: Queue, name: str) -> str:
    for worker in await queue.workers():
        if worker.server == name and worker.seen_at:
            alive = "last heard" if worker.alive else "and silent since"
            return f", {alive} at {worker.seen_at:%Y-%m-%d %H:%M:%S} UTC"
    return ""


async def _paused(store: Store, queue: Queue, type: str) -> dict[str, Any]:
    wanted = {"queue": type, "event": "paused"}.items()
    last = await newest(store.hot, queue.keys.events, lambda event: wanted <= event.items())
    if last is None:
        return {}
    at_ms, by = last[0], last[1].get("by", "")
    return {
        "text": f"{f' by {by}' if by else ''} since {at(at_ms)}",
        "paused_at": iso(at_ms),
        "paused_by": by or None,
    }


_ENDS = {
    "completed": (Cause.COMPLETED, "was completed"),
    "cancelled": (Cause.CANCELLED, "was cancelled"),
    "dead": (Cause.FAILED, "failed for good"),
    "removed": (Cause.REMOVED, "was removed"),
}


async def _gone(store: Store, queue: Queue, id: str) -> tuple[Finding | None, str]:
    """What the events say of a job whose state is not kept any more, and its type."""
    last = await newest(store.hot, queue.keys.events, lambda event: event.get("subject") == id)
    if last is None:
        return None, ""
    at_ms, event = last
    name, by, reason = (event.get(each, "") for each in ("event", "by", "reason"))
    cause, did = _ENDS.get(name, (Cause.REMOVED, f"is gone; its last event was {name}"))
    text = f"{did}{f' by {by}' if by else ''} at {at(at_ms)}"
    text += f" ({reason})" if reason else ""
    facts = {"event": name, "at": iso(at_ms), "removed_by": by or None}
    return Finding(cause, text, facts), event.get("queue", "")
