"""Tables that are computed day by day from others, for the days that have changed in these.

A commit notes the versions of the other tables that it was computed from.
"""

import datetime as dt
from collections.abc import Sequence

from waystation.pipeline.history import History, frames_of
from waystation.pipeline.products.facts import DayTable
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.sql import Frame
from waystation.pipeline.tables import Table


def refresh_days(history: History, each: DayTable, *, everything: bool = False) -> None:
    """Compute the days again whose rows in the other tables have changed, or all days."""
    root = history.root
    newest: list[BatchId] = []
    for source in _sources(each):
        version = changes.version(source.path(root))
        if version is None:
            return
        newest.append(BatchId(source.name, version))
    days = None if everything else _changed_days(root, each, newest)
    if days == []:
        return
    delta.replace_days(root, each.table, _rows(history, each, days), days, *newest)


def _sources(each: DayTable) -> list[Table]:
    return [each.source, *(table for table, _ in each.others)]


def _changed_days(root: str, each: DayTable, newest: Sequence[BatchId]) -> list[dt.date] | None:
    """The days that have changed in one of the other tables; None: all may have."""
    found: set[dt.date] = set()
    for source, (name, version) in zip(_sources(each), newest, strict=True):
        before = delta.last_batch(each.table.path(root), name)
        days = changes.changed_days(source.path(root), after=before, until=version)
        if days is None:
            return None
        found.update(days)
    return sorted(found)


def _rows(history: History, each: DayTable, days: Sequence[dt.date] | None) -> Frame:
    own = delta.count(each.source.path(history.root), days=days)
    # Nothing can be joined with days that the source does not have.
    joined = days if own else ()
    others = (delta.count(table.path(history.root), days=joined) for table, _ in each.others)
    frames = frames_of(history, rows=own + sum(others))
    return each.rows(
        frames.read(each.source, days=days),
        *(frames.read(table, days=joined, columns=columns) for table, columns in each.others),
    )
