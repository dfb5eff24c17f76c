"""Estimated waits of visitors."""

from functools import lru_cache
from typing import NamedTuple

from waystation.waitingroom.estimates.model import closed_form
from waystation.waitingroom.estimates.spread import Spread, Wait
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


def pace(state: RoomState) -> float:
    """People called in per second: as seen of late, else as allowed and as there is room for."""
    options, model = state.options, state.model
    # Turns that nobody takes are given again, so more are called than come in; twice at most.
    if state.flow is not None:
        return min(state.flow, 2 * state.rate)
    allowed = state.rate / (1 - min(0.5, model.no_show))
    if model.session_mean_s:
        held = model.session_mean_s * (1 - model.no_show) + options.claim_window_s * model.no_show
        allowed = min(allowed, options.max_active / max(1.0, held))
    return allowed


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
    before = state.returned
    if state.options.strict_lanes:
        before += sum(state.lanes[lane + 1 :])
    by_lot = None
    if state.options.queueing_method is Method.RANDOM:
        by_lot = _any_place(state.lanes[lane], rate, state.model.theta)
    # They take turns of the whole room, of which the lane has only a share.
    return Forecast(Spread.of(state.model, rate), before * rate / pace(state), by_lot)


def wait(state: RoomState, status: VisitorStatus) -> Wait | None:
    """How long somebody will wait; None when nobody can say."""
    match status:
        case Waiting(lane=lane, ahead=ahead):
            seen = forecast(state, lane)
            if seen is None:
                return None
            return seen.by_lot or seen.spread.wait(ahead + 1 + seen.before)
        case Called() | Inside():
            return Wait(p10=0, p50=0, p90=0)
        case Returned(ahead=ahead):
            rate = pace(state)
            return Spread.of(state.model, rate).wait(ahead + 1) if state.runs and rate > 0 else None
        case Prequeued(starts_ms=starts_ms, early=early):
            if starts_ms is None or state.rate <= 0:
                return None
            start_s = max(0.0, (starts_ms - state.now_ms) / 1000)
            # The draw has not happened yet.
            drawn = _any_place(early, state.rate, state.model.theta)
            return Wait(p10=start_s + drawn.p10, p50=start_s + drawn.p50, p90=start_s + drawn.p90)
        case _:
            return None


def _any_place(people: int, rate: float, theta: float) -> Wait:
    """The wait where any place from the first to the last is as likely."""
    p10, p50, p90 = (closed_form(max(1, share * people), rate, theta) for share in (0.1, 0.5, 0.9))
    return Wait(p10=p10, p50=p50, p90=p90)
