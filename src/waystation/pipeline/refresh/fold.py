"""Folding what bronze has gained into silver, carrying from batch to batch what has not ended.

The result is the same as folding all of bronze at once. What makes it so: an end is final unless
the subject is heard of again, and then its old row is taken back and its steps are read again.
"""

import datetime as dt
from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.history import History, Hours
from waystation.pipeline.refresh import stale_hours
from waystation.pipeline.silver import attempts as attempts_fold
from waystation.pipeline.silver import items as items_fold
from waystation.pipeline.silver.items import ENDED
from waystation.pipeline.silver.steps import STEPS, TURN, WHO, lived, steps
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.delta import Identity
from waystation.pipeline.storage.keeping import keep, taken
from waystation.pipeline.tables import ATTEMPTS, EVENTS, ITEMS, Table

APPLICATION = "silver"

LIFE = (*WHO, "life")
_SAME = [*WHO, "last_told_at", "state", "attempts", "duplicates"]
"""Rows of one item that are the same in these are the same."""


class Folded(msgspec.Struct, frozen=True):
    """What came of a fold."""

    version: int
    """The version of bronze that silver now stands for."""
    hours: Hours
    """The hours in which something is different now."""


def reached(history: History) -> int | None:
    """The version of bronze that silver stands for; None when nothing was folded yet."""
    return delta.last_batch(STEPS.place(history.root), APPLICATION)


def fold(history: History) -> Folded | None:
    """Fold what bronze has gained; None when that is nothing."""
    newest = changes.version(EVENTS.place(history.root))
    if newest is None:
        return None
    before, begun = reached(history), _begun(history)
    if begun is not None and (before is None or begun > before):
        # A fold that was cut short must be finished as it was begun: part of it is kept already.
        finished = _fold_up_to(history, before, begun)
        return _fold_up_to(history, begun, newest) if newest > begun else finished
    return _fold_up_to(history, before, newest) if before is None or newest > before else None


def _begun(history: History) -> int | None:
    """The version of bronze that some table of silver stands for already."""
    places = (table.place(history.root) for table in (ATTEMPTS, ITEMS))
    found = [delta.last_batch(place, APPLICATION) for place in places]
    return max((each for each in found if each is not None), default=None)


def _fold_up_to(history: History, before: int | None, newest: int) -> Folded:
    place = EVENTS.place(history.root)
    files = changes.gained(place, after=before, until=newest)
    identity = Identity(APPLICATION, newest)
    if not files:
        keep(history.read(STEPS), history.root, STEPS, identity, replace=True)
        return Folded(newest, Hours())
    told = history.spark.read.schema(EVENTS.schema).option("basePath", place).parquet(*files)
    with _kept(steps(told)) as new:
        return _fold(history, new, identity)


def _fold(history: History, new: DataFrame, identity: Identity) -> Folded:
    carried = history.read(STEPS)
    back = _taken_back(history, new, carried)
    before = carried if back is None else carried.unionByName(_steps_again(history, back, new))
    with (
        _kept(lived(before.unionByName(new))) as all_steps,
        _kept(attempts_fold.attempts(all_steps)) as tried,
        _kept(items_fold.items(all_steps, tried)) as items,
    ):
        hours = _touched(new, tried)
        # Noted first: whoever is cut short here finds what the answers still lack.
        stale_hours.note(history.root, identity.batch, hours)
        ended = items.where(F.col("state").isin(*ENDED))
        waiting = items.where(~F.col("state").isin(*ENDED)).select(*LIFE)
        fresh, finished = ended, tried.join(ended.select(*LIFE), list(LIFE), "left_semi")
        if back is not None:
            fresh = ended.join(back, _SAME, "left_anti")
            finished = _not_kept_before(finished, ended, back)
        keep(finished, history.root, ATTEMPTS, identity)
        keep(fresh, history.root, ITEMS, identity)
        if back is not None:
            # Attempts first: while an item's old row is there, all of this can be done again.
            _drop(history, ATTEMPTS, _of_reopened(tried, waiting, back))
            _drop(history, ITEMS, back.join(ended, _SAME, "left_anti"))
        # Last: once this is there, the batch counts as folded.
        still = all_steps.join(waiting, list(LIFE), "left_semi")
        keep(still, history.root, STEPS, identity, replace=True)
    return Folded(identity.batch, hours)


def _taken_back(history: History, new: DataFrame, carried: DataFrame) -> DataFrame | None:
    """The rows of ended items that are heard of again, as they were before this batch."""
    first = F.min_by(F.struct("birth", "told_at"), F.struct("told_at", "seq"))
    strangers = taken(
        new.groupBy(*WHO)
        .agg(first.alias("first"))
        .where(~F.col("first.birth"))
        .join(carried.select(*WHO).distinct(), list(WHO), "left_anti")
        .select(*WHO, F.col("first.told_at").alias("heard_at"))
    )
    if not strangers.num_rows:
        return None
    known = history.read(ITEMS).join(history.spark.createDataFrame(strangers), list(WHO))
    columns = F.struct("added_at", "date", *_SAME[len(WHO) :])
    back = taken(
        known.where(F.col("last_told_at") <= F.col("heard_at"))
        .groupBy(*WHO, "heard_at")
        .agg(F.max_by(columns, "last_told_at").alias("row"))
        .select(*WHO, "row.*", "heard_at")
    )
    return history.spark.createDataFrame(back) if back.num_rows else None


def _steps_again(history: History, back: DataFrame, new: DataFrame) -> DataFrame:
    """The steps of the lives that are taken back, from bronze."""
    first_day = back.agg(F.min("date").alias("day")).collect()[0]["day"]
    mine = back.select(*WHO, F.col("added_at").alias("since"), "heard_at")
    is_mine = F.col("since").isNull() | (F.col("at") >= F.col("since"))
    return (
        steps(history.events().where(F.col("date") >= first_day - dt.timedelta(days=1)))
        .join(F.broadcast(mine), list(WHO))
        .where(is_mine & (F.col("told_at") <= F.col("heard_at")))
        .join(new.select(*WHO, *TURN), [*WHO, *TURN], "left_anti")
        .select(*STEPS.names)
    )


def _not_kept_before(finished: DataFrame, ended: DataFrame, back: DataFrame) -> DataFrame:
    """Attempts without those that were kept when their life ended before."""
    was = back.select(*WHO, F.col("added_at").alias("was_added"), F.col("attempts").alias("kept"))
    lives = ended.select(*LIFE, "added_at").join(was, list(WHO))
    same = lives.where(F.col("added_at").eqNullSafe(F.col("was_added"))).select(*LIFE, "kept")
    return finished.join(same, list(LIFE), "left").where(
        F.col("kept").isNull() | (F.col("attempt") > F.col("kept"))
    )


def _of_reopened(tried: DataFrame, waiting: DataFrame, back: DataFrame) -> DataFrame:
    """The attempts of lives that had ended and are open again."""
    again = waiting.join(back.select(*WHO).distinct(), list(WHO), "left_semi")
    return tried.join(again, list(LIFE), "left_semi")


def _touched(new: DataFrame, tried: DataFrame) -> Hours:
    """The hours of what was told, and of every attempt that it may have ended."""
    instants = new.select("at").union(tried.select("started_at"))
    hours = instants.select(F.unix_seconds(F.date_trunc("hour", "at")).alias("hour")).distinct()
    starts = sorted(row["hour"] for row in hours.collect())
    return Hours(tuple(dt.datetime.fromtimestamp(each, dt.UTC) for each in starts))


def _drop(history: History, table: Table, rows: DataFrame) -> None:
    """Remove rows that newer ones stand for, or whose items are open again."""
    by = list(dict.fromkeys((*_SAME, "date") if table is ITEMS else (*table.key, "date")))
    keys = taken(rows.select(*by))
    if not keys.num_rows:
        return
    same = " AND ".join(f"t.{name} = o.{name}" for name in by)
    (
        DeltaTable(table.place(history.root))
        .merge(keys, predicate=same, source_alias="o", target_alias="t")
        .when_matched_delete()
        .execute()
    )


@contextmanager
def _kept(rows: DataFrame) -> Generator[DataFrame]:
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
