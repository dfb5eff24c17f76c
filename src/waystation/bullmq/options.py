"""Job options: given by a producer, and as stored with a job.

Durations are a `timedelta` or seconds here and milliseconds on the wire; they are converted once,
when the options are written or read.
"""

import math
import re
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, cast
from urllib.parse import quote, unquote

import msgspec

from waystation.bullmq import terms
from waystation.bullmq.terms import When, instant_ms, warn_of_milliseconds
from waystation.core import backoff, codec
from waystation.core.durations import Duration, milliseconds, seconds
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.options import at_least, check_fields, of_kind
from waystation.core.telemetry.logs import get_logger

MOST_PRIORITY = 2**21 - 1
"""A score above it would not be exact."""
MOST_KEPT_LOGS = 1000
MANY_KEPT = 10_000
"""Keeping more finished jobs than this is slow, and worth a warning."""

_log = get_logger(__name__)


class Backoff(msgspec.Struct, frozen=True):
    """The pause before a failed job is tried again."""

    type: str
    """`fixed`, `exponential`, or a name that the worker's `backoff_strategy` knows."""
    delay: Duration = 0
    """The pause before the second attempt."""
    jitter: float = 0.0
    """The part of the pause, from 0 to 1, that is random."""

    def __post_init__(self) -> None:
        check_fields(self)
        seconds(self.delay, "backoff delay")
        if not 0 <= self.jitter <= 1:
            raise InvalidOption(f"backoff jitter must be between 0 and 1, got {self.jitter}")

    @classmethod
    def fixed(cls, delay: Duration, *, jitter: float = 0.0) -> "Backoff":
        """The same pause every time."""
        return _checked_backoff(cls("fixed", delay, jitter))

    @classmethod
    def exponential(cls, delay: Duration, *, jitter: float = 0.0) -> "Backoff":
        """A pause that doubles with every attempt."""
        return _checked_backoff(cls("exponential", delay, jitter))

    @classmethod
    def custom(cls, name: str, delay: Duration = 0) -> "Backoff":
        """A pause that the worker's `backoff_strategy` decides."""
        return cls(name, delay)


def growing(rule: Backoff, cap_ms: int) -> backoff.Backoff | None:
    """The pauses of a fixed or exponential backoff; None for a custom one."""
    delay_ms = milliseconds(rule.delay)
    if rule.type not in ("fixed", "exponential") or delay_ms < 1:
        return None
    growth = backoff.Growth(rule.type)
    return backoff.Backoff(growth, delay_ms, min(max(rule.jitter, 0.0), 1.0), cap_ms)


class Keep(msgspec.Struct, frozen=True):
    """Which finished jobs are kept."""

    age: Duration | None = None
    """How long; None means for ever."""
    count: int | None = None
    """How many, the newest; None means all."""
    limit: int | None = None
    """How many jobs are removed for their age in one step, at most."""

    def __post_init__(self) -> None:
        if self.age is not None:
            seconds(self.age, "age of what is kept")
        for name in ("count", "limit"):
            if (value := getattr(self, name)) is not None:
                at_least(f"{name} of what is kept", value, 0)


Retention: TypeAlias = bool | int | Keep
"""True removes a finished job at once, False keeps it for ever, a number keeps that many."""


class Deduplication(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Adds only one of several jobs that share an id."""

    id: str
    """Jobs with the same one count as the same job."""
    ttl: Duration | None = None
    """How long others with this id are refused; None means as long as the first job is there."""
    extend: bool = False
    """Each job that is refused starts the time anew."""
    replace: bool = False
    """While the first job is delayed and has done no step, a later one takes its place."""
    keep_last_if_active: bool = False
    """While the first job runs or rests between steps, the last one refused is kept to run next."""
    reschedule: bool = False
    """While the first job is delayed and has done no step, a later one changes its delay."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.id:
            raise InvalidOption("deduplication needs an id")
        if self.ttl is not None:
            milliseconds(self.ttl, "deduplication ttl", above=0)
            warn_of_milliseconds("deduplication ttl", self.ttl)


class Group(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The group of a job, such as a customer: groups take turns, whatever each of them adds."""

    id: str
    """Jobs with the same one wait in one line of their own."""
    parent: str | None = None
    """The group that this one belongs to; those of one parent share its turns."""
    priority: int = 0
    """The job's priority in its group: 0 runs first, then 1, 2, …"""
    max_size: int | None = None
    """The job is refused when so many of its group wait already."""
    weight: float | None = None
    """A group of weight 2 gets twice the service of one of weight 1; `groups.set` comes first."""
    cost: float = 1
    """What the job costs: 1, or the tokens, seconds or bytes that it will take."""

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("id", "parent"):
            if (value := getattr(self, name)) is not None:
                _check_group_id(name, value)
        if at_least("priority of a group", self.priority, 0) > MOST_PRIORITY:
            raise InvalidOption(f"priority must be at most {MOST_PRIORITY}, got {self.priority}")
        if self.max_size is not None:
            at_least("max_size of a group", self.max_size, 1)
        check_share("cost", self.cost)
        if self.weight is not None:
            check_share("weight", self.weight)

    @property
    def path(self) -> str:
        """The group as commands, metrics and the history name it: `acme`, or `acme/key`."""
        own = quote(self.id, safe="")
        return own if self.parent is None else f"{quote(self.parent, safe='')}/{own}"

    @classmethod
    def at(cls, path: str) -> "Group":
        """The group with this path."""
        parent, _, id = path.rpartition("/")
        return cls(unquote(id), parent=unquote(parent) if parent else None)


MOST_GROUP_ID = 200
"""Bytes of a group's id: it stands in the names of keys."""


def _check_group_id(name: str, value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidOption(f"{name} of a group must be valid Unicode, got {value!r}") from None
    if not 0 < size <= MOST_GROUP_ID:
        raise InvalidOption(f"{name} of a group must have 1 to {MOST_GROUP_ID} bytes, got {size}")


LEAST_SHARE, MOST_SHARE = 1e-6, 1e12
"""Between these is a cost or a weight, in the scripts, too (`positive`)."""


def check_share(name: str, value: float) -> float:
    """A cost or a weight: a number above zero that the order of groups can count with."""
    if isinstance(value, bool) or not LEAST_SHARE <= value <= MOST_SHARE:
        raise InvalidOption(f"{name} must be a number from 0.000001 to 1e12, got {value!r}")
    return value


class Parent(msgspec.Struct, frozen=True):
    """Names the parent of a job, which waits for it."""

    id: str
    """The parent's id."""
    queue: str
    """The parent's queue with its prefix, `bull:orders`."""

    def __post_init__(self) -> None:
        check_fields(self)


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one job."""

    attempts: int = 3
    """Attempts in all, the first included."""
    backoff: Backoff | Duration | None = Backoff("exponential", 1)
    """The pause between attempts; a duration is a fixed pause, None tries again at once."""
    delay: Duration = 0
    """How long the job waits before it may run."""
    priority: int = 0
    """0 runs first, then 1, 2, …"""
    lifo: bool = False
    """Puts the job ahead of those that wait, instead of behind them."""
    group: Group | str | None = None
    """The group that the job belongs to, or its id; groups take turns."""
    job_id: str | None = None
    """An id of your own; adding it again while the job exists adds nothing."""
    created_at: datetime | None = None
    """The instant at which the job was made; None means now."""
    remove_on_complete: Retention | None = None
    """Which completed jobs are kept; None leaves it to the worker."""
    remove_on_fail: Retention | None = None
    """Which failed jobs are kept; None leaves it to the worker."""
    timeout: Duration | None = None
    """How long one attempt may take; the limit of the worker holds, too."""
    expires: When | None = None
    """The job fails unless a worker has started it by then."""
    deadline: When | None = None
    """The job fails unless it has ended by then, all of its attempts included."""
    unique_for: Duration | None = None
    """For how long no other job with this name and data is added."""
    stack_trace_limit: int | None = 10
    """How many tracebacks are kept, the newest; None keeps all."""
    size_limit: int | None = None
    """The most bytes that the data may have; None leaves it to the queue."""
    keep_logs: int | None = MOST_KEPT_LOGS
    """How many log lines are kept, the newest; None keeps all."""
    deduplication: Deduplication | None = None
    """Do not add the job while another of the same id counts."""
    parent: Parent | None = None
    """The job that waits for this one."""
    fail_parent_on_failure: bool = False
    """A failure of the job fails its parent."""
    continue_parent_on_failure: bool = False
    """A failure of the job starts its parent at once."""
    ignore_dependency_on_failure: bool = False
    """A failure of the job counts as done, and the parent can read the reason."""
    remove_dependency_on_failure: bool = False
    """A failure of the job counts as done."""

    def __post_init__(self) -> None:
        at_least("attempts", self.attempts, 1)
        if self.delay != 0:
            milliseconds(self.delay, "delay")
            warn_of_milliseconds("delay", self.delay)
        at_least("priority", self.priority, 0)
        if self.priority > MOST_PRIORITY:
            raise InvalidOption(f"priority must be at most {MOST_PRIORITY}, got {self.priority}")
        _check_backoff(self.backoff)
        for name in ("stack_trace_limit", "size_limit", "keep_logs"):
            if (value := getattr(self, name)) is not None:
                at_least(name, value, 0)
        if self.created_at is not None:
            instant_ms("created_at", self.created_at)
        for name in ("remove_on_complete", "remove_on_fail"):
            check_retention(name, getattr(self, name))
        of_kind("lifo", self.lifo, bool)
        for name, kind in _KINDS.items():
            if (value := getattr(self, name)) is not None:
                of_kind(name, value, kind)
        if self.job_id is not None:
            check_job_id(self.job_id)
        if self.group is not None and group_of(self.group).priority and self.priority:
            raise InvalidOption("priority is the group's own, given twice: choose one")
        if self.parent and (self.deduplication or self.unique_for):
            raise InvalidOption("a job with a parent cannot be deduplicated")
        if self.deduplication and self.unique_for:
            raise InvalidOption("unique_for is a deduplication by name and data: choose one")
        if self.unique_for is not None:
            milliseconds(self.unique_for, "unique_for", above=0)
            warn_of_milliseconds("unique_for", self.unique_for)
        _check_terms(self)
        for flag in FLAGS:
            of_kind(flag, getattr(self, flag), bool)
        if sum(getattr(self, flag) for flag in FLAGS) > 1:
            raise InvalidOption("of what a failure means for the parent, choose one")


def group_of(group: Group | str) -> Group:
    """The group that an option names."""
    return group if isinstance(group, Group) else Group(group)


_KINDS = {"job_id": str, "deduplication": Deduplication, "parent": Parent}

FLAGS = {
    "fail_parent_on_failure": "fpof",
    "continue_parent_on_failure": "cpof",
    "ignore_dependency_on_failure": "idof",
    "remove_dependency_on_failure": "rdof",
}
"""What a child's failure means for its parent, with the wire's name."""


def wire_options(options: JobOptions) -> bytes:
    """The options as they are stored in the job's hash."""
    # For Python 1 and True are equal; for a job the one keeps it, the other does not.
    return _wire_options(options, type(options.remove_on_complete), type(options.remove_on_fail))


@lru_cache(4096)
def _wire_options(options: JobOptions, *_kinds: type) -> bytes:
    return codec.encode(options_as_stored(options))


def options_as_stored(options: JobOptions) -> dict[str, Any]:
    """The options under the wire's names, without those that were not given."""
    stored: dict[str, Any] = {"attempts": options.attempts}
    if options.backoff:
        stored["backoff"] = _wire_backoff(options.backoff)
    named = {
        "delay": (milliseconds(options.delay) if options.delay else 0) or None,
        "priority": priority_of(options) or None,
        "group": group_of(options.group) if options.group else None,
        "lifo": options.lifo or None,
        "jobId": options.job_id,
        "timestamp": created_ms(options),
        "terms": terms_of(options),
        "removeOnComplete": _wire_retention(options.remove_on_complete),
        "removeOnFail": _wire_retention(options.remove_on_fail),
        "stackTraceLimit": options.stack_trace_limit,
        "sizeLimit": options.size_limit,
        "kl": options.keep_logs,
        "de": options.deduplication and wire_deduplication(options.deduplication),
        "parent": options.parent,
    }
    stored |= {name: value for name, value in named.items() if value is not None}
    stored |= {short: True for flag, short in FLAGS.items() if getattr(options, flag)}
    return stored


def priority_of(options: JobOptions) -> int:
    """The priority of a job, which is that in its group when it has one."""
    return options.priority or (group_of(options.group).priority if options.group else 0)


def wire_deduplication(rule: Deduplication) -> dict[str, Any]:
    """A deduplication as the wire has it."""
    stored = msgspec.to_builtins(rule)
    if rule.ttl is not None:
        stored["ttl"] = max(1, milliseconds(rule.ttl))
    return stored


def created_ms(options: JobOptions) -> int | None:
    """The instant at which a job was made, as the wire has it; None means now."""
    return None if options.created_at is None else instant_ms("created_at", options.created_at)


def terms_of(options: JobOptions) -> terms.Terms | None:
    """The terms of a job; None when it has none."""
    return terms.made(timeout=options.timeout, expires=options.expires, deadline=options.deadline)


def _check_terms(options: JobOptions) -> None:
    asked = terms_of(options)
    if asked is None:
        return
    delay_ms = milliseconds(options.delay)
    for name, after in (("expires", asked.expires_in), ("deadline", asked.deadline_in)):
        if after is not None and after <= delay_ms:
            raise InvalidOption(f"{name} counts from now on, so it must be longer than the delay")


def _wire_backoff(rule: Backoff | Duration) -> dict[str, Any]:
    if not isinstance(rule, Backoff):
        rule = Backoff("fixed", rule)
    stored: dict[str, Any] = {"type": rule.type}
    if delay := milliseconds(rule.delay):
        stored["delay"] = delay
    if rule.jitter:
        stored["jitter"] = rule.jitter
    return stored


def _wire_retention(retention: Retention | None) -> Any:
    if not isinstance(retention, Keep):
        return retention
    # BullMQ has the age in whole seconds; a part of one is kept for the whole.
    age = None if retention.age is None else math.ceil(seconds(retention.age))
    named = {"age": age, "count": retention.count, "limit": retention.limit}
    return {name: value for name, value in named.items() if value is not None}


class StoredOptions:
    """The options of a stored job; unreadable ones count as their defaults, so that it can run."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw

    @cached_property
    def attempts(self) -> int:
        """Attempts in all."""
        return max(1, _number(self.raw.get("attempts"), 1))

    @cached_property
    def backoff(self) -> Backoff | None:
        """The pause between attempts."""
        found = self.raw.get("backoff")
        if isinstance(found, dict):
            rule = cast(dict[str, Any], found)
            jitter = rule.get("jitter")
            return Backoff(
                codec.text_of(rule.get("type", "fixed")),
                max(0, _number(rule.get("delay"), 0)) / 1000,
                min(max(float(jitter), 0.0), 1.0) if isinstance(jitter, int | float) else 0.0,
            )
        return Backoff("fixed", max(0, _number(found, 0)) / 1000) if found else None

    @cached_property
    def keep_completed(self) -> str | None:
        """Which completed jobs are kept, as the script reads it; None leaves it to the worker."""
        return _kept(self.raw.get("removeOnComplete"))

    @cached_property
    def keep_failed(self) -> str | None:
        """Which failed jobs are kept, as the script reads it; None leaves it to the worker."""
        return _kept(self.raw.get("removeOnFail"))

    @cached_property
    def stack_trace_limit(self) -> int | None:
        """Tracebacks kept; None keeps all."""
        limit = self.raw.get("stackTraceLimit")
        return None if limit is None else max(0, _number(limit, 0))

    @cached_property
    def terms(self) -> terms.Terms:
        """How long an attempt may take, and until when the job must have begun and ended."""
        return terms.stored(self.raw.get("terms", {}))

    @property
    def lifo(self) -> bool:
        """True when a retry goes ahead of what waits."""
        return bool(self.raw.get("lifo"))

    @cached_property
    def group(self) -> Group | None:
        """The group that the job belongs to."""
        try:
            return msgspec.convert(self.raw.get("group"), Group | None)
        except (msgspec.ValidationError, InvalidOption):
            return None

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
    """Read the options of a job; cached, because many jobs share one text."""
    try:
        found = codec.decode(raw)
    except Malformed:
        found = {}
    return StoredOptions(cast(dict[str, Any], found) if isinstance(found, dict) else {})


def kept(retention: Retention | None) -> str:
    """Which finished jobs are kept, as the script reads it: '' keeps all, '0' keeps none."""
    return _kept(_wire_retention(retention)) or ""


def check_job_id(job_id: str) -> None:
    """Refuse an id that would clash with a number or a key of the queue."""
    if not job_id:
        raise InvalidOption("a job id must not be empty")
    # As Node has it: `01` is no number that the queue could give.
    if re.fullmatch(r"0|-?[1-9]\d*", job_id):
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
        "de",
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


def _check_backoff(rule: Backoff | Duration | None) -> None:
    match rule:
        case None:
            return
        case Backoff():
            _checked_backoff(rule)
        case _:
            milliseconds(rule, "backoff, when it is not a Backoff,")
            warn_of_milliseconds("backoff", rule)


def _checked_backoff(rule: Backoff) -> Backoff:
    if not rule.type:
        raise InvalidOption("backoff needs a type: fixed, exponential or a strategy's name")
    is_built_in = rule.type in ("fixed", "exponential")
    milliseconds(rule.delay, "backoff delay", above=0 if is_built_in else None)
    warn_of_milliseconds("backoff delay", rule.delay)
    return rule


def check_retention(name: str, retention: Retention | None) -> None:
    """Refuse a value that is not a `Retention`."""
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
