"""Options of the files queue: key names, what is remembered, and how a worker works."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from waystation.core.backoff import Backoff, Growth
from waystation.core.breaker import BreakerOptions
from waystation.core.durations import Duration, milliseconds, seconds
from waystation.core.errors import InvalidOption
from waystation.core.options import at_least, check_fields
from waystation.core.runtime.worker import WorkerOptions as CoreWorkerOptions

PREFIX = "jobqueue"
DAY_S = 86_400.0
PRIORITIES = ("high", "low")
BY_QUEUES = ":by-queues"
"""The end of a prefix that was made of the key of a queue: it does not tell the queues' keys."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the keys; every name that is left empty is derived from the prefix."""

    prefix: str = ""
    """Start of all keys that have no name here; braces, as in `{jobqueue}`, keep them in one
    cluster slot. Without one it is `jobqueue`, or made of the key of the first queue where queues
    have keys of their own, so that two fleets with other queues share nothing."""
    priorities: tuple[str, ...] = PRIORITIES
    """The most urgent first."""
    queues: Mapping[str, str] = MappingProxyType({})
    """The key of each priority's queue."""
    processing_list_pattern: str = ""
    """The key of the jobs that a worker holds, with `%s` for the worker's name."""
    heartbeat_key_pattern: str = ""
    """The key of a worker's heartbeat, with `%s` for the worker's name."""
    completed_list: str = ""
    """The key of the jobs that are done."""
    dead_letter_list: str = ""
    """The key of the dead letters."""
    rate_limit_key: str = ""
    """The key of the rate limit."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.priorities:
            raise InvalidOption("priorities must not be empty")
        if len(set(self.priorities)) < len(self.priorities):
            raise InvalidOption(f"priorities must differ, got {', '.join(self.priorities)}")
        given, start = self.queues, self.prefix or PREFIX
        if self.prefix.endswith(BY_QUEUES) and not given:
            raise InvalidOption(
                f"the prefix {self.prefix!r} is that of a fleet whose queues have keys of their "
                "own, which it does not tell: give queues instead"
            )
        if given and (missing := [name for name in self.priorities if name not in given]):
            raise InvalidOption(f"queues must have an entry for the priority {missing[0]!r}")
        queues = {name: given.get(name) or f"{start}:{name}_priority" for name in self.priorities}
        space = self.prefix or _start_of(queues)
        msgspec.structs.force_setattr(self, "queues", queues)
        defaults = {
            "prefix": space,
            "processing_list_pattern": f"{space}:worker:%s:processing",
            "heartbeat_key_pattern": f"{space}:processing:worker:%s",
            "completed_list": f"{space}:completed",
            "dead_letter_list": f"{space}:dead_letter",
            "rate_limit_key": f"{space}:rate_limit:producer",
        }
        for name, value in defaults.items():
            if not getattr(self, name):
                msgspec.structs.force_setattr(self, name, value)
        self._check()

    def _check(self) -> None:
        for name in ("processing_list_pattern", "heartbeat_key_pattern"):
            if getattr(self, name).count("%s") != 1:
                raise InvalidOption(
                    f"{name} must hold %s once, in place of the worker's name, "
                    f"got {getattr(self, name)!r}"
                )
        owners: dict[str, str] = {}
        for name, key in self._keys():
            if key in owners:
                # The one that has a setting can be changed.
                first, second = sorted((name, owners[key]), key=lambda each: " " in each)
                raise InvalidOption(
                    f"{first} must have a key of its own, not that of {second}, got {key!r}"
                )
            owners[key] = name

    def _keys(self) -> "list[tuple[str, str]]":
        """Every key with the name of its setting, or its purpose."""
        space = self.prefix
        given = ("processing_list_pattern", "heartbeat_key_pattern", "completed_list")
        given += ("dead_letter_list", "rate_limit_key")
        own = ("workers", "wake", "events", "seen", "seen:before", "orphans", "unmatched")
        own += ("paused",)
        return [
            *((f"queues.{name}", key) for name, key in self.queues.items()),
            *((f"the retries of {name}", f"{space}:sched:{k}") for name, k in self.queues.items()),
            *((name, getattr(self, name)) for name in given),
            ("the reasons of dead_letter_list", f"{self.dead_letter_list}:meta"),
            *((f"the queue's {name}", f"{space}:{name}") for name in own),
        ]


def _start_of(queues: Mapping[str, str]) -> str:
    """What the keys of a fleet start with that has nothing but names of queues."""
    if {*queues.values()} <= {f"{PREFIX}:{name}_priority" for name in PRIORITIES}:
        return PREFIX
    name, first = next(iter(queues.items()))
    if first == PREFIX:
        raise InvalidOption(
            f"queues.{name} must not be {PREFIX!r}, what the keys of a fleet without names "
            "start with"
        )
    return f"{first}{BY_QUEUES}"


def layout_of(prefix: str | None, layout: Layout | None) -> Layout:
    """The layout that was given, by itself or by its prefix."""
    if prefix is None:
        return layout or Layout()
    if layout is not None:
        raise InvalidOption("prefix and layout exclude each other: a layout has a prefix")
    return Layout(prefix=prefix)


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of what a queue remembers."""

    remember: Duration = 30 * DAY_S
    """How long, at least, an added file is recognized, so that it is not added again unchanged."""
    events_max_len: int = 10_000
    """About how many events are kept."""

    def __post_init__(self) -> None:
        seconds(self.remember, "remember")
        at_least("events_max_len", self.events_max_len, 1)

    @property
    def remember_ms(self) -> int:
        """`remember` in milliseconds."""
        return milliseconds(self.remember)


class ReaperOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs of dead workers are taken back."""

    interval: Duration = 5.0
    """Between two passes, ±25 %."""
    count: int = 100
    """Workers examined, and jobs taken back, in one call."""
    budget: Duration = 0.2
    """A pass stops after this long; the next one continues there."""
    page_delay: Duration = 0.01
    """Between two pages of a pass, ±50 %."""

    def __post_init__(self) -> None:
        at_least("count", self.count, 1)
        seconds(self.interval, "interval")
        seconds(self.budget, "budget")
        seconds(self.page_delay, "page_delay")


class WorkerOptions(CoreWorkerOptions, frozen=True, kw_only=True):
    """How a worker of files works, and what becomes of files that fail."""

    concurrency: int = 16
    """Files processed at once."""
    lease: Duration = 30.0
    """How long a worker that sends no heartbeat keeps its jobs; renewed at a third of it."""
    poll: Duration = 1.0
    """Longest wait for a wake-up before the queues are examined anyway."""
    max_retries: int = 3
    """Attempts after the first one; a file that fails after them becomes a dead letter."""
    backoff: Duration = 0.5
    """The delay after the first failure; it doubles with each further one. 0 retries at once."""
    backoff_max: Duration = 10.0
    """The longest delay."""
    weights: tuple[int, ...] = ()
    """Each priority's share while all have jobs; empty means strictly by priority."""
    completed_max_len: int = 10_000
    """Completed jobs that are kept."""
    events_max_len: int = 10_000
    """About how many events are kept."""
    no_handler_after: Duration = 60.0
    """How long a file that no live worker has a handler for waits before it is a dead letter."""
    reaper: ReaperOptions = ReaperOptions()
    """How jobs of dead workers are taken back."""
    breaker: BreakerOptions | None = BreakerOptions()
    """When a queue's circuit breaker opens; None runs without one."""
    sample: Duration = 2.0
    """How often the lengths of the queues are measured for the metrics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self)
        for name in ("max_retries", "completed_max_len"):
            at_least(name, getattr(self, name), 0)
        for name in ("backoff", "backoff_max", "no_handler_after"):
            seconds(getattr(self, name), name)
        seconds(self.sample, "sample", above=0)
        if any(weight < 1 for weight in self.weights):
            raise InvalidOption(f"weights must be at least 1, got {list(self.weights)}")

    def delay_ms(self, retries: int) -> int:
        """The delay before the retry of that number: `min(backoff * 2^(n-1), backoff_max)`."""
        first, most = milliseconds(self.backoff), milliseconds(self.backoff_max)
        if not first or not most:
            return 0
        return Backoff(Growth.EXPONENTIAL, first, cap_ms=most).pause_ms(retries, _NO_RNG)


class _NoJitter:
    def random(self) -> float:
        return 0.0


_NO_RNG = _NoJitter()
