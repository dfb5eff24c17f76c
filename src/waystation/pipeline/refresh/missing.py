"""What became of work that has not ended and cannot be seen: taken out by somebody, or lost.

Most lines tell of every piece that is taken out, so whatever is missing there is lost. BullMQ
drains and cleans without a word. There a job is lost when half of it is left: its id without its
data, or its data without a state that names it. When both are gone, somebody has taken it out,
unless the store as a whole has forgotten what it knew.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.core.store import faults
from waystation.pipeline.products import LINES, line_named
from waystation.pipeline.products.facts import EVERY_QUEUE, PAGE, LineFacts
from waystation.pipeline.refresh.snapshot import Look
from waystation.pipeline.silver.items import ENDED
from waystation.pipeline.silver.steps import WHO, Who
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.keeping import taken

LOST, REMOVED, SEEN = "lost", "removed", "seen"


def missing(items: DataFrame, look: Look) -> DataFrame:
    """Items that were there before the look, had not ended and were not seen, with their fate."""
    gone = unaccounted(items, look.seen, looked_at=F.lit(look.at)).where(look.covers())
    is_silent = F.col("line").isin(*(name for name, facts in LINES.items() if facts.silent))
    is_forgotten = F.col("last_told_at") < F.lit(look.since)
    told = gone.where(~is_silent | is_forgotten).withColumn("fate", F.lit(LOST))
    quiet = taken(gone.where(is_silent & ~is_forgotten))
    if not quiet.num_rows:
        return told
    found = list(_fates(look, _subjects(quiet)))
    look.removed.extend(who for who, fate in found if fate == REMOVED)
    fates = pa.array([fate for _, fate in found], pa.string())
    judged = quiet.append_column("fate", fates).filter(pc.not_equal(fates, SEEN))
    return told.unionByName(items.sparkSession.createDataFrame(judged))


def _subjects(items: Any) -> Iterator[Who]:
    for batch in items.to_batches():
        yield from zip(*(batch.column(name).to_pylist() for name in WHO), strict=True)


def unaccounted(items: DataFrame, seen: DataFrame, *, looked_at: Column) -> DataFrame:
    """What has not ended and was not seen, although nothing was told about it since the look."""
    there = seen.where("whole")
    own = there.where(F.col("queue") != EVERY_QUEUE).select(*WHO).distinct()
    shared = there.where(F.col("queue") == EVERY_QUEUE).select("line", "subject").distinct()
    return (
        items.where(~F.col("state").isin(*ENDED))
        # Whatever moves while somebody looks may be missed, and tells so.
        .where(F.col("last_told_at") < looked_at)
        .join(own, list(WHO), "left_anti")
        .join(shared, ["line", "subject"], "left_anti")
    )


def _fates(look: Look, subjects: Iterator[Who]) -> Iterator[tuple[Who, str]]:
    while page := list(islice(subjects, PAGE)):
        for who, has_data in zip(page, _have_data(look, page), strict=True):
            if has_data:
                yield who, SEEN if _is_named(look, who) else LOST
            else:
                yield who, LOST if who in look.halves else REMOVED


def _have_data(look: Look, page: Sequence[Who]) -> list[bool]:
    keys = [_item_key(look, who) for who in page]
    with faults.translated():
        if len({look.store.at(key).connection_pool for key in keys}) > 1:
            return [bool(look.store.at(key).exists(key)) for key in keys]
        asking = look.store.at(keys[0]).pipeline(transaction=False)
        for key in keys:
            asking.exists(key)
        return [bool(each) for each in asking.execute()]


def _is_named(look: Look, who: Who) -> bool:
    """Whether a state names it after all: what moves within a sorted set may have been passed."""
    line, queue, subject = who
    facts, prefix = _facts_of(look, line)
    assert facts.state_key is not None  # noqa: S101 (silent lines have states)
    for state in facts.states:
        key = facts.state_key(prefix, queue, state.name)
        client = cast(Any, look.store.at(key))
        found = client.lpos(key, subject) if state.type == "list" else client.zscore(key, subject)
        if found is not None:
            return True
    return False


def _item_key(look: Look, who: Who) -> str:
    line, queue, subject = who
    facts, prefix = _facts_of(look, line)
    assert facts.item_key is not None  # noqa: S101 (silent lines have items)
    return facts.item_key(prefix, queue, subject)


def _facts_of(look: Look, line: str) -> tuple[LineFacts, str]:
    facts = line_named(line)
    return facts, look.options.prefix or facts.prefix
