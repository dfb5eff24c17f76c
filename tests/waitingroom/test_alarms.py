"""A room says when something needs an operator."""

import pytest

from tests.waitingroom.harness import Harness
from waystation.core.errors import InvalidOption
from waystation.waitingroom import AlarmOptions, Alarms
from waystation.waitingroom.operating.alarms import limits_of, ringing_in


async def events(harness: Harness) -> list[str]:
    return [each["event"] for each in await harness.events() if each["event"].startswith("alarm")]


async def test_a_long_line_raises_an_alarm_once_and_clears_it_once(harness: Harness) -> None:
    await harness.open(admission_rate=0)
    alarms = Alarms(harness.room)
    await alarms.set(AlarmOptions(waiting=5))
    await harness.join_all(*"abcd")
    assert await alarms.keep() is False
    await harness.join("e")
    assert await alarms.keep() is True
    assert await alarms.keep() is False
    assert ringing_in(await harness.room.state()) == {"waiting": "5 people are in line"}
    # Four of five are still many; three are not.
    await harness.room.leave(harness.places["a"], "a")
    assert await alarms.keep() is False
    await harness.room.leave(harness.places["b"], "b")
    assert await alarms.keep() is True
    assert ringing_in(await harness.room.state()) == {}
    assert await events(harness) == ["alarm", "alarm-over"]


async def test_a_long_wait_raises_an_alarm(harness: Harness) -> None:
    await harness.open(admission_rate=1 / 60)
    alarms = Alarms(harness.room)
    await alarms.set(AlarmOptions(wait_minutes=5))
    await harness.join_all(*"abc")
    assert await alarms.keep() is False
    await harness.join_all(*"defgh")
    assert await alarms.keep() is True
    said = ringing_in(await harness.room.state())["wait"]
    assert said.startswith("the last in line waits ")
    # Nobody knows how long they wait in a room that stands still.
    await harness.control.set_rate(0)
    assert await alarms.keep() is False
    assert ringing_in(await harness.room.state()) == {"wait": said}


async def test_an_alarm_that_ends_as_another_begins_is_told_of_too(harness: Harness) -> None:
    await harness.open(admission_rate=1 / 60)
    alarms = Alarms(harness.room)
    await alarms.set(AlarmOptions(waiting=5))
    await harness.join_all(*"abcdefgh")
    assert await alarms.keep() is True
    await alarms.set(AlarmOptions(wait_minutes=5))
    assert [await alarms.keep() for _ in range(3)] == [True, True, False]
    assert await events(harness) == ["alarm", "alarm", "alarm-over"]
    assert ringing_in(await harness.room.state()).keys() == {"wait"}


async def test_no_shows_raise_an_alarm_when_enough_people_were_called(harness: Harness) -> None:
    await harness.open(admission_rate=50, burst=50, max_active=100, claim_window=60)
    alarms = Alarms(harness.room)
    await alarms.set(AlarmOptions(no_shows=0.5))
    await harness.join_all(*(f"v{each}" for each in range(30)))
    assert len(await harness.admit()) == 30
    for each in range(10):
        await harness.come_in(f"v{each}")
    await harness.clock.advance(61)
    await harness.admit()
    assert await alarms.keep() is True
    assert ringing_in(await harness.room.state()) == {"no_shows": "67% of those called stayed away"}


async def test_limits_can_be_taken_away_and_their_alarms_go(harness: Harness) -> None:
    await harness.open(admission_rate=0)
    alarms = Alarms(harness.room)
    await alarms.set(AlarmOptions(waiting=1))
    await harness.join("a")
    await alarms.keep()
    await alarms.set(AlarmOptions())
    assert limits_of(await harness.room.state()) == AlarmOptions()
    assert await alarms.keep() is True
    assert ringing_in(await harness.room.state()) == {}


async def test_limits_that_cannot_be_read_raise_nothing(harness: Harness) -> None:
    await harness.open()
    await harness.room.store.write({"alarm_limits": "{", "alarms": "["})
    assert await Alarms(harness.room).keep() is False


@pytest.mark.parametrize(
    "wrong",
    [{"waiting": -1}, {"wait_minutes": -1}, {"wait_minutes": float("inf")}, {"no_shows": 1}],
)
def test_limits_have_limits(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(wrong))):
        AlarmOptions(**wrong)  # pyright: ignore
