"""Metrics: how they are declared, which there are, and how their labels are kept few."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast, overload

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.registry import Collector

from waystation.core.breaker import State
from waystation.core.errors import InvalidInput, WaystationError

Kind = TypeVar("Kind", Counter, Gauge, Histogram)

MOST_VALUES = 50
"""Values that one label may take, `other` included."""

OTHER = "other"


class Instrument(Generic[Kind]):
    """One line in the table of instruments: its name, its meaning and its labels."""

    def __init__(
        self, kind: type[Kind], name: str, meaning: str, *labels: str, **extra: Any
    ) -> None:
        self.kind = kind
        self.name = name
        self.meaning = meaning
        self.labels = labels
        self._extra = extra

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    @overload
    def __get__(self, table: None, owner: type) -> "Instrument[Kind]": ...
    @overload
    def __get__(self, table: object, owner: type) -> "Family[Kind]": ...
    def __get__(self, table: object | None, owner: type) -> "Instrument[Kind] | Family[Kind]":
        if table is None:
            return self
        raise AttributeError(f"{self._attribute} is declared, but {owner.__name__} is not set up")

    def install(
        self, table: object, registry: CollectorRegistry, allow: Mapping[str, Collection[str]]
    ) -> None:
        """Register the instrument and put it in the place of its declaration."""
        metric = self.kind(self.name, self.meaning, self.labels, registry=registry, **self._extra)
        # The instance's own attribute hides the declaration, so that using it costs one look-up.
        vars(table)[self._attribute] = Family(metric, self.labels, allow)


class Family(Generic[Kind]):
    """An instrument with a child for each combination of label values."""

    def __init__(
        self, metric: Kind, labels: tuple[str, ...], allow: Mapping[str, Collection[str]]
    ) -> None:
        self._metric = metric
        self._names = labels
        self._bounds = [_Bound(allow.get(name)) for name in labels]
        self._children: dict[tuple[str, ...], Kind] = {}

    def of(self, *values: str) -> Kind:
        """The child for these label values, in the declared order; keep it where it is hot."""
        child = self._children.get(values)
        return self._new_child(values) if child is None else child

    def _new_child(self, values: tuple[str, ...]) -> Kind:
        if len(values) != len(self._names):
            raise InvalidInput(f"wanted a value for each of {self._names}, got {values}")
        if not values:
            return self._children.setdefault(values, self._metric)
        bounded = tuple(bound(value) for bound, value in zip(self._bounds, values, strict=True))
        child = self._metric.labels(*bounded)
        # Under the bounded values only: names that became `other` must not fill the memory.
        return self._children.setdefault(bounded, child)


class _Bound:
    """Lets the allowed values through, or the first ones to come, and calls the rest `other`."""

    def __init__(self, allowed: Collection[str] | None) -> None:
        first = sorted(allowed or ())[: MOST_VALUES - 1]
        self._known = set(first)
        self._room = 0 if allowed is not None else MOST_VALUES - 1

    def __call__(self, value: str) -> str:
        if value in self._known or value == OTHER:
            return value
        if len(self._known) >= self._room:
            return OTHER
        self._known.add(value)
        return value


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""What an HTTP answer with `expose()` in it calls itself."""

BREAKER_STATE = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}
"""The number that `circuit_breaker_state` shows for each state."""

# A no-op takes a tenth of a millisecond, a report several minutes.
_DURATIONS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LAGS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)


class Metrics:
    """The instruments of one process, in a registry of their own by default.

    A label takes at most fifty values and calls the rest `other`; `allow` names, for a label, the
    only values that are shown as they are.
    """

    jobs_produced = Instrument(Counter, "jobs_produced_total", "Jobs added.", "queue")
    jobs_consumed = Instrument(Counter, "jobs_consumed_total", "Jobs claimed.", "queue")
    jobs_completed = Instrument(Counter, "jobs_completed_total", "Jobs that ended well.", "queue")
    jobs_failed = Instrument(
        Counter, "jobs_failed_total", "Attempts that failed, by error code.", "queue", "reason"
    )
    jobs_retried = Instrument(
        Counter, "jobs_retried_total", "Failed attempts that are followed by another.", "queue"
    )
    jobs_dead_letter = Instrument(
        Counter, "jobs_dead_letter_total", "Jobs set aside for good.", "queue"
    )
    job_processing = Instrument(
        Histogram,
        "job_processing_duration_seconds",
        "Time that handlers took.",
        "queue",
        buckets=_DURATIONS,
    )
    queue_length = Instrument(Gauge, "queue_length", "Jobs that wait.", "queue")
    circuit_breaker_state = Instrument(
        Gauge,
        "circuit_breaker_state",
        "0 closed, 1 half-open (while one job tries, which is often too short to be read), 2 open.",
        "queue",
    )
    reaper_jobs_moved = Instrument(
        Counter, "reaper_jobs_moved_total", "Jobs taken back from workers that fell silent."
    )
    reaper_recovered = Instrument(
        Counter, "reaper_recovered_total", "The same, under the name that older dashboards know."
    )
    files_skipped = Instrument(
        Counter,
        "files_skipped_total",
        "Looks at a file that was left out, by the reason.",
        "reason",
    )
    log_rejected_keys = Instrument(
        Counter, "log_rejected_keys_total", "Log fields dropped because nobody allowed them."
    )

    jobs_returned = Instrument(
        Counter, "waystation_jobs_returned_total", "Jobs handed back untouched.", "product", "queue"
    )
    leases_lost = Instrument(
        Counter,
        "waystation_leases_lost_total",
        "Leases that ran out while their work was being done.",
        "product",
        "queue",
    )
    settles_refused = Instrument(
        Counter,
        "waystation_settles_refused_total",
        "Outcomes refused because somebody else held the work.",
        "product",
        "queue",
    )
    jobs_held = Instrument(
        Gauge,
        "waystation_jobs_held",
        "Jobs that the process has claimed and not settled.",
        "product",
        "queue",
    )
    loop_lag = Instrument(
        Histogram,
        "waystation_loop_lag_seconds",
        "How late the event loop turned to what was due.",
        buckets=_LAGS,
    )
    store_reconnects = Instrument(
        Counter, "waystation_store_reconnects_total", "Calls that the store did not answer."
    )

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        allow: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.registry = registry or CollectorRegistry()
        for instrument in declared():
            instrument.install(self, self.registry, allow or {})

    def expose(self) -> bytes:
        """All numbers in Prometheus' text format."""
        return generate_latest(_WithoutBirthdays(self.registry))


def declared(table: type = Metrics) -> Iterator[Instrument[Any]]:
    """A table of instruments, line by line."""
    for line in vars(table).values():
        if isinstance(line, Instrument):
            yield cast(Instrument[Any], line)


def reason_of(error: BaseException) -> str:
    """The label for a failure: the error's one name, or that the handler itself raised."""
    return error.code if isinstance(error, WaystationError) else "HANDLER_ERROR"


class _WithoutBirthdays(Collector):
    """A registry without the `_created` samples, which would double the page."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [s for s in metric.samples if not s.name.endswith("_created")]
            yield metric
