"""A look at the queues as they are: what is there, and how far the streams have come."""

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from waystation.pipeline.lines import LINES, line_named
from waystation.pipeline.silver.steps import WHO
from waystation.pipeline.sources import jobs, walking
from waystation.pipeline.sources.places import Place, Told
from waystation.pipeline.sources.snapshot import SCHEMA
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import EventOptions, Streams

FEW = 20_000
"""Pieces of work that are sooner read here than by tasks that have to be started first."""


class Look(msgspec.Struct, frozen=True):
    """What was to be seen at one instant."""

    at: dt.datetime
    """The instant, by the store's clock."""
    seen: DataFrame
    """Whose work has not ended and is there."""
    lines: tuple[str, ...]
    """The lines that were looked at."""
    ends: Mapping[str, Place]
    """How far each stream had come by then, or further."""


def look(spark: SparkSession, options: EventOptions) -> Look:
    """Look at every queue that the options mean; nothing is lost that is seen here."""
    streams = Streams(options)
    at = now(streams.store)
    told = streams.now()
    mine = [each for each in told if line_named(each.line).accountable]
    seen = present(spark, options, mine, ended=False)
    # Counted now, while the instant is right; whoever uses it later must not look again.
    rows = seen.where(F.col("_corrupt").isNull()).select(*WHO).localCheckpoint()
    ends = {
        each.stream: walking.end_of(streams.store.at(each.stream), each.stream) for each in told
    }
    return Look(
        at,
        rows,
        tuple(name for name, facts in LINES.items() if facts.accountable),
        {stream: end for stream, end in ends.items() if end is not None},
    )


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
        if line_named(line).state_key is not None
    ]
    return reduce(DataFrame.unionByName, parts, spark.createDataFrame([], SCHEMA))


def now(store: Store) -> dt.datetime:
    """What time the store has."""
    client: Any = store.client
    seconds, micros = client.time()
    return dt.datetime.fromtimestamp(seconds, dt.UTC) + dt.timedelta(microseconds=micros)


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
