"""Instruments: how a metric is declared, and how its labels are kept few."""

from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar, overload

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from waystation.core.errors import InvalidInput

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
