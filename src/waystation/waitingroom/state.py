"""The state of a room at one instant: its options, its numbers and its forecast model."""

import math
from typing import Any

import msgspec

from waystation.core.codec import as_text
from waystation.core.errors import Malformed, NotFound
from waystation.waitingroom.estimates.model import Model
from waystation.waitingroom.estimates.stays import Stays
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis.keys import name_of

SERVED_S = 15
"""After so many seconds without a look at the room nobody serves it."""


class RoomState(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A room at one instant; compared by identity, so that derived values can be cached."""

    now_ms: int
    """The clock of the store, in milliseconds since 1970."""
    options: RoomOptions
    """The options in force."""
    version: int
    """Goes up with every change of the options."""
    epoch: int
    """Tokens of an earlier epoch are revoked."""
    phase: str
    """prequeue, drawing, open or ended."""
    lanes: tuple[int, int, int, int]
    """Visitors in line, by lane."""
    early: int
    """Visitors in the pre-queue."""
    returned: int
    """Visitors who recovered a missed turn and are next."""
    called: int
    """Visitors called in who have not claimed yet."""
    late: int
    """Visitors who missed their turn and may recover it."""
    inside: int
    """Visitors in a session."""
    rate: float
    """Admissions per second allowed now, a ramp included."""
    flow: float | None
    """Admissions per second measured of late; None when not known yet."""
    model: Model
    """What history says about waiting here."""
    stays: Stays = Stays()
    """What the room itself has learnt about how long people stay."""
    starts_ms: int | None = None
    """When it opens, in milliseconds since 1970; None when that is not planned."""
    ends_ms: int | None = None
    """When it closes, in milliseconds since 1970; None when that is not planned."""
    fail_open_until_ms: int | None = None
    """Until when everybody is let through, in milliseconds since 1970."""
    message: str = ""
    """The operator's message to all visitors, as JSON."""
    pepper: bytes = b""
    """The secret that addresses and access codes are hashed with."""
    served_ms: int = 0
    """When a process last looked whom it may let in, in milliseconds since 1970; 0 for never."""
    fields: dict[str, str] = {}
    """The whole `meta` hash, with settings that other parts keep in it."""

    @property
    def waiting(self) -> int:
        """Visitors in line."""
        return sum(self.lanes) + self.returned

    @property
    def free(self) -> int:
        """Seats that nobody has."""
        return max(0, self.options.max_active - self.inside - self.called)

    @property
    def fail_open(self) -> bool:
        """Everybody is admitted for the time being."""
        return (self.fail_open_until_ms or 0) > self.now_ms

    @property
    def served(self) -> bool:
        """Whether some process lets people in; each looks five times a second."""
        return self.now_ms - self.served_ms < SERVED_S * 1000

    @property
    def runs(self) -> bool:
        """Visitors are being admitted."""
        return self.options.status in ("active", "draining") and self.phase == "open"


def read_state(queue_id: str, raw: Any) -> RoomState:
    """Read the reply of the script."""
    try:
        return _read(queue_id, raw)
    except (KeyError, ValueError) as error:
        name = name_of(queue_id)
        raise Malformed(
            f"the room {name} cannot be read, because something else was written into its keys: "
            f"{error}"
        ) from error


def _read(queue_id: str, raw: Any) -> RoomState:
    now, meta, kept_state, model, lanes, early, returned, called, late, inside, stays, ratios = raw
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
        # While lots are drawn, some of the pre-queue stand in line already.
        early=int(early) - int(kept.get("placed", 0)),
        returned=int(returned),
        called=int(called),
        late=int(late),
        inside=int(inside),
        rate=_rate(fields, now_ms),
        flow=_flow(kept),
        model=Model.from_fields(_pairs(model), now_ms=now_ms),
        stays=Stays.from_fields(_pairs(stays), _pairs(ratios)),
        starts_ms=_millis(fields.get("starts_us")),
        ends_ms=_millis(fields.get("ends_us")),
        fail_open_until_ms=_millis(fields.get("fail_open_us")),
        message=fields.get("message", ""),
        served_ms=int(kept.get("flow_us", 0)) // 1000,
        pepper=bytes.fromhex(kept.get("pepper", "")),
        fields=fields,
    )


MEASURED_AFTER_S = 30
"""Seconds of measurement before the pace is used."""


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
    texts = list(map(as_text, raw))
    return dict(zip(texts[::2], texts[1::2], strict=True))
