"""`waystation.jobs`: the jobs of queues as a DataFrame, and bulk adding from a DataFrame.

    spark.read.format("waystation.jobs").options(url=…, queues="mail").load()
    rows.write.format("waystation.jobs").options(url=…, queue="mail", batch="june").mode("append")

Reading gives one row for each job. Writing adds each `key` of a batch once: write a batch again
after a failure, and only what is missing is added.
"""
# ruff: noqa: N802 (Spark calls the methods so)

# ruff: noqa: N803 (Spark calls them so)
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType
from redis import Redis
from redis.connection import AbstractConnection

from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.core.store import faults
from waystation.pipeline.options import parse, split_list
from waystation.pipeline.product_keys import BULLMQ_FIELDS, BULLMQ_NUMBERS
from waystation.pipeline.products import product_named
from waystation.pipeline.products.facts import ProductFacts, RowEncoder, State
from waystation.pipeline.sources.batch_writer import (
    KEEP_S,
    Added,
    BatchWriter,
    Receipt,
    batch_keys,
    check_limits,
    receipt_of,
)
from waystation.pipeline.sources.store import URL_VARIABLE, Store, own_connection, url_of
from waystation.pipeline.storage.arrow import Array, Batch, pa, pc
from waystation.pipeline.storage.schemas import schema_of


class _TaskResult(WriterCommitMessage):
    """The rows that one task has added."""

    def __init__(self, added: Added) -> None:
        self.added = added


class RowsWriter(ABC):
    """Adds rows to one place: the tasks' part and the driver's part."""

    def __init__(self, store: Store, *, chunk: int) -> None:
        self._store = store
        self._chunk = chunk

    def write(self, batches: Iterator[Batch]) -> WriterCommitMessage:
        """Add a task's rows."""
        rows = (row for batch in batches for row in _rows(batch))
        return _TaskResult(self._batch().add(self._client(), rows, chunk=self._chunk))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Close the batch: all of its rows are added."""
        rows = sum(each.added.rows for each in messages if isinstance(each, _TaskResult))
        self._batch().close(self._client(), rows)

    @abstractmethod
    def _batch(self) -> BatchWriter:
        """The batch that the rows belong to."""

    @abstractmethod
    def _client(self) -> Any:
        """A client of the server that the rows go to."""


class DataFrameWriter(DataSourceArrowWriter):
    """Adds the rows of one batch."""

    def __init__(self, writer: RowsWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Add a task's rows."""
        return self._writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Close the batch."""
        self._writer.commit(messages)


class QueryWriter(DataSourceStreamArrowWriter):
    """Adds rows as they come; a streaming query is one batch that is never closed."""

    def __init__(self, writer: RowsWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Add a task's rows."""
        return self._writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Close nothing: a later micro-batch may hold the same keys."""


def _rows(batch: Batch) -> Iterator[Mapping[str, Any]]:
    names = batch.schema.names
    columns = [column.to_pylist() for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


NAME = "waystation.jobs"


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Options of `waystation.jobs` for reading."""

    queues: str
    """Names, separated by commas."""
    url: str = ""
    """URL of the store. `urlEnv` is safer: options appear in query plans and logs."""
    url_env: str = URL_VARIABLE
    """Environment variable that holds the URL when `url` is empty."""
    product: str = Product.BULLMQ.value
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
    product: str = Product.BULLMQ.value
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
        encoder_of(self.product, self.setup)
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
        facts = product_named(options.product)
        if facts.state_key is None or facts.item_key is None:
            raise InvalidOption(f"only jobs of bullmq can be read, got {options.product}")
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
    url: str, queue: str, batch: str, *, product: str = Product.BULLMQ.value, prefix: str = ""
) -> Receipt | None:
    """The receipt of a batch that was written; None when it is unknown or forgotten."""
    home = prefix or product_named(product).prefix
    return receipt_of(Store(url).at(f"{home}:{queue}:"), queue, home, batch)


class QueueWriter(RowsWriter):
    """Adds rows to one queue."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__(Store(url_of(options.url, options.url_env)), chunk=options.chunk)
        self._options = options
        self._prefix = options.prefix or product_named(options.product).prefix

    def _batch(self) -> BatchWriter:
        options = self._options
        return BatchWriter(
            encoder_of(options.product, options.setup),
            options.queue,
            self._prefix,
            options.batch,
            keep_ms=options.keep * 1000,
        )

    def _client(self) -> Any:
        return self._store.at(f"{self._prefix}:{self._options.queue}:")


def encoder_of(product: str, setup: str = "") -> RowEncoder:
    """The encoder of a product's jobs; refuses a product that rows cannot be written to."""
    encoder = product_named(product).encoder
    if encoder is None:
        raise InvalidOption(f"rows cannot be written to {product}")
    return encoder.with_setup(setup) if setup else encoder


def _queue_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> QueueWriter:
    options = parse(given, WriteOptions)
    if overwrite:
        raise InvalidOption("jobs are added to a queue, never replaced: use mode('append')")
    known = ["key", *encoder_of(options.product).columns]
    if "key" not in schema.names or (unknown := sorted(set(schema.names) - set(known))):
        unknown = sorted(set(schema.names) - set(known))
        raise InvalidOption(
            f"wanted the column key and any of {', '.join(known)}; got {', '.join(schema.names)}"
            + (f" ({', '.join(unknown)} cannot be used)" if unknown else "")
        )
    return QueueWriter(options)


ITEMS_A_TASK = 50_000

_TEXTS = tuple(name for name in BULLMQ_FIELDS if name not in BULLMQ_NUMBERS)
SCHEMA = StructType(
    [
        *(StructField(name, StringType()) for name in ("product", "queue", "state", "job_id")),
        *(StructField(name, StringType()) for name in _TEXTS),
        *(StructField(name, LongType()) for name in BULLMQ_NUMBERS),
        StructField("_corrupt", StringType()),
    ]
)
"""One row for each job; what a product does not store is null."""


class JobSlice(InputPartition):
    """Some of the jobs in one state of one queue, by rank."""

    def __init__(self, queue: str, state: State, first: int, last: int) -> None:
        super().__init__(None)
        self.queue = queue
        self.state = state
        self.first = first
        self.last = last


class JobsReader(DataSourceReader):
    """Reads queues while they are used; a job that moves meanwhile may come twice or not at all.

    It takes no filters, for the reason that the readers of streams give.
    """

    def __init__(
        self, store: Store, facts: ProductFacts, prefix: str, queues: set[str], states: set[str]
    ) -> None:
        self._store = store
        self._facts = facts
        self._prefix = prefix
        self._queues = queues
        self._states = states

    def partitions(self) -> Sequence[InputPartition]:
        """Slices of every selected state."""
        slices = [
            JobSlice(queue, state, first, min(first + ITEMS_A_TASK, many) - 1)
            for queue in sorted(self._queues)
            for state in self._facts.states
            if state.name in self._states
            for many in [self._size(queue, state)]
            for first in range(0, many, ITEMS_A_TASK)
        ]
        return slices or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[Batch]:
        """The rows of one slice, page by page."""
        if not isinstance(partition, JobSlice):
            return
        client = self._store.at(self._key(partition.queue, partition.state))
        with own_connection(client) as connection:
            for first in range(partition.first, partition.last + 1, PAGE):
                last = min(first + PAGE - 1, partition.last)
                with faults.translated():
                    yield self._page(client, connection, partition, first, last)

    def _page(
        self,
        client: Redis,
        connection: AbstractConnection,
        part: JobSlice,
        first: int,
        last: int,
    ) -> Batch:
        key = self._key(part.queue, part.state)
        command = "LRANGE" if part.state.type == "list" else "ZRANGE"
        ids = cast(list[bytes], client.execute_command(command, key, first, last))
        # Older versions put markers among the ids.
        ids = [each for each in ids if not each.startswith(b"0:")]
        hashes = [self._item_key(part.queue, each.decode("utf-8", "replace")) for each in ids]
        wanted = list(self._facts.item_fields.values())
        commands = [("HMGET", each, *wanted) for each in hashes]
        connection.send_packed_command(connection.pack_commands(commands))
        found = [cast(list[bytes | None], connection.read_response()) for _ in ids]
        return self._batch(part, ids, found)

    def _batch(self, part: JobSlice, ids: list[bytes], found: list[list[bytes | None]]) -> Batch:
        columns = dict(zip(self._facts.item_fields, zip(*found, strict=True), strict=False))
        many = len(ids)
        columns: dict[str, Array] = {
            "product": _repeat(self._facts.product.value, many),
            "queue": _repeat(part.queue, many),
            "state": _repeat(part.state.name, many),
            "job_id": _text(ids),
            **{name: _text(columns.get(name, [None] * many)) for name in _TEXTS},
            **{name: _number(columns.get(name, [None] * many)) for name in BULLMQ_NUMBERS},
            "_corrupt": pa.array([_complaint(fields) for fields in found], pa.string()),
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in SCHEMA.names], schema=schema_of(SCHEMA)
        )

    def _size(self, queue: str, state: State) -> int:
        key = self._key(queue, state)
        with faults.translated():
            command = "LLEN" if state.type == "list" else "ZCARD"
            return int(cast(Any, self._store.at(key).execute_command(command, key)))

    def _key(self, queue: str, state: State) -> str:
        assert self._facts.state_key is not None  # noqa: S101 (the source checks it)
        return self._facts.state_key(self._prefix, queue, state.name)

    def _item_key(self, queue: str, item: str) -> str:
        assert self._facts.item_key is not None  # noqa: S101 (the source checks it)
        return self._facts.item_key(self._prefix, queue, item)


PAGE = 1000


def _complaint(fields: Sequence[bytes | None]) -> str | None:
    return "there is no such job" if all(each is None for each in fields) else None


def _repeat(text: str, times: int) -> Array:
    return pa.repeat(pa.scalar(text, pa.string()), times)


def _text(values: Sequence[bytes | None]) -> Array:
    decoded = [None if each is None else each.decode("utf-8", "replace") for each in values]
    return pa.array(decoded, pa.string())


def _number(values: Sequence[bytes | None]) -> Array:
    column = _text(values)
    whole = pc.match_substring_regex(column, r"^-?[0-9]{1,18}$")
    return pc.if_else(whole, column, None).cast(pa.int64())
