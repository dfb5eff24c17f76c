"""Refresh of the gold tables and of the tables that single products have.

Most are kept by sums: what a batch has changed is added to them. The ledger is written for the
hours that are not settled, and what a waiting room learns from all of its visits as a whole. A
refresh that runs twice changes nothing.
"""

import datetime as dt

from pyspark.sql import DataFrame

from waystation.core.events import Product
from waystation.pipeline.gold.staffing import DEFAULT_TARGET_MS
from waystation.pipeline.history import History
from waystation.pipeline.products.waitingroom import (
    CALIBRATED_DAYS,
    ETA_CALIBRATION,
    FAIRNESS,
    VISITS,
    eta_calibration,
    fairness,
)
from waystation.pipeline.progress import NoProgress, Progress
from waystation.pipeline.refresh import gold_sums, stale_hours
from waystation.pipeline.refresh.checks import refresh_quality
from waystation.pipeline.refresh.cron_days import refresh_slots
from waystation.pipeline.refresh.fold import folded_version
from waystation.pipeline.refresh.ledger import refresh_ledger, unsettled
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.storage.task_files import replace
from waystation.pipeline.tables import EVENTS


def refresh(
    history: History,
    snapshot: Snapshot | None = None,
    *,
    target_ms: int = DEFAULT_TARGET_MS,
    everything: bool = False,
    progress: Progress | None = None,
) -> None:
    """Bring every gold table up to what silver holds.

    Without new events only the ledger is rewritten, for the snapshot; with `everything`, all are.
    """
    progress = progress or NoProgress()
    progress.begin("refreshing gold tables")
    folded = folded_version(history) or 0
    gold_sums.catch_up(history, target_ms=target_ms, everything=everything)
    stale = stale_hours.read(history.root, until=folded)
    hours = stale.hours
    refresh_slots(history, everything=everything)
    if _has_visitors(history, None if everything else hours):
        refresh_rooms(history, None if everything else hours)
    refresh_ledger(history, snapshot, _unsettled(history, hours))
    if hours or everything:
        # Last: it checks all others.
        refresh_quality(history, hours)
    stale_hours.clear(history.root, stale)


def _has_visitors(history: History, hours: Hours | None) -> bool:
    """Whether there are events of waiting rooms: ever, or in some hours."""
    if hours is not None and not hours:
        return False
    product = Product.WAITINGROOM.value
    days, path = None if hours is None else hours.days, EVENTS.path(history.root)
    return bool(delta.count(path, days=days, within=("product", product, product)))


def _unsettled(history: History, hours: Hours) -> Hours:
    """The hours that changed, and those that are not settled."""
    more = unsettled(history.root)
    # An item whose addition was not seen counts at the start of its day.
    days = {start.replace(hour=0) for start in hours.starts}
    return Hours(tuple(sorted({*hours.starts, *days, *more})))


_WAITS = ("queue", "ahead", "rate", "called_at", "gone_at", "waited_s", "outcome", "date")
"""Columns of a visit that tell how long it was estimated to wait, and how long it did."""
_CALLS = ("queue", "lane", "seq", "called_at", "call_order", "waited_s")
"""Columns of a visit that tell in which order it was admitted."""
_EVER = dt.datetime.fromtimestamp(0, dt.UTC)


def refresh_rooms(history: History, hours: Hours | None) -> None:
    """Write both tables anew, from the visits that these hours concern or from all."""
    root = history.root
    first = _EVER if hours is None else hours.bounds[0]
    with sized(history.spark, delta.count(VISITS.path(root))):
        since = None if hours is None else first.date()
        replace(_calibration(history, since), root, ETA_CALIBRATION)
        # Whoever is admitted in an hour may have overtaken visitors admitted in later ones.
        before = history.read(FAIRNESS).where(f"hour < timestamp_micros({_micros(first)})")
        admitted = history.rows_since(VISITS, "called_at", first, _CALLS)
        replace(fairness(admitted, before), root, FAIRNESS)


def _calibration(history: History, first: dt.date | None) -> DataFrame:
    """The calibration of rooms with visits about this day or later, and of the others as it was."""
    if first is None:
        return eta_calibration(history.read(VISITS, columns=_WAITS))
    weeks, days = dt.timedelta(days=CALIBRATED_DAYS), delta.days_of(VISITS.path(history.root))
    # Every ratio changes with the share of visitors who leave, and that with every visit.
    lately, before = ([day for day in days if day >= first - n * weeks] for n in (1, 2))
    rooms = history.read(VISITS, days=lately, columns=("queue",)).distinct()
    visits = history.read(VISITS, days=before, columns=_WAITS).join(rooms, "queue", "left_semi")
    others = history.read(ETA_CALIBRATION).join(rooms, "queue", "left_anti")
    return eta_calibration(visits).unionByName(others)


def _micros(instant: dt.datetime) -> int:
    return (instant - _EVER) // dt.timedelta(microseconds=1)
