"""Incremental fold of a product's events into one row for each of its subjects.

A row is what the events of a subject add up to, so that new events are merged with it, and older
ones are not read again. The commit that replaces rows also notes how far bronze was read.
"""

import datetime as dt
from collections.abc import Iterator
from typing import Any

from waystation.pipeline.gold.ledger import ARRIVAL
from waystation.pipeline.history import ArrowFrames, History, frames_of
from waystation.pipeline.hours import Hours
from waystation.pipeline.products.facts import FoldedTable
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.silver.items import HAS_ENDED
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.sql import Frame, conform, query, to_arrow
from waystation.pipeline.tables import EVENTS, Table

APPLICATION = "subjects"

# The ledger does not look at hours again in which everything has ended.
_SETTLED = f"select distinct unix_seconds({ARRIVAL}) as start from {{rows}} where {HAS_ENDED}"


def fold_subjects(history: History, folded: FoldedTable, newest: int) -> None:
    """Merge the events of bronze up to a version with the rows of a table."""
    root, table, batch = history.root, folded.table, BatchId(APPLICATION, newest)
    before = delta.last_batch(table.path(root), APPLICATION)
    if before is not None and before >= newest:
        return
    told = _told(history, folded, before, newest)
    if told is not None and told.num_rows:
        rows, days = _merged(history, folded, told, newest)
        delta.replace_days(root, table, rows, days, batch)
    elif told is not None or before is not None:
        delta.commit(table.path(root), table.schema, [], batch, partitions=table.partitions)


def _told(history: History, folded: FoldedTable, before: int | None, newest: int) -> Any:
    """The new events as one row for each subject; None when there is no file to look into."""
    place = EVENTS.path(history.root)
    others = delta.names_without(place, "line", folded.line.value)
    new = changes.new_files(place, after=before, until=newest)
    files = [each for each in new if each.path not in others]
    if not files:
        return None
    names = [each.path for each in files]
    if isinstance(frames_of(history, rows=sum(each.rows for each in files)), History):
        events: Frame = delta.read_with_spark(history.spark, place, EVENTS, names)
    else:
        events = delta.read_files(place, EVENTS, names)
    return conform(folded.merged(folded.told(events)), folded.table.schema)


def _merged(
    history: History, folded: FoldedTable, told: Any, newest: int
) -> tuple[Frame, list[dt.date]]:
    """All rows of the days of these subjects, and the days."""
    root, table = history.root, folded.table
    days = sorted({*_known_days(root, folded, told), *told["date"].to_pylist()})
    there = ArrowFrames(root).read(table, days=days)
    is_touched = pc.is_in(there["subject"], pc.unique(told["subject"]))
    touched = there.filter(is_touched)
    if folded.accounts is not None:
        _record_settled(root, table, folded.accounts(touched), newest)
    fresh = conform(folded.merged(pa.concat_tables([touched, told])), table.schema)
    return pa.concat_tables([there.filter(pc.invert(is_touched)), fresh]), days


def _known_days(root: str, folded: FoldedTable, told: Any) -> Iterator[dt.date]:
    """The days of the rows that new ones continue.

    Most are recent, so the newest days are looked at first, and then twice as many each time.
    """
    table = folded.table
    text = f"select distinct queue, subject from {{told}} where {folded.continues}"
    left = _subjects(to_arrow(query(text, told=told)))
    days, many = sorted(delta.days_of(table.path(root)), reverse=True), 1
    while left and days:
        some, days, many = days[:many], days[many:], 2 * many
        ids = sorted({subject for _, subject in left})
        found = ArrowFrames(root).rows_about(table, ids, ("queue", "subject", "date"), days=some)
        # The same id may be that of another one in another queue; some events have no queue.
        left -= {each for queue, id in _subjects(found) for each in ((queue, id), ("", id))}
        yield from pc.unique(found["date"]).to_pylist()


def _subjects(rows: Any) -> set[tuple[str, str]]:
    return set(zip(rows["queue"].to_pylist(), rows["subject"].to_pylist(), strict=True))


def _record_settled(root: str, table: Table, accounts: Frame, newest: int) -> None:
    """Record the hours that the ledger must look at again."""
    starts = to_arrow(query(_SETTLED, rows=accounts))["start"].to_pylist()
    if starts:
        # Recorded first, as every fold does.
        hours = Hours(tuple(dt.datetime.fromtimestamp(each, dt.UTC) for each in sorted(starts)))
        stale_hours.record(root, newest, hours, of=f"-{table.name}")
