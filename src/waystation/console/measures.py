"""Measures of all queues and rooms: samples for everybody who looks, and rows when asked."""

import asyncio
import time
from collections import Counter, deque
from datetime import UTC, datetime

import msgspec

from waystation.console.directory import Directory
from waystation.console.names import Places, workers_by_queue
from waystation.console.options import ConsoleOptions
from waystation.console.products.queue import ConsoleQueue, alone
from waystation.console.troubles import Trouble, Troubles
from waystation.core import codec
from waystation.core.errors import StoreError, StoreUnsuitable
from waystation.core.events import Product
from waystation.core.store.commands import fields_of
from waystation.core.store.connection import Store
from waystation.waitingroom.redis.keys import RoomsKeys
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.state import RoomState

KEPT = 300
"""Samples that are kept of each queue."""
SHOWN = 60
"""Samples of each queue that the overview shows."""
READ = 64
"""Events that are looked at to tell what kinds of events there are."""
IDLE_S = 60.0
"""After so long without anybody looking, samples are taken seldom."""
IDLE_EVERY_S = 15.0
WORKERS_EVERY_S = 6.0


class Point(msgspec.Struct, array_like=True):
    """A queue at one instant; short, because many are sent."""

    at: float
    """Seconds since the epoch."""
    ready: int
    active: int
    delayed: int
    failed: int
    added_per_s: float
    completed_per_s: float
    failed_per_s: float
    oldest_s: float
    """How long the oldest ready job has waited."""


class QueueSample(msgspec.Struct, kw_only=True):
    """A queue in the overview, or a room."""

    product: str
    name: str
    counts: dict[str, int]
    ready: int
    """Jobs that wait and may run; visitors in line."""
    paused: bool
    workers: int | None
    """None where nobody can say."""
    trouble: Trouble | None = None
    """What somebody should look at."""
    oldest_s: float
    added_per_s: float
    completed_per_s: float
    failed_per_s: float
    points: list[Point]
    """The latest samples, the oldest first."""


class Overview(msgspec.Struct, kw_only=True):
    """All queues and rooms, as of the last sample."""

    at: datetime
    took_ms: float
    every_s: float
    queues: list[QueueSample]
    left_out: int = 0
    """Queues that the store has besides; each opens by its address."""
    store: str = ""
    """The address of the store, without a password."""


class _Activity:
    """How often things happen in a queue, from its stream of events."""

    def __init__(self) -> None:
        self._before: tuple[float, int] | None = None
        self._newest = b""
        self.per_s: dict[str, float] = {}

    async def update(self, store: Store, stream: str) -> None:
        newest = await store.ask("XREVRANGE", stream, "+", "-", "COUNT", 1)
        now = time.monotonic()
        if not newest or newest[0][0] == self._newest:
            # Nothing has happened, which is all that most queues have to say.
            self.per_s = {}
            self._before = (now, self._before[1]) if self._before else None
            return
        info = fields_of(await store.ask("XINFO", "STREAM", stream))
        written = int(info.get(b"entries-added", 0))
        came = written - self._before[1] if self._before else 0
        # A stream that was deleted and written anew begins to count again.
        if self._before is not None and came > 0 and now > self._before[0]:
            passed = now - self._before[0]
            latest = await store.ask("XREVRANGE", stream, "+", "-", "COUNT", min(READ, came))
            self.per_s = _shares(latest, came / passed)
        self._before, self._newest = (now, written), newest[0][0]


def _shares(entries: list[tuple[bytes, list[bytes]]], per_s: float) -> dict[str, float]:
    """What part of the events each kind has, of the latest that came since the last sample."""
    told = (fields_of(fields) for _, fields in entries)
    kinds = Counter(each[b"event"].decode("utf-8", "replace") for each in told if b"event" in each)
    whole = kinds.total()
    return {kind: per_s * count / whole for kind, count in kinds.items()} if whole else {}


class Sampler:
    """Takes the samples, and keeps the latest."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        *,
        every_s: float,
        troubles: Troubles | None = None,
    ) -> None:
        self._store = store
        self._directory = directory
        self._rooms = Rooms(store)
        self._troubles = troubles
        self.no_rooms: list[str] = []
        """Keys of rooms that this user of the store may not read."""
        self._every_s = every_s
        self._points: dict[tuple[str, str], deque[Point]] = {}
        self._activity: dict[tuple[str, str], _Activity] = {}
        self._workers: dict[str, list[str]] | None = None
        """Those of BullMQ's queues; None where nobody can say."""
        self._changed = asyncio.Event()
        self._first = asyncio.Lock()
        self._written = (0, b"")
        self._looked_at = time.monotonic()
        self._due = 0.0
        self._count_due = 0.0
        self.latest = Overview(
            at=datetime.now(UTC), took_ms=0, every_s=every_s, queues=[], store=str(store.address)
        )
        self.version = 0
        """Goes up with every sample."""
        self.away = ""
        """Why there is no newer sample, while the store does not answer."""

    async def overview(self) -> Overview:
        """The last sample; the first who asks waits for one."""
        self._looked_at = time.monotonic()
        if not self.version:
            async with self._first:
                if not self.version:
                    await self.take()
        return self.latest

    async def overview_json(self) -> bytes:
        """The last sample as JSON, written once for all who ask."""
        latest = await self.overview()
        if self._written[0] != self.version:
            self._written = self.version, codec.encode_shown(latest)
        return self._written[1]

    async def next_after(self, version: int, timeout: float) -> bool:
        """Wait for a sample newer than this, or for trouble; False when neither came in time."""
        self._looked_at = time.monotonic()
        try:
            async with asyncio.timeout(timeout):
                if self.version <= version:
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def take_if_due(self) -> None:
        """Take a sample; seldom while nobody looks."""
        idle = time.monotonic() - self._looked_at > IDLE_S
        if time.monotonic() < self._due:
            return
        # Whoever looks first may be here already.
        async with self._first:
            await self.take()
        self._due = time.monotonic() + (IDLE_EVERY_S if idle else 0)

    async def take(self) -> None:
        """Measure every queue."""
        try:
            await self._take()
            self.away = ""
        except StoreError as error:
            # The last sample stays: a store that is away is not a store without queues.
            self.away = str(error)
            raise
        finally:
            self._changed.set()
            self._changed.clear()

    async def _take(self) -> None:
        began = time.monotonic()
        await self._directory.look_if_due()
        await self._count_workers()
        queues = self._directory.every()
        measured = await asyncio.gather(*(self._measured(queue) for queue in queues))
        samples = [each for each in measured if each is not None] + await self._room_samples()
        known = {(each.product, each.name) for each in (*queues, *samples)}
        for kept in (self._points, self._activity):
            for key in [key for key in kept if key not in known]:
                del kept[key]
        if self._troubles is not None:
            await self._troubles.find(queues, samples)
        self.latest = Overview(
            at=datetime.now(UTC),
            took_ms=round((time.monotonic() - began) * 1000, 1),
            every_s=self._every_s,
            queues=samples,
            left_out=self._directory.left_out,
            store=self.latest.store,
        )
        self.version += 1

    async def _count_workers(self) -> None:
        """Count the workers of BullMQ's queues, now and then: all connections are listed for it."""
        if time.monotonic() < self._count_due:
            return
        self._count_due = time.monotonic() + WORKERS_EVERY_S
        self._workers = await workers_by_queue(self._store, self._directory.prefixes)

    def _workers_of(self, queue: ConsoleQueue) -> int | None:
        if self._workers is None or queue.product != "bullmq":
            return None
        return len(self._workers.get(queue.name, ()))

    def points(self, product: str, name: str) -> list[Point]:
        """All samples that are kept of one queue."""
        return list(self._points.get((product, name), ()))

    def trouble(self, product: str, name: str) -> Trouble | None:
        """What was wrong with a queue when it was measured last."""
        named = (
            each for each in self.latest.queues if (each.product, each.name) == (product, name)
        )
        return next((each.trouble for each in named), None)

    async def _measured(self, queue: ConsoleQueue) -> QueueSample | None:
        with alone(queue.product, queue.name):
            return await self._measure(queue)

    async def _measure(self, queue: ConsoleQueue) -> QueueSample:
        key = (queue.product, queue.name)
        activity = self._activity.setdefault(key, _Activity())
        levels = await queue.levels()
        await activity.update(self._store, queue.stream)
        now, rates = time.time(), activity.per_s
        oldest = levels.oldest_at
        waited = max(0.0, now - oldest.timestamp()) if oldest else 0.0
        point = Point(
            round(now, 2),
            sum(levels.counts.get(state, 0) for state in queue.waiting),
            levels.counts.get("active", 0),
            levels.counts.get("delayed", 0),
            levels.counts.get(queue.failed, 0),
            round(rates.get("added", 0.0), 2),
            round(rates.get("completed", 0.0), 2),
            round(rates.get("failed", 0.0) + rates.get("dead", 0.0), 2),
            round(waited, 1),
        )
        return self._sample(
            queue.product,
            queue.name,
            point,
            counts=levels.counts,
            paused=levels.paused,
            workers=self._workers_of(queue),
        )

    async def _room_samples(self) -> list[QueueSample]:
        self.no_rooms = []
        try:
            # One that cannot be read is left out.
            states = await self._rooms.states()
        except StoreUnsuitable:
            self.no_rooms = [RoomsKeys().every]
            return []
        return [self._room_sample(room.name, state) for room, state in states]

    def _room_sample(self, name: str, state: RoomState) -> QueueSample:
        flow = round(state.flow or 0.0, 2)
        point = Point(
            round(time.time(), 2), state.waiting, state.inside, state.early, 0, 0.0, flow, 0.0, 0.0
        )
        counts = {"active": state.inside, "delayed": state.early}
        return self._sample(
            Product.WAITINGROOM.value,
            name,
            point,
            counts=counts,
            paused=not state.runs,
            workers=None,
        )

    def _sample(
        self,
        product: str,
        name: str,
        point: Point,
        *,
        counts: dict[str, int],
        paused: bool,
        workers: int | None,
    ) -> QueueSample:
        points = self._points.setdefault((product, name), deque(maxlen=KEPT))
        points.append(point)
        return QueueSample(
            product=product,
            name=name,
            counts=counts,
            ready=point.ready,
            paused=paused,
            workers=workers,
            oldest_s=point.oldest_s,
            added_per_s=point.added_per_s,
            completed_per_s=point.completed_per_s,
            failed_per_s=point.failed_per_s,
            points=list(points)[-SHOWN:],
        )


_EVERY_S = 2.0


class Row(msgspec.Struct, kw_only=True):
    """One queue, or one room, at this moment."""

    product: str
    name: str
    ready: int
    """Jobs that wait and may run; visitors in line."""
    active: int
    """Jobs that workers hold; visitors inside."""
    delayed: int = 0
    failed: int = 0
    paused: bool = False
    workers: int | None = None
    """None where nobody can say."""
    oldest_s: float = 0.0
    """How long the oldest ready job has waited."""
    added_per_s: float = 0.0
    completed_per_s: float = 0.0
    failed_per_s: float = 0.0
    recent: list[int] = []
    """How many were ready at each of the latest measurements."""


class Live:
    """Measures all queues and rooms; rates need two measurements."""

    def __init__(self, store: Store, places: Places | None = None) -> None:
        places = places or Places()
        options = ConsoleOptions(
            prefixes=places.bullmq.every, namespaces=(places.routing,), layouts=(places.files,)
        )
        self._directory = Directory(store, options, most=None)
        self._sampler = Sampler(store, self._directory, every_s=_EVERY_S)

    async def rows(self) -> list[Row]:
        """Every queue and every room, by product and name."""
        await self._sampler.take()
        return list(map(_row, self._sampler.latest.queues))

    @property
    def forbidden(self) -> list[str]:
        """Keys that this user of the store may not read, so that what they hold is left out."""
        return [*self._directory.forbidden, *self._sampler.no_rooms]


def _row(sample: QueueSample) -> Row:
    return Row(
        product=sample.product,
        name=sample.name,
        ready=sample.ready,
        active=sample.counts.get("active", 0),
        delayed=sample.counts.get("delayed", 0),
        failed=sample.points[-1].failed,
        paused=sample.paused,
        workers=sample.workers,
        oldest_s=sample.oldest_s,
        added_per_s=sample.added_per_s,
        completed_per_s=sample.completed_per_s,
        failed_per_s=sample.failed_per_s,
        recent=[point.ready for point in sample.points],
    )
