"""A look at the queues as they are: what is there, and how far the streams have come."""

import datetime as dt
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import islice
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.core.store import faults
from waystation.core.store.keyspace import Keyspace, String
from waystation.pipeline.options import listed
from waystation.pipeline.products import line_named
from waystation.pipeline.products.facts import PAGE, LineFacts, State
from waystation.pipeline.silver.steps import WHO, Who
from waystation.pipeline.sources import jobs, walking
from waystation.pipeline.sources.jobs_reader import SCHEMA
from waystation.pipeline.sources.offsets import Place, Told
from waystation.pipeline.sources.store import Store, url_options
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.storage.arrow import pa, pc

EVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SEEN = pa.schema([*((name, pa.string()) for name in WHO), ("whole", pa.bool_())])
WITNESS_S = 90 * 86_400
"""Seconds that a store is known to be the same one although nobody looks at it."""


class WitnessKeys(Keyspace, root="<name>"):
    """What the pipeline leaves in a store, to know it again."""

    since = String("since", "since when the store has forgotten nothing it was told", ttl="90 days")


class Look(msgspec.Struct, frozen=True):
    """What was to be seen at one instant."""

    at: dt.datetime
    """The instant, by the store's clock."""
    seen: DataFrame
    """Whose work has not ended and is named there, and whether the work itself is there, too."""
    halves: frozenset[Who]
    """Those of them that are named and nothing more."""
    options: EventOptions
    """Which lines and queues were looked at."""
    ends: Mapping[str, Place]
    """How far each stream had come by then, or further."""
    since: dt.datetime
    """Since when the store has kept what it was told, as far as those who looked at it know."""
    removed: list[Who] = []
    """Line, queue and subject of what was taken out without a word: found out by `missing`."""

    @property
    def store(self) -> Store:
        """The store that was looked at."""
        return Streams(self.options).store

    def covers(self) -> Column:
        """Whether a row belongs to what was looked at."""
        names = [fnmatch.translate(name) for name in listed(self.options.queues)]
        is_named = F.col("queue").rlike("|".join(f"^{name}" for name in names))
        lines = listed(self.options.lines)
        whole = [line for line in lines if line_named(line).has_one_stream]
        return F.col("line").isin(*lines) & (F.col("line").isin(*whole) | is_named)


def look(spark: SparkSession, options: EventOptions, *, is_first: bool = False) -> Look:
    """Look at every queue that the options mean; nothing is lost that is seen here.

    Whoever looks for the first time has nothing that the store could have forgotten.
    """
    streams = Streams(options)
    with faults.translated():
        at = now(streams.store)
        told = streams.now()
        # Counted now, while the instant is right; whoever uses it later must not look again.
        seen = pa.Table.from_batches(_seen(options, streams.store, told), schema=_SEEN)
        ends = {
            each.stream: walking.end_of(streams.store.at(each.stream), each.stream) for each in told
        }
        since = _kept_since(streams.store, EVER if is_first else at)
    return Look(
        at=at,
        seen=spark.createDataFrame(seen),
        halves=_halves(seen),
        options=options,
        ends={stream: end for stream, end in ends.items() if end is not None},
        since=since,
    )


def present(spark: SparkSession, options: EventOptions, told: Iterable[Told]) -> DataFrame:
    """The work of these queues as rows."""
    queues: dict[str, set[str]] = {}
    for each in told:
        queues.setdefault(each.line, set()).add(each.queue)
    parts = [
        _of_line(spark, options, line, names)
        for line, names in sorted(queues.items())
        if line_named(line).state_key is not None and line_named(line).item_key is not None
    ]
    return reduce(DataFrame.unionByName, parts, spark.createDataFrame([], SCHEMA))


def now(store: Store) -> dt.datetime:
    """What time the store has."""
    client: Any = store.client
    seconds, micros = client.time()
    return dt.datetime.fromtimestamp(seconds, dt.UTC) + dt.timedelta(microseconds=micros)


def _seen(options: EventOptions, store: Store, told: Iterable[Told]) -> Iterator[Any]:
    """Who is named where work waits or is done, page by page."""
    for line, queue, stream in told:
        facts = line_named(line)
        prefix = options.prefix or facts.prefix
        if facts.seen is not None:
            subjects = facts.seen(store.at(stream), prefix, queue)
            while page := list(islice(subjects, PAGE)):
                yield _page(line, queue, page, [True] * len(page))
        elif facts.state_key is not None:
            for state in facts.states:
                if state.name not in facts.ended_states:
                    yield from _in_state(store, facts, prefix, queue, state)


def _in_state(
    store: Store, facts: LineFacts, prefix: str, queue: str, state: State
) -> Iterator[Any]:
    """The ids in one state, and whether there is a job to each."""
    assert facts.state_key is not None and facts.item_key is not None  # noqa: S101, PT018
    key = facts.state_key(prefix, queue, state.name)
    client: Any = store.at(key)
    range_of = client.lrange if state.type == "list" else client.zrange
    first = 0
    while page := range_of(key, first, first + PAGE - 1):
        first += len(page)
        # Markers of older versions stand among the ids.
        ids = [each.decode("utf-8", "replace") for each in page if not each.startswith(b"0:")]
        asking = client.pipeline(transaction=False)
        for each in ids:
            asking.exists(facts.item_key(prefix, queue, each))
        yield _page(facts.line.value, queue, ids, [bool(each) for each in asking.execute()])


def _halves(seen: Any) -> frozenset[Who]:
    torn = seen.filter(pc.invert(seen["whole"]))
    return frozenset(zip(*(torn[name].to_pylist() for name in WHO), strict=True))


def _page(line: str, queue: str, subjects: list[str], whole: list[bool]) -> Any:
    many = len(subjects)
    columns = [[line] * many, [queue] * many, subjects, whole]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _SEEN, strict=True)],
        schema=_SEEN,
    )


def _kept_since(store: Store, otherwise: dt.datetime) -> dt.datetime:
    """What the store says itself; if it has forgotten that, too, it is told anew."""
    key = WitnessKeys("waystation").since
    pipe = store.at(key).pipeline(transaction=True)
    pipe.set(key, otherwise.isoformat(), nx=True)
    pipe.expire(key, WITNESS_S)
    pipe.get(key)
    return dt.datetime.fromisoformat(pipe.execute()[-1].decode())


def _of_line(spark: SparkSession, options: EventOptions, line: str, queues: set[str]) -> DataFrame:
    asked = {
        **url_options(spark, options.url, options.url_env),
        "line": line,
        "prefix": options.prefix,
        "queues": ",".join(sorted(queues)),
    }
    return spark.read.format(jobs.NAME).options(**asked).load()
