"""Events that are planned, begin, change the room while they last, and end."""

import asyncio
from typing import Any

import pytest

from tests.waitingroom.harness import Harness
from waystation.core.errors import InvalidOption, NotFound, WrongState
from waystation.waitingroom.operating.lottery import verify
from waystation.waitingroom.operating.schedule import Schedule, ScheduledEvent, next_draw

HOUR = 3_600_000


def _event(harness: Harness, after_ms: int, *, id: str = "gala", **more: Any) -> ScheduledEvent:
    starts = harness.clock.now_ms() + after_ms
    return ScheduledEvent(id=id, starts_ms=starts, ends_ms=starts + HOUR, **more)


async def _pass(harness: Harness, seconds: float) -> None:
    """Let time go by, and the duties of the room be done."""
    await harness.clock.advance(seconds)
    await Schedule(harness.room).keep()
    state = await harness.room.state()
    if state.phase == "prequeue" and (state.starts_ms or 0) <= state.now_ms:
        await harness.lottery.draw(beacon="noon")
    await Schedule(harness.room).keep()


async def test_an_event_that_is_over_is_refused(harness: Harness) -> None:
    await harness.open()
    schedule = Schedule(harness.room)
    await schedule.plan(_event(harness, -HOUR // 2, id="begun"))
    with pytest.raises(InvalidOption, match="an event must end in the future, got 20"):
        await schedule.plan(_event(harness, -HOUR))
    assert [each.id for each in await schedule.planned()] == ["begun"]


async def test_an_event_changes_the_room_while_it_lasts(harness: Harness) -> None:
    await harness.open(queueing_method="passthrough", admission_rate=1.0)
    changes = {"queueing_method": "fifo", "admission_rate": "20"}
    await Schedule(harness.room).plan(_event(harness, 60_000, changes=changes))
    await _pass(harness, 59)
    assert (await harness.room.state()).options.queueing_method == "passthrough"
    await _pass(harness, 2)
    seen = await harness.room.state()
    assert (seen.options.queueing_method, seen.rate) == ("fifo", 20)
    assert seen.fields["event"] == "gala"
    await _pass(harness, 3600)
    seen = await harness.room.state()
    assert (seen.options.queueing_method, seen.rate) == ("passthrough", 1)
    assert "event" not in seen.fields
    assert await Schedule(harness.room).planned() == []


async def test_people_gather_and_are_drawn_at_each_event_anew(harness: Harness) -> None:
    await harness.open()
    schedule, commitments = Schedule(harness.room), list[str]()
    for round in range(2):
        gathers = harness.clock.now_ms() + 30_000
        event = _event(harness, 60_000, id=f"night-{round}", gathers_ms=gathers, by_lot=True)
        planned = await schedule.plan(event)
        # Anybody may note it long before the first one can join.
        assert len(planned.commitment) == 64
        assert await next_draw(harness.room) == planned
        await _pass(harness, 31)
        assert (await harness.room.state()).phase == "prequeue"
        commitments.append(await harness.lottery.commitment() or "")
        assert commitments[-1] == planned.commitment
        names = [f"{round}-{number}" for number in range(10)]
        await harness.join_all(*names)
        await _pass(harness, 30)
        assert (await harness.room.state()).phase == "open"
        proof = await harness.lottery.proof()
        assert (proof.commitment, proof.count) == (commitments[-1], 10)
        verify(proof, await harness.lottery.drawn())
        for name in names:
            assert await harness.room.leave(harness.places[name], name) is True
        await _pass(harness, 3600)
    assert commitments[0] != commitments[1]
    kept = await harness.hash(harness.keys.state)
    assert not [name for name in kept if name.startswith("seed:")]


async def test_an_event_that_would_make_the_room_unreadable_is_refused(harness: Harness) -> None:
    await harness.open()
    with pytest.raises(InvalidOption, match="cannot be read"):
        await Schedule(harness.room).plan(_event(harness, 0, changes={"session_s": "long"}))
    assert await Schedule(harness.room).planned() == []


async def test_a_room_whose_stored_settings_do_not_fit_is_read_and_changed(
    harness: Harness,
) -> None:
    await harness.open()
    await harness.room.store.write({"session_s": "20000", "session_max_s": "14400"})
    options = (await harness.room.state()).options
    assert (options.session, options.session_max) == (20_000, 20_000)
    await harness.control.pause()
    assert options.with_settings({"session_s": 600}).session == 600


async def test_many_processes_begin_an_event_once(harness: Harness) -> None:
    await harness.open(admission_rate=1.0)
    event = _event(
        harness, 1000, gathers_ms=harness.clock.now_ms(), changes={"admission_rate": "9"}
    )
    await Schedule(harness.room).plan(event)
    await asyncio.gather(*(Schedule(harness.room).keep() for _ in range(8)))
    seen = await harness.room.state()
    assert (seen.phase, seen.rate) == ("prequeue", 9)
    await _pass(harness, 2)
    await asyncio.gather(*(Schedule(harness.room).keep() for _ in range(8)))
    assert (await harness.room.state()).phase == "open"
    await _pass(harness, 3600)
    assert (await harness.room.state()).rate == 1


async def test_whoever_dies_between_two_steps_of_a_beginning_is_made_up_for(
    harness: Harness,
) -> None:
    await harness.open()
    event = _event(harness, 60_000, gathers_ms=harness.clock.now_ms(), by_lot=True)
    await Schedule(harness.room).plan(event)
    seen = await harness.room.state()
    await harness.room.store.write({"event": event.id, "event_before": "{}"}, version=seen.version)
    await Schedule(harness.room).keep()
    seen = await harness.room.state()
    assert seen.phase == "prequeue"
    assert seen.fields["commitment"] == await harness.lottery.commitment()


async def test_an_event_is_called_off_or_ended(harness: Harness) -> None:
    await harness.open(admission_rate=1.0)
    schedule = Schedule(harness.room)
    await schedule.plan(_event(harness, 60_000))
    await schedule.cancel("gala")
    with pytest.raises(NotFound):
        await schedule.cancel("gala")
    await schedule.plan(_event(harness, 0, changes={"admission_rate": "9"}))
    await schedule.keep()
    assert (await harness.room.state()).rate == 9
    await schedule.cancel("gala")
    assert (await harness.room.state()).rate == 1
    await schedule.plan(_event(harness, 60_000, gathers_ms=harness.clock.now_ms()))
    await schedule.keep()
    with pytest.raises(WrongState, match="gathered"):
        await schedule.cancel("gala")


async def test_two_events_cannot_be_at_once(harness: Harness) -> None:
    await harness.open()
    schedule = Schedule(harness.room)
    await schedule.plan(_event(harness, HOUR, name="Gala"))
    with pytest.raises(WrongState, match="Gala"):
        await schedule.plan(_event(harness, 2 * HOUR - 1, id="late"))
    await schedule.plan(_event(harness, 2 * HOUR, id="late"))
    assert [each.id for each in await schedule.planned()] == ["gala", "late"]


def test_the_refusal_of_an_event_names_its_instants() -> None:
    with pytest.raises(
        InvalidOption, match=r"got starts 2030-01-01 00:00:00\+00:00, ends 1970-01-01 "
    ):
        ScheduledEvent(id="x", starts_ms=1_893_456_000_000, ends_ms=1)
