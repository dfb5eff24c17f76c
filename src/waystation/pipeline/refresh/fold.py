"""Incremental fold of bronze into silver; the steps of open work carry over to the next fold.

The result is the same as folding all of bronze at once: an end is final until another event of the
subject arrives; then its old row is taken back and its steps are read from bronze again.
"""

import datetime as dt
from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.history import History
from waystation.pipeline.hours import Hours
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.silver import attempts as attempts_fold
from waystation.pipeline.silver import items as items_fold
from waystation.pipeline.silver.moves import ENDED, STEPS
from waystation.pipeline.silver.steps import ORDER, SUBJECT, steps, with_lives
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table

APPLICATION = "silver"

LIFE = (*SUBJECT, "life")
_SAME = [*SUBJECT, "last_told_at", "state", "attempts", "duplicates"]
"""Columns that identify one version of an item's row."""


class Folded(msgspec.Struct, frozen=True):
    """The result of a fold."""

    version: int
    """The version of bronze that is folded now."""
    hours: Hours
    """The hours that have changed."""


def folded_version(history: History) -> int | None:
    """The version of bronze that silver was folded from; None before the first fold."""
    return delta.last_batch(STEPS.path(history.root), APPLICATION)


def fold(history: History) -> Folded | None:
    """Fold the new events of bronze; None when there are none."""
    newest = changes.version(EVENTS.path(history.root))
    if newest is None:
        return None
    before, begun = folded_version(history), _begun(history)
    if begun is not None and (before is None or begun > before):
        # An interrupted fold must be finished as it was begun: part of it is stored already.
        finished = _fold_up_to(history, before, begun)
        return _fold_up_to(history, begun, newest) if newest > begun else finished
    return _fold_up_to(history, before, newest) if before is None or newest > before else None


def _begun(history: History) -> int | None:
    """The newest version of bronze that a table of silver was folded from."""
    places = (table.path(history.root) for table in (ATTEMPTS, ITEMS))
    found = [delta.last_batch(place, APPLICATION) for place in places]
    return max((each for each in found if each is not None), default=None)


def _fold_up_to(history: History, before: int | None, newest: int) -> Folded:
    place = EVENTS.path(history.root)
    files = changes.new_files(place, after=before, until=newest)
    batch = BatchId(APPLICATION, newest)
    if not files:
        delta.save(history.read(STEPS), history.root, STEPS, batch, replace=True)
        return Folded(newest, Hours())
    events = history.spark.read.schema(EVENTS.schema).option("basePath", place).parquet(*files)
    with _persisted(steps(events)) as new:
        return _fold(history, new, batch)


def _fold(history: History, new: DataFrame, batch: BatchId) -> Folded:
    carried = history.read(STEPS)
    back = _taken_back(history, new, carried)
    before = carried if back is None else carried.unionByName(_steps_again(history, back, new))
    with (
        _persisted(with_lives(before.unionByName(new))) as all_steps,
        _persisted(attempts_fold.attempts(all_steps)) as tried,
        _persisted(items_fold.items(all_steps, tried)) as items,
    ):
        hours = _touched(new, tried)
        # Recorded first: after an interruption the gold tables are still refreshed.
        stale_hours.record(history.root, batch.batch, hours)
        ended = items.where(F.col("state").isin(*ENDED))
        waiting = items.where(~F.col("state").isin(*ENDED)).select(*LIFE)
        fresh, finished = ended, tried.join(ended.select(*LIFE), list(LIFE), "left_semi")
        if back is not None:
            fresh = ended.join(back, _SAME, "left_anti")
            finished = _not_kept_before(finished, ended, back)
        delta.save(finished, history.root, ATTEMPTS, batch)
        delta.save(fresh, history.root, ITEMS, batch)
        if back is not None:
            # Attempts first: while an item's old row is there, all of this can be repeated.
            _drop(history, ATTEMPTS, _of_reopened(tried, waiting, back))
            _drop(history, ITEMS, back.join(ended, _SAME, "left_anti"))
        # Last: this commit makes the batch count as folded.
        still = all_steps.join(waiting, list(LIFE), "left_semi")
        delta.save(still, history.root, STEPS, batch, replace=True)
    return Folded(batch.batch, hours)


def _taken_back(history: History, new: DataFrame, carried: DataFrame) -> DataFrame | None:
    """The rows of ended items that have new events, as they were before this batch."""
    first = F.min_by(F.struct("birth", "told_at"), F.struct("told_at", "seq"))
    returned = delta.to_arrow(
        new.groupBy(*SUBJECT)
        .agg(first.alias("first"))
        .where(~F.col("first.birth"))
        .join(carried.select(*SUBJECT).distinct(), list(SUBJECT), "left_anti")
        .select(*SUBJECT, F.col("first.told_at").alias("heard_at"))
    )
    if not returned.num_rows:
        return None
    known = history.read(ITEMS).join(history.spark.createDataFrame(returned), list(SUBJECT))
    columns = F.struct("added_at", "date", *_SAME[len(SUBJECT) :])
    back = delta.to_arrow(
        known.where(F.col("last_told_at") <= F.col("heard_at"))
        .groupBy(*SUBJECT, "heard_at")
        .agg(F.max_by(columns, "last_told_at").alias("row"))
        .select(*SUBJECT, "row.*", "heard_at")
    )
    return history.spark.createDataFrame(back) if back.num_rows else None


def _steps_again(history: History, back: DataFrame, new: DataFrame) -> DataFrame:
    """The steps of the items taken back, from bronze."""
    first_day = back.agg(F.min("date").alias("day")).collect()[0]["day"]
    mine = back.select(*SUBJECT, F.col("added_at").alias("since"), "heard_at")
    is_mine = F.col("since").isNull() | (F.col("at") >= F.col("since"))
    return (
        steps(history.events().where(F.col("date") >= first_day - dt.timedelta(days=1)))
        .join(F.broadcast(mine), list(SUBJECT))
        .where(is_mine & (F.col("told_at") <= F.col("heard_at")))
        .join(new.select(*SUBJECT, *ORDER), [*SUBJECT, *ORDER], "left_anti")
        .select(*STEPS.names)
    )


def _not_kept_before(finished: DataFrame, ended: DataFrame, back: DataFrame) -> DataFrame:
    """Attempts without those that were stored when their life ended before."""
    was = back.select(
        *SUBJECT, F.col("added_at").alias("was_added"), F.col("attempts").alias("kept")
    )
    lives = ended.select(*LIFE, "added_at").join(was, list(SUBJECT))
    same = lives.where(F.col("added_at").eqNullSafe(F.col("was_added"))).select(*LIFE, "kept")
    return finished.join(same, list(LIFE), "left").where(
        F.col("kept").isNull() | (F.col("attempt") > F.col("kept"))
    )


def _of_reopened(tried: DataFrame, waiting: DataFrame, back: DataFrame) -> DataFrame:
    """The attempts of lives that had ended and are open again."""
    again = waiting.join(back.select(*SUBJECT).distinct(), list(SUBJECT), "left_semi")
    return tried.join(again, list(LIFE), "left_semi")


def _touched(new: DataFrame, tried: DataFrame) -> Hours:
    """The hours of the new steps, and of every attempt that they may have ended."""
    instants = new.select("at").union(tried.select("started_at"))
    hours = instants.select(F.unix_seconds(F.date_trunc("hour", "at")).alias("hour")).distinct()
    starts = sorted(row["hour"] for row in hours.collect())
    return Hours(tuple(dt.datetime.fromtimestamp(each, dt.UTC) for each in starts))


def _drop(history: History, table: Table, rows: DataFrame) -> None:
    """Delete rows that newer ones replace, or whose items are open again."""
    by = list(dict.fromkeys((*_SAME, "date") if table is ITEMS else (*table.key, "date")))
    keys = delta.to_arrow(rows.select(*by))
    if not keys.num_rows:
        return
    same = " AND ".join(f"t.{name} = o.{name}" for name in by)
    (
        DeltaTable(table.path(history.root))
        .merge(keys, predicate=same, source_alias="o", target_alias="t")
        .when_matched_delete()
        .execute()
    )


@contextmanager
def _persisted(rows: DataFrame) -> Generator[DataFrame]:
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
