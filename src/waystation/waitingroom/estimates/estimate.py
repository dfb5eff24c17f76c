"""How long somebody will wait, said as honestly as it is known."""

from functools import lru_cache
from typing import NamedTuple

from waystation.waitingroom.estimates.model import closed_form
from waystation.waitingroom.estimates.spread import Spread, Wait
from waystation.waitingroom.options import Method
from waystation.waitingroom.state import Pulse
from waystation.waitingroom.visitor import Called, Inside, Prequeued, Returned, Standing, Waiting


def pace(pulse: Pulse) -> float:
    """People called in per second: as seen of late, else as allowed and as there is room for."""
    options, model = pulse.options, pulse.model
    # Turns that nobody takes are given again, so more are called than come in; twice at most.
    if pulse.flow is not None:
        return min(pulse.flow, 2 * pulse.rate)
    allowed = pulse.rate / (1 - min(0.5, model.no_show))
    if model.session_mean_s:
        held = model.session_mean_s * (1 - model.no_show) + options.claim_window_s * model.no_show
        allowed = min(allowed, options.max_active / max(1.0, held))
    return allowed


@lru_cache(maxsize=256)
def lane_pace(pulse: Pulse, lane: int) -> float:
    """People of one lane called in per second, while the lanes wait that wait now."""
    options = pulse.options
    lengths = [max(length, int(each == lane)) for each, length in enumerate(pulse.lanes)]
    if options.strict_lanes:
        return pace(pulse)
    shares = sum(
        weight for weight, length in zip(options.lane_weights, lengths, strict=True) if length
    )
    return pace(pulse) * options.lane_weights[lane] / shares


class Forecast(NamedTuple):
    """What there is to know about one lane to tell each of its people how long they will wait."""

    spread: Spread
    before: float
    """How much longer the line is than it looks: others come first who are not of the lane."""
    by_lot: Wait | None
    """The wait of everybody, where the place in line says nothing about it."""


@lru_cache(maxsize=256)
def forecast(pulse: Pulse, lane: int) -> Forecast | None:
    """How it looks for one lane; None while nobody is called in."""
    rate = lane_pace(pulse, lane)
    if not pulse.runs or rate <= 0:
        return None
    before = pulse.returned
    if pulse.options.strict_lanes:
        before += sum(pulse.lanes[lane + 1 :])
    by_lot = None
    if pulse.options.queueing_method is Method.RANDOM:
        by_lot = _any_place(pulse.lanes[lane], rate, pulse.model.theta)
    # They take turns of the whole room, of which the lane has only a share.
    return Forecast(Spread.of(pulse.model, rate), before * rate / pace(pulse), by_lot)


def wait(pulse: Pulse, standing: Standing) -> Wait | None:
    """How long somebody will wait; None when nobody can say."""
    match standing:
        case Waiting(lane=lane, ahead=ahead):
            seen = forecast(pulse, lane)
            if seen is None:
                return None
            return seen.by_lot or seen.spread.wait(ahead + 1 + seen.before)
        case Called() | Inside():
            return Wait(p10=0, p50=0, p90=0)
        case Returned(ahead=ahead):
            rate = pace(pulse)
            return Spread.of(pulse.model, rate).wait(ahead + 1) if pulse.runs and rate > 0 else None
        case Prequeued(starts_ms=starts_ms, early=early):
            if starts_ms is None or pulse.rate <= 0:
                return None
            start_s = max(0.0, (starts_ms - pulse.now_ms) / 1000)
            # The draw has not happened yet.
            drawn = _any_place(early, pulse.rate, pulse.model.theta)
            return Wait(p10=start_s + drawn.p10, p50=start_s + drawn.p50, p90=start_s + drawn.p90)
        case _:
            return None


def _any_place(people: int, rate: float, theta: float) -> Wait:
    """The wait where any place from the first to the last is as likely."""
    p10, p50, p90 = (closed_form(max(1, share * people), rate, theta) for share in (0.1, 0.5, 0.9))
    return Wait(p10=p10, p50=p50, p90=p90)
