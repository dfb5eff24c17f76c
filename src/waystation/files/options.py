"""What can be set about the files line, apart from where the settings are written."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from waystation.core.backoff import Backoff, Growth
from waystation.core.errors import InvalidOption

NAMESPACE = "jobqueue"
DAY_S = 86_400.0
PRIORITIES = ("high", "low")


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the keys; whatever is left empty is derived from the namespace."""

    namespace: str = NAMESPACE
    priorities: tuple[str, ...] = PRIORITIES
    """The most urgent first."""
    queues: Mapping[str, str] = MappingProxyType({})
    """The key of each priority's queue."""
    processing_list_pattern: str = ""
    heartbeat_key_pattern: str = ""
    """With `%s` in the place of the worker's id, as above."""
    completed_list: str = ""
    dead_letter_list: str = ""
    rate_limit_key: str = ""

    def __post_init__(self) -> None:
        if not self.priorities:
            raise InvalidOption("priorities must not be empty")
        if len(set(self.priorities)) < len(self.priorities):
            raise InvalidOption(f"priorities must differ, got {', '.join(self.priorities)}")
        given, space = self.queues, self.namespace
        if given and (missing := [name for name in self.priorities if name not in given]):
            raise InvalidOption(f"queues must have an entry for the priority {missing[0]!r}")
        defaults = {
            "queues": {
                name: given.get(name) or f"{space}:{name}_priority" for name in self.priorities
            },
            "processing_list_pattern": f"{space}:worker:%s:processing",
            "heartbeat_key_pattern": f"{space}:processing:worker:%s",
            "completed_list": f"{space}:completed",
            "dead_letter_list": f"{space}:dead_letter",
            "rate_limit_key": f"{space}:rate_limit:producer",
        }
        for name, value in defaults.items():
            if name == "queues" or not getattr(self, name):
                msgspec.structs.force_setattr(self, name, value)
        self._check()

    def _check(self) -> None:
        for name in ("processing_list_pattern", "heartbeat_key_pattern"):
            if getattr(self, name).count("%s") != 1:
                raise InvalidOption(
                    f"{name} must hold %s once, where the worker's id goes, "
                    f"got {getattr(self, name)!r}"
                )
        keys = self._keys()
        owners: dict[str, str] = {}
        for name, key in keys:
            if key in owners:
                raise InvalidOption(
                    f"{owners[key]} and {name} must have keys of their own, both have {key!r}"
                )
            owners[key] = name

    def _keys(self) -> "list[tuple[str, str]]":
        """Every key by the name of its setting, or by what it is for."""
        space = self.namespace
        given = ("processing_list_pattern", "heartbeat_key_pattern", "completed_list")
        given += ("dead_letter_list", "rate_limit_key")
        own = ("workers", "wake", "events", "seen", "seen:before", "orphans", "handover")
        return [
            *((f"queues.{name}", key) for name, key in self.queues.items()),
            *((f"the retries of {name}", f"{space}:sched:{k}") for name, k in self.queues.items()),
            *((name, getattr(self, name)) for name in given),
            ("the reasons of dead_letter_list", f"{self.dead_letter_list}:meta"),
            *((f"the line's {name}", f"{space}:{name}") for name in own),
        ]


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept about files that were put in line."""

    remember_s: float = 30 * DAY_S
    """How long, at least, a file that was put in line is not put in line again unchanged."""
    events_max_len: int = 10_000

    @property
    def remember_ms(self) -> int:
        """The same in milliseconds."""
        return round(self.remember_s * 1000)


class WorkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are fetched and what becomes of those that fail."""

    heartbeat_ttl_s: float = 30.0
    """How long a worker that is not heard of keeps what it holds."""
    max_retries: int = 3
    """Tries after the first one."""
    backoff_base_ms: int = 500
    """The pause after the first failure; it doubles from there. 0 tries again at once."""
    backoff_max_ms: int = 10_000
    weights: tuple[int, ...] = ()
    """The share of each priority while all have work; empty means that the first goes first."""
    completed_max_len: int = 10_000
    """How many completed jobs are remembered."""
    events_max_len: int = 10_000
    wait_s: float = 1.0
    """The longest wait for a wake-up before looking again."""
    no_handler_s: float = 60.0
    """How long a file that no live worker has a handler for is left to workers that may come."""

    def __post_init__(self) -> None:
        if not self.heartbeat_ttl_s > 0:
            raise InvalidOption(f"heartbeat_ttl_s must be above 0, got {self.heartbeat_ttl_s}")
        for name in ("max_retries", "backoff_base_ms", "completed_max_len", "no_handler_s"):
            if not getattr(self, name) >= 0:
                raise InvalidOption(f"{name} must be at least 0, got {getattr(self, name)}")
        if any(weight < 1 for weight in self.weights):
            raise InvalidOption(f"weights must be at least 1, got {list(self.weights)}")

    def pause_ms(self, retries: int) -> int:
        """How long to wait before the try of that number: `min(base * 2^(n-1), max)`."""
        if not self.backoff_base_ms or not self.backoff_max_ms:
            return 0
        rule = Backoff(Growth.EXPONENTIAL, self.backoff_base_ms, cap_ms=self.backoff_max_ms)
        return rule.pause_ms(retries, _NO_RNG)


class ReaperOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the work of silent workers is taken back."""

    interval_s: float = 5.0
    """Between two passes, give or take a quarter."""
    count: int = 100
    """Workers looked at, and jobs taken back, at a time."""
    budget_s: float = 0.2
    """A pass stops after this long and goes on from there the next time."""
    base_delay_s: float = 0.01
    """Between two pages of a pass, give or take a half."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidOption(f"count must be at least 1, got {self.count}")


class _NoDice:
    def random(self) -> float:
        return 0.0


_NO_RNG = _NoDice()
