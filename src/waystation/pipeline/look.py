"""A look at the queues as they are: what is there, and how far the streams have come."""

import datetime as dt
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.core.store import faults
from waystation.core.store.keyspace import Keyspace, String
from waystation.pipeline.arrow import pa
from waystation.pipeline.lines import line_named
from waystation.pipeline.silver.steps import WHO
from waystation.pipeline.sources import jobs, walking
from waystation.pipeline.sources.options import listed
from waystation.pipeline.sources.places import Place, Told
from waystation.pipeline.sources.snapshot import SCHEMA
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions, Streams

WITNESS_S = 90 * 86_400
"""Seconds that a store is known to be the same one although nobody looks at it."""


class WitnessKeys(Keyspace, root="<name>"):
    """What the pipeline leaves in a store, to know it again."""

    witness = String("witness", "when somebody last looked at all the queues", ttl="90 days")


class Look(msgspec.Struct, frozen=True):
    """What was to be seen at one instant."""

    at: dt.datetime
    """The instant, by the store's clock."""
    seen: DataFrame
    """Whose work has not ended and is named there, and whether the work itself is there, too."""
    options: EventOptions
    """Which lines and queues were looked at."""
    ends: Mapping[str, Place]
    """How far each stream had come by then, or further."""
    remembers: bool
    """Whether the store still knows that it was looked at before."""

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

    Whoever looks for the first time cannot expect to be remembered.
    """
    streams = Streams(options)
    with faults.told():
        at = now(streams.store)
        told = streams.now()
        by_states = [each for each in told if line_named(each.line).seen is None]
        named = present(spark, options, by_states, ended=False)
        whole = F.col("_corrupt").isNull().alias("whole")
        # Counted now, while the instant is right; whoever uses it later must not look again.
        rows = named.select(*WHO, whole).unionByName(_named(spark, options, streams.store, told))
        seen = rows.localCheckpoint()
        ends = {
            each.stream: walking.end_of(streams.store.at(each.stream), each.stream) for each in told
        }
        remembers = _witnessed(streams.store, at) or is_first
    found = {stream: end for stream, end in ends.items() if end is not None}
    return Look(at, seen, options, found, remembers)


def present(
    spark: SparkSession, options: EventOptions, told: Iterable[Told], *, ended: bool = True
) -> DataFrame:
    """The work of these queues as rows, with or without what has ended."""
    queues: dict[str, set[str]] = {}
    for each in told:
        queues.setdefault(each.line, set()).add(each.queue)
    parts = [
        _of_line(spark, options, line, names, ended=ended)
        for line, names in sorted(queues.items())
        if line_named(line).state_key is not None and line_named(line).item_key is not None
    ]
    return reduce(DataFrame.unionByName, parts, spark.createDataFrame([], SCHEMA))


def now(store: Store) -> dt.datetime:
    """What time the store has."""
    client: Any = store.client
    seconds, micros = client.time()
    return dt.datetime.fromtimestamp(seconds, dt.UTC) + dt.timedelta(microseconds=micros)


def _named(
    spark: SparkSession, options: EventOptions, store: Store, told: Iterable[Told]
) -> DataFrame:
    """What lines name whose states are no mere ids."""
    rows = list(_each_named(options, store, told))
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)] or [
        pa.array([], pa.string()) for _ in WHO
    ]
    table = pa.table(dict(zip(WHO, columns, strict=True)))
    return spark.createDataFrame(table).withColumn("whole", F.lit(True))


def _each_named(
    options: EventOptions, store: Store, told: Iterable[Told]
) -> Iterator[tuple[str, str, str]]:
    for line, queue, stream in told:
        facts = line_named(line)
        if facts.seen is not None:
            prefix = options.prefix or facts.prefix
            for subject in facts.seen(store.at(stream), prefix, queue):
                yield line, queue, subject


def _witnessed(store: Store, at: dt.datetime) -> bool:
    """Leave word that somebody looked; whether there was word of a look before."""
    key = WitnessKeys("waystation").witness
    client: Any = store.at(key)
    return client.set(key, at.isoformat(), ex=WITNESS_S, get=True) is not None


def _of_line(
    spark: SparkSession, options: EventOptions, line: str, queues: set[str], *, ended: bool
) -> DataFrame:
    facts = line_named(line)
    states = [state.name for state in facts.states if ended or state.name not in facts.ended_states]
    asked = {
        "url": options.url,
        "urlEnv": options.url_env,
        "line": line,
        "prefix": options.prefix,
        "queues": ",".join(sorted(queues)),
        "states": ",".join(states),
    }
    return spark.read.format(jobs.NAME).options(**asked).load()
