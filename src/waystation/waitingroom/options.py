"""Options of a room."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec

from waystation.core.durations import Duration, seconds, whole_seconds
from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import is_loopback
from waystation.core.options import check_fields

MOST_RATE = 1_000_000
MOST_COUNT = 100_000_000
SESSION_S, SESSION_MAX_S = 3600, 14_400
DURATIONS = (
    "idle",
    "paused_idle",
    "claim_window",
    "missed",
    "rejoin",
    "session",
    "session_max",
    "unproven",
    "position_ttl",
)
_STORED = {name: f"{name}_s" for name in DURATIONS}
"""What durations are called where they are whole seconds: in Redis and over HTTP."""
_PLAIN = {stored: name for name, stored in _STORED.items()}


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
    """The room has ended, and so have the places of those in line; given turns count."""
    SOLD_OUT = "sold_out"
    """The same, because nothing is left; those in line read that, in the seller's words."""


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


class RoomOptions(msgspec.Struct, frozen=True, kw_only=True, rename=_STORED):
    """Options of a room; its `meta` hash and the HTTP API have whole seconds, as `idle_s`."""

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
    idle: Duration = 300
    """How long a visitor in line may send no heartbeat before the place expires."""
    paused_idle: Duration = 1500
    """The same while the room admits nobody, and in the first `idle` after it opens or resumes."""
    claim_window: Duration = 120
    """How long an admitted visitor has to claim the turn."""
    missed: Duration = 600
    """How long a missed turn can be recovered."""
    rejoin: Duration = 120
    """How long somebody who left can have the old place again; 0 for not at all."""
    session: Duration = SESSION_S
    """How long a session lasts without activity."""
    session_max: Duration = SESSION_MAX_S
    """How long a session lasts at most."""
    unproven: Duration = 300
    """How long somebody who passed without waiting has a seat, until they come back."""
    session_renewal: bool = True
    """Let activity renew a session."""
    position_ttl: Duration = 1800
    """How long the record of a silent visitor is kept at least; never less than the place."""
    newcomers_per_minute: int = 50
    """New places for one network (an IPv4 address or IPv6 /64) a minute; 0 for no limit."""
    events_cap: int = 10_000
    """Events kept in the stream, approximately."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            unit = " seconds" if name in DURATIONS else ""
            number = seconds(value, name) if unit else value
            if not least <= number <= most:
                raise InvalidOption(f"{name} must be {least} to {most}{unit}, got {value}")
        if len(self.lane_weights) != 4 or any(not 1 <= each <= 1000 for each in self.lane_weights):
            raise InvalidOption(f"lane_weights must be four of 1 to 1000, got {self.lane_weights}")
        if self.target_url and not is_target(self.target_url):
            raise InvalidOption(
                "target_url must start with https://, or http:// on localhost, without a user, "
                f"got {self.target_url!r}"
            )
        if seconds(self.session_max) < seconds(self.session):
            raise InvalidOption(
                f"session_max must be at least session ({self.session}), got {self.session_max}"
            )

    def to_settings(self) -> dict[str, Any]:
        """The options as the HTTP API gives them: durations in whole seconds, named `…_s`."""
        whole = {_STORED[name]: whole_seconds(getattr(self, name)) for name in DURATIONS}
        return {**msgspec.to_builtins(self), **whole}

    def to_fields(self) -> dict[str, str]:
        """The fields of the `meta` hash."""
        return {name: _text(value) for name, value in self.to_settings().items()}

    @classmethod
    def from_fields(cls, fields: dict[str, str]) -> Self:
        """Read a `meta` hash; missing fields have their defaults.

        Fields that do not fit together are read as the scripts do, and never refused: a room that
        cannot be read could not be repaired either.
        """
        names = set(cls.__struct_encode_fields__)
        try:
            known = {name: _value(name, fields[name]) for name in names & fields.keys()}
            session, longest = _lengths(fields)
            if session > longest:
                known["session_max_s"] = session
            return msgspec.convert(known, cls, strict=False)
        except (msgspec.ValidationError, ValueError) as error:
            raise InvalidOption(f"the room's settings cannot be read: {error}") from None

    def changed(self, **changes: Any) -> Self:
        """A copy with these options changed."""
        _known(changes, self.__struct_fields__, _PLAIN)
        whole = {name: whole_seconds(changes[name], name) for name in DURATIONS if name in changes}
        stored = {_STORED.get(name, name): value for name, value in {**changes, **whole}.items()}
        return self.with_settings(stored)

    def with_settings(self, settings: dict[str, Any]) -> Self:
        """A copy with these settings of the HTTP API changed."""
        _known(settings, self.__struct_encode_fields__, _STORED)
        for name in _PLAIN.keys() & settings.keys():
            if type(settings[name]) is not int:
                raise InvalidOption(f"{name} must be whole seconds, got {settings[name]!r}")
        try:
            return msgspec.convert({**self.to_settings(), **settings}, type(self))
        except msgspec.ValidationError as error:
            raise InvalidOption(str(error)) from None


def fitting(fields: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Changes of a `meta` hash; where one does not fit to what stays, it gives way to that.

    InvalidOption where what comes of it cannot be read.
    """
    whole = {name: value for name, value in {**fields, **changes}.items() if value}
    RoomOptions.from_fields(whole)
    session, longest = _lengths(whole)
    if session <= longest or not changes.keys() & {"session_s", "session_max_s"}:
        return dict(changes)
    if "session_s" in changes:
        return {**changes, "session_s": str(longest)}
    return {**changes, "session_max_s": str(session)}


def _lengths(fields: Mapping[str, str]) -> tuple[int, int]:
    """How long a session lasts without activity and at most."""
    return int(fields.get("session_s", SESSION_S)), int(fields.get("session_max_s", SESSION_MAX_S))


_BOUNDS: dict[str, tuple[float, float]] = {
    "max_active": (0, MOST_COUNT),
    "max_queue_size": (0, MOST_COUNT),
    "admission_rate": (0, MOST_RATE),
    "burst": (0, MOST_RATE),
    "idle": (10, 86_400),
    "paused_idle": (10, 86_400),
    "claim_window": (5, 86_400),
    "missed": (0, 86_400),
    "rejoin": (0, 3600),
    "session": (5, 86_400),
    "session_max": (5, 864_000),
    "unproven": (5, 86_400),
    "position_ttl": (60, 864_000),
    "newcomers_per_minute": (0, 1_000_000),
    "events_cap": (0, MOST_COUNT),
}


def _known(given: dict[str, Any], names: tuple[str, ...], elsewhere: dict[str, str]) -> None:
    for name in sorted(given.keys() - set(names)):
        hint = f"; here it is called {elsewhere[name]}" if name in elsewhere else ""
        raise InvalidOption(f"a room has no option {name}{hint}")


def _text(value: bool | int | float | str | tuple[int, ...]) -> str:
    if isinstance(value, tuple):
        return ":".join(str(each) for each in value)
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(int(value) if isinstance(value, bool) else value)


def _value(name: str, text: str) -> Any:
    if name == "lane_weights":
        return text.split(":")
    if name in _PLAIN:
        return int(text)
    return text == "1" if name in ("strict_lanes", "session_renewal") else text


def is_target(url: str) -> bool:
    """Whether visitors may be sent on there: over TLS, or to try things out, on this machine."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = url.isprintable() and not {"@", "\\", " "} & set(url)
    secure = parts.scheme == "https" or (
        parts.scheme == "http" and is_loopback(parts.hostname or "")
    )
    return plain and secure and bool(parts.hostname)
