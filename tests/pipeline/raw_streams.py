"""Streams to be read: written here, and driven through the reader as Spark drives it."""

import datetime as dt
from typing import Any, cast

import msgspec
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from redis import Redis

from waystation.core.events import from_entry
from waystation.pipeline.sources.events import EventsStream, StreamsFollower
from waystation.pipeline.sources.streams import EventOptions


def write_events(
    store: Redis, many: int, *, queue: str = "mail", event: str = "waiting"
) -> list[str]:
    """Write so many events to a queue's stream; return their ids."""
    line = store.pipeline(transaction=False)
    for number in range(many):
        line.xadd(f"bull:{queue}:events", {"event": event, "jobId": str(number)})
    return [entry.decode() for entry in line.execute()]


async def event_rows(redis: Any, stream: str) -> list[dict[str, Any]]:
    """Return the events that a product has written, as rows of the events table."""
    rows: list[dict[str, Any]] = []
    for number, (entry_id, entry) in enumerate(await redis.xrange(stream)):
        event = from_entry(entry_id, entry)
        at = dt.datetime.fromtimestamp(event.at_ms / 1000, dt.UTC)
        rows.append(
            {
                "product": event.line,
                "queue": event.queue,
                "stream": stream,
                "entry_id": entry_id.decode(),
                "seq": number,
                "recorded_at": at,
                "at": at,
                "event": event.name,
                "job_id": event.subject,
                "attempt": event.attempt,
                "worker": event.worker,
                "fields": event.fields,
                "version": event.version,
                "_corrupt": event.corrupt,
                "date": at.date(),
            }
        )
    return rows


class Following:
    """A reader of streams that is driven as Spark drives it, without Spark."""

    def __init__(self, url: str, *, stream: StreamsFollower | None = None, **asked: Any) -> None:
        self.stream = stream or EventsStream(EventOptions(url=url, accounts=True, **asked))
        self.here = self.stream.initialOffset()

    def batch(self, limit: ReadLimit | None = None) -> "Batch":
        """What the next batch holds; its place is kept as Spark keeps it, in JSON."""
        limit = limit or self.stream.getDefaultReadLimit()
        there = self.stream.latestOffset(self.here, limit)
        there = msgspec.json.decode(msgspec.json.encode(there))
        found = self.again(there)
        self.here = there
        return found

    def again(self, there: dict[str, Any]) -> "Batch":
        """Everything between the last place and another, as a replay would read it."""
        rows: list[dict[str, Any]] = []
        for partition in self.stream.partitions(self.here, there):
            for batch in self.stream.read(partition):
                rows += cast(list[dict[str, Any]], batch.to_pylist())
        return Batch(rows)


class Batch:
    """The rows of one batch: events, and accounts of what was read."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.events = [row for row in rows if row["_range"] is None]
        self.accounts = [row["_range"] for row in rows if row["_range"] is not None]

    @property
    def ids(self) -> list[str]:
        """The events' ids in the order they were read."""
        return [row["entry_id"] for row in self.events]

    @property
    def lost(self) -> int:
        """Entries that were gone."""
        return sum(account["lost"] for account in self.accounts)


ALL = ReadAllAvailable()
