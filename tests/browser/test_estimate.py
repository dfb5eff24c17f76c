"""The page works out the wait from the public snapshot as the server does from a status."""

import random

import msgspec
import pytest
from playwright.async_api import Browser

from benchmarks.room.crowds import kept_promise
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.estimates.model import Model, Point
from waystation.waitingroom.estimates.stays import Stays
from waystation.waitingroom.http.status import eta_model_of
from waystation.waitingroom.options import Method, RoomOptions, Status
from waystation.waitingroom.pages.render import source
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, Waiting


def some_room(dice: random.Random) -> RoomState:
    """Any room: its lanes, its pace and its model, or nobody called in at all."""
    lengths = sorted(dice.sample(range(1, 100_000), dice.randrange(6)))
    points = [Point(each, *sorted(dice.uniform(0.3, 4) for _ in range(3))) for each in lengths]
    return RoomState(
        now_ms=1_700_000_000_000,
        options=RoomOptions(
            status=dice.choice([Status.ACTIVE, Status.ACTIVE, Status.DRAINING, Status.PAUSED]),
            queueing_method=dice.choice([Method.FIFO, Method.FIFO, Method.RANDOM]),
            strict_lanes=dice.random() < 0.3,
        ),
        version=1,
        epoch=1,
        phase="open",
        lanes=(dice.randrange(100_000), dice.randrange(1000), dice.randrange(2), 0),
        early=0,
        returned=dice.choice([0, 0, 7]),
        called=0,
        late=0,
        inside=0,
        rate=dice.choice([0.0, 0.01, 3.0, 500.0]),
        flow=dice.choice([None, 2.0]),
        model=Model(
            theta=dice.choice([0.0, 1e-12, 0.001, 0.01]),
            points=tuple(points),
            version=dice.choice(["default", "learnt"]),
        ),
        stays=Stays(
            session_s=dice.choice([None, 5.0, 60.0, 600.0]),
            delay_s=dice.choice([0.0, 10.0]),
            no_show=dice.choice([None, 0.2]),
            theta=dice.choice([None, 0.001]),
            noise=dice.choice([None, 0.7, 2.5]),
        ),
    )


async def test_the_page_tells_the_wait_that_the_server_tells(browser: Browser) -> None:
    dice = random.Random(11)
    cases: list[tuple[object, int, int]] = []
    waits: list[estimate.Wait | None] = []
    for state in (some_room(dice) for _ in range(200)):
        model = msgspec.to_builtins(eta_model_of(state))
        for lane in Lane:
            ahead = dice.choice([0, 1, 5, dice.randrange(200_000)])
            cases.append((model, int(lane), ahead))
            waits.append(estimate.wait(state, Waiting(lane=lane, seq=0, ahead=ahead, length=1)))
    page = await browser.new_page()
    await page.add_script_tag(content=source("estimate.js"))
    shown = await page.evaluate("cases => cases.map((each) => estimatedWait(...each))", cases)
    await page.close()

    assert sum(each is not None for each in waits) > 300
    assert sum(each is None for each in waits) > 100
    for case, ours, theirs in zip(cases, waits, shown, strict=True):
        wanted = {"known": False}
        if ours is not None:
            wanted = {"known": True} | msgspec.to_builtins(ours)
        assert theirs == pytest.approx(wanted, rel=1e-4), case


async def test_the_page_keeps_its_promise_as_the_crowds_hold_it_to(browser: Browser) -> None:
    dice = random.Random(12)
    stories = [[dice.uniform(1, 600) for _ in range(30)] for _ in range(50)]
    page = await browser.new_page()
    await page.add_script_tag(content=source("estimate.js"))
    shown = await page.evaluate(_KEEPS, stories)
    await page.close()

    moved = 0
    for story, theirs in zip(stories, shown, strict=True):
        promise = None
        for at, (p90, latest) in enumerate(zip(story, theirs, strict=True)):
            promise = kept_promise(promise, p90, at * 15)
            assert promise.latest == pytest.approx(latest)
        moved += promise.moved if promise else 0
    assert moved > 50


_KEEPS = """stories => stories.map((story) => {
  let promise = null;
  return story.map((p90, at) => (promise = keptPromise(promise, p90, at * 15)).latest);
})"""
