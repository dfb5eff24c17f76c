"""Backoff: how long a failed job waits before its next attempt."""

import math
from enum import StrEnum
from typing import Protocol

import msgspec

from waystation.core.errors import InvalidOption

HOUR_MS = 3_600_000
LONGEST_MS = 2**53 - 1
"""The largest number of milliseconds that every JSON reader keeps exact."""


class Dice(Protocol):
    """Randomness as a parameter; `random.Random` is one."""

    def random(self) -> float:
        """A number from 0 up to, but not including, 1."""
        ...


class Growth(StrEnum):
    """How the pause changes from one attempt to the next."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class Backoff(msgspec.Struct, frozen=True):
    """A rule for the pause between two attempts."""

    growth: Growth
    delay_ms: int
    """The pause after the first attempt."""
    jitter: float = 0.0
    """The part of the pause, from 0 to 1, that is left to chance."""
    cap_ms: int = HOUR_MS
    """The longest a growing pause gets; a fixed one is what it is."""

    def __post_init__(self) -> None:
        for name, value in (("delay", self.delay_ms), ("cap", self.cap_ms)):
            if not 1 <= value <= LONGEST_MS:
                raise InvalidOption(f"backoff {name} must be 1 to {LONGEST_MS} ms, got {value}")
        if not 0 <= self.jitter <= 1:
            raise InvalidOption(f"backoff jitter must be between 0 and 1, got {self.jitter}")

    def pause_ms(self, attempt: int, dice: Dice) -> int:
        """Milliseconds to wait after the attempt of that number, the first being 1."""
        if attempt < 1:
            raise InvalidOption(f"attempts are counted from 1, got {attempt}")
        pause = self._full_pause_ms(attempt)
        if not self.jitter:
            return pause
        least = math.ceil(pause * (1 - self.jitter))
        return least + int(dice.random() * (pause - least))

    def _full_pause_ms(self, attempt: int) -> int:
        match self.growth:
            case Growth.FIXED:
                return self.delay_ms
            case Growth.LINEAR:
                return min(self.delay_ms * attempt, self.cap_ms)
            case Growth.EXPONENTIAL:
                # After this many doublings any delay has passed any cap.
                doublings = min(attempt - 1, LONGEST_MS.bit_length())
                return min(self.delay_ms << doublings, self.cap_ms)
