"""Whatever people and operators do, in whatever order, the room keeps its promises."""

import asyncio
import random
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.waitingroom.harness import Harness
from tests.waitingroom.http.harness import ADMIN, OPTIONS, RoomService
from waystation.core.clock import HandClock
from waystation.core.durations import seconds
from waystation.core.store.connection import connect
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.operating.schedule import Schedule
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.visitor import (
    Begun,
    Called,
    Gone,
    Inside,
    Joined,
    JoinRequest,
    Lane,
    Late,
    Returned,
    Waiting,
)

T = TypeVar("T")
MAX_ACTIVE = 4


class Rooms(RuleBasedStateMachine):
    """A room next to what a person with paper and pencil would write down."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.people = 0
        self.turn = 0
        self.order: dict[str, tuple[int, int]] = {}
        """Lane and number of everybody who ever joined."""
        self.called: dict[str, int] = {}
        self.ahead: dict[str, int] = {}
        self.returned: set[str] = set()
        self.gone: set[str] = set()
        self.dice = random.Random(0)

    def do(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return self.loop.run_until_complete(awaited())

    @initialize()
    def open(self) -> None:
        self.store = self.do(connect(self.url))
        self.do(self.store.redis.flushdb())
        self.harness = Harness(self.store)
        self.do(
            self.harness.open(
                max_active=MAX_ACTIVE,
                admission_rate=1,
                burst=2,
                claim_window=20,
                missed=40,
                idle=60,
                paused_idle=90,
                session=30,
                session_max=90,
                max_queue_size=12,
            )
        )

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.do(self.store.close())
        self.loop.close()

    def somebody(self, number: int) -> str | None:
        names = sorted(self.harness.places)
        return names[number % len(names)] if names else None

    @rule(lane=st.sampled_from(list(Lane)))
    def join(self, lane: Lane) -> None:
        name = f"v{self.people}"
        entry = self.do(self.harness.room.join(JoinRequest(key=name, secret=name, lane=lane)))
        if isinstance(entry, Joined):
            self.harness.places[name] = entry.place
            self.people += 1
            self.stands(name, lane)

    def stands(self, name: str, lane: int) -> None:
        """Somebody stands behind everybody who stood in line before."""
        self.order[name] = (lane, self.turn)
        self.turn += 1

    @rule(number=st.integers(0, 50))
    def join_again(self, number: int) -> None:
        if (name := self.somebody(number)) is None or name in self.gone:
            return
        before = self.do(self.harness.status(name))
        entry = self.do(self.harness.room.join(JoinRequest(key=name, secret=name)))
        if not isinstance(before, Gone):
            assert entry.place == self.harness.places[name]  # pyright: ignore
        else:
            self.gone.add(name)
            if isinstance(entry, Joined):
                again = f"v{self.people}"
                self.harness.places[again] = entry.place
                self.people += 1
                self.stands(again, Lane.NORMAL)
                # Whoever joins anew under an old key answers to the old secret.
                self.gone.add(again)
                self.do(self.harness.room.leave(entry.place, name))

    @rule(number=st.integers(0, 50))
    def beat(self, number: int) -> None:
        if name := self.somebody(number):
            self.do(self.harness.beat(name))

    @rule()
    def admit(self) -> None:
        waited = {name: self.do(self.harness.status(name)) for name in self.harness.places}
        for name in self.do(self.harness.admit()):
            status = waited[name]
            # Nobody who left or fell silent is called, and nobody twice without a missed turn.
            assert isinstance(status, Waiting | Returned)
            assert name not in self.called or name in self.returned
            self.returned.discard(name)
            lane, number = self.order[name]
            for other, status in waited.items():
                if isinstance(status, Waiting) and self.order[other][0] == lane:
                    still = isinstance(self.do(self.harness.status(other)), Waiting)
                    assert not (still and self.order[other][1] < number), "overtaken in a lane"
            self.called[name] = self.called.get(name, 0) + 1

    @rule(number=st.integers(0, 50))
    def claim(self, number: int) -> None:
        if (name := self.somebody(number)) is None:
            return
        before = self.do(self.harness.status(name))
        after = self.do(self.harness.claim(name))
        assert isinstance(after, Begun) == isinstance(before, Called | Inside)

    @rule(number=st.integers(0, 50))
    def recover(self, number: int) -> None:
        if (name := self.somebody(number)) is None:
            return
        before = self.do(self.harness.status(name))
        after = self.do(self.harness.room.recover(self.harness.places[name], name))
        if isinstance(before, Late):
            assert isinstance(after, Returned)
            self.returned.add(name)

    @rule(number=st.integers(0, 50))
    def leave(self, number: int) -> None:
        if (name := self.somebody(number)) is None or name in self.gone:
            return
        before = self.do(self.harness.status(name))
        assert self.do(self.harness.room.leave(self.harness.places[name], name)) == (
            not isinstance(before, Gone | Inside)
        )

    @rule(number=st.integers(0, 50))
    def rejoin(self, number: int) -> None:
        if (name := self.somebody(number)) is None or name in self.gone:
            return
        before = self.do(self.harness.status(name))
        after = self.do(self.harness.room.rejoin(self.harness.places[name], name))
        if not isinstance(before, Gone):
            assert after == before
        elif isinstance(after, Returned):
            self.returned.add(name)
        elif isinstance(after, Waiting):
            # Those behind see one more ahead of them, as before that one left.
            for other in self.ahead:
                self.ahead[other] += 1

    @rule(number=st.integers(0, 50))
    def complete(self, number: int) -> None:
        if (name := self.somebody(number)) is not None:
            self.do(self.harness.room.complete(self.harness.places[name]))

    @rule()
    def expire(self) -> None:
        for name in self.do(self.harness.expire()):
            assert isinstance(self.do(self.harness.status(name)), Gone)

    @rule(seconds=st.sampled_from([0.2, 1, 5, 21, 41, 61]))
    def time_passes(self, seconds: float) -> None:
        self.do(self.harness.clock.advance(seconds))

    @rule(stands=st.booleans())
    def pause_or_resume(self, stands: bool) -> None:
        self.do(self.harness.control.pause() if stands else self.harness.control.resume())

    @rule(window=st.sampled_from([5, 20]))
    def change_the_claim_window(self, window: int) -> None:
        self.do(self.harness.room.store.write({"claim_window_s": str(window)}))

    @rule()
    def gather(self) -> None:
        if self.do(self.harness.room.state()).phase != "open":
            return
        self.do(self.harness.lottery.announce())
        self.do(self.harness.control.schedule(self.harness.clock.now_ms() + 1000))

    @rule()
    def draw(self) -> None:
        if self.do(self.harness.room.state()).phase != "prequeue":
            return
        self.do(self.harness.lottery.draw())
        for name in self.harness.names(self.do(self.harness.lottery.drawn())):
            self.stands(name, self.order[name][0])

    @rule()
    def lose_the_list(self) -> None:
        self.do(self.store.redis.delete(self.harness.keys.normal_list))

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def never_more_inside_than_there_are_seats(self) -> None:
        seen = self.do(self.harness.room.state())
        assert seen.inside + seen.called <= MAX_ACTIVE

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def everybody_is_in_one_place_only(self) -> None:
        keys = self.harness.keys
        redis: Any = self.store.redis
        sets: list[set[bytes]] = [
            set(self.do(redis.zrange(key, 0, -1)))
            for key in (keys.positions, keys.recovered, keys.admitted, keys.missed)
        ]
        assert sum(map(len, sets)) == len(set[bytes]().union(*sets))
        beats = set(self.do(redis.zrange(keys.heartbeat, 0, -1)))
        assert beats == sets[0] | sets[1]
        for lane in (keys.elevated, keys.vip, keys.premium):
            assert set(self.do(redis.zrange(lane, 0, -1))) <= sets[0]
        inside: Any = self.do(redis.smembers(keys.sessions))
        ends: Any = self.do(redis.zrange(keys.sessions_expiry, 0, -1))
        assert inside == set(ends)

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def no_number_ever_rises(self) -> None:
        for name in self.harness.places:
            status = self.do(self.harness.status(name))
            if isinstance(status, Waiting):
                assert status.ahead <= self.ahead.get(name, status.ahead)
                self.ahead[name] = status.ahead


# A failure is made small for up to five minutes, and must be reported after that.
@pytest.mark.hypothesis
@pytest.mark.timeout(600)
def test_the_room_keeps_its_promises(redis_url: str) -> None:
    """F3, F11, F12, F16: no inversion, no ghost, no seat too many, nobody called twice."""
    Rooms.url = redis_url
    run_state_machine_as_test(  # pyright: ignore[reportUnknownMemberType]
        Rooms,
        settings=settings(stateful_step_count=30),
    )


LENGTHS = [600, 20_000, 86_400]
WANTED = st.sampled_from(
    [{name: length} for name in ("session_s", "session_max_s") for length in LENGTHS]
)


class Settings(RuleBasedStateMachine):
    """A room whose operators change it, and plan what changes it, in whatever order."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()

    def do(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return self.loop.run_until_complete(awaited())

    @initialize()
    def begin(self) -> None:
        self.store = self.do(connect(self.url))
        self.do(self.store.redis.flushdb())
        self.clock = HandClock()
        self.service = RoomService(self.store, OPTIONS, self.clock)
        self.do(self.service.room.open())
        self.admin = self.do(self.service.operator())

    def teardown(self) -> None:
        if hasattr(self, "admin"):
            self.do(self.service.close())
            self.do(self.store.close())
        self.loop.close()

    @rule(wanted=WANTED)
    def change(self, wanted: dict[str, int]) -> None:
        answer = self.do(self.admin.http.patch(ADMIN, json=wanted))
        assert answer.status_code in (200, 422), answer.text

    @rule(wanted=WANTED)
    def plan(self, wanted: dict[str, int]) -> None:
        # Something may be changed before it begins, while it is on, and after that.
        starts = self.clock.now_ms() + 60_000
        asked = {
            "event_start_time": rfc3339(starts),
            "event_end_time": rfc3339(starts + 60_000),
            "settings": wanted,
        }
        answer = self.do(self.admin.post(f"{ADMIN}/events", asked))
        assert answer.status_code in (201, 409, 422), answer.text

    @rule(called_off=st.booleans())
    def what_is_planned_begins_or_ends(self, called_off: bool) -> None:
        answer = self.do(self.admin.get(f"{ADMIN}/events"))
        listed: list[dict[str, Any]] = answer.json()["events"]
        if called_off:
            for each in listed:
                self.do(self.admin.http.delete(f"{ADMIN}/events/{each['id']}"))
        self.do(self.clock.advance(60))
        self.do(Schedule(self.service.room).keep())

    @rule(session=st.sampled_from(LENGTHS))
    def open_again(self, session: int) -> None:
        self.do(self.service.room.open(RoomOptions(session=session, session_max=session)))

    @precondition(lambda self: hasattr(self, "admin"))
    @invariant()
    def the_room_can_be_read_and_changed(self) -> None:
        state = self.do(self.service.room.state())
        assert seconds(state.options.session_max) >= seconds(state.options.session)
        seats = state.options.max_active % 1000 + 1
        answer = self.do(self.admin.http.patch(ADMIN, json={"max_active": seats}))
        assert answer.status_code == 200, answer.text
        assert answer.json()["settings"]["max_active"] == seats


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.timeout(600)
def test_whatever_is_changed_and_planned_the_room_can_be_read_and_changed(redis_url: str) -> None:
    Settings.url = redis_url
    run_state_machine_as_test(  # pyright: ignore[reportUnknownMemberType]
        Settings,
        settings=settings(max_examples=150, stateful_step_count=10),
    )
