"""The simulation, second by second of simulated time."""

import asyncio
import math
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from benchmarks.room.simulator import measures
from benchmarks.room.simulator.measures import Verdict
from benchmarks.room.simulator.people import (
    CLAIM_DELAY_S,
    CLAIM_WINDOW_S,
    Crowd,
    Mood,
    Person,
)
from waystation.core.store import faults
from waystation.core.store.connection import Store
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.estimates.model import Model, Sample, fit
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis.keys import RoomKeys
from waystation.waitingroom.room import Room
from waystation.waitingroom.running import Admission, Upkeep
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Begun, Joined, JoinRequest, Waiting

START_MS = 1_800_000_000_000
AT_ONCE = 500
"""Calls under way together: enough to keep the store busy, few enough to stay in order."""
LOOK_EVERY_S = 5
LEARN_EVERY_S = 900
LEARN_FROM_S = 3600
"""The estimates of the second half are made with what the last hour has taught: those who wait
together share their luck, so it takes many waits in a row to see all of it."""


class VirtualClock:
    """A clock that the simulation sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return START_MS + round(self.seconds * 1000)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Time here only passes when the simulation says so."""
        self.seconds += seconds


class Simulation:
    """One crowd, one room, the production scripts; same seed, same outcome."""

    def __init__(
        self,
        store: Store,
        crowd: Crowd,
        *,
        queue_id: str = "{simulation}",
        learn_after: float = 0.5,
        events_cap: int = 1000,
        progress: Callable[[int, int], None] = lambda joined, waiting: None,
    ) -> None:
        self.crowd = crowd
        self._store = store
        self._learn_after = learn_after
        """The share of the crowd after which the estimates learn; 1 for never."""
        self._events_cap = events_cap
        self._progress = progress
        self._clock = VirtualClock()
        self._dice = random.Random(crowd.seed)
        self.room = Room(queue_id, store, clock=self._clock, bits=random.Random(crowd.seed))
        self._admission = Admission(self.room)
        self._upkeep = Upkeep(self.room, budget_s=60, clock=self._clock)
        self._due: dict[int, list[tuple[str, Person]]] = defaultdict(list)
        self._people: dict[str, Person] = {}
        self._everybody: list[Person] = []
        self._called: list[Person] = []
        self._problems: list[str] = []
        self._turns = [0, 0, 0, 0]
        self._came_in: list[float] = []
        self._crowded: list[float] = []
        """The seconds in which somebody waited."""
        self._samples: list[tuple[float, Sample]] = []
        self._learnt_s: float | None = None
        self._learns_s = 0.0
        self._refused = 0
        self._half_time = crowd.hours * 1800 // 1
        self._taken = 0
        self._state: RoomState | None = None

    async def run(self) -> list[Verdict]:
        """Let the crowd come and go, and say what is to be said about it."""
        await self._open()
        joined = 0
        arrivals = 0.0
        while joined < self.crowd.visitors or (await self._look()).waiting > 0:
            coming: list[Person] = []
            arrivals += self.crowd.arrivals_per_second
            while joined < min(arrivals, self.crowd.visitors):
                coming.append(Person(joined, self.crowd, self._dice))
                self._everybody.append(coming[-1])
                joined += 1
            if joined >= self.crowd.visitors and not coming:
                break
            await self._second(coming)
            self._progress(joined, len(self._people))
            share = joined / self.crowd.visitors
            if self._learn_after <= share < 1 and self._clock.seconds >= self._learns_s:
                await self._learn()
        return self._verdicts()

    def outcomes(self) -> Counter[Mood]:
        """What became of everybody."""
        return Counter(person.mood for person in self._everybody)

    @property
    def called(self) -> Sequence[Person]:
        """Everybody whose turn came, in that order."""
        return self._called

    @property
    def broken_promises(self) -> int:
        """How often somebody was called twice, thrown out, or found no seat."""
        return len(self._problems)

    async def _open(self) -> None:
        await self.room.open(
            RoomOptions(
                max_active=self.crowd.max_active,
                max_queue_size=0,
                admission_rate=self.crowd.rate,
                claim_window=CLAIM_WINDOW_S,
                session=600,
                events_cap=self._events_cap,
            )
        )

    async def _change(self) -> None:
        """What the operator changes at half-time."""
        seats, rate = self.crowd.midway
        options = (await self._look()).options
        await self.room.open(
            options.changed(
                max_active=round(options.max_active * seats),
                admission_rate=options.admission_rate * rate,
            )
        )

    async def _second(self, coming: Sequence[Person]) -> None:
        now = self._clock.seconds
        if now == self._half_time and self.crowd.midway != (1.0, 1.0):
            await self._change()
        self._state = state = await self._look()
        await _in_order(self._join(person, state) for person in coming)
        await _in_order(self._act(what, person) for what, person in self._due.pop(int(now), ()))
        # Both leave at once, and reach the store in this order.
        seen, step = await asyncio.gather(self._look(), self._admission.admit())
        for id in step.called:
            self._call(self._people[id], all(seen.lanes))
        if step.waiting:
            self._crowded.append(now)
        if now % LOOK_EVERY_S == 0:
            for id in await self._upkeep.expire_silent():
                self._gone(self._people.pop(id))
            await self._check()
        self._clock.seconds += 1.0

    async def _join(self, person: Person, state: RoomState) -> None:
        entry = await self.room.join(
            JoinRequest(
                key=person.key,
                secret=person.secret,
                lane=person.lane,
                address=person.address,
                agent="Mozilla/5.0",
            )
        )
        if not isinstance(entry, Joined) or not isinstance(entry.status, Waiting):
            person.mood = Mood.REFUSED
            self._refused += 1
            return
        now = self._clock.seconds
        person.place, person.joined_s = entry.place, now
        person.leaves_s += now
        person.ahead = entry.status.ahead
        person.rate = estimate.lane_pace(state, person.lane)
        expected = estimate.wait(state, entry.status)
        if expected is not None:
            person.p10, person.p50, person.p90 = expected.p10, expected.p50, expected.p90
            person.estimates.append((now, expected))
        self._people[entry.place.id] = person
        self._later(person.leaves_s, "leave", person)
        self._later(now + person.beat_s, "beat", person)
        if self.crowd.look_s:
            self._later(now + self.crowd.look_s, "look", person)

    async def _act(self, what: str, person: Person) -> None:
        now = self._clock.seconds
        match what, person.mood:
            case "beat", Mood.WAITS:
                await self.room.heartbeat(person.place)
                self._later(now + person.beat_s, "beat", person)
            case "look", Mood.WAITS:
                await self._tell(person)
                self._later(now + self.crowd.look_s, "look", person)
            case "recover", Mood.MISSED:
                await self.room.recover(person.place, person.secret)
                person.mood = Mood.RETURNED
            case "leave", Mood.WAITS:
                person.mood = Mood.LEFT
                # Most only close the page, and it takes a while until that is noticed.
                if self._dice.random() >= self.crowd.silent:
                    await self.room.leave(person.place, person.secret)
                    self._gone(self._people.pop(person.place.id))
            case "claim", Mood.CALLED:
                answer = await self.room.claim(person.place, person.secret)
                if not isinstance(answer, Begun):
                    self._problems.append(f"{person.key} was called and could not come in")
                    return
                person.mood = Mood.INSIDE
                self._came_in.append(now)
                length = self._dice.lognormvariate(
                    math.log(self.crowd.session_median_s), self.crowd.session_sigma
                )
                self._later(now + min(length, 590), "complete", person)
            case "complete", Mood.INSIDE:
                person.mood = Mood.DONE
                await self.room.complete(person.place)
                self._people.pop(person.place.id, None)
            case _:
                pass

    async def _tell(self, person: Person) -> None:
        status = await self.room.status(person.place)
        state = self._state
        if state is not None and (expected := estimate.wait(state, status)) is not None:
            person.estimates.append((self._clock.seconds, expected))

    def _call(self, person: Person, all_lanes_wait: bool) -> None:
        now = self._clock.seconds
        if person.mood is Mood.RETURNED:
            person.mood = Mood.CALLED
            self._come(person)
            return
        if person.called_s >= 0:
            self._problems.append(f"{person.key} was called twice")
        if person.mood is Mood.WAITS:
            person.called_s = now
            self._called.append(person)
            self._remember(person, admitted=True)
            person.mood = Mood.CALLED
        if all_lanes_wait:
            self._turns[person.lane] += 1
        stays_away = person.mood is Mood.LEFT or self._dice.random() < self.crowd.no_show
        if not stays_away:
            self._come(person)
            return
        left = person.mood is Mood.LEFT
        person.mood = Mood.MISSED
        if not left and self.crowd.late and self._dice.random() < self.crowd.late:
            late_s = CLAIM_WINDOW_S + 5 + self._dice.randrange(120)
            self._later(now + late_s, "recover", person)

    def _come(self, person: Person) -> None:
        soon_s = 1 + self._dice.randrange(2 * CLAIM_DELAY_S)
        self._later(self._clock.seconds + soon_s, "claim", person)

    def _gone(self, person: Person) -> None:
        self._remember(person, admitted=False)
        if person.mood is Mood.WAITS:
            self._problems.append(f"{person.key} was thrown out while waiting")

    def _remember(self, person: Person, *, admitted: bool) -> None:
        now = self._clock.seconds
        sample = Sample(person.ahead, person.rate, now - person.joined_s, admitted)
        self._samples.append((now, sample))

    async def _learn(self) -> None:
        """Do in small what the pipeline does with all of history."""
        now = self._clock.seconds
        self._learnt_s = now if self._learnt_s is None else self._learnt_s
        self._learns_s = now + LEARN_EVERY_S
        recent = [sample for at, sample in self._samples if at > now - LEARN_FROM_S]
        no_show = Model(no_show=self.crowd.no_show)
        model = fit(recent, version=f"simulated-{now:.0f}", base=no_show)
        fields: dict[str, Any] = model.to_fields(trained_at=self._clock.now_ms() // 1000)
        key = RoomKeys(self.room.queue_id).model
        with faults.translated():
            await self._store.redis.hset(key, mapping=fields)  # pyright: ignore
            await self._store.redis.expire(key, 6 * 3600)

    async def _check(self) -> None:
        seen = await self._look()
        taken = seen.inside + seen.called
        # Where an operator took seats away, those who have one keep it.
        if taken > max(seen.options.max_active, self._taken):
            self._problems.append(f"{seen.inside} inside and {seen.called} called are too many")
        self._taken = taken

    async def _look(self) -> RoomState:
        return await self.room.state()

    def _later(self, at_s: float, what: str, person: Person) -> None:
        self._due[max(math.ceil(at_s), int(self._clock.seconds) + 1)].append((what, person))

    def _verdicts(self) -> list[Verdict]:
        learnt = self._learnt_s or 0.0
        before = measures.honesty(each for each in self._called if each.joined_s < learnt)
        after = measures.honesty(each for each in self._called if each.joined_s >= learnt)
        settled = self._crowded[len(self._crowded) // 3 :]
        came = sum(settled[0] <= at <= settled[-1] for at in self._came_in) if settled else 0
        weights = RoomOptions().lane_weights
        problems = Verdict(
            "broken promises", "; ".join(self._problems[:3]) or "0", "0", not self._problems
        )
        return [
            Verdict("visitors", f"{self.crowd.visitors:,}", "", True),
            Verdict("of them refused", f"{self._refused:,}", "", True),
            Verdict("called in", f"{len(self._called):,}", "", True),
            problems,
            *measures.fairness(self._called),
            *measures.shares(self._turns, weights),
            measures.exactness(self.crowd, came, len(settled)),
            *measures.estimates(before, after),
        ]


async def _in_order(calls: Iterable[Awaitable[None]]) -> None:
    """Make the calls, many at once, so that they reach the store in this order."""
    group: list[Awaitable[None]] = []
    for call in calls:
        group.append(call)
        if len(group) == AT_ONCE:
            await asyncio.gather(*group)
            group.clear()
    await asyncio.gather(*group)
