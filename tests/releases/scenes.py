"""Every product with something in every state, written by the public API of the code of today."""

import asyncio
import fcntl
import os
import shutil
import time
from collections import Counter
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.patience import until
from waystation import bullmq, files, routing, waitingroom
from waystation.core.clock import HandClock
from waystation.core.operators.operators import Operators
from waystation.core.operators.roles import Role
from waystation.waitingroom import Admission, Begun, Control, Joined, JoinRequest, Lane, Lottery

SEALED = bullmq.PayloadOptions(keys="k1=" + "A" * 43 + "=")
PAYLOADS = {"sealed": SEALED}
QUEUES = ("work", "parts", "shared", "paused", "reports", "sealed")
ONCE = bullmq.Deduplication("book-17")
FILES = {
    "done.txt": "high",
    "held.txt": "high",
    "broken.txt": "low",
    "again.txt": "low",
    "waits.txt": "low",
    "odd.bin": "low",
    "later.txt": "high",
}
MTIME = 1_790_000_000

charged: list[int] = []
"""What the step of an order has done in this process."""


def charge(amount: int) -> str:
    """A step, which must not be done twice."""
    charged.append(amount)
    return f"receipt {amount}"


class Handlers:
    """What workers of both versions do; counts what has ended well."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self.breaks = breaks
        self.goes_on = asyncio.Event()
        """Until it is set, what is named `held` stays with its worker."""

    async def job(self, job: bullmq.Job) -> Any:
        """Any job of BullMQ."""
        result = job.data
        match job.name:
            case "broken" if self.breaks:
                raise ConnectionError("nobody answers")
            case "order":
                result = await job.step("charge", charge, job.data["amount"])
                await job.wait_for("approved")
            case "nap":
                await job.sleep(seconds=60)
            case "book":
                result = sorted((await job.children_values()).values())
            case _:
                pass
        self.ended[job.queue_name, job.id] += 1
        return result

    async def routed(self, job: routing.Job) -> Any:
        """Any job of routing."""
        if self.breaks and job.type == "broken":
            raise ConnectionError("nobody answers")
        if self.breaks and job.type == "held":
            await self.goes_on.wait()
        self.ended["routing", job.id] += 1
        return job.data

    async def file(self, job: files.Job) -> None:
        """Any file."""
        if self.breaks and job.path.stem in ("broken", "again"):
            raise ConnectionError("nobody answers")
        if self.breaks and job.path.stem == "held":
            await self.goes_on.wait()
        self.ended["files", job.path.name] += 1


async def jobs(store: bullmq.Store, held: AsyncExitStack) -> dict[str, Any]:
    """BullMQ: jobs in each state; flows, schedulers, steps, groups, encrypted data."""
    queues = {name: bullmq.Queue(name, store, payloads=PAYLOADS.get(name)) for name in QUEUES}
    work, parts, shared, paused, reports, sealed = queues.values()
    handlers = Handlers(breaks=True)
    pages = [bullmq.FlowNode(name="page", queue="parts", data=n) for n in (1, 2)]
    book = await bullmq.FlowProducer(store).add(
        bullmq.FlowNode(name="book", queue="work", children=pages)
    )
    async with (
        bullmq.Worker("work", handlers.job, store),
        bullmq.Worker("sealed", handlers.job, store, payloads=SEALED),
    ):
        await work.wait((await work.add("plain", {"n": 1})).id)
        await sealed.wait((await sealed.add("plain", {"to": "ada"})).id)
        pause = bullmq.Backoff.fixed(60)
        broken = [await work.add("broken", attempts=n, backoff=pause) for n in (1, 3)]
        order = await work.add("order", {"amount": 7}, attempts=3)
        nap = await work.add("nap")
        for job, state in zip([*broken, order, nap], ("failed", *["delayed"] * 3), strict=True):
            await until(lambda job=job, state=state: _is(job, state))
    for queue in (work, parts, shared):
        await queue.add("plain", {"n": 2}, group="acme" if queue is shared else None)
        worker = await held.enter_async_context(bullmq.ManualWorker(queue.name, store))
        assert await worker.get_next_job()
    async with bullmq.ManualWorker("parts", store) as worker:
        page = await worker.get_next_job()
        assert page
        await worker.complete(page, page.data)
    await work.add_many([("plain", {"n": n}) for n in range(3)])
    await work.add("plain", {"n": 3}, priority=5)
    await work.add("plain", {"n": 4}, delay=60)
    await work.add("plain", {"n": 5}, deduplication=ONCE)
    await work.limits.set_concurrency(9)
    for group in ("acme", "acme", "beta", bullmq.Group("key", parent="acme"), None):
        await shared.add("plain", {"n": 6}, group=group)
    await shared.groups.set("acme", weight=2, concurrency=1)
    await shared.groups.pause("beta")
    await paused.add("plain", {"n": 7})
    await paused.pause(by="ada")
    await reports.schedulers.upsert("often", bullmq.Schedule(every=3600), name="plain")
    nightly = bullmq.Schedule(pattern="30 2 * * *", tz="Europe/Vienna")
    await reports.schedulers.upsert("nightly", nightly, name="plain")
    await sealed.add("plain", {"to": "grace"})
    charged.clear()
    return {"order": order.id, "book": book.job.id, "known": await known(store)}


async def known(store: bullmq.Store) -> dict[str, str]:
    """The state of every job of BullMQ, by its queue and id."""
    queues = [bullmq.Queue(name, store) for name in QUEUES]
    return {
        f"{queue.name}/{job.id}": await job.state()
        for queue in queues
        for job in await queue.get_jobs(limit=None)
    }


async def routes(store: bullmq.Store, held: AsyncExitStack) -> dict[str, Any]:
    """Routing: jobs in each state, a schedule, a limit, a dead letter."""
    queue, handlers = routing.Queue(store), Handlers(breaks=True)
    await queue.limits.set("plain", routing.Limit(max_concurrent=2))
    once = routing.Retry(attempts=1)
    worker = routing.Worker(handlers.routed, store, server="gone")
    await held.enter_async_context(worker)
    held.callback(handlers.goes_on.set)
    await queue.wait((await queue.add("plain", {"n": 1})).id)
    broken = await queue.add("broken", {"n": 2}, retry=once)
    taken = await queue.add("held", {"n": 3})
    await until(lambda: _is_routed(queue, broken.id, "dead"))
    await until(lambda: _is_routed(queue, taken.id, "active"))
    gpu = await queue.add("render", {"n": 4}, target=routing.Target(capabilities=("gpu",)))
    later = await queue.add("plain", {"n": 5}, schedule=routing.Schedule(delay=60))
    after = await queue.add("plain", {"n": 6}, depends_on=[later.id])
    cron = routing.Schedule(cron="30 2 * * *", timezone="Europe/Vienna")
    schedule = await queue.add("report", schedule=cron)
    cancelled = await queue.add("plain", {}, schedule=routing.Schedule(delay=60))
    await queue.cancel(cancelled.id)
    open_ = [each.id for each in (broken, taken, gpu, later, after)]
    return {"open": open_, "schedule": schedule.id}


async def papers(store: bullmq.Store, held: AsyncExitStack, folder: Path) -> dict[str, Any]:
    """Files: in each priority, held, retried later, dead, and one that nobody has a handler for."""
    queue, handlers, known = files.Queue(store), Handlers(breaks=True), files.Handlers()
    known.handler("**/*.txt")(handlers.file)

    async def add(*names: str) -> None:
        for name in names:
            await queue.add(folder / name, priority=FILES[name])

    async with files.Worker(known, store, max_retries=0):
        await add("done.txt", "broken.txt")
        await until(lambda: _has(queue, completed=1, failed=1))
    worker = files.Worker(
        known, store, name="gone", concurrency=1, backoff=60, backoff_max=60, no_handler_after=600
    )
    await held.enter_async_context(worker)
    held.callback(handlers.goes_on.set)
    await add("again.txt")
    await until(lambda: _has(queue, delayed=1))
    await add("odd.bin")
    await until(lambda: _has(queue, unmatched=1))
    await add("held.txt")
    await until(lambda: _has(queue, active=1))
    await add("waits.txt", "later.txt")
    return {"added": sorted(FILES)}


async def places(store: bullmq.Store, clock: HandClock) -> dict[str, Any]:
    """Rooms: a line in two lanes; a session, a turn, a missed one; lots, codes, an operator."""
    room = waitingroom.Room("{sale}", store, clock=clock)
    await room.open(waitingroom.RoomOptions(admission_rate=1, newcomers_per_minute=0))
    names = [*(f"n{n}" for n in range(9)), "vip0", "vip1"]
    joined = {name: await _joined(room, name) for name in names}
    [inside] = (await Admission(room).admit()).called
    secrets = {place.id: name for name, place in joined.items()}
    assert isinstance(await room.claim(joined[secrets[inside]], secrets[inside]), Begun)
    await clock.advance(1)
    [missed] = (await Admission(room).admit()).called
    await Control(room).set_rate(0)
    await clock.advance(150)
    await Admission(room).admit()
    await room.leave(joined["n8"], "n8")
    await Control(room).set_rate(1)
    await clock.advance(1)
    [called] = (await Admission(room).admit()).called
    soon = waitingroom.Room("{soon}", store, clock=clock)
    await soon.open(waitingroom.RoomOptions(newcomers_per_minute=0))
    await Control(soon).schedule(clock.now_ms() + 600_000)
    commitment = await Lottery(soon).announce()
    for name in ("s0", "s1", "s2"):
        await soon.join(JoinRequest(key=name, secret=name))
    await Operators(store, clock).issue("ada", Role.OPERATOR, days=3650)
    places = {name: [place.id, place.owner] for name, place in joined.items()}
    of = {"session": secrets[inside], "missed": secrets[missed], "called": secrets[called]}
    return {"places": places, **of, "commitment": commitment, "now_ms": clock.now_ms()}


async def _joined(room: waitingroom.Room, name: str) -> waitingroom.Place:
    lane = Lane.VIP if name.startswith("vip") else Lane.NORMAL
    entry = await room.join(JoinRequest(key=name, secret=name, lane=lane))
    assert isinstance(entry, Joined), entry
    return entry.place


async def _is(job: bullmq.Job, state: str) -> bool:
    return await job.state() == state


async def _is_routed(queue: routing.Queue, id: str, state: str) -> bool:
    return await queue.state(id) == state


async def _has(queue: files.Queue, **wanted: int) -> bool:
    return await queue.counts(*wanted) == wanted  # pyright: ignore[reportArgumentType]


@contextmanager
def in_folder(folder: Path) -> Generator[None]:
    """The files are there, as they always were; one process of the machine at a time has them."""
    with folder.with_suffix(".lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name in FILES:
            (folder / name).write_text(name)
            os.utime(folder / name, (MTIME, MTIME))
        yield
        shutil.rmtree(folder)


async def fill(url: str, folder: Path, held: AsyncExitStack) -> dict[str, Any]:
    """All of it; what holds something does so until the stack is closed."""
    store = await held.enter_async_context(await bullmq.open_store(url))
    clock = HandClock(time.time_ns() // 1_000_000)
    return {
        "folder": str(folder),
        "jobs": await jobs(store, held),
        "routing": await routes(store, held),
        "files": await papers(store, held, folder),
        "rooms": await places(store, clock),
    }
