"""Slots of the last day, the only ones that forecasts need."""

import datetime as dt

from deltalake import DeltaTable

from waystation.pipeline.hours import Hours
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import Summary
from waystation.pipeline.tables import SLOTS

_DAY = dt.timedelta(hours=26)
"""A day, and the hours that it begins and ends in."""


def stale(root: str, hours: Hours) -> Hours:
    """The hours of the last day whose slots must be counted; without a table, all of them."""
    if not hours:
        return hours
    known = _known(root)
    newest = _not_future(max(max(hours.starts), known.most or hours.starts[0]))
    if known.rows or DeltaTable.is_deltatable(SLOTS.path(root)):
        return Hours(tuple(each for each in hours.starts if each >= newest - _DAY))
    many = _DAY // dt.timedelta(hours=1)
    return Hours(tuple(newest - dt.timedelta(hours=n) for n in reversed(range(many))))


def drop_old(root: str) -> None:
    """Delete slots that no forecast looks at, once there is a day of them."""
    known = _known(root)
    if not known.rows:
        return
    first = _not_future(known.most) - _DAY
    if known.least < first - _DAY:
        delta.delete_where(root, SLOTS, f"hour < '{first.isoformat()}'")


def _known(root: str) -> Summary:
    return delta.summary(SLOTS.path(root), counted="hour", spanned="hour")


def _not_future(hour: dt.datetime) -> dt.datetime:
    """The hour, or the present one if its clock was wrong."""
    return min(hour, dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0))
