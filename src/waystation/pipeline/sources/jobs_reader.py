"""Reader of `waystation.jobs`: the jobs of queues, state by state."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType
from redis import Redis
from redis.connection import AbstractConnection

from waystation.core.store import faults
from waystation.pipeline.bullmq_jobs import FIELDS, NUMBERS
from waystation.pipeline.products.facts import ProductFacts, State
from waystation.pipeline.sources.store import Store, own_connection
from waystation.pipeline.storage.arrow import Array, Batch, pa, pc
from waystation.pipeline.storage.schemas import schema_of

ITEMS_A_TASK = 50_000

_TEXTS = tuple(name for name in FIELDS if name not in NUMBERS)
SCHEMA = StructType(
    [
        *(StructField(name, StringType()) for name in ("line", "queue", "state", "subject")),
        *(StructField(name, StringType()) for name in _TEXTS),
        *(StructField(name, LongType()) for name in NUMBERS),
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
            "line": _repeat(self._facts.line.value, many),
            "queue": _repeat(part.queue, many),
            "state": _repeat(part.state.name, many),
            "subject": _text(ids),
            **{name: _text(columns.get(name, [None] * many)) for name in _TEXTS},
            **{name: _number(columns.get(name, [None] * many)) for name in NUMBERS},
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
