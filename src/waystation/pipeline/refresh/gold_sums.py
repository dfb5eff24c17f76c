"""Gold by sums, from the changes that the last fold has left.

A batch that was missed, because another engine has folded it or the tables are older, cannot be
added any more: then all rows of silver are counted once, by the same rules.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.gold import sums
from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.gold.changed import Changed
from waystation.pipeline.history import History, is_left_to_spark
from waystation.pipeline.refresh import fold
from waystation.pipeline.silver.moves import OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS
from waystation.pipeline.silver.steps import steps, with_context
from waystation.pipeline.storage import changes, delta, notes
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    EVENTS,
    FAILED_ITEMS,
    FAILURE_DAYS,
    FAILURES,
    HOURLY,
    ITEMS,
    SLOTS,
    WORKERS,
)

SUMMED = (HOURLY, CAPACITY, WORKERS, SLOTS, FAILURE_DAYS, FAILURES)
"""The tables that are kept by sums where every step is left to Spark."""
_OF = {
    "attempts": (ATTEMPTS, OPEN_ATTEMPTS),
    "items": (ITEMS, OPEN_ITEMS),
    "failed_items": (FAILED_ITEMS, OPEN_FAILURES),
}


def is_used(history: History) -> bool:
    """Whether gold is kept by sums: where Spark does every step, and has done the last one."""
    if history.spark_from or not is_left_to_spark(history):
        return False
    seen = delta.last_batch(OPEN_ITEMS.path(history.root), fold.APPLICATION)
    return seen == fold.folded_version(history)


def catch_up(history: History, *, target_ms: int, everything: bool = False) -> None:
    """Add what the last fold has changed, unless it was added before; or count everything again."""
    root = history.root
    folded, done = fold.folded_version(history), _added(root)
    if folded is None or (done == folded and not everything):
        return
    batch = BatchId(sums.APPLICATION, folded)

    def silver(name: str, days: Sequence[dt.date] | None) -> DataFrame:
        return _rows(history, name, days)

    noted = None if everything else _next(root, batch, done)
    rows = delta.count(EVENTS.path(root)) if noted is None else _size(noted)
    with sized(history.spark, rows) as spark:
        if noted is None:
            sums.count_all(spark, root, _everything(history, batch), target_ms=target_ms)
        else:
            changed = _changed(history, batch, noted["files"])
            sums.add(spark, root, changed, silver, target_ms=target_ms)


def _added(root: str) -> int | None:
    """The last batch that was added; None when there is none, or the cells were deleted since."""
    path = CELLS.path(root)
    return delta.last_batch(path, sums.APPLICATION) if delta.count(path) else None


def _next(root: str, batch: BatchId, done: int | None) -> Any:
    """The note on the changes of a batch; None when it is not the one after the last added."""
    noted: Any = notes.last_note(fold.STEPS.path(root), fold.CHANGES_NOTE)
    is_next = noted and noted["batch"] == batch.batch and noted.get("after") == done
    return noted if is_next else None


def _size(noted: Any) -> int:
    return sum(part["rows"] for parts in noted["files"].values() for part in parts)


def _changed(history: History, batch: BatchId, files: Mapping[str, Any]) -> Changed:
    """The changes of a batch, from the files that its fold has left."""

    def read(column: str, sign: int) -> DataFrame:
        table = fold.APART[column]
        names = [row["path"] for row in files.get(column, ())]
        rows = delta.read_with_spark(history.spark, table.path(history.root), table, names)
        return rows.withColumn("sign", F.lit(sign))

    frames: dict[str, Any] = {
        name: read(f"added_{name}", 1).unionByName(read(f"removed_{name}", -1)) for name in _OF
    }
    return Changed(batch=batch, steps=read("added_steps", 1), **frames)


def _everything(history: History, batch: BatchId) -> Changed:
    """All rows of silver, as if one batch had added them."""
    place = EVENTS.path(history.root)
    # Those that came after the fold are in its next changes.
    names = [each.path for each in changes.new_files(place, after=None, until=batch.batch)]
    told = with_context(steps(delta.read_with_spark(history.spark, place, EVENTS, names)))
    frames: dict[str, Any] = {name: _rows(history, name, None) for name in _OF}
    frames["steps"] = told
    return Changed(
        batch=batch, **{name: rows.withColumn("sign", F.lit(1)) for name, rows in frames.items()}
    )


def _rows(history: History, name: str, days: Sequence[dt.date] | None) -> DataFrame:
    """The rows of a table, or those of some days, and those of open work."""
    kept, unfinished = _OF[name]
    found = history.read(kept, days=days).unionByName(history.read(unfinished))
    # Those of open work are not kept by the day.
    return found if days is None else found.where(F.col("date").isin(list(days)))
