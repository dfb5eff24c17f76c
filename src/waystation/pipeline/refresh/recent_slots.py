"""Slots of the last day, the only ones that forecasts need."""

import datetime as dt

from deltalake import DeltaTable

from waystation.pipeline.gold.forecast import LAST_DAY, first_slot
from waystation.pipeline.hours import Hours
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.delta import Summary
from waystation.pipeline.tables import SLOTS


def stale(root: str, hours: Hours) -> Hours:
    """The hours of the last day whose slots must be counted; without a table, all of them."""
    if not hours:
        return hours
    known = _known(root)
    first = first_slot(max(max(hours.starts), known.most or hours.starts[0]))
    if known.rows or DeltaTable.is_deltatable(SLOTS.path(root)):
        return Hours(tuple(each for each in hours.starts if each >= first))
    many = LAST_DAY // dt.timedelta(hours=1)
    return Hours(tuple(first + dt.timedelta(hours=n + 1) for n in range(many)))


def drop_old(root: str) -> None:
    """Delete slots that no forecast looks at, once there is a day of them."""
    known = _known(root)
    if not known.rows:
        return
    first = first_slot(known.most)
    if known.least < first - LAST_DAY:
        delta.delete_where(root, SLOTS, f"hour < '{first.isoformat()}'")


def _known(root: str) -> Summary:
    return delta.summary(SLOTS.path(root), counted="hour", spanned="hour")
