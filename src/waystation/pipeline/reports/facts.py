"""The data of a report, read from the gold tables."""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from waystation.pipeline.deploys import Deploy, deploys
from waystation.pipeline.feedback import backlogs
from waystation.pipeline.gold.forecast import SLOT_S, Forecast, forecast
from waystation.pipeline.histograms import percentile, summed
from waystation.pipeline.history import History, utc
from waystation.pipeline.products.bullmq import TENANTS, TURNS
from waystation.pipeline.refresh.ledger import MOST_IDS
from waystation.pipeline.refresh.quality import Check, last_checks
from waystation.pipeline.reports.parts import verdict
from waystation.pipeline.reports.receipt import TenantsReport, tenant_reports
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.tables import (
    CAPACITY,
    EVENTS,
    FAILURES,
    GAPS,
    HOURLY,
    LEDGER,
    WORKERS,
    Table,
)

MOST_FAILURES = 15
MOST_WORKERS = 50
MOST_GAPS = 50
MOST_QUEUES = 12
"""Queues with charts: the busiest ones."""
MOST_HOURS = 14 * 24
"""Hours that attempts and their times are counted from."""
SPAN = f"in the last {MOST_HOURS // 24} days"

_COUNTS = ("added", "started", "completed", "failed", "retried", "stalled")


class QueueReport(msgspec.Struct, frozen=True, kw_only=True):
    """One queue over all hours of a report."""

    product: str
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
    failures_in_all: int = 0
    """Kinds of failure, of which `failures` are the most frequent."""
    workers_in_all: int = 0
    gaps_in_all: int = 0
    tenants: tuple[TenantsReport, ...] = ()
    """What tenants were served, of the queues in which they take turns."""
    deploys: tuple[Deploy, ...] = ()
    """The deploys that were marked, the oldest first."""

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
    recent = _recent(now)
    turns = (_rows(history, table, "hour", where=recent) for table in (TENANTS, TURNS))
    events = delta.summary(EVENTS.path(history.root), counted="_corrupt", spanned="at")
    failures, gaps = _rows(history, FAILURES, "attempts"), _rows(history, GAPS, "before_at")
    workers = _by_worker(_rows(history, WORKERS, "hour"))
    return Report(
        made_at=now,
        events=events.rows,
        corrupt=events.counted,
        first_at=events.least,
        last_at=events.most,
        queues=tuple(_queues(history, now)),
        failures=failures[:MOST_FAILURES],
        workers=tuple(workers[:MOST_WORKERS]),
        gaps=gaps[:MOST_GAPS],
        failures_in_all=len(failures),
        workers_in_all=len(workers),
        gaps_in_all=len(gaps),
        checks=tuple(last_checks(history.root)),
        tenants=tuple(tenant_reports(*turns)),
        deploys=tuple(deploys(history.root)),
    )


def _queues(history: History, now: dt.datetime) -> list[QueueReport]:
    recent = _recent(now)
    hourly = _by_queue(reversed(_rows(history, HOURLY, "hour", where=recent)))
    rows = sorted(
        (_total(place, hours) for place, hours in hourly.items()), key=lambda row: -row["started"]
    )
    with_charts = {(row["product"], row["queue"]) for row in rows[:MOST_QUEUES]}
    ledgers = {
        place: _account(hours) for place, hours in _by_queue(_rows(history, LEDGER, "hour")).items()
    }
    busy = {(row["product"], row["queue"]) for row in rows}
    # Waiting rooms have no jobs, and a stream of many queues belongs to none of them.
    rows += [_idle(place) for place in sorted(ledgers.keys() - busy)]
    needed = _by_queue(reversed(_rows(history, CAPACITY, "hour", where=recent)))
    series = backlogs(history, now)
    return [
        _facts(
            row,
            ledgers.get(place, {}),
            [_without_histograms(hour) for hour in hourly[place]] if place in with_charts else [],
            needed.get(place, []) if place in with_charts else [],
            forecast(series[place], seconds=SLOT_S) if place in series else None,
        )
        for row in rows
        for place in [(row["product"], row["queue"])]
    ]


def _recent(now: dt.datetime) -> Any:
    # Clocks may be wrong by years.
    first, last = now - dt.timedelta(hours=MOST_HOURS), now + dt.timedelta(days=1)
    return (pc.field("hour") > first) & (pc.field("hour") < last)


def _facts(
    row: dict[str, Any],
    account: dict[str, Any],
    hours: Sequence[dict[str, Any]],
    needed: Sequence[dict[str, Any]],
    found: Forecast | None,
) -> QueueReport:
    return QueueReport(
        product=row["product"],
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
        lost_ids=tuple(account.get("lost_ids") or ())[:MOST_IDS],
        clean=account.get("clean"),
        hours=tuple(hours),
        needed=tuple(needed),
        forecast=found,
    )


def _idle(place: tuple[str, str]) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
    times = {f"{of}_p{part}": None for of in ("wait", "run") for part in (50, 95, 99)}
    return {"product": place[0], "queue": place[1], **nothing, **times}


def _total(place: tuple[str, str], hours: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The hours of one queue together."""
    counts = {name: sum(hour[name] for hour in hours) for name in _COUNTS}
    times = {
        f"{of}_p{part}": percentile(histogram, part / 100)
        for of in ("wait", "run")
        for histogram in [summed(hour[f"{of}_histogram"] for hour in hours)]
        for part in (50, 95, 99)
    }
    return {"product": place[0], "queue": place[1], **counts, **times}


def _without_histograms(hour: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in hour.items() if not name.endswith("_histogram")}


def _account(hours: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The ledger of one queue over all hours."""
    known = ("acknowledged", "terminal", "removed", "duplicated", "gaps")
    unknown = any(hour["lost"] is None for hour in hours)
    is_clean = all(hour["clean"] is not False for hour in hours)
    return {
        **{name: sum(hour[name] for hour in hours) for name in known},
        **{
            name: None if unknown else sum(hour[name] for hour in hours)
            for name in ("visible", "lost")
        },
        "lost_ids": [each for hour in hours for each in hour["lost_ids"]],
        "clean": (None if unknown else True) if is_clean else False,
    }


def _by_worker(hours: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each worker, the one seen last first."""
    sums = ("attempts", "completed", "failed", "stalled", "busy_ms")
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for hour in hours:
        found.setdefault((hour["product"], hour["queue"], hour["worker"]), []).append(hour)
    rows = [
        {
            **dict(zip(("product", "queue", "worker"), worker, strict=True)),
            **{name: sum(hour[name] for hour in theirs) for name in sums},
            "first_at": min(hour["first_at"] for hour in theirs),
            "last_at": max(hour["last_at"] for hour in theirs),
        }
        for worker, theirs in found.items()
    ]
    return sorted(rows, key=lambda row: row["last_at"], reverse=True)


def _rows(history: History, table: Table, by: str, where: Any = None) -> tuple[dict[str, Any], ...]:
    """Rows of a gold table, the greatest first."""
    found = delta.read_arrow(history.root, table, table.names, where)
    rows = found.sort_by([(by, "descending")]).to_pylist()
    return tuple({name: _value(value) for name, value in row.items()} for row in rows)


def _value(value: Any) -> Any:
    return utc(value) if isinstance(value, dt.datetime) else value


def _by_queue(
    rows: Iterable[dict[str, Any]],
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["product"], row["queue"]), []).append(row)
    return found
