"""The waiting room.

A sale opens, a hundred thousand people arrive, the shop holds a thousand. The room gives everybody
a place in a fair line, says honestly how long it takes, and lets them in as fast as the shop
can take them. As a process with pages and an HTTP API it is `waystation room serve`; here it is
used from Python.
"""

from collections.abc import AsyncIterator

import pytest

from waystation.testing import HandClock
from waystation.waitingroom import (
    Admission,
    Begun,
    Called,
    Control,
    Gone,
    Joined,
    JoinRequest,
    Kept,
    Lane,
    Late,
    Lottery,
    Returned,
    Room,
    RoomOptions,
    Upkeep,
    Waiting,
)
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.operating import lottery


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def room(redis_url: str, clock: HandClock) -> AsyncIterator[Room]:
    async with Room("{tickets}", redis_url, clock=clock) as room:
        yield room


async def test_somebody_waits_in_line_and_comes_in(room: Room, clock: HandClock) -> None:
    """Being called and coming in are two steps: admission opens a window of two minutes, and
    whoever comes in time gets a session. Both steps may be repeated without harm.
    """
    await room.open(RoomOptions(max_active=100, admission_rate=1))

    ann = await room.join(JoinRequest(key="ann's cookie", secret="hers"))
    bob = await room.join(JoinRequest(key="bob's cookie", secret="his"))
    assert isinstance(ann, Joined)
    assert isinstance(bob, Joined)

    # Whoever asks again, has the place again.
    again = await room.join(JoinRequest(key="ann's cookie", secret="hers"))
    assert isinstance(again, Kept)
    assert again.place == ann.place

    # One per second: ann is called, bob is next.
    await Admission(room).admit()
    assert isinstance(await room.status(ann.place), Called)
    status = await room.status(bob.place)
    assert isinstance(status, Waiting)
    assert status.ahead == 0

    # A turn is taken with the secret that only ann knows.
    session = await room.claim(ann.place, "hers")
    assert isinstance(session, Begun)
    assert await room.complete(ann.place)


async def test_everybody_is_told_how_long_it_takes(room: Room) -> None:
    """The estimate knows the pace, the lane, and that people leave the line; the pipeline teaches
    it how many do.
    """
    await room.open(RoomOptions(admission_rate=2, newcomers_per_minute=0))
    for number in range(19):
        await room.join(JoinRequest(key=f"{number}", secret="s"))
    last = await room.join(JoinRequest(key="the last", secret="s"))
    assert isinstance(last, Joined)

    wait = estimate.wait(await room.state(), last.status)

    # A range, not a promise; history narrows it.
    assert wait == estimate.Wait(p10=7.5, p50=10.0, p90=15.0)


async def test_lanes_share_the_turns(room: Room) -> None:
    """There are four lanes. A visitor sees the place in the own lane, and that number rises only
    when somebody who left takes that back. Which lane somebody stands in is said by a signed
    ticket, never by the visitor.
    """
    await room.open(RoomOptions(admission_rate=9, newcomers_per_minute=0))
    for number in range(20):
        await room.join(JoinRequest(key=f"n{number}", secret="s"))
        await room.join(JoinRequest(key=f"p{number}", secret="s", lane=Lane.PREMIUM))

    await Admission(room).admit()

    # Eight to one, so that nobody starves.
    assert (await room.state()).lanes == (19, 0, 0, 12)


async def test_a_missed_turn_is_not_the_end(room: Room, clock: HandClock) -> None:
    """A phone that slept through its turn can take it back for ten minutes, at the old place. Turns
    that nobody took are given again, so that as many come in as should.
    """
    await room.open(RoomOptions(claim_window=120, missed=600))
    ann = await room.join(JoinRequest(key="ann", secret="hers"))
    assert isinstance(ann, Joined)
    await Admission(room).admit()

    await clock.advance(121)
    assert isinstance(await room.status(ann.place), Late)
    assert await room.recover(ann.place, "hers") == Returned(ahead=0)

    await Admission(room).admit()
    assert isinstance(await room.claim(ann.place, "hers"), Begun)


async def test_whoever_falls_silent_makes_room(room: Room, clock: HandClock) -> None:
    """Five minutes of silence are forgiven, because browsers let hidden tabs sleep; while the room
    is paused, more.
    """
    await room.open(RoomOptions(admission_rate=0, idle=300))
    ann = await room.join(JoinRequest(key="ann", secret="hers"))
    bob = await room.join(JoinRequest(key="bob", secret="his"))
    assert isinstance(ann, Joined)
    assert isinstance(bob, Joined)

    await clock.advance(299)
    await room.heartbeat(bob.place)
    await clock.advance(2)
    await Upkeep(room).expire_silent()

    assert await room.status(ann.place) == Gone()
    status = await room.status(bob.place)
    assert isinstance(status, Waiting)
    assert status.ahead == 0


async def test_an_operator_has_the_last_word(room: Room, clock: HandClock) -> None:
    """Pausing keeps every place. A new rate can be reached step by step."""
    await room.open(RoomOptions(admission_rate=10))
    await room.join(JoinRequest(key="ann", secret="hers"))
    control = Control(room)

    await control.pause()
    await control.show_message({"en": "The printer is out of paper. You keep your place."})
    assert (await Admission(room).admit()).called == []

    await control.set_rate(30, ramp=60)
    await control.resume()
    assert len((await Admission(room).admit()).called) == 1


async def test_lots_are_drawn_so_that_anybody_can_check(room: Room, clock: HandClock) -> None:
    """People may gather before the room opens. The digest of a seed is published before anybody
    comes; after the draw the seed is published, too, and gives the same order again.
    """
    await room.open(RoomOptions(newcomers_per_minute=0))
    await Control(room).schedule(clock.now_ms() + 600_000)
    draw = Lottery(room)
    commitment = await draw.announce()
    for number in range(30):
        await room.join(JoinRequest(key=f"{number}", secret="s"))

    await draw.draw(beacon="the closing price of tea")

    proof = await draw.proof()
    assert proof.commitment == commitment
    lottery.verify(proof, await draw.drawn())
