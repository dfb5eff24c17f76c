"""The data of a report, read from the gold tables."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.feedback.recommendations import SLOT_S, slot_series
from waystation.pipeline.gold.forecast import Forecast, forecast
from waystation.pipeline.gold.sketches import merged, percentile
from waystation.pipeline.history import History, utc
from waystation.pipeline.refresh.checks import Check, last_checks
from waystation.pipeline.reports.words import verdict
from waystation.pipeline.tables import CAPACITY, EVENTS, FAILURES, GAPS, HOURLY, LEDGER, WORKERS

MOST_FAILURES = 15
MOST_QUEUES = 12
MOST_HOURS = 14 * 24

_COUNTS = ("added", "started", "completed", "failed", "retried", "stalled")


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """One queue over all hours of a report."""

    line: str
    queue: str
    added: int
    started: int
    completed: int
    failed: int
    retried: int
    stalled: int
    wait_ms: tuple[float | None, ...]
    """Percentiles 50, 95 and 99 of the wait, in milliseconds."""
    run_ms: tuple[float | None, ...]
    """The same of the run time."""
    acknowledged: int
    terminal: int
    removed: int
    visible: int | None
    lost: int | None
    duplicated: int
    gaps: int
    lost_ids: tuple[str, ...]
    clean: bool | None
    hours: tuple[dict[str, Any], ...]
    """Its rows of `hourly`, the oldest first."""
    needed: tuple[dict[str, Any], ...]
    """Its rows of `capacity`, the oldest first."""
    forecast: Forecast | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a report."""

    made_at: dt.datetime
    events: int
    corrupt: int
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    queues: tuple[QueueReport, ...]
    failures: tuple[dict[str, Any], ...]
    workers: tuple[dict[str, Any], ...]
    gaps: tuple[dict[str, Any], ...]
    checks: tuple[Check, ...] = ()
    """The consistency checks of the last refresh."""

    @property
    def clean(self) -> bool | None:
        """Whether all jobs are accounted for; None without a snapshot of the queues."""
        verdicts = [queue.clean for queue in self.queues]
        return False if False in verdicts else None if None in verdicts else True

    @property
    def verdict(self) -> str:
        """The ledger of all queues in a sentence."""
        return verdict(
            self.clean,
            lost=sum(queue.lost or 0 for queue in self.queues),
            duplicated=sum(queue.duplicated for queue in self.queues),
            unseen=sum(queue.gaps for queue in self.queues),
        )


def report(history: History, now: dt.datetime | None = None) -> Report:
    """Read the figures of a report from a history."""
    now = now or dt.datetime.now(dt.UTC)
    counts = history.read(EVENTS).agg(
        F.count("*").alias("events"),
        F.count("_corrupt").alias("corrupt"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
    )
    events = counts.collect()[0]
    newest = [F.col("last_at").desc()]
    return Report(
        made_at=now,
        events=events["events"],
        corrupt=events["corrupt"],
        first_at=events["first"] and utc(events["first"]),
        last_at=events["last"] and utc(events["last"]),
        queues=tuple(_queues(history, now)),
        failures=_rows(history.read(FAILURES), [F.col("attempts").desc()], MOST_FAILURES),
        workers=_rows(_by_worker(history.read(WORKERS)), newest, 50),
        gaps=_rows(history.read(GAPS), [F.col("before_at").desc()], 50),
        checks=tuple(last_checks(history.root)),
    )


def _queues(history: History, now: dt.datetime) -> list[QueueReport]:
    since = F.lit(now - dt.timedelta(hours=MOST_HOURS))
    hourly = history.read(HOURLY).where(F.col("hour") > since)
    rows = _rows(_totals(hourly), [F.col("started").desc()], MOST_QUEUES)
    ledgers = _by_queue(_rows(_ledgers(history.read(LEDGER)), [F.col("queue")], 10_000))
    busy = {(row["line"], row["queue"]) for row in rows}
    # Waiting rooms have no jobs, and a stream of many queues belongs to none of them.
    rows = (*rows, *(_idle(place) for place in sorted(ledgers.keys() - busy)))
    hours = _by_queue(_rows(hourly.drop("wait_sketch", "run_sketch"), [F.col("hour")], 100_000))
    needed = _by_queue(
        _rows(history.read(CAPACITY).where(F.col("hour") > since), [F.col("hour")], 100_000)
    )
    series = slot_series(history, now)
    return [
        _facts(
            row,
            ledgers.get(place, [{}])[0],
            hours.get(place, []),
            needed.get(place, []),
            forecast(series[place], seconds=SLOT_S) if place in series else None,
        )
        for row in rows
        for place in [(row["line"], row["queue"])]
    ]


def _facts(
    row: dict[str, Any],
    account: dict[str, Any],
    hours: Sequence[dict[str, Any]],
    needed: Sequence[dict[str, Any]],
    found: Forecast | None,
) -> QueueReport:
    return QueueReport(
        line=row["line"],
        queue=row["queue"],
        **{name: row[name] for name in _COUNTS},
        wait_ms=tuple(row[f"wait_p{part}"] for part in (50, 95, 99)),
        run_ms=tuple(row[f"run_p{part}"] for part in (50, 95, 99)),
        acknowledged=account.get("acknowledged", 0),
        terminal=account.get("terminal", 0),
        removed=account.get("removed", 0),
        visible=account.get("visible"),
        lost=account.get("lost"),
        duplicated=account.get("duplicated", 0),
        gaps=account.get("gaps", 0),
        lost_ids=tuple(account.get("lost_ids") or ())[:20],
        clean=account.get("clean"),
        hours=tuple(hours),
        needed=tuple(needed),
        forecast=found,
    )


def _idle(place: tuple[str, str]) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
    times = {f"{of}_p{part}": None for of in ("wait", "run") for part in (50, 95, 99)}
    return {"line": place[0], "queue": place[1], **nothing, **times}


def _totals(hourly: DataFrame) -> DataFrame:
    summed = hourly.groupBy("line", "queue").agg(
        *(F.sum(name).alias(name) for name in _COUNTS),
        merged(F.col("wait_sketch")).alias("wait"),
        merged(F.col("run_sketch")).alias("run"),
    )
    return summed.select(
        "line",
        "queue",
        *_COUNTS,
        *(
            percentile(F.col(of), part / 100).alias(f"{of}_p{part}")
            for of in ("wait", "run")
            for part in (50, 95, 99)
        ),
    )


def _ledgers(ledger: DataFrame) -> DataFrame:
    known = ("acknowledged", "terminal", "removed", "duplicated", "gaps")
    unknown = F.count_if(F.col("lost").isNull()) > 0
    return ledger.groupBy("line", "queue").agg(
        *(F.sum(name).alias(name) for name in known),
        *(F.when(~unknown, F.sum(name)).alias(name) for name in ("visible", "lost")),
        F.flatten(F.collect_list("lost_ids")).alias("lost_ids"),
        F.when(F.bool_and(F.coalesce("clean", F.lit(True))), F.when(~unknown, F.lit(True)))
        .otherwise(F.lit(False))
        .alias("clean"),
    )


def _by_worker(workers: DataFrame) -> DataFrame:
    sums = ("attempts", "completed", "failed", "stalled", "busy_ms")
    return workers.groupBy("line", "queue", "worker").agg(
        *(F.sum(name).alias(name) for name in sums),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
    )


def _rows(frame: DataFrame, order: Sequence[Any], most: int) -> tuple[dict[str, Any], ...]:
    found = frame.orderBy(*order).limit(most).collect()
    return tuple({name: _value(row[name]) for name in frame.columns} for row in found)


def _value(value: Any) -> Any:
    return utc(value) if isinstance(value, dt.datetime) else value


def _by_queue(
    rows: Sequence[dict[str, Any]],
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["line"], row["queue"]), []).append(row)
    return found
