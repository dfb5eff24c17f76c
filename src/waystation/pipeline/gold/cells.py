"""Cells: what one row of silver adds to the tables of gold, and their sums.

Every row of silver becomes a few cells. A cell has a key, counts that can be added up and taken
back, and extremes that can only be added. Histograms and sets are counts, too: one for each bucket
or name, all of them in the row of their key, so that a queue has one row for an hour however full
it is. The tables of gold are derived from the sums of all cells.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import msgspec
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.pipeline.gold.forecast import SLOT_S
from waystation.pipeline.gold.turns import SLOT_S as TURN_S
from waystation.pipeline.histograms import bucket
from waystation.pipeline.products.files import size_class
from waystation.pipeline.products.room_places import JOINS, STATE
from waystation.pipeline.products.waitingroom import VISITED, power_of
from waystation.pipeline.silver.moves import ENDS, HAS_ENDED
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.sql import texts
from waystation.pipeline.tables import (
    BUCKETS,
    DAY,
    INSTANT,
    LONG,
    REAL,
    TEXT,
    TEXTS,
    Column,
    Layer,
    Layout,
    Table,
)

EXAMPLES = 5
MOST_KINDS = 100
"""Signatures of one queue that have a row of their own: the most frequent ones."""
OTHER = "other"
"""The fingerprint of the row for all others."""


def failure_label(row: Mapping[str, Any]) -> str:
    """The text of a row in reports."""
    if row["fingerprint"] == OTHER:
        return f"{row['kinds']:,} other kinds of failure"
    return row["signature"] or "no error message"


ARRIVAL = "date_trunc('hour', coalesce(added_at, to_utc_timestamp(`date`, 'UTC')))"
"""The hour in which an item was added; the first hour of its day if that is unknown."""
QUARTER_MS = 250
"""Milliseconds of a slot in which arrivals are counted: the finest that staffing looks at."""
COUNTS = tuple(f"n{number}" for number in range(12))

CELLS = Table(
    name="cells",
    layer=Layer.SILVER,
    meaning="one row for each sum that the tables of gold are derived from",
    key=("kind", "product", "queue", "at", "more"),
    partitions=("kind", "date"),
    columns=(
        Column("kind", TEXT, "what is counted"),
        Column("product", TEXT, "product"),
        Column("queue", TEXT, "queue of the product"),
        Column("at", INSTANT, "hour, minute or day that it is counted for; null: all time"),
        Column("more", TEXT, "the rest of the key, as a list in JSON"),
        *(Column(name, LONG, "a count, by the kind") for name in COUNTS),
        Column("parts", BUCKETS, "how many are in each bucket of its histograms and sets"),
        Column("squares", REAL, "sum of squared run times"),
        Column("first", INSTANT, "first instant"),
        Column("last", INSTANT, "last instant"),
        Column("most", LONG, "greatest value"),
        Column("word", TEXT, "least text"),
        Column("label", TEXT, "least text of another column"),
        Column("examples", TEXTS, "a few ids"),
        Column("date", DAY, "day of `at`, in UTC"),
    ),
    # One may have a bucket for each quarter of a second of its hour.
    layout=Layout(group_rows=512),
)
KEY = CELLS.key
BUCKET = ("part", "bucket", "name")
"""The histogram or set of a row, and a number or a name in it."""
EXTREMES = ("first", "last", "most", "word", "label", "examples")
"""Columns that cannot be taken back."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of cell: the names of its counts, the first of which says how many rows it has."""

    name: str
    counts: tuple[str, ...]
    per: str
    """What it is counted for: `hour`, `minute`, `day` or `all` time."""

    def cell(self, **given: str) -> dict[str, str]:
        """A cell of this kind: its columns as SQL, counts by their names, `when` a condition."""
        named = {
            self.column(name) if name in self.counts else name: text for name, text in given.items()
        }
        if unknown := named.keys() - _NOTHING.keys() - {"when"}:
            raise KeyError(f"{self.name} has no count or column {', '.join(sorted(unknown))}")
        return {"kind": f"'{self.name}'", COUNTS[0]: "1", **named}

    def part(self, part: str, /, **given: str) -> dict[str, str]:
        """One in a bucket of such a cell: the columns of its key, and a `bucket` or a `name`."""
        return {"kind": f"'{self.name}'", "part": f"'{part}'", "many": "1", **given}

    def column(self, name: str) -> str:
        """The column that a count is in."""
        return COUNTS[self.counts.index(name)]


HOUR = Kind(
    "hour",
    (
        *("rows", "added", "ready", "doubled"),
        *("started", "completed", "failed", "retried", "stalled", "ran", "run_ms"),
    ),
    "hour",
)
WORKER = Kind("worker", ("attempts", "completed", "failed", "stalled", "busy_ms"), "hour")
SLOT = Kind("slot", ("rows", "came", "ended"), "hour")
MINUTE = Kind(
    "minute",
    (
        "rows",
        "arrived",
        "refused",
        "called",
        "claimed",
        "missed",
        "left",
        "expired",
        "completed",
    ),
    "minute",
)
TENANT = Kind("tenant", ("rows", "started", "corrected", "waited", "wait_ms", "cost"), "hour")
ARRIVED = Kind("arrival", ("acknowledged", "terminal", "removed", "duplicated"), "hour")
_FAILURE = ("jobs", "attempts", "retried", "recovered", "tried")
FAILURE_DAY, FAILURE = Kind("failure_day", _FAILURE, "day"), Kind("failure", _FAILURE, "all")
_LEFT = ("people", "gone", "watched_ms")
LEFT_DAY, LEFT = Kind("abandonment_day", _LEFT, "day"), Kind("abandonment", _LEFT, "all")
_ROUTE = ("added", "started", "waiting")
ROUTE_DAY, ROUTE = Kind("route_day", _ROUTE, "day"), Kind("route", _ROUTE, "all")
_FILE = ("files", "completed", "dead", "endless", "bytes")
FILE_DAY, FILE = Kind("file_day", _FILE, "day"), Kind("file", _FILE, "all")
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        HOUR,
        WORKER,
        SLOT,
        TENANT,
        MINUTE,
        ARRIVED,
        FAILURE_DAY,
        FAILURE,
        LEFT_DAY,
        LEFT,
        ROUTE_DAY,
        ROUTE,
        FILE_DAY,
        FILE,
    )
}
BY_DAY = {ROUTE_DAY: ROUTE, FILE_DAY: FILE}
"""Kinds for each day, and those that count the same for all time; of these the key may be less."""


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one batch: rows of each table with `sign`, 1 for added, -1 for taken back.

    A row that changed is there twice. Rows about open work are among them.
    """

    batch: BatchId
    steps: DataFrame | None = None
    """Steps, each with the context that `with_context` adds."""
    attempts: DataFrame | None = None
    items: DataFrame | None = None
    failed_items: DataFrame | None = None
    places: DataFrame | None = None
    room: DataFrame | None = None
    """New events of the waiting room: queue, event, at, reason and lane."""
    routed: DataFrame | None = None
    files: DataFrame | None = None
    """Items that are files, with their directory, type and size."""


def cells(changed: Changed) -> DataFrame:
    """The cells of all rows that a batch has added or taken back, each with the row's sign."""
    parts = [_exploded(rows, of) for rows, of in _sources(changed) if rows is not None]
    return reduce(DataFrame.unionByName, parts)


def added_up(rows: DataFrame) -> DataFrame:
    """The sums of signed cells; `shaken` are extremes that were taken back and not added again.

    Each bucket is still a row of its own: only what is new is counted here.
    """
    summed = (*COUNTS, "squares", "many")
    counts = [F.sum(F.col("sign") * F.col(name)).alias(name) for name in summed]
    fresh, gone = F.col("sign") > 0, F.col("sign") < 0
    return (
        rows.groupBy(*KEY, *BUCKET)
        .agg(
            *counts,
            *(_extreme(name, fresh).alias(name) for name in _BEST),
            *(_extreme(name, gone).alias(f"gone_{name}") for name in _BEST),
            F.collect_set(F.when(fresh, F.col("example"))).alias("examples"),
            F.collect_set(F.when(gone, F.col("example"))).alias("gone_examples"),
        )
        .select(
            *KEY,
            *summed,
            F.expr(_PARTS).alias("parts"),
            *_BEST,
            _few(F.col("examples")).alias("examples"),
            _shaken().alias("shaken"),
        )
    )


def together(*sums: DataFrame) -> DataFrame:
    """What is stored and what is new, added up; the cells of one queue and hour in one task.

    A bucket is there as often as sums have it: the tasks add it up.
    """
    columns = (*KEY, *COUNTS, "squares", "parts", *EXTREMES)
    every = reduce(DataFrame.unionByName, (each.select(*columns) for each in sums))
    return (
        every.repartition("kind", "product", "queue", "at")
        .groupBy(*KEY)
        .agg(
            *(F.sum(name).alias(name) for name in (*COUNTS, "squares")),
            *(_extreme(name).alias(name) for name in _BEST),
            F.flatten(F.collect_list("parts")).alias("parts"),
            _few(F.array_distinct(F.flatten(F.collect_list("examples")))).alias("examples"),
        )
        .where(F.col(COUNTS[0]) > 0)
        .withColumn("date", F.to_date("at"))
        .select(*CELLS.names)
    )


def without_shaken(rows: DataFrame) -> DataFrame:
    """Sums, without the extremes that are shaken."""
    return rows.withColumns(
        {name: F.expr(f"if(array_contains(shaken, '{name}'), null, {name})") for name in EXTREMES}
    )


def shaken_by(rows: DataFrame, fresh: DataFrame) -> DataFrame:
    """Sums, and which extremes of them new ones have shaken."""
    marked = fresh.where("size(shaken) > 0").select(
        *(F.col(name).alias(f"_{name}") for name in KEY), "shaken"
    )
    same = (F.col(name).eqNullSafe(F.col(f"_{name}")) for name in KEY)
    return rows.join(marked, reduce(SparkColumn.__and__, same), "left")


def extremes_of(rows: DataFrame) -> DataFrame:
    """Only the extremes: sums that add nothing else."""
    return rows.withColumns({name: F.expr(nothing) for name, nothing in _ADDS_NOTHING.items()})


def with_all_time(rows: DataFrame) -> DataFrame:
    """Sums, and the extremes of their days once more, as those of all time."""
    kinds = " ".join(
        f"when '{day.name}' then array(kind, '{every.name}')" for day, every in BY_DAY.items()
    )
    both = rows.withColumn("kind", F.explode(F.expr(f"case kind {kinds} else array(kind) end")))
    more = f"to_json(slice(from_json(more, 'array<string>'), 1, {len(_KIND_OF_FILE)}))"
    every_kind = texts(every.name for every in BY_DAY.values())
    return both.withColumns(
        {
            name: F.expr(f"if(kind in {every_kind} and `at` is not null, {text}, `{name}`)")
            for name, text in {**_ADDS_NOTHING, "at": "null", "more": more}.items()
        }
    )


_NO_PARTS = f"cast(array() as {BUCKETS})"
_PARTS = (
    f"""cast(if(part is null, array(), array(struct({", ".join(BUCKET)}, many))) as {BUCKETS})"""
)
_ADDS_NOTHING = {**dict.fromkeys(COUNTS, "0L"), "squares": "0e0", "parts": _NO_PARTS}
_BEST = {"first": F.min, "last": F.max, "most": F.max, "word": F.min, "label": F.min}


def _extreme(name: str, where: SparkColumn | None = None) -> SparkColumn:
    value = F.col(name) if where is None else F.when(where, F.col(name))
    return _BEST[name](value)


def _few(ids: SparkColumn) -> SparkColumn:
    return F.slice(F.array_sort(ids), 1, EXAMPLES)


def _shaken() -> SparkColumn:
    """The extremes that a row which was taken back may have had, and no row has any more."""
    lost = {"examples": F.size(F.array_except("gone_examples", "examples")) > 0}
    for name, best in _BEST.items():
        gone, fresh = F.col(f"gone_{name}"), F.col(name)
        was_better = gone < fresh if best is F.min else gone > fresh
        lost[name] = F.coalesce(was_better, gone.isNotNull())
    names = (F.when(is_lost, F.lit(name)) for name, is_lost in lost.items())
    return F.array_compact(F.array(*names))


_NOTHING = {
    **dict.fromkeys(("product", "queue", "more", "word", "label", "example"), TEXT),
    **dict.fromkeys(("at", "first", "last"), INSTANT),
    **dict.fromkeys(("bucket", "most", "many", *COUNTS), LONG),
    **dict.fromkeys(("part", "name"), TEXT),
    "squares": REAL,
}
"""The columns that a cell may leave out, with their types."""


def _exploded(rows: DataFrame, of: Iterable[Mapping[str, str]]) -> DataFrame:
    """Each row as its cells."""
    structs = ", ".join(map(_struct, of))
    return rows.selectExpr("sign", f"inline(array({structs}))").where("kind is not null")


def _struct(cell: Mapping[str, str]) -> str:
    kind = cell["kind"]
    if "when" in cell:
        kind = f"case when {cell['when']} then {kind} end"
    columns = {"kind": kind}
    for name, type_ in _NOTHING.items():
        columns[name] = (
            f"cast({cell[name]} as {type_})" if name in cell else f"cast(null as {type_})"
        )
    for name in (*COUNTS, "squares", "many"):
        columns[name] = f"coalesce({columns[name]}, 0)"
    fields = ", ".join(f"'{name}', {text}" for name, text in columns.items())
    return f"named_struct({fields})"


def _hour(instant: str) -> str:
    return f"date_trunc('hour', {instant})"


def _list(*values: str) -> str:
    """SQL: values as the rest of a key."""
    return f"to_json(array({', '.join(f'cast({each} as string)' for each in values)}))"


_OF = {"product": "product", "queue": "queue"}


def _sources(changed: Changed) -> Iterator[tuple[DataFrame | None, list[dict[str, str]]]]:
    yield changed.steps, [*_OF_STEP, *_TURN_OF_STEP]
    yield changed.attempts, [*_OF_ATTEMPT, *_TURN_OF_ATTEMPT]
    yield changed.items, [_ARRIVAL]
    yield changed.failed_items, _OF_FAILED
    if changed.places is not None:
        yield changed.places.selectExpr("*", *VISITED), _OF_PLACE
    yield changed.room, [_OF_ROOM]
    if changed.routed is not None:
        yield _routed(changed.routed), _OF_ROUTED
        yield changed.routed.selectExpr("*", "explode(workers) as worker"), _OF_ROUTED_BY
    yield changed.files, _OF_FILE


_IS_GONE = f"event in ('removed', 'cancelled') and coalesce(earlier, '') not in {texts(ENDS)}"
_AT = {**_OF, "at": _hour("`at`")}
_OF_STEP = [
    HOUR.cell(
        **_AT,
        added="birth",
        ready="event = 'waiting'",
        doubled="doubled",
        started="event = 'active'",
        completed="event = 'completed'",
        failed="event in ('failed', 'dead') and not repeated",
        last="case when event = 'waiting' then `at` end",
    ),
    HOUR.part(
        "ready",
        **_AT,
        when="event = 'waiting'",
        bucket=f"floor((unix_millis(`at`) - unix_millis({_hour('`at`')})) / {QUARTER_MS})",
    ),
    SLOT.cell(
        **_AT,
        more=_list(f"floor(unix_seconds(`at`) / {SLOT_S})"),
        came=f"cast(birth or again as int) - cast({_IS_GONE} as int)",
        ended="event in ('completed', 'failed') or (event = 'dead' and product = 'files')",
    ),
]

_TENANT = {"more": _list("coalesce(split_part(`group`, '/', 1), '')")}
"""The tenant of a job: the parent of its group, or that; '' are those without a group."""


def _of_turns(instant: str) -> str:
    """SQL: the slot of its hour that an instant lies in, of those in which tenants are compared."""
    return f"floor((unix_millis({instant}) - unix_millis({_hour(instant)})) / {TURN_S * 1000})"


_IS_TURN = "weight is not null and event in ('active', 'charged')"
_MORE = "cast(round(1000 * if(event = 'active', cost, more)) as bigint)"
"""What a step costs, in thousandths: sums of whole numbers are the same in any order."""
_TURN = {**_AT, **_TENANT, "bucket": _of_turns("`at`")}
_TURN_OF_STEP = [
    TENANT.cell(
        **_AT,
        **_TENANT,
        when=_IS_TURN,
        started="event = 'active'",
        corrected="event = 'charged' and more <> 0",
        cost=_MORE,
        most=f"case when event = 'active' then {_MORE} end",
    ),
    TENANT.part("served", **_TURN, when=_IS_TURN, name="weight", many=_MORE),
    TENANT.part("started", **_TURN, when="weight is not null and event = 'active'"),
]

_STARTED = {**_OF, "at": _hour("started_at")}
_BY_WORKER = "worker is not null"
_OF_ATTEMPT = [
    HOUR.cell(
        **_STARTED,
        retried="outcome = 'retried'",
        stalled="outcome = 'stalled'",
        ran="run_ms is not null",
        run_ms="coalesce(run_ms, 0)",
        squares="coalesce(cast(run_ms as double) * run_ms, 0)",
    ),
    *(
        HOUR.part(name, **_STARTED, when=f"{name}_ms is not null", bucket=bucket(f"{name}_ms"))
        for name in ("wait", "run")
    ),
    HOUR.part("worker", **_STARTED, when=_BY_WORKER, name="worker"),
    WORKER.cell(
        **_STARTED,
        when=_BY_WORKER,
        more=_list("worker"),
        completed="outcome = 'completed'",
        failed="outcome in ('failed', 'retried')",
        stalled="outcome = 'stalled'",
        busy_ms="coalesce(run_ms, 0)",
        first="started_at",
        last="greatest(started_at, ended_at)",
    ),
]

_FREE_AT = "greatest(free_at, started_at - interval 1 hour)"
"""Since when it counts as waiting: of a job that waited longer, the last hour says as much."""
_IS_FREE = "weight is not null and free_at <= started_at"
_BEFORE = f"{_IS_FREE} and {_hour(_FREE_AT)} < {_hour('started_at')}"
_OF_TENANT, _EARLIER = {**_STARTED, **_TENANT}, {**_OF, "at": _hour(_FREE_AT), **_TENANT}
_WAITED = "weight is not null and wait_ms is not null"
_CAME = f"if({_hour(_FREE_AT)} < {_hour('started_at')}, -1, {_of_turns(_FREE_AT)})"
_TURN_OF_ATTEMPT = [
    TENANT.cell(
        **_OF_TENANT,
        when="weight is not null",
        waited="wait_ms is not null",
        wait_ms="coalesce(wait_ms, 0)",
    ),
    TENANT.part("wait", **_OF_TENANT, when=_WAITED, bucket=bucket("wait_ms")),
    TENANT.part("came", **_OF_TENANT, when=_IS_FREE, bucket=_CAME),
    TENANT.part("went", **_OF_TENANT, when=_IS_FREE, bucket=_of_turns("started_at")),
    TENANT.cell(**_EARLIER, when=_BEFORE),
    TENANT.part("came", **_EARLIER, when=_BEFORE, bucket=_of_turns(_FREE_AT)),
]

_ARRIVAL = ARRIVED.cell(
    **_OF,
    at=ARRIVAL,
    terminal=f"{HAS_ENDED} and state <> 'removed'",
    removed="state = 'removed'",
    duplicated="duplicates > 0",
)

_DAY = {"at": "to_utc_timestamp(`date`, 'UTC')"}
_FAILED = {
    **_OF,
    "more": _list("fingerprint"),
    "attempts": "failed",
    "retried": "retried",
    "recovered": "recovered",
    "tried": "retried > 0",
    "first": "first_at",
    "last": "last_at",
    "word": "reason",
    "label": "error_class",
    "example": "job_id",
}
_OF_FAILED = [
    FAILURE_DAY.cell(**_FAILED, **_DAY, when=HAS_ENDED),
    FAILURE.cell(**_FAILED),
]

_LEAVING = {
    "queue": "queue",
    "when": "joined_at is not null and rate > 0 and waited_ms is not null",
    "more": _list(power_of("ahead", 4), power_of("((ahead + 1) / nullif(rate, 0))", 2)),
    "gone": "called_at is null and not was_removed",
    "watched_ms": "waited_ms",
}
_OF_PLACE = [
    ARRIVED.cell(
        **_OF,
        when="last_event is not null",
        at=ARRIVAL.replace("added_at", "joined_at"),
        terminal=f"{STATE} = 'completed'",
        removed=f"{STATE} = 'removed'",
    ),
    LEFT_DAY.cell(**_LEAVING, **_DAY),
    LEFT.cell(**_LEAVING),
]
_OF_ROOM = MINUTE.cell(
    queue="queue",
    at="date_trunc('minute', `at`)",
    more=_list("lane"),
    arrived=JOINS,
    refused="event = 'refused'",
    called="event = 'admitted'",
    claimed="event = 'claimed'",
    missed="event = 'missed'",
    left="event = 'left'",
    expired="event = 'expired' and reason = 'silent'",
    completed="event = 'completed'",
)


def _routed(jobs: DataFrame) -> DataFrame:
    return jobs.selectExpr(
        "*", "ready_at is not null and started_at is null and ended_at is null as waits"
    )


_ON_ROUTE = {"queue": "queue", "more": _list("target")}
_ROUTED = {
    **_ON_ROUTE,
    "when": "origin = 'added'",
    "started": "started_at is not null",
    "waiting": "waits",
    # Since when the head of the line waits: a bucket for each instant would be one for each job.
    "first": "case when waits then ready_at end",
    "last": "last_recorded_at",
    "most": "unix_millis(started_at) - unix_millis(ready_at)",
}
_SERVED = {**_ON_ROUTE, "when": "origin = 'added'", "name": "worker"}
_OF_ROUTED = [
    ROUTE_DAY.cell(**_ROUTED, **_DAY),
    ROUTE.cell(**_ROUTED),
]
_OF_ROUTED_BY = [ROUTE_DAY.part("worker", **_SERVED, **_DAY), ROUTE.part("worker", **_SERVED)]

_KIND_OF_FILE = ("directory", "type", size_class("size"))
_ALIKE = {"queue": "queue", "more": _list(*_KIND_OF_FILE)}
_ENDED_ALIKE = {"queue": "queue", "more": _list(*_KIND_OF_FILE, bucket("run_ms"))}
_COUNTED = {
    "completed": "state = 'completed'",
    "dead": "state = 'failed'",
    "endless": "ended_at is null",
    "bytes": "size",
    "first": "added_at",
    "last": "ended_at",
}
_OF_FILE = [
    FILE_DAY.cell(**_ENDED_ALIKE, **_DAY, **_COUNTED, when=HAS_ENDED),
    FILE.cell(**_ALIKE, **_COUNTED),
    FILE.part("run", **_ALIKE, when="run_ms is not null", bucket=bucket("run_ms")),
]
