"""`waystation.jobs`: queues as DataFrames, and DataFrames into queues.

    spark.read.format("waystation.jobs").options(url=…, queues="mail").load()
    rows.write.format("waystation.jobs").options(url=…, queue="mail", batch="june").mode("append")

Reading takes a state's work as rows. Writing adds each `key` of a batch once: a batch that was cut
short is simply written again, and one that was finished adds nothing.
"""
# ruff: noqa: N802, N803 (Spark calls them so)

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from waystation.core.errors import InvalidOption
from waystation.core.events import Line
from waystation.pipeline.options import at_least, listed, parse
from waystation.pipeline.products import line_named
from waystation.pipeline.products.facts import Entrance
from waystation.pipeline.sources.batch_writer import (
    Added,
    BatchAdding,
    Receipt,
    batch_keys,
    receipt_of,
)
from waystation.pipeline.sources.jobs_reader import SCHEMA, JobsReader
from waystation.pipeline.sources.store import URL_VARIABLE, Store, url_of
from waystation.pipeline.storage.arrow import Batch

NAME = "waystation.jobs"
DAY_S = 86_400


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.jobs` when it is read."""

    queues: str
    """Names, separated by commas."""
    url: str = ""
    """Address of the store; better left to `urlEnv`, because options end up in plans and logs."""
    url_env: str = URL_VARIABLE
    """The environment variable that holds the address when `url` does not."""
    line: str = Line.BULLMQ.value
    """Which product the queues belong to; so far only `bullmq` can be read."""
    prefix: str = ""
    """What the keys start with; empty means the product's own."""
    states: str = ""
    """Names, separated by commas; empty means all."""


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.jobs` when it is written to."""

    queue: str
    """The queue to add to; `routing` and `files` choose it by each row's type or priority."""
    batch: str
    """The name under which keys are remembered; the same name again goes on where a write that was
    cut short has stopped."""
    url: str = ""
    """Address of the store; better left to `urlEnv`, because options end up in plans and logs."""
    url_env: str = URL_VARIABLE
    """The environment variable that holds the address when `url` does not."""
    line: str = Line.BULLMQ.value
    """Which product the queue belongs to: `bullmq`, `routing` or `files`."""
    prefix: str = ""
    """What the keys start with; empty means the product's own."""
    chunk: int = 200
    """Rows in one call, at most 1000; the server does nothing else meanwhile."""
    setup: str = ""
    """How the product itself is set up, as JSON; only for `files`."""
    keep: int = 7 * DAY_S
    """Seconds that a batch is remembered after it was last written to."""

    def __post_init__(self) -> None:
        at_least("keep", self.keep, 60)
        at_least("chunk", self.chunk, 1)
        if self.chunk > 1000:
            raise InvalidOption(f"chunk must be at most 1000, got {self.chunk}")
        entrance_of(self.line, self.setup)
        batch_keys(self.queue, self.prefix or "-", self.batch)


class Jobs(DataSource):
    """The work of any line, to read and to add to."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return NAME

    def schema(self) -> StructType:
        """One row for each piece of work."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """What is in the queues now."""
        options = parse(self.options, ReadOptions)
        facts = line_named(options.line)
        if facts.state_key is None or facts.item_key is None:
            raise InvalidOption(f"wanted a line whose jobs can be read, bullmq; got {options.line}")
        known = [state.name for state in facts.states]
        states = listed(options.states) or known
        if unknown := sorted(set(states) - set(known)):
            raise InvalidOption(
                f"states must be among {', '.join(known)}; got {', '.join(unknown)}"
            )
        store = Store(url_of(options.url, options.url_env))
        prefix = options.prefix or facts.prefix
        return JobsReader(store, facts, prefix, set(listed(options.queues)), set(states))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Into a queue, once."""
        return JobsWriter(_writing(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Into a queue, whenever there is more."""
        return JobsStream(_writing(self.options, schema, overwrite))


def receipt(
    url: str, queue: str, batch: str, *, line: str = Line.BULLMQ.value, prefix: str = ""
) -> Receipt | None:
    """What is remembered of a batch; None when nothing is."""
    home = prefix or line_named(line).prefix
    return receipt_of(Store(url).at(f"{home}:{queue}:"), queue, home, batch)


class Sent(WriterCommitMessage):
    """What one task has added."""

    def __init__(self, added: Added) -> None:
        self.added = added


class Writing:
    """Writing into one queue: the tasks' part and the driver's part."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._prefix = options.prefix or line_named(options.line).prefix
        self._store = Store(url_of(options.url, options.url_env))

    def write(self, batches: Iterator[Batch]) -> Sent:
        """Add a task's rows."""
        rows = (row for batch in batches for row in _rows(batch))
        return Sent(self._adding().add(self._client(), rows, chunk=self._options.chunk))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Close the batch: all of it is in."""
        rows = sum(each.added.rows for each in messages if isinstance(each, Sent))
        self._adding().close(self._client(), rows)

    def _adding(self) -> BatchAdding:
        options = self._options
        return BatchAdding(
            entrance_of(options.line, options.setup),
            options.queue,
            self._prefix,
            options.batch,
            keep_ms=options.keep * 1000,
        )

    def _client(self) -> Any:
        return self._store.at(f"{self._prefix}:{self._options.queue}:")


class JobsWriter(DataSourceArrowWriter):
    """Writes one batch."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Add a task's rows."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Close the batch."""
        self._writing.commit(messages)


class JobsStream(DataSourceStreamArrowWriter):
    """Writes rows as they come; a query that goes on is one batch that is never closed."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Add a task's rows."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """The keys stay remembered: a later batch may hold them again."""


def entrance_of(line: str, setup: str = "") -> Entrance:
    """How rows become work of a line, set up as it is; refused where they cannot."""
    entrance = line_named(line).entrance
    if entrance is None:
        raise InvalidOption(f"rows cannot be written into the line {line}")
    return entrance.set_up(setup) if setup else entrance


def _writing(given: Mapping[str, str], schema: StructType, overwrite: bool) -> Writing:
    options = parse(given, WriteOptions)
    if overwrite:
        raise InvalidOption("jobs are added to a queue, never replaced: use mode('append')")
    known = ["key", *entrance_of(options.line).columns]
    if "key" not in schema.names or (unknown := sorted(set(schema.names) - set(known))):
        unknown = sorted(set(schema.names) - set(known))
        raise InvalidOption(
            f"wanted the column key and others of {', '.join(known)}; got {', '.join(schema.names)}"
            + (f" ({', '.join(unknown)} cannot be used)" if unknown else "")
        )
    return Writing(options)


def _rows(batch: Batch) -> Iterator[Mapping[str, Any]]:
    names = batch.schema.names
    columns = [column.to_pylist() for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))
