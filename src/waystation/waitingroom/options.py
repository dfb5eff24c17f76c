"""Options of a room."""

from enum import StrEnum
from typing import Any, Self

import msgspec

from waystation.core.errors import InvalidOption

MOST_RATE = 1_000_000
MOST_COUNT = 100_000_000


class Status(StrEnum):
    """The operating mode of a room."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Visitors join and keep their places; nobody is admitted."""
    QUEUE_ALL = "queue_all"
    """Like paused, as an emergency: every arrival has to wait, free seats or not."""
    DRAINING = "draining"
    """Nobody joins any more; those in line are admitted."""
    MAINTENANCE = "maintenance"
    """Nobody joins and nobody is admitted; places are kept."""
    CLOSED = "closed"
    """The room has ended."""


class Method(StrEnum):
    """The order of admission."""

    FIFO = "fifo"
    RANDOM = "random"
    PASSTHROUGH = "passthrough"
    """Every visitor is admitted at once and only counted."""
    REJECT = "reject"
    """Nobody may join."""


class WaitingPage(StrEnum):
    """Who gets to see the waiting page."""

    AUTOMATIC = "automatic"
    """Those who come while there is a line; the others pass without noticing the room."""
    ALWAYS = "always"
    """Everybody, also while there is room."""
    OFF = "off"
    """Nobody: every visitor passes and is only counted."""


class RoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a room; the names are those of its `meta` hash in Redis."""

    name: str = ""
    """The name that visitors see."""
    target_url: str = ""
    """The https address visitors go on to when admitted; empty for a path of the asking site."""
    max_active: int = 1000
    """Seats: visitors inside and called in, at most."""
    max_queue_size: int = 50_000
    """Visitors in line, at most; 0 for no limit."""
    admission_rate: float = 10.0
    """Visitors admitted per second."""
    burst: float = 0.0
    """Unused admissions that may accumulate; 0 for one second's worth."""
    status: Status = Status.ACTIVE
    """Whether people may join, and whether they are let in."""
    queueing_method: Method = Method.FIFO
    """Who is first: whoever came first, or a lot drawn at the opening."""
    waiting_page: WaitingPage = WaitingPage.AUTOMATIC
    """Who gets to see the waiting page: automatic, always or off."""
    lane_weights: tuple[int, int, int, int] = (1, 2, 4, 8)
    """Shares of the normal, elevated, VIP and premium lane while all of them have visitors."""
    strict_lanes: bool = False
    """Admit a higher lane always first, however long the others wait."""
    idle_s: int = 300
    """Seconds without a heartbeat after which a visitor in line expires."""
    paused_idle_s: int = 1500
    """The same while the room admits nobody."""
    claim_window_s: int = 120
    """Seconds in which an admitted visitor has to claim the turn."""
    missed_s: int = 600
    """Seconds in which a missed turn can be recovered."""
    session_s: int = 3600
    """Seconds of inactivity after which a session ends."""
    session_max_s: int = 14_400
    """Seconds after which a session ends in any case."""
    unproven_s: int = 300
    """Seconds for which somebody who passed without waiting has a seat, until they come back."""
    session_renewal: bool = True
    """Let activity renew a session."""
    position_ttl_s: int = 1800
    """Seconds for which the record of a silent visitor is kept."""
    newcomers_per_minute: int = 50
    """New places for one network (an IPv4 address or IPv6 /64) a minute; 0 for no limit."""
    events_cap: int = 10_000
    """Events kept in the stream, approximately."""

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidOption(f"{name} must be {least} to {most}, got {value}")
        if len(self.lane_weights) != 4 or any(not 1 <= each <= 1000 for each in self.lane_weights):
            raise InvalidOption(f"lane_weights must be four of 1 to 1000, got {self.lane_weights}")
        if self.target_url and not self.target_url.startswith("https://"):
            raise InvalidOption(f"target_url must start with https://, got {self.target_url!r}")
        if self.session_max_s < self.session_s:
            raise InvalidOption(
                f"session_max_s must be at least session_s ({self.session_s}), "
                f"got {self.session_max_s}"
            )

    def to_fields(self) -> dict[str, str]:
        """The fields of the `meta` hash."""
        values = msgspec.to_builtins(self)
        return {name: _text(value) for name, value in values.items()}

    @classmethod
    def from_fields(cls, fields: dict[str, str]) -> Self:
        """Read a `meta` hash; missing fields have their defaults."""
        known = {name: _value(name, fields[name]) for name in cls.__struct_fields__ & fields.keys()}
        try:
            return msgspec.convert(known, cls, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidOption(f"the room's settings cannot be read: {error}") from None

    def changed(self, **changes: Any) -> Self:
        """A copy with these options changed."""
        if unknown := changes.keys() - set(self.__struct_fields__):
            raise InvalidOption(f"a room has no option {', '.join(sorted(unknown))}")
        try:
            return msgspec.convert({**msgspec.to_builtins(self), **changes}, type(self))
        except msgspec.ValidationError as error:
            raise InvalidOption(str(error)) from None


_BOUNDS: dict[str, tuple[float, float]] = {
    "max_active": (0, MOST_COUNT),
    "max_queue_size": (0, MOST_COUNT),
    "admission_rate": (0, MOST_RATE),
    "burst": (0, MOST_RATE),
    "idle_s": (10, 86_400),
    "paused_idle_s": (10, 86_400),
    "claim_window_s": (5, 86_400),
    "missed_s": (0, 86_400),
    "session_s": (5, 86_400),
    "session_max_s": (5, 864_000),
    "unproven_s": (5, 86_400),
    "position_ttl_s": (60, 864_000),
    "newcomers_per_minute": (0, 1_000_000),
    "events_cap": (0, MOST_COUNT),
}


def _text(value: bool | int | float | str | tuple[int, ...]) -> str:
    if isinstance(value, tuple):
        return ":".join(str(each) for each in value)
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(int(value) if isinstance(value, bool) else value)


def _value(name: str, text: str) -> Any:
    if name == "lane_weights":
        return text.split(":")
    return text == "1" if name in ("strict_lanes", "session_renewal") else text
