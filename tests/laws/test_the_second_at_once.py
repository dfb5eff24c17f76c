"""What moves, retries, sweeps or deletes, run twice at once: the outcome is that of one.

Of two different steps it is that of one after the other, in either order. Once with both at full
speed, and once for each command of the first: it is frozen there until the second has ended.

Operations with a test of their own: draws (waitingroom/test_lottery.py), rotation of keys
(waitingroom/http/test_signing.py), admission and claims
(waitingroom/http/test_attacks_on_the_line.py), cron (routing/test_schedule.py), schedulers
(bullmq/test_schedulers.py), the reaper and the scan (files/test_reaper.py, files/test_producer.py).
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from contextvars import ContextVar
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import pytest
from redis import Redis
from redis import asyncio as redis_asyncio
from redis.asyncio.client import Pipeline

from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.core import codec
from waystation.core.clock import HandClock
from waystation.core.errors import NotFound, WrongState
from waystation.core.operators.operators import Operators
from waystation.core.operators.roles import Grant, Role
from waystation.core.store.connection import Store, connect
from waystation.core.store.connection.pipe import Pipe
from waystation.files.upkeep import UnmatchedSweep
from waystation.waitingroom.operating.alarms import AlarmOptions, Alarms
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.operating.control import Control
from waystation.waitingroom.operating.following import Following, FollowOptions, Reading
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import Schedule, ScheduledEvent
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis.keys import RoomsKeys
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import JoinRequest

MANY = 7
IDS = [f"j{number}" for number in range(MANY)]
Opened: TypeAlias = AsyncGenerator[Any]
_first: ContextVar[bool] = ContextVar("first", default=False)


def on(method: str, *given: Any, **more: Any) -> Callable[[Any], Awaitable[Any]]:
    """A call of a queue's method."""
    return lambda queue: attrgetter(method)(queue)(*given, **more)


class Operation(NamedTuple):
    """Something that two may do at the same moment."""

    opened: Callable[[str], Opened]
    """A queue to do it to, in the state that it is about."""
    act: Callable[[Any], Awaitable[Any]]
    left: dict[str, int]
    """How many there are in each state afterwards."""
    counts: bool = True
    """Whether it returns how many it has moved, each once."""


async def failed(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id)) for id in IDS])
        assert await queue.cancel(*IDS) == MANY
        yield queue


async def delayed(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id, delay=3600)) for id in IDS])
        yield queue


async def waiting(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id)) for id in IDS])
        yield queue


async def orphaned(url: str) -> Opened:
    async with bullmq.Queue("mail", url) as queue:
        await queue.add_many([("a", {}, bullmq.JobOptions(job_id=id)) for id in IDS])
        with Redis.from_url(url) as client:
            client.delete("bull:mail:wait")
        yield queue


async def stray(url: str) -> Opened:
    with TemporaryDirectory() as blobs:
        kept = bullmq.PayloadOptions(blobs=blobs, above=0)
        async with bullmq.Queue("mail", url, payloads=kept) as queue:
            for number in range(MANY):
                touch(Path(blobs, "mail", f"{number:032x}"))
            yield queue


def touch(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()


async def routed(url: str) -> Opened:
    async with routing.Queue(url) as queue:
        for id in IDS:
            await queue.add("a", job_id=id)
        yield queue


async def routed_dead(url: str) -> Opened:
    async def fail(job: Any) -> None:
        raise ValueError("no")

    async with routing.Queue(url) as queue:
        for id in IDS:
            await queue.add("a", job_id=id, retry=routing.Retry(attempts=1))
        async with routing.Worker(fail, url), asyncio.timeout(LIMIT_S):
            while await queue.dead_letters.count() < MANY:
                await asyncio.sleep(0.01)
        yield queue


async def files_dead(url: str) -> Opened:
    def fail(job: Any) -> None:
        raise ValueError("no")

    with TemporaryDirectory() as inbox:
        for id in IDS:
            touch(Path(inbox, id))
        async with files.Queue(url) as queue:
            await queue.add_many([str(Path(inbox, id)) for id in IDS])
            options = files.WorkerOptions(max_retries=0, poll=0.05)
            async with files.Worker(fail, url, options=options), asyncio.timeout(LIMIT_S):
                while await queue.dead_letters.count() < MANY:
                    await asyncio.sleep(0.01)
            yield queue


class Unhandled(NamedTuple):
    """Files without a handler, and two processes that look after them."""

    queue: files.Queue
    sweeps: list[UnmatchedSweep]

    async def counts(self) -> Any:
        return await self.queue.counts()

    async def sweep(self) -> int:
        return await self.sweeps.pop().sweep()


async def files_unmatched(url: str) -> Opened:
    now = [0.0]
    async with await connect(url) as store, files.Queue(store) as queue:
        sweeps = [UnmatchedSweep(store.hot, queue.keys, timer=lambda: now[0]) for _ in range(2)]
        for number, id in enumerate(IDS, 1):
            job = codec.encode({"id": id, "filepath": f"/{id}"})
            await store.ask("XADD", queue.keys.unmatched, f"{number}-0", "job", job, "lane", 2)
        for each in sweeps:
            assert await each.sweep() == 0
        now[0] = 1e6
        yield Unhandled(queue, sweeps)


ALL, NONE = MANY, 0
OPERATIONS = {
    "bullmq retry": Operation(failed, on("retry", *IDS), {"waiting": ALL, "failed": NONE}),
    "bullmq retry_all": Operation(failed, on("retry_all"), {"waiting": ALL, "failed": NONE}),
    "bullmq purge": Operation(failed, on("dead_letters.purge"), {"failed": NONE}),
    "bullmq clean": Operation(
        failed, on("clean", 0, state="failed"), {"failed": NONE}, counts=False
    ),
    "bullmq promote_all": Operation(delayed, on("promote_all"), {"waiting": ALL, "delayed": NONE}),
    "bullmq drain": Operation(waiting, on("drain"), {"waiting": NONE}),
    "bullmq cancel": Operation(waiting, on("cancel", *IDS), {"waiting": NONE, "failed": ALL}),
    "bullmq remove_orphans": Operation(orphaned, on("remove_orphans"), {"waiting": NONE}),
    "bullmq sweep_blobs": Operation(stray, on("sweep_blobs", older=0), {"waiting": NONE}),
    "bullmq obliterate": Operation(
        waiting, on("obliterate", force=True), {"waiting": NONE}, counts=False
    ),
    "routing cancel": Operation(routed, on("cancel", *IDS), {"waiting": NONE}),
    "routing retry_all": Operation(
        routed_dead, on("dead_letters.retry_all"), {"waiting": ALL, "dead": NONE}
    ),
    "routing retry": Operation(routed_dead, on("retry", *IDS), {"waiting": ALL, "dead": NONE}),
    "routing purge": Operation(routed_dead, on("dead_letters.purge"), {"dead": NONE}),
    "files retry_all": Operation(
        files_dead, on("dead_letters.retry_all"), {"waiting": ALL, "failed": NONE}
    ),
    "files sweep of unmatched": Operation(files_unmatched, on("sweep"), {"failed": ALL}),
    "files purge": Operation(files_dead, on("dead_letters.purge"), {"failed": NONE}),
}


class Freezer:
    """Holds the first before its nth command until the second has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int | None) -> None:
        self.was_frozen = False
        self._at, self._seen, self._go = at, itertools.count(), asyncio.Event()
        self._began = False
        self.begun = asyncio.Event()
        for kind, name in (
            (Pipe, "execute_command"), (Pipe, "in_a_row"), (Pipeline, "execute"),
            (redis_asyncio.Redis, "execute_command"),
        ):  # fmt: skip
            monkeypatch.setattr(kind, name, self._passing(getattr(kind, name)))

    def _passing(self, step: Callable[..., Any]) -> Callable[..., Any]:
        async def passed(*given: Any, **more: Any) -> Any:
            if _first.get() and next(self._seen) == self._at:
                self.was_frozen = True
                self.begun.set()
                await self._go.wait()
            return await step(*given, **more)

        return passed

    async def run(self, first: Awaitable[Any], second: Awaitable[Any]) -> list[Any]:
        """Both, and what they returned."""

        async def begin() -> Any:
            _first.set(True)
            try:
                return await first
            finally:
                self.begun.set()

        task = asyncio.create_task(begin())
        if self._at is not None:
            await self.begun.wait()
        answer = await second
        self._go.set()
        return [await task, answer]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_the_outcome_of_two_is_that_of_one(
    name: str, redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = OPERATIONS[name]
    for at in (None, *range(50)):
        await redis.flushdb()
        async with asyncio.timeout(2 * LIMIT_S), aclosing(asked.opened(redis_url)) as opened:
            queue = await anext(opened)
            with monkeypatch.context() as once:
                freezer = Freezer(once, at)
                answers = await freezer.run(asked.act(queue), asked.act(queue))
            counts = await queue.counts()
            assert {state: counts[state] for state in asked.left} == asked.left, (at, answers)
            if asked.counts:
                moved = [each if isinstance(each, int) else len(each) for each in answers]
                assert sum(moved) == MANY, (at, answers)
        if at is not None and not freezer.was_frozen:
            assert at, "nothing was frozen"
            return
    raise AssertionError("it has more commands than were tried")


class OperatedRoom:
    """A room and those who operate it."""

    def __init__(self, store: Store) -> None:
        self.clock = HandClock()
        self.room = Room("sale", store, clock=self.clock)
        self.codes, self.alarms = Codes(self.room), Alarms(self.room)
        self.control, self.schedule = Control(self.room), Schedule(self.room)
        self.following = Following(self.room)
        self.operators = Operators(store, self.clock)
        self.others = Room("sale", store, clock=self.clock)

    async def plan(self, id: str, **more: Any) -> str:
        now = self.clock.now_ms()
        given: dict[str, Any] = {"starts_ms": now, "ends_ms": now + 3_600_000, **more}
        try:
            return (await self.schedule.plan(ScheduledEvent(id=id, **given))).id
        except WrongState:
            return "refused"

    async def gather(self, id: str, **more: Any) -> str:
        return await self.plan(id, gathers_ms=self.clock.now_ms(), **more)

    async def sale(self) -> None:
        """A sale that people had gathered for is on."""
        await self.gather("sale", changes={"admission_rate": "9"})
        await self.schedule.keep()
        await Lottery(self.room).draw()

    async def settled(self) -> Any:
        """How things stand once the duties of the room have been done."""
        for _ in range(3):
            await self.schedule.keep()
        seen = await self.room.state()
        planned = [each.id for each in await self.schedule.planned()]
        return seen.phase, seen.rate, "event" in seen.fields, planned

    async def crowd(self) -> None:
        await self.alarms.set(AlarmOptions(waiting=1))
        await self.room.join(JoinRequest(key="a", secret="a"))

    async def room_events(self) -> list[str]:
        """Events of the room, but for the visitors' own."""
        raw: Any = await self.room.store.ask("XRANGE", self.room.store.keys.events, "-", "+")
        names = [fields[fields.index(b"event") + 1].decode() for _, fields in raw]
        return sorted(each for each in names if each.startswith(("alarm", "changed")))

    async def welcomed(self) -> list[str]:
        """Those who may operate now."""
        now_ms, every = self.clock.now_ms(), await self.operators.every()
        return [each.name for each in every if each.expires_ms > now_ms]

    async def yesterday(self) -> None:
        """Somebody signed in a day ago."""
        await self.operators.welcome("https://id.example", "ann", [Grant(role=Role.VIEWER)])
        await self.clock.advance(86_400)


Step: TypeAlias = Callable[[Any], Awaitable[Any]]


class Pair(NamedTuple):
    """Two steps on a room, or on the keys of its operators, that two may take at once."""

    first: Step
    second: Step
    outcome: Step
    before: Step | None = None


def make(name: str, count: int = 1500) -> Step:
    return on("codes.make", name, count)


def welcome(name: str) -> Step:
    return on("operators.welcome", "https://id.example", name, [Grant(role=Role.VIEWER)])


async def slow(options: Any) -> Reading:
    return Reading(9.0, "the site took 9 s")


async def batches(operated: OperatedRoom) -> Any:
    return [(each.batch, each.codes) for each in await operated.codes.batches()]


async def rate(operated: OperatedRoom) -> Any:
    return (await operated.room.state()).rate


async def epoch(operated: OperatedRoom) -> Any:
    return (await operated.room.state()).epoch


async def rooms(operated: OperatedRoom) -> Any:
    return await operated.room.store.ask("SMEMBERS", RoomsKeys().every)


PAIRS = {
    "codes made twice": Pair(make("a"), make("a"), batches),
    "codes made and revoked": Pair(make("a"), on("codes.revoke", "a"), batches),
    "codes revoked twice": Pair(
        on("codes.revoke", "a"), on("codes.revoke", "a"), batches, make("a")
    ),
    "codes revoked while others are made": Pair(
        on("codes.revoke", "a"), make("b", 3), batches, make("a")
    ),
    "alarms": Pair(
        on("alarms.keep"), on("alarms.keep"), OperatedRoom.room_events, OperatedRoom.crowd
    ),
    "alarms and their limits": Pair(
        on("alarms.keep"),
        on("alarms.set", AlarmOptions(waiting=2)),
        on("alarms.keep"),
        OperatedRoom.crowd,
    ),
    "following": Pair(
        on("following.keep"),
        on("following.keep"),
        rate,
        on("following.start", FollowOptions(url="http://a.example", most=10)),
    ),
    "following and a rate of nothing": Pair(
        on("following.keep"),
        on("control.set_rate", 0),
        rate,
        on("following.start", FollowOptions(url="http://a.example", most=10)),
    ),
    "tokens revoked twice": Pair(
        on("control.revoke_everything"),
        on("control.revoke_everything"),
        epoch,
    ),
    "two events planned": Pair(on("plan", "a"), on("plan", "b"), OperatedRoom.settled),
    "an event planned and begun": Pair(
        on("gather", "a"),
        on("schedule.keep"),
        OperatedRoom.settled,
    ),
    "an event kept and called off": Pair(
        on("schedule.keep"), on("schedule.cancel", "sale"), OperatedRoom.settled, OperatedRoom.sale
    ),
    "an event called off and kept": Pair(
        on("schedule.cancel", "sale"), on("schedule.keep"), OperatedRoom.settled, OperatedRoom.sale
    ),
    "an event called off as it begins": Pair(
        on("schedule.keep"),
        on("schedule.cancel", "sale"),
        OperatedRoom.settled,
        on("gather", "sale"),
    ),
    "an event called off and a rate set": Pair(
        on("schedule.cancel", "sale"),
        on("control.show_message", {"en": "soon"}),
        OperatedRoom.settled,
        OperatedRoom.sale,
    ),
    "a room deleted and made": Pair(
        on("room.delete"),
        on("others.open", RoomOptions(admission_rate=3)),
        rooms,
    ),
    "keys issued and withdrawn": Pair(
        on("operators.issue", "ann", Role.VIEWER),
        on("operators.withdraw", "ann"),
        OperatedRoom.welcomed,
    ),
    "keys withdrawn twice": Pair(
        on("operators.withdraw", "ann"),
        on("operators.withdraw", "ann"),
        OperatedRoom.welcomed,
        on("operators.issue", "ann", Role.VIEWER),
    ),
    "two who sign in": Pair(
        welcome("bob"), welcome("ann"), OperatedRoom.welcomed, OperatedRoom.yesterday
    ),
}


async def taken(step: Awaitable[Any]) -> None:
    """Take a step, which may be refused."""
    with suppress(WrongState, NotFound):
        await step


@pytest.mark.parametrize("name", PAIRS)
async def test_the_outcome_of_two_is_that_of_one_after_the_other(
    name: str, redis_url: str, redis: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = PAIRS[name]
    monkeypatch.setattr("waystation.waitingroom.operating.following.look", slow)

    async def tried(run: Callable[[Awaitable[Any], Awaitable[Any]], Awaitable[Any]]) -> Any:
        await redis.flushdb()
        async with await connect(redis_url) as store:
            operated = OperatedRoom(store)
            await operated.room.open(RoomOptions(admission_rate=1.0))
            if pair.before:
                await pair.before(operated)
            await run(taken(pair.first(operated)), taken(pair.second(operated)))
            return await pair.outcome(operated)

    async def in_order(first: Awaitable[Any], second: Awaitable[Any]) -> None:
        await first
        await second

    one, other = await tried(in_order), await tried(lambda a, b: in_order(b, a))
    for at in (None, *range(50)):
        async with asyncio.timeout(2 * LIMIT_S):
            with monkeypatch.context() as once:
                freezer = Freezer(once, at)
                found = await tried(freezer.run)
        assert found in (one, other), at
        if at is not None and not freezer.was_frozen:
            assert at, "nothing was frozen"
            return
    raise AssertionError("it has more commands than were tried")
