"""The range of a wait, for every length of line."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.waitingroom.estimates.estimate import Spread, Wait
from waystation.waitingroom.estimates.model import (
    BOUNDS,
    FEWEST_VISITS,
    MOST_POINTS,
    Model,
    Point,
    Sample,
    closed_form,
    fit,
)

LEAST, MOST = BOUNDS["f50"]
NOW_S = 1_700_000_000

factors = st.lists(st.floats(LEAST, MOST), min_size=3, max_size=3).map(sorted)
lengths = st.lists(st.integers(1, 10**7), max_size=MOST_POINTS, unique=True).map(sorted)
rates = st.floats(1e-3, 1e4)


@st.composite
def models(draw: st.DrawFn) -> Model:
    f10, f50, f90 = draw(factors)
    points = tuple(Point(people, *draw(factors)) for people in draw(lengths))
    theta = draw(st.one_of(st.just(0.0), st.floats(*BOUNDS["theta"])))
    return Model(theta=theta, f10=f10, f50=f50, f90=f90, points=points, version="any")


def at_most(less: Wait, more: Wait) -> bool:
    """Whether each of the three is no longer, the last bits of a float apart."""
    slack = 1 + 1e-9
    return all(getattr(less, name) <= getattr(more, name) * slack for name in ("p10", "p50", "p90"))


@given(models(), rates, st.integers(1, 10**7), st.integers(0, 10**7))
def test_nobody_waits_longer_because_somebody_before_them_has_gone(
    model: Model, rate: float, people: int, gone: int
) -> None:
    spread = Spread.of(model, rate)
    assert at_most(spread.wait(max(1, people - gone)), spread.wait(people))


@given(models(), rates)
def test_the_wait_does_not_rise_where_lines_of_one_kind_end_and_others_begin(
    model: Model, rate: float
) -> None:
    spread = Spread.of(model, rate)
    around = [max(1, point.people + step) for point in model.points for step in range(-2, 3)]
    for fewer, more in pairwise(sorted(around)):
        assert at_most(spread.wait(fewer), spread.wait(more))


@given(models(), rates)
def test_the_wait_does_not_jump_there(model: Model, rate: float) -> None:
    spread = Spread.of(model, rate)
    for point in model.points:
        before, at = spread.wait(point.people * (1 - 1e-9)), spread.wait(point.people)
        assert before.p50 == pytest.approx(at.p50, rel=0.01)


@given(models(), rates, st.integers(1, 10**7))
def test_the_range_is_in_order_and_within_hard_bounds(
    model: Model, rate: float, people: int
) -> None:
    found = Spread.of(model, rate).wait(people)
    formula_s = closed_form(people, rate, model.theta)
    assert LEAST * formula_s * (1 - 1e-9) <= found.p10
    assert found.p10 <= found.p50 * (1 + 1e-9)
    assert found.p50 <= found.p90 * (1 + 1e-9)
    assert found.p90 <= MOST * formula_s * (1 + 1e-9)


@given(rates, st.integers(1, 10**7), st.floats(*BOUNDS["theta"]))
def test_a_model_that_knows_no_lengths_serves_them_all_alike(
    rate: float, people: int, theta: float
) -> None:
    model = Model(theta=theta, f10=0.8, f50=1.1, f90=1.3)
    found = Spread.of(model, rate).wait(people)
    formula_s = closed_form(people, rate, theta)
    assert found.p10 == pytest.approx(0.8 * formula_s)
    assert found.p50 == pytest.approx(1.1 * formula_s)
    assert found.p90 == pytest.approx(1.3 * formula_s)


def test_each_length_has_factors_of_its_own_and_lies_between_its_neighbours_otherwise() -> None:
    short, long = Point(10, 0.5, 1.0, 2.0), Point(1000, 0.9, 1.0, 1.1)
    spread = Spread.of(Model(points=(short, long)), 1.0)
    assert spread.wait(10) == Wait(p10=5, p50=10, p90=20)
    assert spread.wait(1000) == Wait(p10=900, p50=1000, p90=1100)
    assert spread.wait(5) == Wait(p10=2.5, p50=5, p90=10)
    between = spread.wait(505)
    assert (between.p10, between.p90) == (pytest.approx(452.5), pytest.approx(560))
    beyond = spread.wait(5000)
    assert (beyond.p10, beyond.p90) == (pytest.approx(4500), pytest.approx(5500))


@given(models())
def test_a_model_comes_back_as_it_was_written(model: Model) -> None:
    fields = model.to_fields(trained_at=NOW_S)
    found = Model.from_fields(fields, now_ms=NOW_S * 1000)
    assert found.version == "any"
    assert [each.people for each in found.points] == [each.people for each in model.points]
    for read, written in zip(found.points, model.points, strict=True):
        assert read.f50 == pytest.approx(written.f50, abs=1e-4)


@pytest.mark.parametrize(
    "points",
    [
        "[[4,0.9,1.0,1.1],[4,0.9,1.0,1.1]]",
        "[[16,0.9,1.0,1.1],[4,0.9,1.0,1.1]]",
        "[[0,0.9,1.0,1.1]]",
        "[[4,0.2,1.0,1.1]]",
        "[[4,0.9,1.0,4.1]]",
        "[[4,1.1,1.0,0.9]]",
        "[[4,0.9,1.0]]",
        "[[4,null,1.0,1.1]]",
        "[" + ",".join(f"[{each},0.9,1.0,1.1]" for each in range(1, 18)) + "]",
        "four",
        "",
    ],
)
def test_points_that_make_no_sense_are_not_believed(points: str) -> None:
    fields = Model(theta=0.001).to_fields(trained_at=NOW_S) | {"points": points}
    assert Model.from_fields(fields, now_ms=NOW_S * 1000) == Model()


def test_short_lines_teach_other_factors_than_long_ones() -> None:
    dice = random.Random(7)
    samples = [
        Sample(ahead, 2.0, closed_form(ahead + 1, 2.0, 0) * dice.lognormvariate(0, sigma), True)
        for ahead, sigma in ((8, 0.5), (2000, 0.05))
        for _ in range(2000)
    ]
    short, long = fit(samples, version="1").points
    assert (short.people, long.people) == (9, 2001)
    assert short.f90 / short.f10 > 3
    assert long.f90 / long.f10 < 1.2


def test_lines_with_too_few_visits_make_do_with_what_the_whole_room_has_taught() -> None:
    few = [Sample(999, 2.0, 2000.0, True) for _ in range(FEWEST_VISITS - 1)]
    many = [Sample(8, 2.0, 4.5, True) for _ in range(1000)]
    model = fit(many + few, version="1")
    _, long = model.points
    assert long == Point(1000, model.f10, model.f50, model.f90)
    _, long = fit([*many, *few, few[0]], version="2").points
    assert long.f50 == pytest.approx(4)
