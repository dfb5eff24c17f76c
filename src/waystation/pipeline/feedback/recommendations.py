"""Recommendations for the queues: service levels, forecasts, failure labels, desired workers.

Each is one small hash field that the queue reads, and that expires when it is not renewed.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import functions as F

from waystation.core.line.forecasts import (
    MOST_LABELS,
    DesiredWorkers,
    Drain,
    FailureLabel,
    FailureLabels,
    Recommendation,
    Slo,
    key_of,
    written,
)
from waystation.pipeline.gold.failures import label
from waystation.pipeline.gold.forecast import Slot, forecast, slots
from waystation.pipeline.gold.sketches import merged, percentile
from waystation.pipeline.history import History
from waystation.pipeline.hours import Hours
from waystation.pipeline.silver.steps import steps
from waystation.pipeline.sources.store import Store
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.tables import CAPACITY, FAILURES, HOURLY

HOURS = 24
"""Hours of history that recommendations are computed from."""
FRESH_S = 15 * 60
"""Seconds that a recommendation is valid."""
SLOT_S = 10
LONGEST_LABEL = 120

_LABELLED = (
    "line",
    "queue",
    "fingerprint",
    "signature",
    "attempts",
    "retry_helps",
    "kinds",
    "last_at",
)

QueueKey = tuple[str, str]
"""Product and queue."""


def write_recommendations(history: History, store: Store, now: dt.datetime) -> int:
    """Compute recommendations and write them to the queues; returns how many."""
    pieces = [
        *_slo(history, now),
        *_drains(history, now),
        *_labels(history, now),
        *_workers(history, now),
    ]
    put(store, pieces)
    return len(pieces)


def put(store: Store, pieces: Iterable[tuple[QueueKey, Recommendation]]) -> None:
    """Write recommendations; writing the same again changes nothing."""
    for (line, queue), piece in pieces:
        key = key_of(type(piece), queue)
        pipe = store.at(key).pipeline(transaction=True)
        pipe.hset(key, line, written(piece).decode())
        pipe.pexpireat(key, piece.until)
        pipe.execute()


def _slo(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    """Service levels of each queue, merged from hourly sketches."""
    since = now - dt.timedelta(hours=HOURS)
    recent = history.read(HOURLY).where(F.col("hour") > F.lit(since))
    totals = recent.groupBy("line", "queue").agg(
        merged(F.col("wait_sketch")).alias("wait"),
        merged(F.col("run_sketch")).alias("run"),
        F.sum("completed").alias("completed"),
        F.sum("failed").alias("failed"),
    )
    times = {
        f"{of}_p{percent}_ms": percentile(F.col(of), percent / 100)
        for of in ("wait", "run")
        for percent in (50, 95, 99)
    }
    columns = [column.alias(name) for name, column in times.items()]
    for row in totals.select("line", "queue", "completed", "failed", *columns).collect():
        ended = row["completed"] + row["failed"]
        failed_part = row["failed"] / ended if ended else 0.0
        percentiles = {name: row[name] for name in times}
        yield (
            (row["line"], row["queue"]),
            Slo(hours=HOURS, failed_part=failed_part, **percentiles, **_lifetime(now)),
        )


def _drains(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    for place, series in slot_series(history, now).items():
        found = forecast(series, seconds=SLOT_S)
        if found is not None:
            yield (
                place,
                Drain(
                    waiting=found.waiting,
                    low_s=round(found.low_s, 3),
                    likely_s=round(found.likely_s, 3),
                    high_s=round(found.high_s, 3),
                    band=round(found.band.coverage, 3),
                    **_lifetime(now),
                ),
            )


def slot_series(history: History, now: dt.datetime) -> Mapping[QueueKey, list[Slot]]:
    """Arrivals and ends of each queue in the last hours, slot by slot without gaps."""
    start = now - dt.timedelta(hours=HOURS)
    hours = Hours(
        tuple(
            (start + dt.timedelta(hours=n)).replace(minute=0, second=0, microsecond=0)
            for n in range(HOURS + 2)
        )
    )
    found: dict[QueueKey, dict[int, Slot]] = {}
    for row in slots(steps(history.events(hours)), seconds=SLOT_S).collect():
        mine = found.setdefault((row["line"], row["queue"]), {})
        mine[row["slot"]] = Slot(row["came"], row["ended"])
    return {
        place: [mine.get(slot, Slot(0, 0)) for slot in range(min(mine), max(mine) + 1)]
        for place, mine in found.items()
    }


def _labels(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    since = now - dt.timedelta(hours=HOURS)
    rows = delta.read_arrow(history.root, FAILURES, _LABELLED)
    found: dict[QueueKey, list[FailureLabel]] = {}
    for row in _since(rows, "last_at", since, by="attempts"):
        mine = found.setdefault((row["line"], row["queue"]), [])
        if len(mine) < MOST_LABELS:
            said = label(row)[:LONGEST_LABEL]
            mine.append(FailureLabel(row["fingerprint"], said, row["attempts"], row["retry_helps"]))
    for place, labels in found.items():
        yield place, FailureLabels(labels=tuple(labels), **_lifetime(now))


def _workers(history: History, now: dt.datetime) -> Iterator[tuple[QueueKey, Recommendation]]:
    since = now - dt.timedelta(hours=2)
    columns = ("line", "queue", "hour", "workers_needed", "target_wait_ms")
    rows = delta.read_arrow(history.root, CAPACITY, columns)
    newest: dict[QueueKey, Any] = {}
    for row in _since(rows, "hour", since, by="hour"):
        newest.setdefault((row["line"], row["queue"]), row)
    for place, row in newest.items():
        if row["workers_needed"] is not None:
            yield (
                place,
                DesiredWorkers(
                    workers=row["workers_needed"],
                    target_wait_ms=row["target_wait_ms"],
                    **_lifetime(now),
                ),
            )


def _since(rows: Any, column: str, since: dt.datetime, *, by: str) -> list[dict[str, Any]]:
    """Recent rows, the largest first."""
    late = rows.filter(pc.greater(rows[column], pa.scalar(since, rows[column].type)))
    return late.sort_by([(by, "descending")]).to_pylist()


def _lifetime(now: dt.datetime) -> dict[str, int]:
    made = int(now.timestamp() * 1000)
    return {"made_at": made, "until": made + FRESH_S * 1000}
