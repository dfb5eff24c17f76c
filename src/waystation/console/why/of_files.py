"""Why a file, or a priority of files, does not move."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

from waystation.console.why.answer import Answer, Cause, Finding, at, count, iso, line
from waystation.console.why.recent import failing, newest, pace
from waystation.core.events import Product
from waystation.core.store.commands import server_ms
from waystation.core.store.connection import Store
from waystation.files import DeadLetter, Job, Layout, Queue, WorkerInfo
from waystation.files.redis import lists
from waystation.files.redis.lists import Place

_PAGE = 500


class _Spot(NamedTuple):
    """A job, and where it was found."""

    place: Place
    ahead: int
    job: Job
    raw: bytes


async def file(store: Store, named: str, *, layout: Layout) -> Answer | None:
    """Why a file is where it is, by its job's id or its path; None when nothing is known of it."""
    queue = Queue(store, layout=layout)
    spot = await _find(store, queue, named)
    if spot is None:
        gone = await _gone(store, queue, named)
        return gone and gone.about(Product.FILES, "", "file", named)
    found = await _found(store, queue, spot)
    return found.about(Product.FILES, spot.job.priority, "file", spot.job.filepath)


async def priority(store: Store, name: str, *, layout: Layout) -> Answer:
    """Why the files of a priority do not move, or that they do."""
    queue = Queue(store, layout=layout)
    waiting, delayed = [
        (await lists.length(store.redis, place))
        for place in await lists.places(
            store.redis, queue.keys, "waiting", "delayed", priority=name
        )
    ][::-1]
    alive = [worker for worker in await queue.workers() if worker.alive]
    facts: dict[str, Any] = {
        "waiting": waiting,
        "delayed": delayed or None,
        "workers": [worker.name for worker in alive],
    }
    match = {b"queue": layout.queues[name].encode()}
    if waiting and not alive:
        text = f"has {count(waiting, 'waiting file')}, and nobody works on it: no worker is alive"
        found = Finding(Cause.NOBODY, text, facts)
    elif bad := await failing(store.hot, queue.keys.events, match=match):
        found = bad.found()
    elif not waiting:
        text = "has nothing to do now"
        found = Finding(Cause.EMPTY, text, facts)
    else:
        seen = await _pace(store, queue, layout.queues[name])
        text = f"is at work: {waiting:,} wait{seen.sentence(waiting)}"
        found = Finding(Cause.WORKING, text, facts)
    return found.about(Product.FILES, name, "queue", name)


async def every(store: Store, *, layout: Layout) -> Answer:
    """Why the files of all priorities do not move, or that they do."""
    queue = Queue(store, layout=layout)
    counts = await queue.counts()
    alive = [worker.name for worker in await queue.workers() if worker.alive]
    waiting, active, stuck = counts["waiting"], counts["active"], counts["unmatched"]
    facts: dict[str, Any] = {"waiting": waiting, "active": active, "workers": alive}
    if (waiting or stuck or active) and not alive:
        files = count(waiting + stuck + active, "file")
        text = f"has {files} to do, and nobody works on it: no worker is alive"
        found = Finding(Cause.NOBODY, text, facts)
    elif stuck:
        text = f"has {count(stuck, 'file')} for whose name no live worker has a function"
        text += f"; {active:,} active and {waiting:,} waiting besides" if active or waiting else ""
        found = Finding(Cause.NO_HANDLER, text, facts | {"unmatched": stuck})
    elif bad := await failing(store.hot, queue.keys.events):
        found = bad.found()
    elif waiting or active:
        text = f"is at work: {active:,} active and {waiting:,} waiting"
        found = Finding(Cause.WORKING, text, facts)
    else:
        found = Finding(Cause.EMPTY, "has nothing to do now", facts)
    return found.about_all(Product.FILES, layout.prefix)


async def _found(store: Store, queue: Queue, spot: _Spot) -> Finding:
    job, facts = spot.job, _facts(spot.job)
    alive = [worker for worker in await queue.workers() if worker.alive]
    match spot.place.state:
        case "waiting":
            return await _waiting(store, queue, spot, alive)
        case "unmatched":
            known = sorted({pattern for worker in alive for pattern in worker.patterns})
            has = f"; they have {', '.join(known)}" if known else ""
            return Finding(
                Cause.NO_HANDLER,
                "waits because no live worker has a function for this name"
                + (has if alive else ": no worker is alive"),
                facts | {"patterns": known},
            )
        case "delayed":
            return await _delayed(store, spot)
        case "active":
            return await _active(queue, spot)
        case "completed":
            ended = await _last(store, queue, job.id, "completed")
            when = f" at {at(ended[0])}" if ended else ""
            by = f" by {ended[1]['worker']}" if ended and ended[1].get("worker") else ""
            return Finding(
                Cause.COMPLETED, f"was processed{by}{when}; a handler's result is not stored", facts
            )
        case "failed":
            return await _failed(store, queue, job)


async def _waiting(store: Store, queue: Queue, spot: _Spot, alive: list[WorkerInfo]) -> Finding:
    facts = _facts(spot.job) | {"ahead": spot.ahead, "workers": [each.name for each in alive]}
    if not alive:
        return Finding(
            Cause.NOBODY, "waits, and nobody works on this queue: no worker is alive", facts
        )
    ended = await _last(store, queue, spot.job.id, "retry", "returned")
    again = ""
    if ended and ended[1].get("reason") == "ABANDONED":
        again = f"lost its worker {ended[1].get('worker', '')} and was put back; it "
    seen = await _pace(store, queue, spot.place.key)
    if spot.ahead:
        text = f"{again}waits behind {count(spot.ahead, 'other')}{seen.sentence(spot.ahead)}"
    else:
        text = f"{again}is the next one"
    cause = Cause.LOST if again else Cause.BEHIND if spot.ahead else Cause.READY
    return Finding(cause, text, facts)


async def _delayed(store: Store, spot: _Spot) -> Finding:
    score = await store.ask("ZSCORE", spot.place.key, spot.raw)
    due = float(score) if score is not None else None
    retries = spot.job.retries
    text = f"failed {count(retries, 'time')}; the next attempt is at {at(due)}"
    return Finding(Cause.RETRYING, text, _facts(spot.job), until_ms=due)


async def _active(queue: Queue, spot: _Spot) -> Finding:
    for worker in await queue.workers():
        if queue.keys.of(worker.name).processing != spot.place.key:
            continue
        heard = "at an unknown time"
        if worker.seen_at:
            heard = at(worker.seen_at.timestamp() * 1000)
        facts = _facts(spot.job) | {"worker": worker.name, "alive": worker.alive}
        if worker.alive:
            text = f"is held by {worker.name}, last heard at {heard}"
            return Finding(Cause.HELD, text, facts)
        text = f"was held by {worker.name}, which is silent; the next check puts it back"
        return Finding(Cause.LOST, text, facts)
    return Finding(Cause.HELD, "is held by a worker", _facts(spot.job))


async def _failed(store: Store, queue: Queue, job: Job) -> Finding:
    known: Any = {}
    if letter := await _letter(queue, job.id):
        known = {
            "reason": letter.reason,
            "error": str(letter.error),
            "worker": letter.worker,
            "failed_at": letter.failed_at and iso(letter.failed_at.timestamp() * 1000),
        }
    reason = ": ".join(filter(None, (known.get("reason"), line(known.get("error")))))
    is_unhandled = known.get("reason") == "NO_HANDLER"
    text = f"failed for good after {count(job.retries, 'attempt')}: {reason or 'no reason is kept'}"
    return Finding(
        Cause.NO_HANDLER if is_unhandled else Cause.FAILED,
        f"{text}; `waystation files requeue` runs dead letters again",
        _facts(job) | known,
    )


async def _letter(queue: Queue, id: str) -> DeadLetter | None:
    offset = 0
    while letters := await queue.dead_letters.list(offset, _PAGE):
        if found := next((letter for letter in letters if letter.id == id), None):
            return found
        offset += len(letters)
    return None


async def _gone(store: Store, queue: Queue, named: str) -> Finding | None:
    ended = await _last(store, queue, named)
    if ended is None:
        return None
    at_ms, fields = ended
    name = fields.get("event", "")
    ends = {
        "completed": (Cause.COMPLETED, "was processed"),
        "dead": (Cause.FAILED, "failed for good"),
        "removed": (Cause.REMOVED, "was removed"),
    }
    cause, did = ends.get(name, (Cause.REMOVED, f"is gone; its last event was {name}"))
    return Finding(
        cause, f"{did} at {at(at_ms)}, and was not kept", {"event": name, "at": iso(at_ms)}
    )


async def _find(store: Store, queue: Queue, named: str) -> _Spot | None:
    """A job by its id or by its path; every place is read, because Redis knows only bytes."""
    paths = {named, str(Path.cwd() / named)}
    for place in await lists.places(store.redis, queue.keys):
        async with aclosing(_each(store, place)) as raws:
            async for ahead, raw in raws:
                job = lists.read(raw)
                if job and (job.id == named or job.filepath in paths):
                    return _Spot(place, ahead, job, raw)
    return None


async def _each(store: Store, place: Place) -> AsyncGenerator[tuple[int, bytes]]:
    offset = 0
    while raws := await lists.page(store.redis, place, offset, _PAGE):
        for at_most, raw in enumerate(raws):
            yield offset + at_most, raw
        offset += len(raws)


async def _last(
    store: Store, queue: Queue, id: str, *names: str
) -> tuple[float, dict[str, str]] | None:
    """The newest event of a job, of these names or of any."""
    last = await newest(store.hot, queue.keys.events, lambda event: event.get("subject") == id)
    return last if last and (not names or last[1].get("event") in names) else None


async def _pace(store: Store, queue: Queue, key: str) -> Any:
    match = {b"queue": key.encode()}
    return await pace(store.hot, queue.keys.events, await server_ms(store.hot), match=match)


def _facts(job: Job) -> dict[str, Any]:
    return {
        "job": job.id,
        "path": job.filepath,
        "priority": job.priority,
        "failed_attempts": job.retries,
        "created_at": job.creation_time or None,
    }
