"""Options of a job: its target, schedule, retries and limits."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from waystation.core.backoff import LONGEST_MS
from waystation.core.durations import Duration, milliseconds
from waystation.core.errors import InvalidOption
from waystation.core.options import check_fields
from waystation.routing.limits import Limit
from waystation.routing.schedules import Schedule
from waystation.routing.target import ANYWHERE, Target

DEFAULT_PRIORITY = 5


class BackoffRule(msgspec.Struct, frozen=True, kw_only=True):
    """The delay between two attempts."""

    type: Literal["fixed", "exponential", "linear"] = "exponential"
    """How the delay grows from attempt to attempt."""
    delay: Duration = 2.0
    """The delay after the first attempt; 0 retries at once."""
    max_delay: Duration = 60.0
    """The longest delay."""
    jitter: bool = False
    """Whether up to a quarter of the delay is random."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("delay", "max_delay"):
            value = getattr(self, name)
            if milliseconds(value, f"backoff {name}") > LONGEST_MS:
                most = LONGEST_MS // 1000
                raise InvalidOption(f"backoff {name} must be at most {most} seconds, got {value!r}")


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a job is tried, and which errors are treated specially."""

    attempts: int = 3
    """Attempts in all, the first included."""
    backoff: BackoffRule = BackoffRule(jitter=True)
    """The delay between two attempts."""
    skip_on: tuple[str, ...] = ()
    """Names of errors that are not retried."""
    reroute_on: tuple[str, ...] = ()
    """Names of errors after which another worker must try."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.attempts <= LONGEST_MS:
            raise InvalidOption(f"attempts must be 1 to {LONGEST_MS}, got {self.attempts}")


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a job."""

    target: Target = ANYWHERE
    """The workers that may run it."""
    schedule: Schedule = Schedule()
    """When it runs: at once, later, or repeatedly."""
    retry: Retry = Retry()
    """How often it is tried."""
    priority: int = DEFAULT_PRIORITY
    """1 to 10; jobs from 7 on run before all those below 7."""
    depends_on: Sequence[str] = ()
    """Ids of jobs that must be completed first; a schedule is none of them."""
    limit: Limit | None = None
    """How many jobs of its type may run when this one starts, where the type has no limit of its
    own; what runs without any limit is not counted."""
    metadata: Mapping[str, Any] = {}
    """Notes about the job, kept with it."""
    job_id: str | None = None
    """The job's id; random without one. A second job of the same id is not added while the first
    has not ended or is a dead letter. `idempotency_key` keeps it out for a day, also after that."""
    idempotency_key: str | None = None
    """For a day, a second job with the same key is not added."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.priority <= 10:
            raise InvalidOption(f"priority must be 1 to 10, got {self.priority}")
        if self.depends_on and self.schedule.cron is not None:
            raise InvalidOption("a job with a cron schedule cannot wait for others")
        for name in ("job_id", "idempotency_key"):
            value = getattr(self, name)
            if value is not None and (not value or not value.isprintable() or " " in value):
                raise InvalidOption(f"{name} must be text without spaces, got {value!r}")
