"""The ledger: every job that was added has ended, is in the queue, was removed, or is lost.

Arrivals come from the cells, and what is missing from the snapshot of the queues. That must be
taken before the events are read: then a job that is not in it had ended by then, and its end is
among the events. A job with neither is lost.

A snapshot reads page by page, so it may pass over a job that moves meanwhile. Therefore the store
is asked once more for each of them, and what has an event since the snapshot is left to the next
round, which knows that event.

Most products write an event for every job that is removed, so a missing job is lost. BullMQ drains
and cleans without events. There a job is lost when half of it is left: its id without its data, or
its data without a state that lists it. When both are gone it was removed, unless the store itself
has lost data.

The hours of the ledger are given as data, so that no other hour is touched, however many there are.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeVar, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from waystation.core.events import VERSION, EventName
from waystation.core.store import faults
from waystation.pipeline.gold.cells import ARRIVAL, ARRIVED, CELLS, COUNTS
from waystation.pipeline.gold.files import files_by, meeting, names_in, span_of, write_days
from waystation.pipeline.history import History
from waystation.pipeline.product_keys import ALL_QUEUES
from waystation.pipeline.products import product_named
from waystation.pipeline.products.facts import PAGE, ProductFacts
from waystation.pipeline.products.room_places import PLACES, STATE
from waystation.pipeline.refresh.fold import folded_version
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.refresh.stale_hours import Hours
from waystation.pipeline.silver.moves import OPEN_ITEMS
from waystation.pipeline.silver.steps import SUBJECT, Subject
from waystation.pipeline.sources.offsets import Offset, next_id
from waystation.pipeline.sources.store import ends_of
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.arrow import Batch, pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.sessions import sized
from waystation.pipeline.storage.table_log import files_of
from waystation.pipeline.tables import EVENTS, GAPS, LEDGER, LONG

T = TypeVar("T")
LOST, REMOVED, SEEN = "lost", "removed", "seen"
"""Fates: a job is lost that is neither in its queue nor ended nor removed."""


def judged(unseen: Any, snapshot: Snapshot) -> Any:
    """Open items that the snapshot has not, with the fate of those that it should have."""
    gone = _covered(unseen, snapshot)
    with faults.translated():
        fates = SecondLook(snapshot).fates(gone)
    told = pa.array(fates, pa.string())
    return gone.append_column("fate", told).filter(pc.not_equal(told, SEEN))


def _covered(items: Any, snapshot: Snapshot) -> Any:
    """The items of the queues that the snapshot covers."""
    queues = zip(items["product"].to_pylist(), items["queue"].to_pylist(), strict=True)
    known: dict[tuple[str, str], bool] = {}
    mine = [
        known[each] if each in known else known.setdefault(each, snapshot.covers(*each))
        for each in queues
    ]
    return items.filter(pa.array(mine, pa.bool_()))


def _subjects(items: Any) -> Iterator[Subject]:
    for batch in items.to_batches():
        yield from zip(*(batch.column(name).to_pylist() for name in SUBJECT), strict=True)


class _Place(NamedTuple):
    """Where the store has the jobs of a queue."""

    product: str
    prefix: str
    queue: str

    @property
    def facts(self) -> ProductFacts:
        return product_named(self.product)

    @property
    def stream(self) -> str:
        return self.facts.streams.key(self.prefix, self.queue)


class SecondLook:
    """Asks the store for jobs that a snapshot has not."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._store = snapshot.store

    def fates(self, items: Any) -> list[str]:
        """The fate of each of these items."""
        fates = dict.fromkeys(_subjects(items), LOST)
        told = items["last_recorded_at"]
        kept = set(_subjects(items.filter(pc.greater_equal(told, self._intact_since(told.type)))))
        for place, jobs in self._by_place(fates).items():
            fates.update(self._fates_at(place, jobs, kept))
        # Only now: what had ended when it was asked for has an event by now.
        missing = [who for who, fate in fates.items() if fate != SEEN]
        for place, jobs in self._by_place(missing).items():
            fates.update(dict.fromkeys(self._told_since(place, jobs), SEEN))
        return [fates[who] for who in _subjects(items)]

    def _intact_since(self, kind: Any) -> Any:
        return pa.scalar(self._snapshot.since, kind)

    def _by_place(self, subjects: Iterable[Subject]) -> dict[_Place, list[Subject]]:
        found: dict[_Place, list[Subject]] = defaultdict(list)
        for who in subjects:
            product, queue, _ = who
            if product_named(product).has_one_stream:
                queue = ALL_QUEUES
            found[_Place(product, *self._snapshot.options.place_of(product, queue))].append(who)
        return found

    def _fates_at(
        self, place: _Place, jobs: Sequence[Subject], kept: Container[Subject]
    ) -> Iterator[tuple[Subject, str]]:
        """Fates of jobs, of which the store must have kept some; without one they are lost."""
        if not place.facts.removes_silently:
            there = self._still_open(place, [who[-1] for who in jobs])
            yield from ((who, SEEN) for who in jobs if who[-1] in there)
            return
        for who, has_data in zip(jobs, self._have_data(place, jobs), strict=True):
            if has_data:
                yield who, SEEN if self._is_listed(place, who[-1]) else LOST
            elif who in kept and who not in self._snapshot.without_data:
                yield who, REMOVED

    def _still_open(self, place: _Place, ids: Sequence[str]) -> set[str]:
        product, prefix, queue = place
        client, others = self._store.at(place.stream), self._snapshot.open_ids
        if product not in others and (ask := place.facts.still_open) is not None:
            return {each for page in _pages(ids) for each in ask(client, prefix, queue, page)}
        find = others.get(product) or place.facts.open_ids
        assert find is not None  # noqa: S101 (only silent products have none)
        return set(ids).intersection(find(client, prefix, queue))

    def _have_data(self, place: _Place, jobs: Sequence[Subject]) -> Iterator[bool]:
        key_of, (_, prefix, queue) = place.facts.item_key, place
        assert key_of is not None  # noqa: S101 (silent products have items)
        for page in _pages(jobs):
            asking = self._store.at(place.stream).pipeline(transaction=False)
            for _, _, job_id in page:
                asking.exists(key_of(prefix, queue, job_id))
            yield from map(bool, asking.execute())

    def _is_listed(self, place: _Place, job_id: str) -> bool:
        """Whether a state lists it: a job that moves within a sorted set may be skipped."""
        key_of, (_, prefix, queue) = place.facts.state_key, place
        assert key_of is not None  # noqa: S101 (silent products have states)
        for state in place.facts.states:
            key = key_of(prefix, queue, state.name)
            client = cast(Any, self._store.at(key))
            found = client.lpos(key, job_id) if state.type == "list" else client.zscore(key, job_id)
            if found is not None:
                return True
        return False

    def _told_since(self, place: _Place, jobs: Sequence[Subject]) -> Iterator[Subject]:
        """Those with an event after the snapshot, which bronze may not have yet."""
        name = place.facts.field_names.job_id.encode()
        wanted = {who[-1].encode() for who in jobs}
        told = wanted.intersection(each.get(name) for each in self._entries_since(place.stream))
        return (who for who in jobs if who[-1].encode() in told)

    def _entries_since(self, stream: str) -> Iterator[Mapping[bytes, bytes]]:
        client: Any = self._store.at(stream)
        after = self._snapshot.ends.get(stream, Offset()).id
        end = ends_of(self._store, [stream]).get(stream)
        while end and (page := client.xrange(stream, next_id(after), end.id, PAGE)):
            yield from (fields or {} for _, fields in page)
            after = page[-1][0].decode()


def _pages(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    return (rows[first : first + PAGE] for first in range(0, len(rows), PAGE))


STREAM = "waystation:looks"
"""The stream of these events; it does not exist in the store."""
LOOKS = "looks"
WRITTEN_AT_ONCE = 10_000
"""Events that are made at once: a queue that was emptied may have had millions of jobs."""


def add_removals(
    root: str, subjects: Sequence[Subject], at: dt.datetime, *, folded: int | None
) -> None:
    """Add an event for each job that was found removed at this instant.

    It would stay open for ever without one, and every refresh would look for it. None is added
    while there are such events that were not folded yet, those of another driver: these may be the
    same jobs.
    """
    path = EVENTS.path(root)
    number = (delta.last_batch(path, LOOKS) or 0) + 1
    if not subjects or _has_news(path, folded):
        return
    with PartWriter.of(root, EVENTS) as writer:
        for first in range(0, len(subjects), WRITTEN_AT_ONCE):
            writer.write(_removals(subjects[first : first + WRITTEN_AT_ONCE], first, at))
    batch = BatchId(LOOKS, number)
    # Another driver that has the same number was faster.
    delta.commit(path, EVENTS.schema, writer.parts, batch, partitions=EVENTS.partitions)


def _removals(subjects: Sequence[Subject], first: int, at: dt.datetime) -> Batch:
    """Events that say of these jobs that they were found removed."""
    schema, many = schema_of(EVENTS.schema), len(subjects)
    turns = pa.arange(first, first + many)
    millis = str(int(at.timestamp() * 1000))
    columns: dict[str, Any] = {
        **{name: pa.array([who[turn] for who in subjects]) for turn, name in enumerate(SUBJECT)},
        "entry_id": pc.binary_join_element_wise(millis, turns.cast(pa.string()), "-"),
        "seq": turns,
    }
    same: dict[str, Any] = {
        "stream": STREAM,
        "recorded_at": at,
        "at": at,
        "event": EventName.REMOVED.value,
        "fields": [("found", "neither its id nor its data")],
        "version": VERSION,
        "date": at.date(),
    }
    arrays: list[Any] = [
        columns[field.name]
        if field.name in columns
        else pa.repeat(pa.scalar(same.get(field.name), field.type), many)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _has_news(path: str, folded: int | None) -> bool:
    """Whether there are events of removed jobs that were not folded yet."""
    new = table_log.new_files(path, after=folded, until=table_log.version(path) or 0)
    return not {each.path for each in new} <= delta.names_without(path, "stream", STREAM)


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
    batch = BatchId(APPLICATION, (table_log.version(path) or 0) + 1)
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
    removed = list(_subjects(gone.filter(pc.equal(gone["fate"], REMOVED))))
    add_removals(history.root, removed, snapshot.at, folded=folded)
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
