"""Forecasts and recommendations that the pipeline writes back for a queue, while they are fresh.

Each piece is a small JSON document with a version and an end; it lies in a hash by product and
prefix, because queues of two products, or under two prefixes, may have one name. Whoever reads gets
what suits, or the default that was given.
"""

import time
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from waystation.core.errors import InvalidInput
from waystation.core.store.commands import ask_all
from waystation.core.store.keyspace import Hash, Keyspace
from waystation.core.store.script import Client

VERSION = 1
MOST_BYTES = 4096
"""Most bytes of a recommendation: it is read where every millisecond counts."""
MOST_LABELS = 20

_TTL = "until it is out of date"


class RecommendationKeys(Keyspace, root=""):
    """What history says about a queue; a field for each product and prefix that has its name."""

    slo = Hash("slo:<name>", "how long waits and runs are, and what part fails", ttl=_TTL)
    forecast = Hash("forecast:<name>", "when what waits will be done, as a band", ttl=_TTL)
    failures = Hash("failures:<name>", "what goes wrong, by fingerprint", ttl=_TTL)
    workers = Hash("workers:<name>", "how many workers the arrivals ask for", ttl=_TTL)


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """What every piece says about itself."""

    key: ClassVar[str]
    """Which of the keys it lies under."""
    made_at: int
    """When it was worked out, in milliseconds."""
    until: int
    """When it is out of date."""
    v: int = VERSION
    """The version of its layout."""


class Slo(Recommendation, frozen=True, kw_only=True):
    """How a queue did lately."""

    key: ClassVar[str] = "slo"
    hours: int
    """How many hours it looks back."""
    wait_p50_ms: float | None
    """Half of the jobs waited no longer than that; None when none began."""
    wait_p95_ms: float | None
    """95 of 100 jobs waited no longer than that."""
    wait_p99_ms: float | None
    """99 of 100 jobs waited no longer than that."""
    run_p50_ms: float | None
    """Half of the attempts ran no longer than that; None when none ended."""
    run_p95_ms: float | None
    """95 of 100 attempts ran no longer than that."""
    run_p99_ms: float | None
    """99 of 100 attempts ran no longer than that."""
    failed_part: float
    """Of what ended, the part that failed for good."""


class Drain(Recommendation, frozen=True, kw_only=True):
    """When what waits now will be done."""

    key: ClassVar[str] = "forecast"
    waiting: int
    """How many jobs waited when it was worked out."""
    low_s: float
    """Seconds until all are done, when it goes well."""
    likely_s: float
    """Seconds until all are done, most likely."""
    high_s: float
    """Seconds until all are done, when it goes badly."""
    band: float
    """The part of all forecasts whose truth lay between low and high, when they were checked."""


class FailureLabel(msgspec.Struct, frozen=True):
    """One kind of failure."""

    fingerprint: str
    """What errors of this kind have in common, hashed."""
    label: str
    """The error with its numbers, ids and paths left out."""
    attempts: int
    """How many attempts failed this way."""
    retry_helps: float | None
    """Of the jobs tried again, the part that completed; None when none was."""


class FailureLabels(Recommendation, frozen=True, kw_only=True):
    """The failures that show most often."""

    key: ClassVar[str] = "failures"
    labels: tuple[FailureLabel, ...]
    """The most frequent first."""


class DesiredWorkers(Recommendation, frozen=True, kw_only=True):
    """How many pieces of work should be in hand at a time."""

    key: ClassVar[str] = "workers"
    workers: int
    """How many jobs should run at a time."""
    target_wait_ms: int
    """The wait that this many workers keep to."""
    busiest_minute: int | None = None
    """Jobs that became ready in the busiest minute that they are meant for."""
    run_mean_ms: float | None = None
    """How long these jobs ran, on average."""
    wait_p95_ms: float | None = None
    """95 of 100 jobs of that hour really waited no longer than that."""


A = TypeVar("A", bound=Recommendation)


def written(recommendation: Recommendation) -> bytes:
    """A piece as it lies in the store; refused when it is not small."""
    text = msgspec.json.encode(recommendation)
    if len(text) > MOST_BYTES:
        raise InvalidInput(f"a recommendation may have {MOST_BYTES} bytes, got {len(text)}")
    return text


def read(text: str | bytes | None, kind: type[A], *, now_ms: int) -> A | None:
    """A piece as it was written; None when there is none, it is stale, or of another version."""
    if text is None or len(text) > MOST_BYTES:
        return None
    try:
        found = msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    fresh = found.v == VERSION and found.made_at <= now_ms + 60_000 and now_ms < found.until
    return found if fresh else None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that history says about a queue; None where nothing fresh is known."""

    slo: Slo | None = None
    """How it did in the last hours."""
    drain: Drain | None = None
    """When what waits now will be done."""
    failures: FailureLabels | None = None
    """What goes wrong most often."""
    workers: DesiredWorkers | None = None
    """How many workers it needs."""


async def forecast(
    client: Client, queue: str, *, product: str, prefix: str = "", now_ms: int | None = None
) -> Forecast:
    """What history says about a queue, as far as it is fresh by now.

    `prefix` is that of its keys, unless it is the default one.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    field = field_of(product, prefix)
    asked = (("HGET", key_of(kind, queue), field) for kind in _KINDS.values())
    texts = await ask_all(client, *asked)
    fields = {
        name: read(text, kind, now_ms=now_ms)
        for (name, kind), text in zip(_KINDS.items(), texts, strict=True)
    }
    return Forecast(**cast(Any, fields))


def field_of(product: str, prefix: str = "") -> str:
    """The field of a queue's recommendations: its product, and its prefix unless it is usual."""
    return f"{product}:{prefix}" if prefix else product


def key_of(kind: type[Recommendation], queue: str) -> str:
    """The key of one kind of recommendation about a queue."""
    # Files are put into queues whose names are whole keys.
    return cast(str, getattr(RecommendationKeys(queue.replace(":", ".")), kind.key))


_KINDS: dict[str, type[Recommendation]] = {
    "slo": Slo,
    "drain": Drain,
    "failures": FailureLabels,
    "workers": DesiredWorkers,
}
