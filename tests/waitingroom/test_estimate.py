"""How long somebody will wait, and what is believed about it."""

import math
import random
from typing import Any

import msgspec
import pytest

from tests.waitingroom.harness import Harness
from waystation.waitingroom.estimates import estimate
from waystation.waitingroom.estimates.model import BOUNDS, Model, Sample, closed_form, fit
from waystation.waitingroom.estimates.stays import Stays
from waystation.waitingroom.options import Method
from waystation.waitingroom.visitor import Called, Gone, Lane, Late, Returned, Waiting

NOW_MS = 1_700_000_000_000


def test_the_formula_knows_that_people_leave() -> None:
    """F38: the spec's rank / rate says ninety minutes where half an hour is the truth."""
    people, rate, theta = 45_000, 500 / 60, 0.001
    naive = people / rate
    assert naive == 5400
    assert closed_form(people, rate, theta) == pytest.approx(
        simulated(people, rate, theta), rel=0.02
    )
    assert closed_form(people, rate, 0) == naive


def simulated(people: int, rate: float, theta: float) -> float:
    """When the last one's turn comes, if everybody leaves who has waited long enough."""
    dice = random.Random(1)
    now = 0.0
    for _ in range(people):
        if dice.expovariate(theta) > now:
            now += 1 / rate
    return now


async def test_everybody_is_told_a_range(harness: Harness) -> None:
    """F38: three quarters to one and a half, until history knows better."""
    await harness.open(admission_rate=2)
    await harness.join_all(*(f"v{each}" for each in range(20)))
    found = estimate.wait(await harness.room.state(), await harness.status("v19"))
    assert found == estimate.Wait(p10=7.5, p50=10, p90=15)


@pytest.mark.parametrize("lots", [False, True])
@pytest.mark.parametrize("stays", [Stays(session_s=300.0), Stays()])
@pytest.mark.parametrize(("rate", "seats"), [(10, 2), (10, 10_000), (0.5, 2)])
async def test_the_estimate_before_the_opening_holds_after_it(
    harness: Harness, lots: bool, stays: Stays, rate: float, seats: int
) -> None:
    """F38: whichever of rate and seats binds, for each of those who came early."""
    await harness.open(admission_rate=rate, max_active=seats)
    await harness.join_all("first", "second")
    if lots:
        await harness.lottery.announce("ab" * 32)
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    names = [f"v{each}" for each in range(20)]
    await harness.join_all(*names)
    before = await _known(harness, stays, names)
    await harness.clock.advance(60)
    await harness.lottery.draw()
    after = await _known(harness, stays, names)
    # Of a draw nobody is shown the luckiest and the unluckiest tenth.
    drawn = harness.names(await harness.lottery.drawn())[2:-2] if lots else names
    for name in drawn:
        early, late = before[name], after[name]
        assert (early is None) == (late is None)
        if early is None or late is None:
            continue
        # The minute until the opening has passed.
        assert early.p10 - 60 <= late.p90 + 1e-9
        assert late.p10 <= early.p90 - 60 + 1e-9
        if not lots:
            assert early.p50 - 60 == pytest.approx(late.p50)


async def _known(
    harness: Harness, stays: Stays, names: list[str]
) -> dict[str, estimate.Wait | None]:
    state = msgspec.structs.replace(await harness.room.state(), stays=stays)
    return {name: estimate.wait(state, await harness.status(name)) for name in names}


async def test_a_lane_waits_for_its_share(harness: Harness) -> None:
    """F38: eight of nine turns go to premium while both wait."""
    await harness.open(admission_rate=9)
    await harness.join_all(*(f"n{each}" for each in range(10)))
    await harness.join_all(*(f"p{each}" for each in range(16)), lane=3)
    seen = await harness.room.state()
    normal = estimate.wait(seen, await harness.status("n9"))
    premium = estimate.wait(seen, await harness.status("p15"))
    assert normal is not None
    assert premium is not None
    assert (normal.p50, premium.p50) == (10, 2)


async def test_those_who_took_a_turn_back_cost_a_lane_only_its_share_of_their_turns(
    harness: Harness,
) -> None:
    """F38: nine of them take a second of the whole room, in which the lane has one turn."""
    await harness.open(admission_rate=9)
    await harness.join_all(*(f"n{each}" for each in range(10)))
    await harness.join_all("p0", lane=3)
    seen = msgspec.structs.replace(await harness.room.state(), returned=9)
    found = estimate.wait(seen, await harness.status("n9"))
    assert found is not None
    assert found.p50 == pytest.approx(11)
    next_in = estimate.wait(seen, Returned(ahead=8))
    assert next_in is not None
    assert next_in.p50 == pytest.approx(1)


async def test_where_lanes_are_strict_everybody_of_a_higher_one_comes_first(
    harness: Harness,
) -> None:
    await harness.open(admission_rate=2, strict_lanes=True)
    await harness.join_all(*(f"n{each}" for each in range(10)))
    await harness.join_all(*(f"p{each}" for each in range(10)), lane=3)
    found = estimate.wait(await harness.room.state(), await harness.status("n9"))
    assert found is not None
    assert found.p50 == 10
    # What is shown is what history learns from, or it would count them twice.
    await harness.join("last")
    assert (await harness.events())[-1]["ahead"] == "20"


async def test_where_chance_decides_everybody_of_a_lane_is_told_the_same(harness: Harness) -> None:
    """F38: a tenth of the lane, half of it or nine tenths may come first."""
    await harness.open(admission_rate=2, queueing_method=Method.RANDOM)
    await harness.join_all(*(f"v{each}" for each in range(40)))
    seen = await harness.room.state()
    assert estimate.wait(seen, await harness.status("v0")) == estimate.Wait(p10=2, p50=10, p90=18)
    assert estimate.wait(seen, await harness.status("v39")) == estimate.Wait(p10=2, p50=10, p90=18)
    assert estimate.wait(seen, Returned(ahead=1)) == estimate.Wait(p10=0.75, p50=1, p90=1.5)


async def test_nobody_is_told_a_number_while_nobody_comes_in(harness: Harness) -> None:
    """F38: paused is said as such; whose turn it is waits no more."""
    await harness.open()
    await harness.join_all("a", "b")
    await harness.control.pause()
    assert estimate.wait(await harness.room.state(), await harness.status("b")) is None
    await harness.control.resume()
    await harness.control.set_rate(0)
    assert estimate.wait(await harness.room.state(), await harness.status("b")) is None
    seen = await harness.room.state()
    assert estimate.wait(seen, Called(until_ms=1)) == estimate.Wait(p10=0, p50=0, p90=0)
    assert estimate.wait(seen, Gone()) is None
    assert estimate.wait(seen, Late(until_ms=1)) is None


async def test_what_is_seen_counts_more_than_what_is_set(harness: Harness) -> None:
    """F38: a shop that is full calls in as many as leave it, whatever the rate."""
    await harness.open(admission_rate=10, max_active=30, session=30, session_max=30)
    await harness.join_all(*(f"v{each}" for each in range(400)))
    for _ in range(180):
        for name in await harness.admit():
            await harness.come_in(name)
        await harness.clock.advance(1)
    seen = await harness.room.state()
    assert seen.flow == pytest.approx(1, rel=0.35)
    waiting = Waiting(lane=Lane.NORMAL, seq=0, ahead=99, length=200)
    found = estimate.wait(seen, waiting)
    assert found is not None
    # Thirty seats of thirty seconds each: one a second, whatever the pace of the last minute.
    assert found.p50 == pytest.approx(100, rel=0.1)


async def test_a_fresh_model_is_believed(harness: Harness) -> None:
    """F38: the pipeline's write-back, with the version that every event then names."""
    await harness.open(admission_rate=10)
    model = Model(theta=0.001, no_show=0.2, f10=0.9, f50=1.01, f90=1.1, version="7")
    fields: Any = model.to_fields(trained_at=NOW_MS // 1000)
    await harness.redis.hset(harness.keys.model, mapping=fields)  # pyright: ignore
    await harness.redis.expire(harness.keys.model, 6 * 3600)
    assert (await harness.room.state()).model == model
    await harness.join("ann")
    assert (await harness.events())[-1]["model"] == "7"


@pytest.mark.parametrize(
    "changes",
    [
        {"theta": "0.5"},
        {"theta": "nan"},
        {"f10": "0.1"},
        {"f10": "1.6"},
        {"noshow": "0.7"},
        {"s_mean": "0"},
        {"trained_at": str(NOW_MS // 1000 - 7 * 3600)},
        {"trained_at": "yesterday"},
    ],
)
def test_a_model_that_is_stale_or_out_of_bounds_is_not_believed(changes: dict[str, str]) -> None:
    """F38: hard bounds, and the defaults when in doubt."""
    fields = Model(theta=0.001).to_fields(trained_at=NOW_MS // 1000) | changes
    assert Model.from_fields(fields, now_ms=NOW_MS) == Model()


def test_what_is_learnt_stays_within_bounds_and_fits_the_visits() -> None:
    dice = random.Random(3)
    theta, rate = 0.0008, 5.0
    samples: list[Sample] = []
    for _ in range(4000):
        ahead = dice.randrange(1, 5000)
        turn = closed_form(ahead + 1, rate, theta) * dice.lognormvariate(0, 0.1)
        patience = dice.expovariate(theta)
        samples.append(Sample(ahead, rate, min(turn, patience), turn <= patience))
    model = fit(samples, version="1")
    assert model.theta == pytest.approx(theta, rel=0.1)
    assert model.f10 == pytest.approx(math.exp(-0.128), rel=0.05)
    assert model.f90 == pytest.approx(math.exp(0.128), rel=0.05)
    for name in ("f10", "f50", "f90"):
        assert BOUNDS[name][0] <= getattr(model, name) <= BOUNDS[name][1]
    assert fit([], version="none").f90 == Model().f90
