"""Bulk adding: rows into a queue, each key once however often it is sent."""

import datetime as dt
import hashlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from redis import Redis
from redis.connection import AbstractConnection
from redis.exceptions import NoScriptError, RedisError

from waystation.core.durations import instant
from waystation.core.errors import InvalidInput, InvalidOption, WaystationError
from waystation.core.store import faults
from waystation.pipeline.options import at_least
from waystation.pipeline.products.facts import RowEncoder
from waystation.pipeline.sources.keys import BatchKeys
from waystation.pipeline.sources.scripts import add_once, close_batch
from waystation.pipeline.sources.store import own_connection

UNDER_WAY = 4
"""Calls that are sent before the reply to the first is awaited."""
KEEP_S = 7 * 86_400
"""Seconds that a batch is remembered, if nothing else is set."""
_MOST_ROWS = 1000
"""Rows in one call, during which the server does nothing else."""

_BLANK = "local function add(KEYS, ARGV) return {} end"


class Added(NamedTuple):
    """Counts of rows that were sent."""

    rows: int = 0
    new: int = 0
    known: int = 0

    def plus(self, reply: Sequence[int]) -> "Added":
        """These counts and the reply to one call."""
        return Added(self.rows + reply[0] + reply[1], self.new + reply[0], self.known + reply[1])


def check_limits(*, keep: int, chunk: int) -> None:
    """Refuse a time that is too short to write a batch again in, and calls of too many rows."""
    at_least("keep", keep, 60)
    at_least("chunk", chunk, 1)
    if chunk > _MOST_ROWS:
        raise InvalidOption(f"chunk must be at most {_MOST_ROWS}, got {chunk}")


class Receipt(NamedTuple):
    """What the store remembers of a batch."""

    batch: str
    rows: int
    jobs: int
    closed_at: dt.datetime | None
    """When the batch was complete; None before that."""


class BatchWriter:
    """Adds the rows of one batch to one queue."""

    def __init__(
        self, encoder: RowEncoder, queue: str, prefix: str, batch: str, *, keep_ms: int
    ) -> None:
        self._entrance = encoder
        self._queue_keys = encoder.keys(queue, prefix)
        self._keys = batch_keys(queue, prefix, batch)
        self._keep_ms = keep_ms
        # The product's script becomes a function in ours: adding and remembering are one step.
        self._text = add_once.source.replace(
            _BLANK, f"local function add(KEYS, ARGV)\n{encoder.add.source}\nend"
        )
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()
        self._slots = [
            self._keys.receipt,
            self._keys.done,
            *(getattr(self._queue_keys, name) for name in encoder.add.header.keys),
            *(getattr(self._queue_keys, rest) if (rest := encoder.add.header.rest_keys) else ()),
        ]
        self._leading = list(encoder.leading(self._queue_keys))

    def add(self, client: Redis, rows: Iterable[Mapping[str, Any]], *, chunk: int) -> Added:
        """Send rows, `chunk` in one call; the server skips those whose keys are known."""
        under_way: deque[list[Any]] = deque()
        added = Added()
        with faults.translated(), own_connection(client) as connection:
            connection.send_command("SCRIPT", "LOAD", self._text)
            connection.read_response()
            for arguments in self._calls(rows, chunk):
                connection.send_command("EVALSHA", self._sha, len(self._slots), *arguments)
                under_way.append(arguments)
                if len(under_way) > UNDER_WAY:
                    added = added.plus(self._answer(connection, client, under_way.popleft()))
            while under_way:
                added = added.plus(self._answer(connection, client, under_way.popleft()))
        return added

    def close(self, client: Redis, rows: int) -> None:
        """Mark the batch as complete."""
        now_ms = int(time.time() * 1000)
        close_batch.call_sync(client, self._keys, keep_ms=self._keep_ms, rows=rows, now_ms=now_ms)

    def _calls(self, rows: Iterable[Mapping[str, Any]], chunk: int) -> Iterator[list[Any]]:
        width = self._entrance.width
        waiting = iter(rows)
        while some := list(islice(waiting, chunk)):
            arguments = [*self._slots, self._keep_ms, width, len(self._leading), *self._leading]
            for row in some:
                arguments.append(_key(row.get("key")))
                try:
                    arguments += self._entrance.job(self._queue_keys, row)
                except WaystationError as error:
                    raise type(error)(f"the row with the key {row['key']!r}: {error}") from None
            yield arguments

    def _answer(
        self, connection: AbstractConnection, client: Redis, sent: list[Any]
    ) -> Sequence[int]:
        try:
            reply = cast(Sequence[int], connection.read_response())
        except NoScriptError:
            # The server does not know the script any more; nothing has run.
            reply = cast(
                Sequence[int],
                client.execute_command("EVAL", self._text, len(self._slots), *sent),
            )
        if reply[0] < 0:
            # Closed by another run of the same batch, which had all of these rows.
            return 0, 0, 0
        if reply[2]:
            raise InvalidInput(f"the queue refused {reply[2]} of {reply[0]} jobs")
        return reply


def batch_keys(queue: str, prefix: str, batch: str) -> BatchKeys:
    """The keys of a batch."""
    if not batch or ":" in batch or not batch.isprintable():
        raise InvalidOption(f"a batch's name must be printable and hold no colon, got {batch!r}")
    return BatchKeys(queue, prefix=prefix, batch=batch)


def receipt_of(client: Redis, queue: str, prefix: str, batch: str) -> Receipt | None:
    """The receipt of a batch; None when it is unknown or forgotten."""
    try:
        found = cast(Any, client.hgetall(batch_keys(queue, prefix, batch).receipt))
    except RedisError as error:
        raise faults.to_waystation_error(error) from error
    if not found:
        return None
    numbers = {name.decode(): int(value) for name, value in found.items()}
    return Receipt(
        batch, numbers.get("rows", 0), numbers["jobs"], _instant(numbers.get("closed_ms"))
    )


def _instant(millis: int | None) -> dt.datetime | None:
    return None if millis is None else instant(millis)


def _key(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"the key of a row must be text and not empty, got {value!r}")
    return value
