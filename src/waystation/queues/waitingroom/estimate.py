"""How long somebody will wait, said as honestly as it is known."""

from functools import lru_cache

import msgspec

from .model import closed_form
from .options import Method
from .pulse import Pulse
from .visitor import Called, Inside, Prequeued, Returned, Standing, Waiting


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait in seconds; one in ten is below p10, one in ten above p90."""

    p10: float
    p50: float
    p90: float


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


def wait(pulse: Pulse, standing: Standing) -> Wait | None:
    """How long somebody will wait; None when nobody can say."""
    match standing:
        case Called() | Inside():
            return Wait(p10=0, p50=0, p90=0)
        case Returned(ahead=ahead):
            return _range(pulse, ahead + 1, pace(pulse)) if pulse.runs else None
        case Waiting(lane=lane, ahead=ahead):
            if not pulse.runs:
                return None
            if pulse.options.strict_lanes:
                ahead += sum(pulse.lanes[lane + 1 :])
            # Those who took a turn back come first, though they do not count as ahead.
            return _range(pulse, ahead + 1 + pulse.returned, lane_pace(pulse, lane))
        case Prequeued(starts_ms=starts_ms, early=early):
            if starts_ms is None or pulse.rate <= 0:
                return None
            start_s = max(0.0, (starts_ms - pulse.now_ms) / 1000)
            # The draw has not happened: any place from the first to the last is as likely.
            each = [
                closed_form(max(1, share * early), pulse.rate, pulse.model.theta)
                for share in (0.1, 0.5, 0.9)
            ]
            return Wait(p10=start_s + each[0], p50=start_s + each[1], p90=start_s + each[2])
        case _:
            return None


def _range(pulse: Pulse, people: float, rate: float) -> Wait | None:
    if rate <= 0:
        return None
    model = pulse.model
    if pulse.options.queueing_method is Method.RANDOM:
        whole = closed_form(max(1, pulse.waiting), rate, model.theta)
        return Wait(p10=0.1 * whole, p50=0.5 * whole, p90=0.9 * whole)
    middle = closed_form(people, rate, model.theta)
    return Wait(
        p10=middle * model.f10,
        p50=middle * model.f50,
        p90=middle * model.f90,
    )
