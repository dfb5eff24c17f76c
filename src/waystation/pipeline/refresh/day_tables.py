"""Tables that are computed day by day from another table, for the days that have changed in it.

A commit notes the version of the other table that it was computed from.
"""

from waystation.pipeline.history import History, frames_of
from waystation.pipeline.products.facts import DayTable
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.delta import BatchId


def refresh_days(history: History, each: DayTable, *, everything: bool = False) -> None:
    """Compute the days again whose rows in the other table have changed, or all days."""
    root, source = history.root, each.source
    path = source.path(root)
    newest = changes.version(path)
    before = None if everything else delta.last_batch(each.table.path(root), source.name)
    if newest is None or before == newest:
        return
    days = changes.changed_days(path, after=before, until=newest)
    if days == []:
        return
    frames = frames_of(history, rows=delta.count(path, days=days))
    rows = each.rows(frames.read(source, days=days))
    delta.replace_days(root, each.table, rows, days, BatchId(source.name, newest))
