"""Incremental fold of bronze into silver; the steps of open work carry over to the next fold.

The result is the same as folding all of bronze at once: an end is final until another event of the
subject arrives; then its old row is taken back and its steps are read from bronze again.
"""

import datetime as dt
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from waystation.core.events import Line
from waystation.pipeline.gold.ledger import ARRIVAL
from waystation.pipeline.history import History, frames_of
from waystation.pipeline.hours import Hours
from waystation.pipeline.products.facts import HistoryFrames
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.silver import attempts as attempts_fold
from waystation.pipeline.silver import items as items_fold
from waystation.pipeline.silver.failed_items import failed_items
from waystation.pipeline.silver.items import HAS_ENDED
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS, STEPS
from waystation.pipeline.silver.steps import SUBJECT, steps, with_lives
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.sql import Frame, query, quoted, to_arrow
from waystation.pipeline.tables import ATTEMPTS, EVENTS, FAILED_ITEMS, ITEMS, Table

APPLICATION = "silver"

LIFE = (*SUBJECT, "life")
_SAME = (*SUBJECT, "last_told_at", "state", "attempts", "duplicates")
"""Columns that identify one version of an item's row, and of its rows in `failed_items`."""

_KNOWN = (*_SAME, "added_at", "date", "fingerprint")
"""Columns of an ended item that are needed to take it back."""


def _using(*columns: str) -> str:
    return f"using ({', '.join(columns)})"


# The subjects whose first new step is no birth, and which are not open.
_RETURNED = f"""
with first_steps as (
    select line, queue, subject,
           min_by(birth, struct(told_at, seq)) as birth,
           min(told_at) as heard_at
    from {{new}}
    group by line, queue, subject
), carried as (
    select distinct line, queue, subject from {{carried}}
)
select first_steps.line, first_steps.queue, first_steps.subject, heard_at
from first_steps anti join carried {_using(*SUBJECT)}
where not birth
"""

# The newest life, as it was before this batch: after an interruption its new row may be there, too.
_BACK = """
with known as (
    select items.line, items.queue, items.subject, added_at, `date`, last_told_at, state, attempts,
           duplicates, fingerprint, heard_at,
           first_value(added_at) over (partition by items.line, items.queue, items.subject
                                       order by last_told_at desc) as newest
    from {items} as items
    join {returned} as returned
      on items.line = returned.line and items.queue = returned.queue
         and items.subject = returned.subject
    where last_told_at <= heard_at
), versions as (
    select *, row_number() over (partition by line, queue, subject
                                 order by last_told_at, attempts, duplicates) as turn
    from known
    where added_at is not distinct from newest
)
select line, queue, subject, added_at, `date`, last_told_at, state, attempts, duplicates,
       fingerprint, heard_at
from versions where turn = 1
"""

# From the birth of the life on, by the order of the stream: clocks may differ.
_STEPS_AGAIN = f"""
with mine as (
    select steps.*, added_at, struct(steps.told_at, steps.seq) as place
    from {{steps}} as steps
    join {{back}} as back on steps.line = back.line and steps.queue = back.queue
                             and steps.subject = back.subject
    where steps.told_at <= heard_at
), births as (
    select line, queue, subject, min(place) as born
    from mine
    where birth and `at` = added_at
    group by line, queue, subject
)
select {", ".join(f"mine.`{name}`" for name in STEPS.names)}
from mine
left join births on mine.line = births.line and mine.queue = births.queue
                    and mine.subject = births.subject
anti join {{new}} as new on mine.line = new.line and mine.queue = new.queue
                            and mine.subject = new.subject and mine.told_at = new.told_at
                            and mine.seq = new.seq
where added_at is null or place >= born or (born is null and mine.`at` >= added_at)
"""

_ENDED = f"select * from {{items}} where {HAS_ENDED}"
_UNFINISHED = f"select * from {{items}} where not ({HAS_ENDED})"
_WAITING = f"select line, queue, subject, life from {{items}} where not ({HAS_ENDED})"
_THEIRS = f"select * from {{rows}} semi join {{lives}} {_using(*LIFE)}"
_OTHERS = f"select * from {{rows}} anti join {{others}} {_using(*_SAME)}"

_HAVE_FAILED = "select * from {items} where fingerprint is not null"

# Attempts without those that were stored when their life ended before.
_NOT_KEPT_BEFORE = """
with same as (
    select ended.line, ended.queue, ended.subject, life, back.attempts as kept
    from {ended} as ended
    join {back} as back on ended.line = back.line and ended.queue = back.queue
                           and ended.subject = back.subject
    where ended.added_at is not distinct from back.added_at
)
select finished.*
from {finished} as finished
left join same on finished.line = same.line and finished.queue = same.queue
                  and finished.subject = same.subject and finished.life = same.life
where kept is null or attempt > kept
"""

# The attempts of lives that had ended and are open again.
_OF_REOPENED = f"""
with again as (
    select * from {{waiting}} semi join {{back}} {_using(*SUBJECT)}
)
select * from {{tried}} semi join again {_using(*LIFE)}
"""

# The hours of the new steps, of every attempt that they may have ended, and of what visitors did.
_TOUCHED = f"""
select distinct unix_seconds(date_trunc('hour', `at`)) as start
from (select `at` from {{new}} union all select started_at as `at` from {{tried}}
      union all select `at` from {{events}} where line = {quoted(Line.WAITINGROOM.value)})
"""

# The hours in which the items taken back were added: the ledger has counted them as ended.
_ARRIVALS = f"select distinct unix_seconds({ARRIVAL}) as start from {{back}}"


class Folded(msgspec.Struct, frozen=True):
    """The result of a fold."""

    version: int
    """The version of bronze that is folded now."""
    hours: Hours
    """The hours that have changed."""


def folded_version(history: History) -> int | None:
    """The version of bronze that silver was folded from; None before the first fold."""
    return delta.last_batch(STEPS.path(history.root), APPLICATION)


def fold_up_to(history: History, before: int | None, newest: int) -> Folded:
    """Fold the events after one version of bronze and up to another in this process."""
    place = EVENTS.path(history.root)
    files = changes.new_files(place, after=before, until=newest)
    batch = BatchId(APPLICATION, newest)
    carried = delta.count(STEPS.path(history.root))
    if not files:
        unchanged = frames_of(history, rows=carried).read(STEPS)
        delta.save(unchanged, history.root, STEPS, batch, replace=True)
        return Folded(newest, Hours())
    frames = frames_of(history, rows=carried + sum(each.rows for each in files))
    events = delta.read_files(place, EVENTS, [each.path for each in files])
    with _persisted(steps(events)) as new:
        return _fold(frames, history.root, events, new, batch)


def _fold(frames: HistoryFrames, root: str, events: Frame, new: Frame, batch: BatchId) -> Folded:
    carried = frames.read(STEPS)
    back = _taken_back(frames, new, carried)
    before = [carried] if back is None else [carried, _steps_again(frames, back, new)]
    with (
        _persisted(with_lives(_joined(*before, new))) as all_steps,
        _persisted(attempts_fold.attempts(all_steps)) as tried,
        _persisted(items_fold.items(all_steps, tried)) as items,
    ):
        hours = _touched(events, new, tried, back)
        # Recorded first: after an interruption the gold tables are still refreshed.
        stale_hours.record(root, batch.batch, hours)
        ended, waiting = query(_ENDED, items=items), query(_WAITING, items=items)
        fresh, finished = ended, query(_THEIRS, rows=tried, lives=ended)
        if back is not None:
            fresh = query(_OTHERS, rows=ended, others=back)
            finished = query(_NOT_KEPT_BEFORE, finished=finished, ended=ended, back=back)
        delta.save(finished, root, ATTEMPTS, batch)
        delta.save(fresh, root, ITEMS, batch)
        delta.save(failed_items(tried, fresh), root, FAILED_ITEMS, batch)
        if back is not None:
            # Items last: while an item's old row is there, all of this can be repeated.
            _drop(root, ATTEMPTS, query(_OF_REOPENED, tried=tried, waiting=waiting, back=back))
            outdated = query(_OTHERS, rows=back, others=ended)
            _drop(root, FAILED_ITEMS, query(_HAVE_FAILED, items=outdated))
            _drop(root, ITEMS, outdated)
        _save_open(root, tried, items, batch)
        # Last: this commit makes the batch count as folded.
        still = query(_THEIRS, rows=all_steps, lives=waiting)
        delta.save(still, root, STEPS, batch, replace=True)
    return Folded(batch.batch, hours)


def _save_open(root: str, tried: Frame, items: Frame, batch: BatchId) -> None:
    unfinished = query(_UNFINISHED, items=items)
    theirs = query(_THEIRS, rows=tried, lives=unfinished)
    delta.save(theirs, root, OPEN_ATTEMPTS, batch, replace=True)
    delta.save(failed_items(tried, unfinished), root, OPEN_FAILURES, batch, replace=True)
    delta.save(unfinished, root, OPEN_ITEMS, batch, replace=True)


def complete_open(root: str, batch: BatchId) -> None:
    """Store open work as rows where an older version has left only its steps."""
    if not DeltaTable.is_deltatable(OPEN_ITEMS.path(root)):
        known = with_lives(delta.read_arrow(root, STEPS, STEPS.names))
        tried = attempts_fold.attempts(known)
        _save_open(root, tried, items_fold.items(known, tried), batch)


def _taken_back(frames: HistoryFrames, new: Frame, carried: Frame) -> Any:
    """The rows of ended items that have new events, as they were before this batch."""
    returned = to_arrow(query(_RETURNED, new=new, carried=carried))
    if not returned.num_rows:
        return None
    known = frames.rows_about(ITEMS, returned["subject"].to_pylist(), _KNOWN)
    back = to_arrow(query(_BACK, items=known, returned=returned))
    return back if back.num_rows else None


def _steps_again(frames: HistoryFrames, back: Any, new: Frame) -> Frame:
    """The steps of the items taken back, from bronze."""
    first_day = pc.min(back["date"]).as_py() - dt.timedelta(days=1)
    events = frames.events_about(back["subject"].to_pylist(), first_day)
    return query(_STEPS_AGAIN, steps=steps(events), back=back, new=new)


def _joined(*parts: Frame) -> Frame:
    """The rows of all parts."""
    columns = ", ".join(f"`{name}`" for name in STEPS.names)
    text = " union all ".join(f"select {columns} from {{part{n}}}" for n in range(len(parts)))
    return query(text, **{f"part{n}": part for n, part in enumerate(parts)})


def _touched(events: Frame, new: Frame, tried: Frame, back: Any) -> Hours:
    found = query(_TOUCHED, events=events, new=new, tried=tried)
    starts = set(to_arrow(found)["start"].to_pylist())
    if back is not None:
        starts |= set(to_arrow(query(_ARRIVALS, back=back))["start"].to_pylist())
    return Hours(tuple(dt.datetime.fromtimestamp(each, dt.UTC) for each in sorted(starts)))


def _drop(root: str, table: Table, rows: Frame) -> None:
    """Delete rows that newer ones replace, or whose items are open again."""
    known_by = table.key if table is ATTEMPTS else _SAME
    keys = to_arrow(rows.select(list(dict.fromkeys((*known_by, "date")))))
    if keys.num_rows:
        delta.delete_rows(root, table, keys)


@contextmanager
def _persisted(rows: Frame) -> Generator[Frame]:
    if not isinstance(rows, DataFrame):
        yield rows
        return
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
