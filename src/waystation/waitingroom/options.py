"""How a room is set up."""

from enum import StrEnum
from typing import Any, Self

import msgspec

from waystation.core.errors import InvalidOption

MOST_RATE = 1_000_000
MOST_COUNT = 100_000_000


class Status(StrEnum):
    """What the room does with people."""

    ACTIVE = "active"
    PAUSED = "paused"
    """People join and keep their places; nobody comes in."""
    QUEUE_ALL = "queue_all"
    """The same as an emergency: whoever arrives is put in line, room or no room."""
    DRAINING = "draining"
    """Nobody joins any more; the line is let in."""
    MAINTENANCE = "maintenance"
    """Nobody joins, nobody comes in; places are kept."""
    CLOSED = "closed"
    """It is over."""


class Method(StrEnum):
    """Who is next."""

    FIFO = "fifo"
    RANDOM = "random"
    PASSTHROUGH = "passthrough"
    """Everybody comes in at once and is only counted."""
    REJECT = "reject"
    """Nobody may join."""


class RoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a room is set up; the names are those of its `meta` hash."""

    name: str = ""
    target_url: str = ""
    """Where people go when it is their turn: https, or empty for a path of the asking site."""
    max_active: int = 1000
    """People inside and those called in, at most."""
    max_queue_size: int = 50_000
    """People in line, at most; 0 for any number."""
    admission_rate: float = 10.0
    """People who come in per second."""
    burst: float = 0.0
    """Turns that may be saved up between two rounds; 0 for one second's worth."""
    status: Status = Status.ACTIVE
    queueing_method: Method = Method.FIFO
    lane_weights: tuple[int, int, int, int] = (1, 2, 4, 8)
    """Turns of the normal, elevated, VIP and premium lane out of their sum, while all wait."""
    strict_lanes: bool = False
    """Whether a higher lane always goes first, however long the others wait."""
    idle_s: int = 300
    """Silence after which somebody in line counts as gone."""
    paused_idle_s: int = 1500
    """The same while nobody could come in anyway."""
    claim_window_s: int = 120
    """How long a turn is kept."""
    missed_s: int = 600
    """How long a missed turn may be taken back."""
    session_s: int = 3600
    """How long somebody inside may do nothing."""
    session_max_s: int = 14_400
    """How long somebody may be inside at all."""
    session_renewal: bool = True
    """Whether activity keeps a session alive."""
    position_ttl_s: int = 1800
    """How long what we know about somebody in line is kept without a sign of life."""
    newcomers_per_minute: int = 50
    """New places that one network (an IPv4 address or IPv6 /64) gets in a minute; 0 for any."""
    events_cap: int = 10_000
    """About how many events are kept for those who follow them."""

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
        """Read a `meta` hash; what it lacks has its default."""
        known = {name: _value(name, fields[name]) for name in cls.__struct_fields__ & fields.keys()}
        try:
            return msgspec.convert(known, cls, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidOption(f"the room's settings cannot be read: {error}") from None

    def changed(self, **changes: Any) -> Self:
        """The same with some of it changed."""
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
