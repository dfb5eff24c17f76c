"""What waiting rooms learn from visits: how far estimates were off, and how fair they were."""

import datetime as dt

from waystation.pipeline.history import History
from waystation.pipeline.hours import Hours
from waystation.pipeline.products.waitingroom import (
    ETA_CALIBRATION,
    FAIRNESS,
    VISITS,
    eta_calibration,
    fairness,
)
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.replaced import replace
from waystation.pipeline.storage.sessions import sized

_WAITS = ("queue", "ahead", "rate", "called_at", "gone_at", "waited_s", "outcome")
"""Columns of a visit that tell how long it was estimated to wait, and how long it did."""
_CALLS = ("queue", "lane", "seq", "called_at", "call_order", "waited_s")
"""Columns of a visit that tell in which order it was admitted."""
_EVER = dt.datetime.fromtimestamp(0, dt.UTC)


def refresh_rooms(history: History, hours: Hours | None) -> None:
    """Write both tables anew, from the visits since the first of these hours or from all."""
    root = history.root
    with sized(history.spark, delta.count(VISITS.path(root))):
        # Every ratio changes with the share of visitors who leave, and that with every visit.
        replace(eta_calibration(history.read(VISITS, columns=_WAITS)), root, ETA_CALIBRATION)
        # Whoever is admitted in an hour may have overtaken visitors admitted in later ones.
        first = _EVER if hours is None else hours.bounds[0]
        if delta.count(FAIRNESS.path(root)) != delta.count(FAIRNESS.path(root), of="seq_most"):
            # The rows are of an older version.
            first = _EVER
        before = history.read(FAIRNESS).where(f"hour < timestamp_micros({_micros(first)})")
        admitted = history.rows_since(VISITS, "called_at", first, _CALLS)
        replace(fairness(admitted, before), root, FAIRNESS)


def _micros(instant: dt.datetime) -> int:
    return (instant - _EVER) // dt.timedelta(microseconds=1)
