"""Snapshot of the queues: the open jobs in them, and the ends of the event streams."""

import datetime as dt
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import islice
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.core.store import faults
from waystation.core.store.keyspace import Keyspace, String
from waystation.pipeline.options import split_list
from waystation.pipeline.products import product_named
from waystation.pipeline.products.facts import PAGE, OpenIds, State
from waystation.pipeline.silver.steps import SUBJECT, Subject
from waystation.pipeline.sources import jobs
from waystation.pipeline.sources.jobs import SCHEMA
from waystation.pipeline.sources.offsets import EventStream, Offset
from waystation.pipeline.sources.store import Store, url_option
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.sessions import prepared

EVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SEEN = pa.schema([*((name, pa.string()) for name in SUBJECT), ("whole", pa.bool_())])
NO_OTHERS: Mapping[str, OpenIds] = {}
WITNESS_S = 90 * 86_400
"""Seconds that the mark in a store lives without another snapshot."""


class WitnessKeys(Keyspace, root="<name>"):
    """The pipeline's mark in a store; it is gone when the store has lost its data."""

    since = String("since", "since when the store has lost no data", ttl="90 days")


class Snapshot(msgspec.Struct, frozen=True):
    """The open work of the queues at one instant."""

    at: dt.datetime
    """When it was taken, by the store's clock."""
    seen: Any
    """An Arrow table of the ids in the queues; `whole` says whether the job itself is there."""
    without_data: frozenset[Subject]
    """The ids whose jobs are not there."""
    options: EventOptions
    """The products and queues in it."""
    ends: Mapping[str, Offset]
    """The end of each stream, at this instant or a little later."""
    since: dt.datetime
    """Since when the store has lost no data, as far as snapshots know."""
    open_ids: Mapping[str, OpenIds] = NO_OTHERS
    """How the open work of products is found whose keys have other names than by default."""

    @property
    def store(self) -> Store:
        """The store it was taken from."""
        return Streams(self.options).store

    def covers(self, product: str, queue: str) -> bool:
        """Whether a queue belongs to the products and queues of this snapshot."""
        names = split_list(self.options.queues)
        return (
            product in split_list(self.options.products)
            and self.options.knows(product, queue)
            and (
                product_named(product).has_one_stream
                or any(queue == name or fnmatch.fnmatchcase(queue, name) for name in names)
            )
        )


def take_snapshot(
    options: EventOptions, *, is_first: bool = False, open_ids: Mapping[str, OpenIds] = NO_OTHERS
) -> Snapshot:
    """Take a snapshot of every queue that the options select.

    For the first one nothing is known that the store could have lost. `open_ids` finds the open
    work of products whose keys have other names than by default.
    """
    streams = Streams(options)
    with faults.translated():
        at = now(streams.store)
        found = streams.now()
        seen = pa.Table.from_batches(
            _open_ids(options, streams.store, found, open_ids), schema=_SEEN
        )
        ends = streams.ends()
        since = _intact_since(streams.store, EVER if is_first else at)
    return Snapshot(
        at=at,
        seen=seen,
        without_data=_without_data(seen),
        options=options,
        ends=ends,
        since=since,
        open_ids=open_ids,
    )


def current_jobs(spark: SparkSession, options: EventOptions) -> DataFrame:
    """The jobs that are in the queues now, one row for each."""
    queues: dict[tuple[str, str], set[str]] = {}
    for each in Streams(options).now():
        prefix, name = options.place_of(each.product, each.queue)
        queues.setdefault((each.product, prefix), set()).add(name)
    parts = [
        _jobs_of(spark, options, product, prefix, names)
        for (product, prefix), names in sorted(queues.items())
        if product_named(product).state_key is not None
        and product_named(product).item_key is not None
    ]
    return reduce(DataFrame.unionByName, parts, spark.createDataFrame([], SCHEMA))


def now(store: Store) -> dt.datetime:
    """The store's time."""
    client: Any = store.client
    seconds, micros = client.time()
    return dt.datetime.fromtimestamp(seconds, dt.UTC) + dt.timedelta(microseconds=micros)


def _open_ids(
    options: EventOptions,
    store: Store,
    streams: Iterable[EventStream],
    others: Mapping[str, OpenIds],
) -> Iterator[Any]:
    """The ids in all queues, page by page."""
    states: dict[str, tuple[str, str, State]] = {}
    for product, queue, stream in streams:
        facts = product_named(product)
        place = options.place_of(product, queue)
        if (find := others.get(product) or facts.open_ids) is not None:
            subjects = find(store.at(stream), *place)
            while page := list(islice(subjects, PAGE)):
                yield _page(product, queue, page, [True] * len(page))
        elif facts.state_key is not None:
            for state in facts.states:
                if state.name not in facts.ended_states:
                    states[facts.state_key(*place, state.name)] = product, queue, state
    sizes = store.ask({key: (state.size, key) for key, (_, _, state) in states.items()})
    for key, (product, queue, state) in states.items():
        if sizes[key]:
            item_key = partial(_item_key(product), *options.place_of(product, queue))
            for ids, whole in _in_state(store.at(key), key, state, item_key):
                yield _page(product, queue, ids, whole)


def _item_key(product: str) -> Callable[[str, str, str], str]:
    key_of = product_named(product).item_key
    assert key_of is not None  # noqa: S101 (whoever has states has items)
    return key_of


def _in_state(
    client: Any, key: str, state: State, item_key: Callable[[str], str]
) -> Iterator[tuple[list[str], list[bool]]]:
    """The ids in one state, and whether the job of each is there."""
    range_of = client.lrange if state.type == "list" else client.zrange
    first = 0
    while page := range_of(key, first, first + PAGE - 1):
        first += len(page)
        # Older versions put markers among the ids.
        ids = [each.decode("utf-8", "replace") for each in page if not each.startswith(b"0:")]
        asking = client.pipeline(transaction=False)
        for each in ids:
            asking.exists(item_key(each))
        yield ids, [bool(each) for each in asking.execute()]


def _without_data(seen: Any) -> frozenset[Subject]:
    broken = seen.filter(pc.invert(seen["whole"]))
    return frozenset(zip(*(broken[name].to_pylist() for name in SUBJECT), strict=True))


def _page(product: str, queue: str, subjects: list[str], whole: list[bool]) -> Any:
    many = len(subjects)
    columns = [[product] * many, [queue] * many, subjects, whole]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _SEEN, strict=True)],
        schema=_SEEN,
    )


def _intact_since(store: Store, otherwise: dt.datetime) -> dt.datetime:
    """The instant in the store's mark; a store without one gets it now."""
    key = WitnessKeys("waystation").since
    pipe = store.at(key).pipeline(transaction=True)
    pipe.set(key, otherwise.isoformat(), nx=True)
    pipe.expire(key, WITNESS_S)
    pipe.get(key)
    return dt.datetime.fromisoformat(pipe.execute()[-1].decode())


def _jobs_of(
    spark: SparkSession, options: EventOptions, product: str, prefix: str, queues: set[str]
) -> DataFrame:
    asked = {
        **url_option(spark, options.url, options.url_env),
        "product": product,
        "prefix": prefix,
        "queues": ",".join(sorted(queues)),
    }
    found = prepared(spark, jobs.Jobs).read.format(jobs.NAME).options(**asked).load()
    # What every name under this prefix begins with in the tables.
    begins = options.name_of(product, prefix, "")
    return found.withColumn("queue", F.concat(F.lit(begins), "queue")) if begins else found
