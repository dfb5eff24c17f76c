"""Options of a job: its target, schedule, retries and limits."""

from typing import Any, Literal

import msgspec

from waystation.core.backoff import LONGEST_MS, Backoff, Dice, Growth
from waystation.core.errors import InvalidOption, Unrecoverable
from waystation.core.options import listed, of_kind
from waystation.routing.limits import Limit
from waystation.routing.schedules import Schedule
from waystation.routing.target import ANYWHERE, Target

DEFAULT_PRIORITY = 5


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


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer may ask for one job."""

    target: Target = ANYWHERE
    schedule: Schedule = Schedule()
    retry: Retry = Retry()
    priority: int = DEFAULT_PRIORITY
    """1 to 10; from 7 on a job goes before all those below 7."""
    depends_on: tuple[str, ...] = ()
    """Ids of jobs that must be completed first."""
    limit: Limit | None = None
    """How much of its type may run when this one starts, where the type has no limit of its own;
    what runs without any limit is not counted."""
    metadata: dict[str, Any] = {}
    job_id: str | None = None
    idempotency_key: str | None = None
    """While it is kept, for a day, a second job with the same key is not made."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            if (value := getattr(self, name)) is not None:
                of_kind(name, value, kind)
        if not 1 <= self.priority <= 10:
            raise InvalidOption(f"priority must be 1 to 10, got {self.priority}")
        if self.depends_on and self.schedule.cron is not None:
            raise InvalidOption("a job with a cron schedule cannot wait for others")
        listed("depends_on", self.depends_on)
        for name in ("job_id", "idempotency_key"):
            value = getattr(self, name)
            if value is not None and (not value or not value.isprintable() or " " in value):
                raise InvalidOption(f"{name} must be text without spaces, got {value!r}")


_KINDS = {
    "target": Target,
    "schedule": Schedule,
    "retry": Retry,
    "limit": Limit,
    "priority": int,
    "job_id": str,
    "idempotency_key": str,
}
