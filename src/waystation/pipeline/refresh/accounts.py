"""The ledger: every job that was added has ended, is in the queue, was removed, or is lost.

Arrivals come from the cells, and what is missing from the snapshot of the queues. That must be
taken before the events are read: then a job that is not in it had ended by then, and its end is
among the events. A job with neither is lost.

Its hours are given as data, so that no other hour is touched, however many there are.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.gold.cells import ARRIVAL, ARRIVED, CELLS, COUNTS
from waystation.pipeline.gold.files import files_by, meeting, names_in, span_of, write_days
from waystation.pipeline.history import History
from waystation.pipeline.products.room_places import PLACES, STATE
from waystation.pipeline.refresh.fold import folded_version
from waystation.pipeline.refresh.missing import LOST, add_removals, judged
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.silver.moves import OPEN_ITEMS
from waystation.pipeline.silver.steps import SUBJECT
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.arrow import pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.opened import files_of
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.stream_names import ALL_QUEUES
from waystation.pipeline.tables import GAPS, LEDGER, LONG

APPLICATION = "ledger"
_OF = ("product", "queue", "hour")
MOST_IDS = 20
"""Ids of lost jobs that a row names."""
_AT_LEAST = 1
"""Entries that are lost in a gap where the server does not count them."""
_COUNTED = (*ARRIVED.counts, "gaps", LOST)


def refresh_ledger(history: History, snapshot: Snapshot | None, hours: Hours) -> None:
    """Write the rows of these hours anew; jobs that were removed silently get an event."""
    if not hours:
        return
    root, spans = history.root, [span_of(each, "hour") for each in hours.starts]
    path = LEDGER.path(root)
    # Before the files: a commit in between is refused.
    before = delta.last_batch(path, APPLICATION)
    there = meeting(spans, {LEDGER.name: files_by(LEDGER, root, "hour")})[LEDGER.name]
    starts = history.spark.createDataFrame([(each,) for each in hours.starts], "hour timestamp")
    old = delta.read_with_spark(history.spark, path, LEDGER, there)
    # Of other hours in the same files.
    kept = old.join(F.broadcast(starts), "hour", "left_anti").select(*LEDGER.names)
    few = sum(map(delta.count, (OPEN_ITEMS.path(root), PLACES.path(root))))
    with sized(history.spark, few):
        rows = _rows(history, snapshot, hours).join(F.broadcast(starts), "hour", "left_semi")
        parts = write_days(kept.unionByName(rows.select(*LEDGER.names)), root, LEDGER)
    batch = BatchId(APPLICATION, (changes.version(path) or 0) + 1)
    check = delta.unless_overtaken(APPLICATION, before)
    if not delta.commit(path, LEDGER.schema, parts, batch, gone=there, check=check):
        # Another driver has taken the number, perhaps for other hours.
        raise delta.overtaken(path)


def unsettled(root: str) -> set[dt.datetime]:
    """The hours whose rows may have to change although nothing new happened in them.

    An hour is settled when nothing that arrived in it is open or lost, and its gaps are counted.
    """
    gaps = _gaps_by_hour(root)
    spans = [span_of(hour, "hour") for hour in {key[-1] for key in gaps}]
    names = {*_files_with_open_hours(root), *names_in(LEDGER, root, "hour", spans)}
    columns = (*_OF, "visible", LOST, "gaps")
    rows = delta.read_files(LEDGER.path(root), LEDGER, sorted(names), columns=columns)
    is_open = pc.fill_null(pc.not_equal(rows["visible"], 0), True)
    is_lost = pc.fill_null(pc.not_equal(rows[LOST], 0), False)
    found = set(rows.filter(pc.or_(is_open, is_lost))["hour"].to_pylist())
    if gaps:
        counted = {tuple(row[name] for name in _OF): row["gaps"] for row in rows.to_pylist()}
        found |= {key[-1] for key, many in gaps.items() if counted.get(key) != many}
    return found


def _gaps_by_hour(root: str) -> Counter[tuple[Any, ...]]:
    """Entries lost in gaps, by product, queue and hour."""
    gaps: Counter[tuple[Any, ...]] = Counter()
    for row in delta.read_arrow(root, GAPS, ("product", "queue", "before_at", "lost")).to_pylist():
        hour = row["before_at"].replace(minute=0, second=0, microsecond=0)
        gaps[row["product"], row["queue"], hour] += (
            _AT_LEAST if row["lost"] is None else row["lost"]
        )
    return gaps


def _files_with_open_hours(root: str) -> list[str]:
    """The files of the ledger that may have an hour with open or lost jobs, by their statistics.

    Without them each round would read the rows of all hours ever.
    """
    files = files_of(LEDGER.path(root))
    rows: list[dict[str, Any]] = [] if files is None else files.to_pylist()
    return [row["path"] for row in rows if not _is_settled(row)]


def _is_settled(file: Mapping[str, Any]) -> bool:
    """Whether all jobs of all hours in a file have ended."""
    none_open = (0, 0, 0)
    visible = tuple(file.get(f"{kind}.visible") for kind in ("min", "max", "null_count"))
    return visible == none_open and file.get(f"min.{LOST}") == file.get(f"max.{LOST}") == 0


def _rows(history: History, snapshot: Snapshot | None, hours: Hours) -> DataFrame:
    parts = [_arrivals(history, hours), _gaps(history)]
    places = history.read(PLACES, days=hours.dates).where("last_event is not null")
    if snapshot is not None:
        parts.append(_missing(history, places, snapshot))
    wanted = [_shaped(each) for each in parts]
    summed = reduce(DataFrame.unionByName, wanted).groupBy(*_OF)
    counted = summed.agg(
        *(F.sum(name).cast(LONG).alias(name) for name in _COUNTED),
        F.min_by("id", "id", MOST_IDS).alias("ids"),
    )
    is_known = snapshot is not None
    return counted.selectExpr(
        *(name for name in (*_OF, *ARRIVED.counts, "gaps")),
        _where(is_known, f"acknowledged - terminal - removed - {LOST}", "bigint", "visible"),
        _where(is_known, LOST, "bigint", LOST),
        "coalesce(array_sort(ids), array()) as lost_ids",
        _where(is_known, f"{LOST} = 0 and duplicated = 0 and gaps = 0", "boolean", "clean"),
    )


def _where(is_known: bool, text: str, kind: str, name: str) -> str:
    return f"{text if is_known else f'cast(null as {kind})'} as {name}"


def _shaped(rows: DataFrame) -> DataFrame:
    """Counts of hours, those that are missing as none."""
    there = set(rows.columns)
    counts = (name if name in there else f"0L as {name}" for name in _COUNTED)
    return rows.selectExpr(*_OF, *counts, "id" if "id" in there else "cast(null as string) as id")


def _arrivals(history: History, hours: Hours) -> DataFrame:
    """What became of the jobs that were added in these hours."""
    root, spans = history.root, [span_of(each, "hour") for each in hours.starts]
    names = names_in(CELLS, root, "at", spans, ARRIVED.name)
    cells = delta.read_with_spark(history.spark, CELLS.path(root), CELLS, names)
    counts = zip(COUNTS, ARRIVED.counts, strict=False)
    return cells.selectExpr(
        "product", "queue", "at as hour", *(f"{n} as {name}" for n, name in counts)
    )


def _gaps(history: History) -> DataFrame:
    hour = "date_trunc('hour', before_at) as hour"
    lost = f"coalesce(lost, {_AT_LEAST}) as gaps"
    return history.read(GAPS).selectExpr("product", "queue", hour, lost)


def _missing(history: History, places: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Those that should be in the snapshot and are not: lost, or removed without an event."""
    folded = folded_version(history)
    items = history.read(OPEN_ITEMS, columns=(*SUBJECT, "added_at", "last_recorded_at", "date"))
    waiting = places.where(f"{STATE} = 'waiting'").selectExpr(
        *SUBJECT, "joined_at as added_at", "last_recorded_at", "date"
    )
    gone: Any = judged(unseen(items.unionByName(waiting), snapshot).toArrow(), snapshot)
    # First: an hour that the ledger has settled is not looked at again.
    add_removals(history.root, snapshot.removed, snapshot.at, folded=folded)
    return history.spark.createDataFrame(gone).selectExpr(
        "product",
        "queue",
        f"{ARRIVAL} as hour",
        f"cast(fate <> '{LOST}' as bigint) as removed",
        f"cast(fate = '{LOST}' as bigint) as {LOST}",
        f"case when fate = '{LOST}' then job_id end as id",
    )


def unseen(waiting: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Open items that were not seen, although they have no event since the snapshot."""
    there = waiting.sparkSession.createDataFrame(snapshot.seen).where("whole").drop("whole")
    everywhere = there.where(F.col("queue") == ALL_QUEUES).drop("queue")
    quiet = waiting.where(F.col("last_recorded_at") < F.lit(snapshot.at))
    return quiet.join(there, list(SUBJECT), "left_anti").join(
        everywhere, ["product", "job_id"], "left_anti"
    )
