"""Background maintenance of all rooms: admission, expiry, schedules, draws and metrics."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from waystation.core.clock import SystemClock
from waystation.core.errors import StoreUnreachable, WrongState
from waystation.core.runtime.loop import Loop
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.operating.alarms import EVERY_S as ALARMS_EVERY_S
from waystation.waitingroom.operating.alarms import LIMITS, RINGING, Alarms
from waystation.waitingroom.operating.following import EVERY_S, Following
from waystation.waitingroom.operating.history import History
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import Schedule
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.running.admission import Admission
from waystation.waitingroom.running.upkeep import Upkeep
from waystation.waitingroom.visitor import Lane

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
