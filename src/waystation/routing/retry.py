"""When a failed job is tried again, and when it is not."""

from typing import Literal

import msgspec

from waystation.core.backoff import LONGEST_MS, Backoff, Dice, Growth
from waystation.core.errors import InvalidOption, Unrecoverable
from waystation.core.options import listed


class BackoffRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The pause between two attempts, as the job's JSON has it."""

    type: Literal["fixed", "exponential", "linear"] = "exponential"
    delay: int = 2_000
    """Milliseconds after the first attempt; 0 tries again at once."""
    max_delay: int = 60_000
    jitter: bool = False
    """Whether up to a quarter of the pause is left to chance."""

    def __post_init__(self) -> None:
        for name, value in (("delay", self.delay), ("maxDelay", self.max_delay)):
            if not 0 <= value <= LONGEST_MS:
                raise InvalidOption(f"backoff {name} must be 0 to {LONGEST_MS} ms, got {value}")

    def pause_ms(self, attempt: int, dice: Dice) -> int:
        """Milliseconds to wait after the attempt of that number, the first being 1."""
        if self.delay == 0:
            return 0
        rule = Backoff(
            Growth(self.type),
            self.delay,
            jitter=0.25 if self.jitter else 0.0,
            cap_ms=max(self.max_delay, self.delay),
        )
        return rule.pause_ms(attempt, dice)


class Retry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How often a job is tried, and which failures are treated otherwise."""

    attempts: int = 3
    """Tries in all, the first included."""
    backoff: BackoffRule = BackoffRule(jitter=True)
    skip_on: tuple[str, ...] = ()
    """Names of errors after which there is no other try."""
    reroute_on: tuple[str, ...] = ()
    """Names of errors after which another worker has to try."""

    def __post_init__(self) -> None:
        listed("skip_on", self.skip_on)
        listed("reroute_on", self.reroute_on)
        if not 1 <= self.attempts <= LONGEST_MS:
            raise InvalidOption(f"attempts must be 1 to {LONGEST_MS}, got {self.attempts}")

    def ends_with(self, error: BaseException, made: int) -> bool:
        """Whether this failure, after that many attempts, is the last."""
        return made >= self.attempts or isinstance(error, Unrecoverable) or _is(error, self.skip_on)

    def moves_on(self, error: BaseException) -> bool:
        """Whether another worker has to try after this failure."""
        return _is(error, self.reroute_on)


def _is(error: BaseException, names: tuple[str, ...]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)
