"""Missing jobs: open jobs that are not in the snapshot of their queue, removed or lost.

A snapshot reads page by page, so it may pass over a job that moves meanwhile. Therefore the store
is asked once more for each of them, and what has an event since the snapshot is left to the next
round, which knows that event.

Most products write an event for every job that is removed, so a missing job is lost. BullMQ drains
and cleans without events. There a job is lost when half of it is left: its id without its data, or
its data without a state that lists it. When both are gone it was removed, unless the store itself
has lost data.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from waystation.core.events import VERSION, EventName
from waystation.core.store import faults
from waystation.pipeline.products import product_named
from waystation.pipeline.products.facts import PAGE, ProductFacts
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.silver.steps import SUBJECT, Subject
from waystation.pipeline.sources.offsets import Offset, next_id
from waystation.pipeline.sources.store import ends_of
from waystation.pipeline.storage import changes, delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.stream_names import ALL_QUEUES
from waystation.pipeline.tables import EVENTS

T = TypeVar("T")
LOST, REMOVED, SEEN = "lost", "removed", "seen"
"""Fates: a job is lost that is neither in its queue nor ended nor removed."""


def judged(unseen: Any, snapshot: Snapshot) -> Any:
    """Open items that the snapshot has not, with the fate of those that it should have."""
    gone = _covered(unseen, snapshot)
    with faults.translated():
        fates = SecondLook(snapshot).fates(gone)
    found = zip(_subjects(gone), fates, strict=True)
    snapshot.removed.extend(who for who, fate in found if fate == REMOVED)
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
APPLICATION = "looks"


def add_removals(
    root: str, subjects: Sequence[Subject], at: dt.datetime, *, folded: int | None
) -> None:
    """Add an event for each job that was found removed at this instant.

    It would stay open for ever without one, and every refresh would look for it. None is added
    while there are such events that were not folded yet, those of another driver: these may be the
    same jobs.
    """
    path = EVENTS.path(root)
    number = (delta.last_batch(path, APPLICATION) or 0) + 1
    if not subjects or _has_news(path, folded):
        return
    millis = int(at.timestamp() * 1000)
    rows = [
        {
            "product": product,
            "queue": queue,
            "stream": STREAM,
            "entry_id": f"{millis}-{turn}",
            "seq": turn,
            "recorded_at": at,
            "at": at,
            "event": EventName.REMOVED.value,
            "job_id": job_id,
            "fields": [("found", "neither its id nor its data")],
            "version": VERSION,
            "date": at.date(),
        }
        for turn, (product, queue, job_id) in enumerate(subjects)
    ]
    with PartWriter.of(root, EVENTS) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(EVENTS.schema)))
    batch = BatchId(APPLICATION, number)
    # Another driver that has the same number was faster.
    delta.commit(path, EVENTS.schema, writer.parts, batch, partitions=EVENTS.partitions)


def _has_news(path: str, folded: int | None) -> bool:
    """Whether there are events of removed jobs that were not folded yet."""
    new = changes.new_files(path, after=folded, until=changes.version(path) or 0)
    return not {each.path for each in new} <= delta.names_without(path, "stream", STREAM)
