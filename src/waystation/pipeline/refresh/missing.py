"""Missing jobs: open jobs that are not in the snapshot of their queue, removed or lost.

Most products write an event for every job that is removed, so a missing job is lost. BullMQ drains
and cleans without events. There a job is lost when half of it is left: its id without its data, or
its data without a state that lists it. When both are gone it was removed, unless the store itself
has lost data.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.core.store import faults
from waystation.pipeline.gold.ledger import LOST
from waystation.pipeline.products import PRODUCTS, product_named
from waystation.pipeline.products.facts import ALL_QUEUES, PAGE, ProductFacts
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.silver.moves import ENDED
from waystation.pipeline.silver.steps import SUBJECT, Subject
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc

REMOVED, SEEN = "removed", "seen"


def missing(items: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Open items that the snapshot should have and has not, with their fate."""
    gone = unseen(items, snapshot.seen, at=F.lit(snapshot.at)).where(snapshot.covers())
    is_silent = F.col("line").isin(
        *(name for name, facts in PRODUCTS.items() if facts.removes_silently)
    )
    is_forgotten = F.col("last_told_at") < F.lit(snapshot.since)
    lost = gone.where(~is_silent | is_forgotten).withColumn("fate", F.lit(LOST))
    quiet = delta.to_arrow(gone.where(is_silent & ~is_forgotten))
    if not quiet.num_rows:
        return lost
    found = list(_fates(snapshot, _subjects(quiet)))
    snapshot.removed.extend(who for who, fate in found if fate == REMOVED)
    fates = pa.array([fate for _, fate in found], pa.string())
    judged = quiet.append_column("fate", fates).filter(pc.not_equal(fates, SEEN))
    return lost.unionByName(items.sparkSession.createDataFrame(judged))


def _subjects(items: Any) -> Iterator[Subject]:
    for batch in items.to_batches():
        yield from zip(*(batch.column(name).to_pylist() for name in SUBJECT), strict=True)


def unseen(items: DataFrame, seen: DataFrame, *, at: Column) -> DataFrame:
    """Open items that were not seen, although they have no event since the snapshot."""
    there = seen.where("whole")
    own = there.where(F.col("queue") != ALL_QUEUES).select(*SUBJECT).distinct()
    shared = there.where(F.col("queue") == ALL_QUEUES).select("line", "subject").distinct()
    return (
        items.where(~F.col("state").isin(*ENDED))
        # A job that moves during the snapshot may be missed, and has an event.
        .where(F.col("last_told_at") < at)
        .join(own, list(SUBJECT), "left_anti")
        .join(shared, ["line", "subject"], "left_anti")
    )


def _fates(snapshot: Snapshot, subjects: Iterator[Subject]) -> Iterator[tuple[Subject, str]]:
    while page := list(islice(subjects, PAGE)):
        for who, has_data in zip(page, _have_data(snapshot, page), strict=True):
            if has_data:
                yield who, SEEN if _is_listed(snapshot, who) else LOST
            else:
                yield who, LOST if who in snapshot.without_data else REMOVED


def _have_data(snapshot: Snapshot, page: Sequence[Subject]) -> list[bool]:
    keys = [_item_key(snapshot, who) for who in page]
    with faults.translated():
        if len({snapshot.store.at(key).connection_pool for key in keys}) > 1:
            return [bool(snapshot.store.at(key).exists(key)) for key in keys]
        asking = snapshot.store.at(keys[0]).pipeline(transaction=False)
        for key in keys:
            asking.exists(key)
        return [bool(each) for each in asking.execute()]


def _is_listed(snapshot: Snapshot, who: Subject) -> bool:
    """Whether a state lists it after all: a job that moves within a sorted set may be skipped."""
    line, queue, subject = who
    facts, prefix = _facts_of(snapshot, line)
    assert facts.state_key is not None  # noqa: S101 (silent lines have states)
    for state in facts.states:
        key = facts.state_key(prefix, queue, state.name)
        client = cast(Any, snapshot.store.at(key))
        found = client.lpos(key, subject) if state.type == "list" else client.zscore(key, subject)
        if found is not None:
            return True
    return False


def _item_key(snapshot: Snapshot, who: Subject) -> str:
    line, queue, subject = who
    facts, prefix = _facts_of(snapshot, line)
    assert facts.item_key is not None  # noqa: S101 (silent lines have items)
    return facts.item_key(prefix, queue, subject)


def _facts_of(snapshot: Snapshot, line: str) -> tuple[ProductFacts, str]:
    facts = product_named(line)
    return facts, snapshot.options.prefix or facts.prefix
