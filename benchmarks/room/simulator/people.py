"""Simulated visitors: arrivals, patience and behaviour."""

import math
import random
from enum import StrEnum

import msgspec

from waystation.core.errors import InvalidOption
from waystation.waitingroom.estimates.estimate import Wait
from waystation.waitingroom.visitor import Lane, Place

CLAIM_WINDOW_S = 60
CLAIM_DELAY_S = 10
"""How long those who come take to do so, on average."""


class Crowd(msgspec.Struct, frozen=True, kw_only=True):
    """What a crowd is like."""

    visitors: int = 20_000
    hours: float = 6.0
    """How long they keep arriving; the rate of the shop follows from it."""
    pressure: float = 1.4
    """People who arrive for each that is called in."""
    patience_s: float = 600.0
    """How long people wait on average before they give up."""
    patience_shape: float = 1.0
    """1 for people who leave at any time alike, below 1 for many who leave early."""
    no_show: float = 0.3
    """The share of those called who do not come."""
    late: float = 0.0
    """The share of those who come after their turn is over, and take it back."""
    seats: float = 1.75
    """Seats, by how many the rate needs."""
    midway: tuple[float, float] = (1.0, 1.0)
    """What the seats and the rate are multiplied by at half-time."""
    look_s: float = 0.0
    """How often those in line look at their estimated wait again; 0 for never."""
    silent: float = 0.7
    """The share of those who leave without saying so."""
    hidden: float = 0.35
    """The share whose tab is hidden, so that it is heard of rarely."""
    shared: float = 0.3
    """The share that comes from a network with many others."""
    bots: float = 0.02
    """The share that is one program with ever new keys, from one network."""
    session_median_s: float = 60.0
    session_sigma: float = 0.8
    completes: float = 0.6
    """The share of those inside who end their session themselves."""
    lanes: tuple[float, float, float, float] = (1.0, 2.0, 4.0, 8.0)
    """How the arrivals fall to the lanes."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.visitors < 1 or self.hours <= 0 or self.pressure <= 0:
            raise InvalidOption("a crowd needs visitors, hours and a pressure above 0")
        for name in ("no_show", "late", "silent", "hidden", "shared", "bots", "completes"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidOption(f"{name} must be from 0 to below 1, got {getattr(self, name)}")

    @property
    def arrivals_per_second(self) -> float:
        """People who come, at the steady pace."""
        return self.visitors / (self.hours * 3600)

    @property
    def called_per_second(self) -> float:
        """Turns given, those included that nobody takes."""
        return self.arrivals_per_second / self.pressure

    @property
    def rate(self) -> float:
        """People the shop takes per second."""
        return self.called_per_second * (1 - self.no_show)

    @property
    def max_active(self) -> int:
        """Seats of the room: those of sessions, and those that are kept for people called."""
        inside_s = self.session_median_s * math.exp(self.session_sigma**2 / 2)
        sessions = self.rate * (inside_s + CLAIM_DELAY_S)
        missed = self.called_per_second * self.no_show * CLAIM_WINDOW_S
        return math.ceil(self.seats * (sessions + missed))


class Mood(StrEnum):
    """What became of somebody."""

    WAITS = "waits"
    LEFT = "left"
    CALLED = "called"
    MISSED = "missed"
    RETURNED = "returned"
    INSIDE = "inside"
    DONE = "done"
    REFUSED = "refused"


class Person:
    """Somebody in the crowd."""

    __slots__ = (
        "address",
        "ahead",
        "beat_s",
        "bot",
        "called_s",
        "estimates",
        "hidden",
        "joined_s",
        "lane",
        "leaves_s",
        "mood",
        "number",
        "p10",
        "p50",
        "p90",
        "place",
        "rate",
        "secret",
        "shared",
    )

    def __init__(self, number: int, crowd: Crowd, dice: random.Random) -> None:
        self.number = number
        self.secret = f"s{number}"
        self.lane = Lane(dice.choices(range(4), crowd.lanes)[0])
        self.bot = dice.random() < crowd.bots
        self.shared = dice.random() < crowd.shared
        self.hidden = dice.random() < crowd.hidden
        self.address = _address(self, crowd, dice)
        shape = crowd.patience_shape
        scale = crowd.patience_s / math.gamma(1 + 1 / shape)
        self.leaves_s = dice.weibullvariate(scale, shape)
        """Seconds after joining; becomes an instant when they join."""
        self.beat_s = 240 if self.hidden else 120
        self.mood = Mood.WAITS
        self.place = Place("", "")
        self.joined_s = self.called_s = -1.0
        self.ahead = 0
        self.rate = 0.0
        self.p10 = self.p50 = self.p90 = -1.0
        self.estimates: list[tuple[float, Wait]] = []
        """The waits that they were shown, and when."""

    @property
    def key(self) -> str:
        """The key by which the room knows a visitor again."""
        return f"k{self.number}"


def _address(person: Person, crowd: Crowd, dice: random.Random) -> str:
    if person.bot:
        return "198.51.100.1"
    if person.shared:
        # Offices, schools and mobile carriers: groups of some hundred.
        office = dice.randrange(max(1, crowd.visitors // 300))
        return f"10.{office >> 16 & 255}.{office >> 8 & 255}.{office & 255}"
    return f"2001:db8:{person.number >> 16:x}:{person.number & 0xFFFF:x}::1"
