"""The state of a room at one instant: its options, its numbers and its forecast model."""

import math
from typing import Any

import msgspec

from waystation.core.errors import NotFound
from waystation.waitingroom.estimates.model import Model
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis.keys import name_of


class RoomState(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A room at one instant; each look is one of its own, so that what follows can be kept."""

    now_ms: int
    options: RoomOptions
    version: int
    """Goes up with every change of the options."""
    epoch: int
    """Tokens of an earlier one no longer count."""
    phase: str
    """prequeue, drawing, open or ended."""
    lanes: tuple[int, int, int, int]
    """People in line, by lane."""
    early: int
    """People in the pre-queue."""
    returned: int
    """People who took a missed turn back."""
    called: int
    """People whose turn it is."""
    late: int
    """People who missed their turn and may take it back."""
    inside: int
    rate: float
    """People who may come in per second now, a change under way included."""
    flow: float | None
    """People who were called in per second of late; None when that is not known yet."""
    model: Model
    starts_ms: int | None = None
    ends_ms: int | None = None
    fail_open_until_ms: int | None = None
    message: str = ""
    """What the operator tells everybody, as JSON."""
    pepper: bytes = b""
    fields: dict[str, str] = {}
    """The whole `meta` hash, for those who keep settings of their own in it."""

    @property
    def waiting(self) -> int:
        """People in line."""
        return sum(self.lanes) + self.returned

    @property
    def fail_open(self) -> bool:
        """Whether everybody comes in for the time being."""
        return (self.fail_open_until_ms or 0) > self.now_ms

    @property
    def runs(self) -> bool:
        """Whether people are being called in."""
        return self.options.status in ("active", "draining") and self.phase == "open"


def read_state(queue_id: str, raw: Any) -> RoomState:
    """Read the reply of the script."""
    now, meta, kept_state, model, lanes, early, returned, called, late, inside = raw
    now_ms = int(now)
    normal, elevated, vip, premium = (int(each) for each in lanes)
    fields, kept = _pairs(meta), _pairs(kept_state)
    if not fields:
        name = name_of(queue_id)
        raise NotFound(f"there is no room {name}; `waystation room open {name}` opens it")
    return RoomState(
        now_ms=now_ms,
        options=RoomOptions.from_fields(fields),
        version=int(fields.get("version", 0)),
        epoch=int(fields.get("epoch", 1)),
        phase=fields.get("phase", "open"),
        lanes=(normal, elevated, vip, premium),
        early=int(early),
        returned=int(returned),
        called=int(called),
        late=int(late),
        inside=int(inside),
        rate=_rate(fields, now_ms),
        flow=_flow(kept),
        model=Model.from_fields(_pairs(model), now_ms=now_ms),
        starts_ms=_millis(fields.get("starts_us")),
        ends_ms=_millis(fields.get("ends_us")),
        fail_open_until_ms=_millis(fields.get("fail_open_us")),
        message=fields.get("message", ""),
        pepper=bytes.fromhex(kept.get("pepper", "")),
        fields=fields,
    )


MEASURED_AFTER_S = 30
"""How long people must have been waiting before the pace says anything."""


def _flow(state: dict[str, str]) -> float | None:
    since = state.get("flow_since")
    if not since:
        return None
    seconds = (int(state["flow_us"]) - int(since)) / 1_000_000
    if seconds < MEASURED_AFTER_S:
        return None
    # The running mean over a minute starts at nothing; this takes that start out again.
    return float(state["flow"]) / (1 - math.exp(-seconds / 60))


def _rate(fields: dict[str, str], now_ms: int) -> float:
    rate = float(fields.get("admission_rate", 0))
    if "ramp_us" not in fields:
        return rate
    began, length, start = (float(fields[name]) for name in ("ramp_us", "ramp_s", "ramp_from"))
    share = min(1.0, max(0.0, (now_ms * 1000 - began) / (length * 1_000_000)))
    return start + (rate - start) * share


def _millis(micros: str | None) -> int | None:
    return int(micros) // 1000 if micros else None


def _pairs(raw: Any) -> dict[str, str]:
    texts = [each.decode() for each in raw]
    return dict(zip(texts[::2], texts[1::2], strict=True))
