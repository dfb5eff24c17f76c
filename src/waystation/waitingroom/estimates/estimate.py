"""Estimated waits of visitors."""

import math
from bisect import bisect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple, TypeAlias

import msgspec

from waystation.core.durations import seconds
from waystation.waitingroom.estimates.model import BOUNDS, Model, closed_form, points_of
from waystation.waitingroom.options import Method
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import (
    Called,
    Inside,
    Prequeued,
    Returned,
    VisitorStatus,
    Waiting,
)

Line: TypeAlias = tuple[float, float]
"""The seconds it starts at, and how many it rises by with each second of the formula."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait in seconds; one in ten is below p10, one in ten above p90."""

    p10: float
    p50: float
    p90: float


class Spread(NamedTuple):
    """The wait of anybody in line, at one pace.

    A point of the model says what the formula is multiplied by for one length of line. From point
    to point the wait is a straight line over what the formula says, and no point lies below that
    of a shorter line: so nobody's wait jumps or rises while people before them go.
    """

    rate: float
    theta: float
    bends: list[float]
    """What the formula says at each point."""
    stretches: list[tuple[float, Line, Line, Line]]
    """Up to the first bend, between two, and from the last on: where it starts, and the lines."""

    @classmethod
    def of(cls, model: Model, rate: float) -> "Spread":
        """What a model says at so many people per second, which must not be 0."""
        points = model.points or (model.everywhere,)
        bends = [closed_form(point.people, rate, model.theta) for point in points]
        p10 = _lines(bends, [point.f10 for point in points])
        p50 = _lines(bends, [point.f50 for point in points])
        p90 = _lines(bends, [point.f90 for point in points])
        return cls(rate, model.theta, bends, list(zip((0.0, *bends), p10, p50, p90, strict=True)))

    def wait(self, people: float) -> Wait:
        """How long the last of so many people waits."""
        formula_s = closed_form(people, self.rate, self.theta)
        start, (p10, s10), (p50, s50), (p90, s90) = self.stretches[bisect(self.bends, formula_s)]
        further = formula_s - start
        return Wait(p10=p10 + s10 * further, p50=p50 + s50 * further, p90=p90 + s90 * further)


def _lines(bends: Sequence[float], factors: Sequence[float]) -> Iterator[Line]:
    waits = accumulate(map(mul, bends, factors), max)
    knots = [(0.0, 0.0), *zip(bends, waits, strict=True)]
    for (since, low), (until, high) in pairwise(knots):
        yield low, (high - low) / (until - since)
    yield knots[-1][1], factors[-1]


@lru_cache(maxsize=64)
def model_of(state: RoomState) -> Model:
    """The model that estimates are made with: history's, else what the room itself has learnt."""
    model, stays = state.model, state.stays
    if model.version != Model().version:
        return model
    return msgspec.structs.replace(
        model,
        theta=stays.theta or 0.0,
        session_mean_s=stays.session_s,
        no_show=min(BOUNDS["noshow"][1], stays.no_show or 0.0),
        points=model.points if stays.noise is None else points_of(stays.noise),
    )


def rate_pace(state: RoomState) -> float:
    """People who may be called in per second, as far as the rate goes."""
    # Turns that nobody takes are given again, so more are called than come in; twice at most.
    return state.rate / (1 - min(0.5, model_of(state).no_show))


@lru_cache(maxsize=64)
def seat_pace(state: RoomState) -> float | None:
    """People whom the seats take per second in the long run; None when that is not known yet."""
    model = model_of(state)
    if state.stays.session_s is None and model.session_mean_s is None:
        return None
    # The store counts while it happens; history may be of another day.
    inside_s = state.stays.session_s or model.session_mean_s or 0.0
    window_s = seconds(state.options.claim_window)
    held = (inside_s + state.stays.delay_s) * (1 - model.no_show) + window_s * model.no_show
    return state.options.max_active / max(1.0, held)


@lru_cache(maxsize=64)
def pace(state: RoomState) -> float:
    """People called in per second, bounded by the rate and by the seats; 0 when nobody can say."""
    allowed, seats = rate_pace(state), seat_pace(state)
    if seats is not None:
        return _both(allowed, seats)
    # Nobody knows when a seat becomes free: what can be said ends with those who find one now.
    if state.waiting > state.free:
        return 0.0
    return allowed if state.flow is None else min(state.flow, 2 * state.rate)


def _both(allowed: float, seats: float) -> float:
    """The pace under two bounds; where they are close, now one binds and now the other."""
    if allowed <= 0 or seats <= 0:
        return 0.0
    low, high = sorted((allowed, seats))
    return low * (1 + (low / high) ** 8) ** -0.125


def head_start(state: RoomState) -> float:
    """How many fewer seem to be ahead, because seats are free that the rate alone bounds."""
    allowed, seats = rate_pace(state), seat_pace(state)
    if seats is None or not 0 < seats < allowed:
        return 0.0
    return min(state.free, state.waiting) * (1 - seats / allowed)


def overfull(state: RoomState) -> float:
    """How many more seem to be ahead, because somebody still has a seat that was taken away."""
    seats, most, taken = seat_pace(state), state.options.max_active, state.inside + state.called
    if not seats or taken <= most:
        return 0.0
    # Nobody is called in until as many have gone, of whom there are fewer and fewer.
    return pace(state) / seats * most * math.log(taken / most)


@lru_cache(maxsize=256)
def lane_pace(state: RoomState, lane: int) -> float:
    """People of one lane called in per second, while the lanes wait that wait now."""
    options = state.options
    lengths = [max(length, int(each == lane)) for each, length in enumerate(state.lanes)]
    if options.strict_lanes:
        return pace(state)
    shares = sum(
        weight for weight, length in zip(options.lane_weights, lengths, strict=True) if length
    )
    return pace(state) * options.lane_weights[lane] / shares


class Forecast(NamedTuple):
    """What there is to know about one lane to tell each of its people how long they will wait."""

    spread: Spread
    before: float
    """How much longer the line is than it looks: others come first who are not of the lane."""
    by_lot: Wait | None
    """The wait of everybody, where the place in line says nothing about it."""


@lru_cache(maxsize=256)
def forecast(state: RoomState, lane: int) -> Forecast | None:
    """How it looks for one lane; None while nobody is called in."""
    rate = lane_pace(state, lane)
    if not state.runs or rate <= 0:
        return None
    before = state.returned + overfull(state) - head_start(state)
    if state.options.strict_lanes:
        before += sum(state.lanes[lane + 1 :])
    by_lot = None
    if state.options.queueing_method is Method.RANDOM:
        by_lot = _any_place(state.lanes[lane], rate, model_of(state).theta)
    # They take turns of the whole room, of which the lane has only a share.
    return Forecast(Spread.of(model_of(state), rate), before * rate / pace(state), by_lot)


def wait(state: RoomState, status: VisitorStatus) -> Wait | None:
    """How long somebody will wait; None when nobody can say."""
    match status:
        case Waiting(lane=lane, ahead=ahead):
            seen = forecast(state, lane)
            if seen is None:
                return None
            return seen.by_lot or seen.spread.wait(max(1.0, ahead + 1 + seen.before))
        case Called() | Inside():
            return Wait(p10=0, p50=0, p90=0)
        case Returned(ahead=ahead):
            rate = pace(state)
            return (
                Spread.of(model_of(state), rate).wait(ahead + 1)
                if state.runs and rate > 0
                else None
            )
        case Prequeued():
            return _before_opening(state, status)
        case _:
            return None


def _before_opening(state: RoomState, status: Prequeued) -> Wait | None:
    """The time until the opening, and the wait that somebody will have in line then."""
    opened = _opened(state)
    seen = forecast(opened, status.lane)
    if status.starts_ms is None or seen is None:
        return None
    start_s = max(0.0, (status.starts_ms - state.now_ms) / 1000)
    first = sum(state.lanes) + 1 + seen.before
    if state.fields.get("commitment"):
        # The draw has not happened yet: any place from the first to the last is as likely.
        p10, p50, p90 = (
            seen.spread.wait(max(1.0, first + share * status.early)) for share in (0.1, 0.5, 0.9)
        )
    else:
        p10 = p50 = p90 = seen.spread.wait(max(1.0, first + status.ahead))
    return Wait(p10=start_s + p10.p10, p50=start_s + p50.p50, p90=start_s + p90.p90)


@lru_cache(maxsize=64)
def _opened(state: RoomState) -> RoomState:
    """The room as it will be when those who came early stand in line."""
    normal, *upper = state.lanes
    lanes = (normal + state.early, *upper)
    return msgspec.structs.replace(state, phase="open", lanes=lanes, early=0, flow=None)


def _any_place(people: int, rate: float, theta: float) -> Wait:
    """The wait where any place from the first to the last is as likely."""
    p10, p50, p90 = (closed_form(max(1, share * people), rate, theta) for share in (0.1, 0.5, 0.9))
    return Wait(p10=p10, p50=p50, p90=p90)


def promise(state: RoomState, status: VisitorStatus) -> str | None:
    """The estimate that somebody sees, the formula's and its people, kept until they are called."""
    if not isinstance(status, Waiting) or state.options.queueing_method is Method.RANDOM:
        return None
    given, seen = wait(state, status), forecast(state, status.lane)
    if given is None or seen is None:
        return None
    people = max(1.0, status.ahead + 1 + seen.before)
    formula = closed_form(people, seen.spread.rate, seen.spread.theta)
    return ":".join(f"{each:.4g}" for each in (given.p10, given.p50, given.p90, formula, people))
