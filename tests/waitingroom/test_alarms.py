"""A room says when something needs an operator."""

import pytest

from tests.waitingroom.hands import Hands
from waystation.core.errors import InvalidOption
from waystation.waitingroom import AlarmOptions, Alarms
from waystation.waitingroom.operating.alarms import limits_of, ringing_in


async def events(hands: Hands) -> list[str]:
    return [each["event"] for each in await hands.events() if each["event"].startswith("alarm")]


async def test_a_long_line_raises_an_alarm_once_and_clears_it_once(hands: Hands) -> None:
    await hands.open(admission_rate=0)
    alarms = Alarms(hands.room)
    await alarms.set(AlarmOptions(waiting=5))
    await hands.join_all(*"abcd")
    assert await alarms.keep() is False
    await hands.join("e")
    assert await alarms.keep() is True
    assert await alarms.keep() is False
    assert ringing_in(await hands.room.state()) == {"waiting": "5 people are in line"}
    # Four of five are still many; three are not.
    await hands.room.leave(hands.places["a"], "a")
    assert await alarms.keep() is False
    await hands.room.leave(hands.places["b"], "b")
    assert await alarms.keep() is True
    assert ringing_in(await hands.room.state()) == {}
    assert await events(hands) == ["alarm", "alarm-over"]


async def test_a_long_wait_raises_an_alarm(hands: Hands) -> None:
    await hands.open(admission_rate=1 / 60)
    alarms = Alarms(hands.room)
    await alarms.set(AlarmOptions(wait_minutes=5))
    await hands.join_all(*"abc")
    assert await alarms.keep() is False
    await hands.join_all(*"defgh")
    assert await alarms.keep() is True
    said = ringing_in(await hands.room.state())["wait"]
    assert said.startswith("the last in line waits ")
    # Nobody knows how long they wait in a room that stands still.
    await hands.control.set_rate(0)
    assert await alarms.keep() is False
    assert ringing_in(await hands.room.state()) == {"wait": said}


async def test_an_alarm_that_ends_as_another_begins_is_told_of_too(hands: Hands) -> None:
    await hands.open(admission_rate=1 / 60)
    alarms = Alarms(hands.room)
    await alarms.set(AlarmOptions(waiting=5))
    await hands.join_all(*"abcdefgh")
    assert await alarms.keep() is True
    await alarms.set(AlarmOptions(wait_minutes=5))
    assert [await alarms.keep() for _ in range(3)] == [True, True, False]
    assert await events(hands) == ["alarm", "alarm", "alarm-over"]
    assert ringing_in(await hands.room.state()).keys() == {"wait"}


async def test_no_shows_raise_an_alarm_when_enough_people_were_called(hands: Hands) -> None:
    await hands.open(admission_rate=50, burst=50, max_active=100, claim_window=60)
    alarms = Alarms(hands.room)
    await alarms.set(AlarmOptions(no_shows=0.5))
    await hands.join_all(*(f"v{each}" for each in range(30)))
    assert len(await hands.admit()) == 30
    for each in range(10):
        await hands.come_in(f"v{each}")
    await hands.clock.advance(61)
    await hands.admit()
    assert await alarms.keep() is True
    assert ringing_in(await hands.room.state()) == {"no_shows": "67% of those called stayed away"}


async def test_limits_can_be_taken_away_and_their_alarms_go(hands: Hands) -> None:
    await hands.open(admission_rate=0)
    alarms = Alarms(hands.room)
    await alarms.set(AlarmOptions(waiting=1))
    await hands.join("a")
    await alarms.keep()
    await alarms.set(AlarmOptions())
    assert limits_of(await hands.room.state()) == AlarmOptions()
    assert await alarms.keep() is True
    assert ringing_in(await hands.room.state()) == {}


async def test_limits_that_cannot_be_read_raise_nothing(hands: Hands) -> None:
    await hands.open()
    await hands.room.store.write({"alarm_limits": "{", "alarms": "["})
    assert await Alarms(hands.room).keep() is False


@pytest.mark.parametrize(
    "wrong",
    [{"waiting": -1}, {"wait_minutes": -1}, {"wait_minutes": float("inf")}, {"no_shows": 1}],
)
def test_limits_have_limits(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidOption, match=next(iter(wrong))):
        AlarmOptions(**wrong)  # pyright: ignore
