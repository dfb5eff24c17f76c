"""Missing jobs: open jobs that are not in the snapshot of their queue, removed or lost.

Most products write an event for every job that is removed, so a missing job is lost. BullMQ drains
and cleans without events. There a job is lost when half of it is left: its id without its data, or
its data without a state that lists it. When both are gone it was removed, unless the store itself
has lost data.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

from waystation.core.events import VERSION, EventName
from waystation.core.store import faults
from waystation.pipeline.products import PRODUCTS, product_named
from waystation.pipeline.products.facts import PAGE, ProductFacts
from waystation.pipeline.refresh.snapshot import Snapshot
from waystation.pipeline.silver.steps import SUBJECT, Subject
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import EVENTS

LOST, REMOVED, SEEN = "lost", "removed", "seen"
"""Fates: a job is lost that is neither in its queue nor ended nor removed."""


def judged(unseen: Any, snapshot: Snapshot) -> Any:
    """Open items that the snapshot has not, with the fate of those that it should have."""
    gone = _covered(unseen, snapshot)
    silent = [name for name, facts in PRODUCTS.items() if facts.removes_silently]
    recorded_at = gone["last_recorded_at"]
    is_known = pc.greater_equal(recorded_at, pa.scalar(snapshot.since, recorded_at.type))
    is_quiet = pc.and_(pc.is_in(gone["product"], pa.array(silent)), is_known)
    lost, quiet = gone.filter(pc.invert(is_quiet)), gone.filter(is_quiet)
    lost = lost.append_column("fate", pa.array([LOST] * lost.num_rows, pa.string()))
    if not quiet.num_rows:
        return lost
    found = list(_fates(snapshot, _subjects(quiet)))
    snapshot.removed.extend(who for who, fate in found if fate == REMOVED)
    fates = pa.array([fate for _, fate in found], pa.string())
    judged = quiet.append_column("fate", fates).filter(pc.not_equal(fates, SEEN))
    return pa.concat_tables([lost, judged])


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
    facts, prefix, queue, job_id = _place_of(snapshot, who)
    assert facts.state_key is not None  # noqa: S101 (silent lines have states)
    for state in facts.states:
        key = facts.state_key(prefix, queue, state.name)
        client = cast(Any, snapshot.store.at(key))
        found = client.lpos(key, job_id) if state.type == "list" else client.zscore(key, job_id)
        if found is not None:
            return True
    return False


def _item_key(snapshot: Snapshot, who: Subject) -> str:
    facts, prefix, queue, job_id = _place_of(snapshot, who)
    assert facts.item_key is not None  # noqa: S101 (silent lines have items)
    return facts.item_key(prefix, queue, job_id)


def _place_of(snapshot: Snapshot, who: Subject) -> tuple[ProductFacts, str, str, str]:
    product, queue, job_id = who
    return product_named(product), *snapshot.options.place_of(product, queue), job_id


STREAM = "waystation:looks"
"""The stream of these events; it does not exist in the store."""
APPLICATION = "looks"


def add_removals(root: str, subjects: Sequence[Subject], at: dt.datetime) -> None:
    """Add an event for each job that was found removed at this instant.

    It would stay open for ever without one, and every refresh would look for it.
    """
    if not subjects:
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
    path = EVENTS.path(root)
    with PartWriter(path, EVENTS.schema, EVENTS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(EVENTS.schema)))
    batch = BatchId(APPLICATION, millis)
    delta.commit(path, EVENTS.schema, writer.parts, batch, partitions=EVENTS.partitions)
