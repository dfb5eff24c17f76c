"""`waystation.jobs`: the jobs of queues as a DataFrame, and bulk adding from a DataFrame.

    spark.read.format("waystation.jobs").options(url=…, queues="mail").load()
    rows.write.format("waystation.jobs").options(url=…, queue="mail", batch="june").mode("append")

Reading gives one row for each job. Writing adds each `key` of a batch once: write a batch again
after a failure, and only what is missing is added.
"""
# ruff: noqa: N802 (Spark calls the methods so)

from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
)
from pyspark.sql.types import StructType

from waystation.core.errors import InvalidOption
from waystation.core.events import Line
from waystation.pipeline.options import parse, split_list
from waystation.pipeline.products import product_named
from waystation.pipeline.products.facts import RowEncoder
from waystation.pipeline.sources.batch_writer import (
    KEEP_S,
    BatchWriter,
    Receipt,
    batch_keys,
    check_limits,
    receipt_of,
)
from waystation.pipeline.sources.jobs_reader import SCHEMA, JobsReader
from waystation.pipeline.sources.row_writers import DataFrameWriter, QueryWriter, RowsWriter
from waystation.pipeline.sources.store import URL_VARIABLE, Store, url_of

NAME = "waystation.jobs"


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.jobs` for reading."""

    queues: str
    """Names, separated by commas."""
    url: str = ""
    """URL of the store. `urlEnv` is safer: options appear in query plans and logs."""
    url_env: str = URL_VARIABLE
    """Environment variable that holds the URL when `url` is empty."""
    line: str = Line.BULLMQ.value
    """Product of the queues; so far only `bullmq` can be read."""
    prefix: str = ""
    """Key prefix; empty means the product's default."""
    states: str = ""
    """States, separated by commas; empty means all."""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.jobs` for writing."""

    queue: str
    """Queue to add to; `routing` and `files` choose it by each row's type or priority."""
    batch: str
    """Name under which the keys are remembered; a write with the same name resumes one that was
    interrupted."""
    url: str = ""
    """URL of the store. `urlEnv` is safer: options appear in query plans and logs."""
    url_env: str = URL_VARIABLE
    """Environment variable that holds the URL when `url` is empty."""
    line: str = Line.BULLMQ.value
    """Product of the queue: `bullmq`, `routing` or `files`."""
    prefix: str = ""
    """Key prefix; empty means the product's default."""
    chunk: int = 200
    """Rows in one script call, at most 1000; the server does nothing else meanwhile."""
    setup: str = ""
    """Layout and options of the queue as JSON; only for `files`."""
    keep: int = KEEP_S
    """Seconds that a batch is remembered after the last write."""

    def __post_init__(self) -> None:
        check_limits(keep=self.keep, chunk=self.chunk)
        encoder_of(self.line, self.setup)
        batch_keys(self.queue, self.prefix or "-", self.batch)


class Jobs(DataSource):
    """The jobs of any product, to read and to add."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def schema(self) -> StructType:
        """One row for each job."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the jobs that are in the queues now."""
        options = parse(self.options, ReadOptions)
        facts = product_named(options.line)
        if facts.state_key is None or facts.item_key is None:
            raise InvalidOption(f"only jobs of bullmq can be read, got {options.line}")
        known = [state.name for state in facts.states]
        states = split_list(options.states) or known
        if unknown := sorted(set(states) - set(known)):
            raise InvalidOption(
                f"states must be among {', '.join(known)}; got {', '.join(unknown)}"
            )
        store = Store(url_of(options.url, options.url_env))
        prefix = options.prefix or facts.prefix
        return JobsReader(store, facts, prefix, set(split_list(options.queues)), set(states))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Add the rows of one DataFrame."""
        return DataFrameWriter(_queue_writer(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Add the rows of a streaming query."""
        return QueryWriter(_queue_writer(self.options, schema, overwrite))


def receipt(
    url: str, queue: str, batch: str, *, line: str = Line.BULLMQ.value, prefix: str = ""
) -> Receipt | None:
    """The receipt of a batch that was written; None when it is unknown or forgotten."""
    home = prefix or product_named(line).prefix
    return receipt_of(Store(url).at(f"{home}:{queue}:"), queue, home, batch)


class QueueWriter(RowsWriter):
    """Adds rows to one queue."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(Store(url_of(options.url, options.url_env)), chunk=options.chunk)
        self._options = options
        self._prefix = options.prefix or product_named(options.line).prefix

    def _batch(self) -> BatchWriter:
        options = self._options
        return BatchWriter(
            encoder_of(options.line, options.setup),
            options.queue,
            self._prefix,
            options.batch,
            keep_ms=options.keep * 1000,
        )

    def _client(self) -> Any:
        return self._store.at(f"{self._prefix}:{self._options.queue}:")


def encoder_of(line: str, setup: str = "") -> RowEncoder:
    """The encoder of a product's jobs; refuses a product that rows cannot be written to."""
    encoder = product_named(line).encoder
    if encoder is None:
        raise InvalidOption(f"rows cannot be written to {line}")
    return encoder.with_setup(setup) if setup else encoder


def _queue_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> QueueWriter:
    options = parse(given, WriteOptions)
    if overwrite:
        raise InvalidOption("jobs are added to a queue, never replaced: use mode('append')")
    known = ["key", *encoder_of(options.line).columns]
    if "key" not in schema.names or (unknown := sorted(set(schema.names) - set(known))):
        unknown = sorted(set(schema.names) - set(known))
        raise InvalidOption(
            f"wanted the column key and any of {', '.join(known)}; got {', '.join(schema.names)}"
            + (f" ({', '.join(unknown)} cannot be used)" if unknown else "")
        )
    return QueueWriter(options)
