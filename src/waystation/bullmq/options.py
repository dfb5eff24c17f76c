"""What a producer may ask for a job, and what is found in one that anybody wrote."""

import math
import re
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, cast

import msgspec

from waystation.core import backoff, codec
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.options import at_least, of_kind
from waystation.core.telemetry.logs import get_logger

MOST_PRIORITY = 2**21 - 1
"""Beyond it a score would no longer be exact."""
MOST_KEPT_LOGS = 1000
MANY_KEPT = 10_000
"""Keeping more finished jobs than this is slow, and worth a warning."""

_log = get_logger(__name__)


class Backoff(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long a job waits before it is tried again."""

    type: str
    """`fixed`, `exponential`, or a name that the worker's own strategy knows."""
    delay: int = 0
    """Milliseconds before the second attempt."""
    jitter: float = 0.0
    """The part of the pause, from 0 to 1, that is left to chance."""

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 1:
            raise InvalidOption(f"backoff jitter must be between 0 and 1, got {self.jitter}")

    @classmethod
    def fixed(cls, delay: int, *, jitter: float = 0.0) -> "Backoff":
        """The same pause every time."""
        return cls("fixed", at_least("backoff delay", delay, 1), jitter)

    @classmethod
    def exponential(cls, delay: int, *, jitter: float = 0.0) -> "Backoff":
        """A pause that doubles with every attempt."""
        return cls("exponential", at_least("backoff delay", delay, 1), jitter)

    @classmethod
    def custom(cls, name: str, delay: int = 0) -> "Backoff":
        """A pause that a strategy of the worker decides."""
        return cls(name, at_least("backoff delay", delay, 0))

    def growing(self, cap_ms: int) -> backoff.Backoff | None:
        """The pauses of the two kinds that every worker knows; None for a custom one."""
        if self.type not in ("fixed", "exponential") or self.delay < 1:
            return None
        growth = backoff.Growth(self.type)
        return backoff.Backoff(growth, self.delay, min(max(self.jitter, 0.0), 1.0), cap_ms)


class Keep(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which finished jobs are kept."""

    age: int | None = None
    """Seconds."""
    count: int | None = None
    """The newest so many."""
    limit: int | None = None
    """Most jobs forgotten for their age in one step."""

    def __post_init__(self) -> None:
        for name in ("age", "count", "limit"):
            if (value := getattr(self, name)) is not None:
                at_least(f"{name} of what is kept", value, 0)


Retention: TypeAlias = bool | int | Keep
"""True forgets at once, False keeps for ever, a number keeps the newest so many."""


class Deduplication(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Which jobs stand for one another."""

    id: str
    ttl: int | None = None
    """Milliseconds during which others like it are turned away; None means while it is there."""
    extend: bool = False
    """Each one turned away starts the time anew."""
    replace: bool = False
    """While the first is delayed, a later one takes its place."""
    keep_last_if_active: bool = False
    """While the first runs, the last one turned away is kept to run next."""
    reschedule: bool = False
    """While the first is delayed, a later one moves its time instead of adding a job."""

    def __post_init__(self) -> None:
        of_kind("the id of a deduplication", self.id, str)
        if not self.id:
            raise InvalidOption("deduplication needs an id")
        if self.ttl is not None:
            at_least("deduplication ttl", self.ttl, 1)


class Parent(msgspec.Struct, frozen=True):
    """The job that waits for this one."""

    id: str
    queue: str
    """The parent's queue with its prefix, `bull:orders`."""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer may ask for one job."""

    attempts: int = 3
    """Tries in all, the first included."""
    backoff: Backoff | int | None = Backoff("exponential", 1000)
    """The pause between tries; a number is a fixed one in milliseconds, None tries at once."""
    delay: int = 0
    """Milliseconds before the job may run."""
    priority: int = 0
    """0 runs first, then 1, 2, …"""
    lifo: bool = False
    """Ahead of what waits, instead of behind it."""
    job_id: str | None = None
    """A name of its own; adding it again while it exists adds nothing."""
    timestamp: int | None = None
    """When the job was made, in milliseconds; None means now."""
    remove_on_complete: Retention | None = None
    """What becomes of completed jobs; None leaves it to the worker."""
    remove_on_fail: Retention | None = None
    """What becomes of failed jobs; None leaves it to the worker."""
    stack_trace_limit: int | None = 10
    """Tracebacks kept, the newest; None keeps all."""
    size_limit: int | None = None
    """Most bytes of data; None leaves it to the queue."""
    keep_logs: int | None = MOST_KEPT_LOGS
    """Log lines kept, the newest; None keeps all."""
    deduplication: Deduplication | None = None
    parent: Parent | None = None
    fail_parent_on_failure: bool = False
    """Its failure fails the parent."""
    continue_parent_on_failure: bool = False
    """Its failure lets the parent run at once."""
    ignore_dependency_on_failure: bool = False
    """Its failure counts as done, and the parent can read why."""
    remove_dependency_on_failure: bool = False
    """Its failure counts as done."""

    def __post_init__(self) -> None:
        at_least("attempts", self.attempts, 1)
        at_least("delay", self.delay, 0)
        at_least("priority", self.priority, 0)
        if self.priority > MOST_PRIORITY:
            raise InvalidOption(f"priority must be at most {MOST_PRIORITY}, got {self.priority}")
        _check_backoff(self.backoff)
        for name in ("timestamp", "stack_trace_limit", "size_limit", "keep_logs"):
            if (value := getattr(self, name)) is not None:
                at_least(name, value, 0)
        for name in ("remove_on_complete", "remove_on_fail"):
            check_retention(name, getattr(self, name))
        of_kind("lifo", self.lifo, bool)
        for name, kind in _KINDS.items():
            if (value := getattr(self, name)) is not None:
                of_kind(name, value, kind)
        if self.job_id is not None:
            check_job_id(self.job_id)
        if self.parent and self.deduplication:
            raise InvalidOption("a job with a parent cannot be deduplicated")
        if sum(getattr(self, flag) for flag in FLAGS) > 1:
            raise InvalidOption("of what a failure means for the parent, choose one")


_KINDS = {"job_id": str, "deduplication": Deduplication, "parent": Parent}

FLAGS = {
    "fail_parent_on_failure": "fpof",
    "continue_parent_on_failure": "cpof",
    "ignore_dependency_on_failure": "idof",
    "remove_dependency_on_failure": "rdof",
}
"""What a child's failure means for its parent, and how the wire calls it."""


def wire_options(options: JobOptions) -> bytes:
    """The options as they stand in the job's hash."""
    # For Python, keeping 1 and True are the same; for a job the one keeps it, the other does not.
    return _wire_options(options, type(options.remove_on_complete), type(options.remove_on_fail))


@lru_cache(4096)
def _wire_options(options: JobOptions, *_kinds: type) -> bytes:
    return codec.encode(options_as_stored(options))


def options_as_stored(options: JobOptions) -> dict[str, Any]:
    """The options under the wire's names; what was not asked for is left out."""
    stored: dict[str, Any] = {"attempts": options.attempts}
    if options.backoff:
        delay = options.backoff
        stored["backoff"] = Backoff("fixed", delay) if isinstance(delay, int) else delay
    named = {
        "delay": options.delay or None,
        "priority": options.priority or None,
        "lifo": options.lifo or None,
        "jobId": options.job_id,
        "timestamp": options.timestamp,
        "removeOnComplete": options.remove_on_complete,
        "removeOnFail": options.remove_on_fail,
        "stackTraceLimit": options.stack_trace_limit,
        "sizeLimit": options.size_limit,
        "kl": options.keep_logs,
        "de": options.deduplication,
        "parent": options.parent,
    }
    stored |= {name: value for name, value in named.items() if value is not None}
    stored |= {short: True for flag, short in FLAGS.items() if getattr(options, flag)}
    return stored


class StoredOptions:
    """The options found in a job, read kindly: whoever wrote them, the job must be workable."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    @cached_property
    def attempts(self) -> int:
        """Tries in all."""
        return max(1, _number(self.raw.get("attempts"), 1))

    @cached_property
    def backoff(self) -> Backoff | None:
        """The pause between tries."""
        found = self.raw.get("backoff")
        if isinstance(found, dict):
            rule = cast(dict[str, Any], found)
            jitter = rule.get("jitter")
            return Backoff(
                str(rule.get("type", "fixed")),
                max(0, _number(rule.get("delay"), 0)),
                min(max(float(jitter), 0.0), 1.0) if isinstance(jitter, int | float) else 0.0,
            )
        return Backoff("fixed", _number(found, 0)) if found else None

    @cached_property
    def keep_completed(self) -> str | None:
        """What becomes of completed jobs, as the script reads it; None leaves it to the worker."""
        return _kept(self.raw.get("removeOnComplete"))

    @cached_property
    def keep_failed(self) -> str | None:
        """What becomes of failed jobs, as the script reads it; None leaves it to the worker."""
        return _kept(self.raw.get("removeOnFail"))

    @cached_property
    def stack_trace_limit(self) -> int | None:
        """Tracebacks kept; None keeps all."""
        limit = self.raw.get("stackTraceLimit")
        return None if limit is None else max(0, _number(limit, 0))

    @property
    def lifo(self) -> bool:
        """Whether a retry goes ahead of what waits."""
        return bool(self.raw.get("lifo"))

    @property
    def keep_logs(self) -> int | None:
        """Log lines kept; None keeps all."""
        limit = self.raw.get("kl")
        return None if limit is None else _number(limit, MOST_KEPT_LOGS)

    @property
    def telemetry(self) -> str | None:
        """The trace that the job belongs to."""
        found = self.raw.get("tm")
        return found if isinstance(found, str) else None


@lru_cache(4096)
def stored_options(raw: bytes) -> StoredOptions:
    """Read the options of a job; many jobs share one text, so what was read is kept."""
    try:
        found = codec.decode(raw)
    except Malformed:
        found = {}
    return StoredOptions(cast(dict[str, Any], found) if isinstance(found, dict) else {})


def kept(retention: Retention | None) -> str:
    """What becomes of finished jobs, as the script reads it: '' keeps all, '0' keeps none."""
    stored = msgspec.to_builtins(retention) if isinstance(retention, Keep) else retention
    return _kept(stored) or ""


def check_job_id(job_id: str) -> None:
    """Refuse an id that would be taken for something else."""
    if not job_id:
        raise InvalidOption("a job id must not be empty")
    if re.fullmatch(r"-?\d+", job_id):
        raise InvalidOption(f"a job id must not be a whole number, got {job_id!r}")
    if job_id in _RESERVED:
        raise InvalidOption(f"{job_id!r} is the name of one of the queue's own keys")
    if ":" in job_id and (job_id.count(":") != 2 or job_id.startswith("0:")):
        raise InvalidOption(f"a job id must not hold colons, got {job_id!r}")


_RESERVED = frozenset(
    [
        "id",
        "meta",
        "wait",
        "paused",
        "active",
        "prioritized",
        "pc",
        "delayed",
        "waiting-children",
        "completed",
        "failed",
        "marker",
        "events",
        "stalled",
        "stalled-check",
        "limiter",
        "repeat",
        "metrics",
        "priority",
    ]
)


def _kept(found: Any) -> str | None:
    match found:
        case None:
            return None
        case True:
            return "0"
        case False:
            return ""
        case int() | float():
            return "0" if found == 0 else "" if found < 0 else f"{int(found)}::"
        case dict():
            keep = cast(dict[str, Any], found)
            count = keep.get("count")
            if count == 0:
                return "0"
            parts = (keep.get(name) for name in ("count", "age", "limit"))
            return ":".join("" if part is None else str(_number(part, 0)) for part in parts)
        case _:
            return ""


def _check_backoff(rule: Backoff | int | None) -> None:
    match rule:
        case None:
            return
        case Backoff(type=""):
            raise InvalidOption("backoff needs a type: fixed, exponential or a strategy's name")
        case Backoff(type="fixed" | "exponential"):
            at_least("backoff delay", rule.delay, 1)
        case Backoff():
            at_least("backoff delay", rule.delay, 0)
        case int():
            at_least("backoff", rule, 0)
        case _:
            raise InvalidOption(f"backoff must be a Backoff or milliseconds, got {rule!r}")


def check_retention(name: str, retention: Retention | None) -> None:
    """Refuse what does not say which finished jobs are kept."""
    if isinstance(retention, Keep) or retention is None:
        return
    if not isinstance(retention, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOption(f"{name} must be True, False, a number or a Keep, got {retention!r}")
    if retention < 0:
        raise InvalidOption(f"{name} must be at least 0, got {retention}")
    if retention > MANY_KEPT:
        _log.warning("retention_too_large", count=retention)


def _number(value: Any, otherwise: int) -> int:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return otherwise
    if isinstance(value, int | float) and math.isfinite(value):
        return int(value)
    return otherwise
