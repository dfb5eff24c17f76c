"""What a room learns by itself about how long visitors stay, and so how long others wait."""

from typing import Any

import pytest

from tests.waitingroom.harness import Harness
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.estimates.stays import Stays
from waystation.waitingroom.operating.history import last_hours
from waystation.waitingroom.visitor import Lane, Waiting


async def let_in(harness: Harness, seconds: int, *, stay_s: int) -> None:
    """Let everybody come in who is called, and go again after so long."""
    now = harness.clock.now_ms
    leaves: list[tuple[int, str]] = getattr(harness, "leaves", [])
    for _ in range(seconds):
        for name in await harness.admit():
            await harness.come_in(name)
            leaves.append((now() + stay_s * 1000, name))
        await harness.clock.advance(1)
        for at, name in [each for each in leaves if each[0] <= now()]:
            leaves.remove((at, name))
            await harness.room.complete(harness.places[name])
    harness.leaves = leaves  # pyright: ignore[reportAttributeAccessIssue]


async def estimated(harness: Harness, ahead: int) -> estimate.Wait | None:
    place = Waiting(lane=Lane.NORMAL, seq=0, ahead=ahead, length=ahead + 1)
    return estimate.wait(await harness.room.state(), place)


async def test_a_full_room_says_nothing_until_a_session_has_ended(harness: Harness) -> None:
    await harness.open(admission_rate=20, max_active=10)
    await harness.join_all(*(f"v{each}" for each in range(100)))
    assert await estimated(harness, 50) is None
    await let_in(harness, 5, stay_s=20)
    assert await estimated(harness, 50) is None
    await let_in(harness, 40, stay_s=20)
    found = await estimated(harness, 50)
    assert found is not None
    # Ten seats of twenty seconds each: one every two seconds, though the rate would allow forty.
    assert found.p50 == pytest.approx(102, rel=0.15)


async def test_a_room_with_seats_for_all_is_bounded_by_its_rate(harness: Harness) -> None:
    await harness.open(admission_rate=2, max_active=1000)
    await harness.join_all(*(f"v{each}" for each in range(100)))
    before = await estimated(harness, 50)
    assert before is not None
    assert before.p50 == pytest.approx(25.5)
    await let_in(harness, 30, stay_s=5)
    after = await estimated(harness, 50)
    assert after is not None
    assert after.p50 == pytest.approx(25.5, rel=0.15)


async def test_a_change_of_the_seats_counts_at_once(harness: Harness) -> None:
    await harness.open(admission_rate=20, max_active=10)
    await harness.join_all(*(f"v{each}" for each in range(200)))
    await let_in(harness, 60, stay_s=10)
    before = await estimated(harness, 100)
    await harness.room.store.write({"max_active": "5"})
    after = await estimated(harness, 100)
    assert before is not None
    assert after is not None
    assert after.p50 == pytest.approx(2 * before.p50, rel=0.1)


async def test_seats_that_were_taken_away_have_to_become_free_first(harness: Harness) -> None:
    await harness.open(admission_rate=1, max_active=20)
    await harness.join_all(*(f"v{each}" for each in range(150)))
    await let_in(harness, 60, stay_s=20)
    before = await estimated(harness, 0)
    await harness.room.store.write({"max_active": "10"})
    after = await estimated(harness, 0)
    assert before is not None
    assert after is not None
    # One leaves each second, and ten have to before the next one is called.
    assert before.p50 < 3
    assert 8 < after.p50 < 20


async def test_sessions_that_run_out_count_as_long_as_they_held_their_seat(
    harness: Harness,
) -> None:
    await harness.open(admission_rate=20, max_active=10, session=30, session_max=30)
    await harness.join_all(*(f"v{each}" for each in range(100)))
    await let_in(harness, 100, stay_s=10_000)
    seen = (await harness.room.state()).stays.session_s
    assert seen == pytest.approx(30, rel=0.1)


async def test_those_who_leave_the_line_make_it_shorter(harness: Harness) -> None:
    await harness.open(admission_rate=0.5, max_active=1000)
    await harness.join_all(*(f"v{each}" for each in range(200)))
    await let_in(harness, 5, stay_s=5)
    for number in range(150, 170):
        await harness.room.leave(harness.places[f"v{number}"], f"v{number}")
    await let_in(harness, 5, stay_s=5)
    state = await harness.room.state()
    assert state.stays.theta == pytest.approx(20 / (10 * 190), rel=0.2)


async def test_what_people_were_told_is_held_against_how_long_they_waited(harness: Harness) -> None:
    await harness.open(admission_rate=2, max_active=1000)
    for step in range(60):
        await harness.join_all(*(f"v{step}-{each}" for each in range(4)))
        await let_in(harness, 1, stay_s=5)
    await let_in(harness, 70, stay_s=5)
    (hour,) = await last_hours(harness.room, 1)
    assert hour.estimates >= 20
    assert hour.estimates_within == pytest.approx(1.0, abs=0.2)
    assert hour.estimate_error is not None
    assert hour.estimate_error < 0.15
    state = await harness.room.state()
    assert state.stays.noise is not None
    assert state.stays.noise < 1
    # What is known by now makes the range of a long line narrower than that of a short one.
    short, long = await estimated(harness, 10), await estimated(harness, 100)
    assert short is not None
    assert long is not None
    assert 1.02 < long.p90 / long.p50 < short.p90 / short.p50 < 1.5


def test_spoiled_counts_are_not_believed() -> None:
    assert Stays.from_fields({"ends": "many"}, {}) == Stays()
    assert Stays.from_fields({"ends": "10"}, {"waits": "x"}) == Stays()
    assert Stays.from_fields({"ends": "10", "d5": "10"}, {}).session_s is None


async def test_of_some_who_join_the_estimate_is_kept_for_a_day(harness: Harness) -> None:
    await harness.open(admission_rate=2, max_active=1000)
    await harness.join_all(*(f"v{each}" for each in range(40)))
    kept = await harness.redis.hkeys(harness.keys.promises)
    assert len(kept) == 10
    assert set(kept) <= {place.id.encode() for place in harness.places.values()}
    assert 0 < await harness.redis.ttl(harness.keys.promises) <= 86_400


async def test_estimates_of_many_who_never_come_in_do_not_fill_the_store(
    harness: Harness,
) -> None:
    await harness.open(admission_rate=2, max_active=1000)
    gone: dict[Any, Any] = {f"gone {each}": "1:2:3:2:1" for each in range(10_001)}
    await harness.redis.hset(harness.keys.promises, mapping=gone)
    await harness.join_all(*(f"v{each}" for each in range(40)))
    assert await harness.redis.hlen(harness.keys.promises) == 10
