"""What a process does for its rooms: admit, clear up, open and close on time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidOption, StoreUnreachable, WrongState
from waystation.core.runtime.loop import Loop
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.operating.alarms import EVERY_S as ALARMS_EVERY_S
from waystation.waitingroom.operating.alarms import LIMITS, RINGING, Alarms
from waystation.waitingroom.operating.following import EVERY_S, Following
from waystation.waitingroom.operating.history import History
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import Schedule
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.redis.replies import Round
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.visitor import Lane

BATCH = 1000
"""Visitors admitted by one script call, so that no call blocks the others for long."""


class Admission:
    """Admits visitors; several processes may run it at once, and nobody is admitted twice."""

    def __init__(self, room: Room, *, batch: int = BATCH) -> None:
        if not 1 <= batch <= BATCH:
            raise InvalidOption(f"batch must be 1 to {BATCH}, got {batch}")
        self._room = room
        self._batch = batch

    async def admit(self) -> Round:
        """Admit everybody there is a turn and a seat for."""
        called: list[str] = []
        no_shows = ended = 0
        while True:
            step = await self._step(0, None)
            called += step.called
            no_shows += step.no_shows
            ended += step.ended
            if len(step.called) < self._batch:
                return Round(called, no_shows, ended, step.waiting)

    async def admit_now(self, count: int, *, lane: Lane | None = None) -> Round:
        """Admit that many at once regardless of the rate, as long as there are seats."""
        if not 1 <= count <= BATCH:
            raise InvalidOption(f"count must be 1 to {BATCH}, got {count}")
        return await self._step(count, lane)

    async def _step(self, extra: int, lane: Lane | None) -> Round:
        return await scripts.admit(
            await self._room.store.client(),
            self._room.store.keys_now(),
            now=self._room.store.now(),
            most=extra or self._batch,
            extra=extra,
            only="" if lane is None else int(lane),
        )


SWEPT = 500
BUDGET_S = 0.02
LONGEST_LIST = 20_000
"""A longer list is left alone: rebuilding it in one call would block everybody."""


class Upkeep:
    """Expiry and compaction of a room, one bounded pass each."""

    def __init__(
        self, room: Room, *, budget_s: float = BUDGET_S, clock: Clock | None = None
    ) -> None:
        self._room = room
        self._budget_s = budget_s
        self._clock = clock or SystemClock()

    async def expire_silent(self) -> list[str]:
        """Expire silent visitors, as many as the time budget allows; return their ids."""
        began = self._clock.monotonic()
        silent: list[str] = []
        while True:
            swept = await scripts.expire(
                await self._room.store.client(),
                self._room.store.keys_now(),
                batch=SWEPT,
                now=self._room.store.now(),
            )
            silent += swept.silent
            done = len(swept.silent) < SWEPT and swept.lost < SWEPT
            if done or self._clock.monotonic() - began > self._budget_s:
                return silent

    async def compact(self) -> int:
        """Remove stale entries where they are most of a lane's list; return how many."""
        client = await self._room.store.client()
        gone = 0
        for lane in Lane:
            gone += await scripts.compact(
                client, self._room.store.keys, lane=int(lane), most=LONGEST_LIST
            )
        return gone


ADMIT_EVERY_S = 0.2
SWEEP_EVERY_S = 5.0
AGAIN_S = 1.0
"""Until a room that could not be reached is tried again."""


class RoomMaintenance:
    """Maintenance of all rooms; several processes may run it, since no step happens twice."""

    def __init__(self, rooms: Rooms, metrics: RoomMetrics, *, loops: Sequence[Loop] = ()) -> None:
        self._rooms = rooms
        self._loops = loops
        self._metrics = metrics
        self._clock = SystemClock()
        self._admitted = self._clock.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._noted: dict[str, int] = {}
        """The minute of each room that is in its history."""
        self._away: dict[str, StoreUnreachable] = {}
        """Rooms that could not be reached."""
        self._looking: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "RoomMaintenance":
        loops = (
            Loop(self.admit, every_s=ADMIT_EVERY_S),
            Loop(self.sweep, every_s=SWEEP_EVERY_S),
            Loop(self.open_due, every_s=0.5),
            Loop(self.measure, every_s=1.0),
            Loop(self.follow, every_s=EVERY_S),
            Loop(self.watch, every_s=ALARMS_EVERY_S),
            *self._loops,
        )
        self._tasks = [asyncio.create_task(loop.run(), name=loop.name) for loop in loops]
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._tasks, *self._looking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def lag_s(self) -> float:
        """Seconds since the last round of admission ended well."""
        return self._clock.monotonic() - self._admitted

    async def admit(self) -> None:
        """Admit everybody there is a turn and a seat for, in every room."""
        await self._each(self._admit)
        self._admitted = self._clock.monotonic()

    async def _admit(self, room: Room) -> None:
        called = await Admission(room).admit()
        if called.called:
            self._metrics.admissions.of(room.name).inc(len(called.called))
        if called.no_shows:
            self._metrics.expired.of(room.name, "missed").inc(called.no_shows)

    async def sweep(self) -> None:
        """Expire silent visitors and compact the lists."""
        await self._each(self._sweep)

    async def _sweep(self, room: Room) -> None:
        upkeep = Upkeep(room)
        if silent := await upkeep.expire_silent():
            self._metrics.expired.of(room.name, "silent").inc(len(silent))
        await upkeep.compact()

    async def open_due(self) -> None:
        """Begin and end scheduled events, and draw lots in every room that opens."""
        await self._each(self._open_due)

    async def _open_due(self, room: Room) -> None:
        await Schedule(room).keep()
        state = await room.state()
        due = state.phase == "prequeue" and (state.starts_ms or 0) <= state.now_ms
        if due or state.phase == "drawing":
            # Where another process has drawn meanwhile there is nothing left to do.
            with suppress(WrongState):
                await Lottery(room).draw(beacon=str(state.starts_ms or ""))

    async def follow(self) -> None:
        """Adjust the rate of every room that follows its site."""
        await self._each(self._follow)

    async def _follow(self, room: Room) -> None:
        if (await room.state(max_age=EVERY_S)).fields.get("follow"):
            await Following(room).keep()

    async def watch(self) -> None:
        """Raise and clear the alarms of every room that has limits."""
        await self._each(self._watch)

    async def _watch(self, room: Room) -> None:
        fields = (await room.state(max_age=ALARMS_EVERY_S)).fields
        if fields.get(LIMITS) or fields.get(RINGING):
            await Alarms(room).keep()

    async def measure(self) -> None:
        """Update the metrics, and the history once in a minute."""
        await self._each(self._measure)

    async def _measure(self, room: Room) -> None:
        state, name = await room.state(), room.name
        minute = state.now_ms // 60_000
        if self._noted.get(name) != minute:
            await History(room).note()
            self._noted[name] = minute
        for lane in Lane:
            self._metrics.queue_length.of(name, lane.name.lower()).set(state.lanes[lane])
        self._metrics.active_sessions.of(name).set(state.inside)
        self._metrics.fail_open.of(name).set(float(state.fail_open))
        self._metrics.admit_lag.of(name).set(self.lag_s())

    async def _each(self, duty: Callable[[Room], Awaitable[None]]) -> None:
        """Do something for every room, side by side; StoreUnreachable when none can be reached."""
        rooms = [self._rooms.of(id) for id in await self._rooms.look()]
        found = await asyncio.gather(*(self._guarded(room, duty) for room in rooms))
        self._rooms.require_any(found)

    async def _guarded(
        self, room: Room, duty: Callable[[Room], Awaitable[None]]
    ) -> StoreUnreachable | None:
        """Do something for one room; what is wrong with it does not concern the others."""
        if away := self._away.get(room.name):
            return away
        try:
            await duty(room)
        except StoreUnreachable as error:
            # Its node of a cluster; looked for on the side, so that no round waits for it again.
            if room.name not in self._away:
                self._away[room.name] = error
                looking = asyncio.create_task(self._look_for(room))
                self._looking.add(looking)
                looking.add_done_callback(self._looking.discard)
            self._rooms.report(room, duty.__name__.strip("_"), error)
            return error
        except Exception as error:
            self._rooms.report(room, duty.__name__.strip("_"), error)
        return None

    async def _look_for(self, room: Room) -> None:
        """Wait until a room can be reached again."""
        while True:
            try:
                await room.store.ask("EXISTS", room.store.keys.meta)
                break
            except StoreUnreachable:
                await asyncio.sleep(AGAIN_S)
            except Exception:
                break
        del self._away[room.name]
