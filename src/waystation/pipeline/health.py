"""Status of a history: lag behind the streams, consistency checks, lost jobs."""

import datetime as dt
from collections.abc import Iterator

import msgspec
from pyspark.sql import functions as F

from waystation.core.store import faults
from waystation.pipeline.bronze.sink import OFFSETS_NOTE
from waystation.pipeline.history import History, utc
from waystation.pipeline.refresh.checks import Check, last_checks
from waystation.pipeline.sources import offsets, redis_streams
from waystation.pipeline.sources.offsets import Offset
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS, LEDGER


class StreamLag(msgspec.Struct, frozen=True):
    """The events of one stream that are not stored yet."""

    stream: str
    """Key of the stream."""
    events: int | None
    """How many; None where the server does not count them."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a history."""

    events: int
    """Events stored."""
    last_at: dt.datetime | None
    """When the last of them happened."""
    streams: tuple[StreamLag, ...]
    checks: tuple[Check, ...]
    """The consistency checks of the last refresh."""
    lost: tuple[str, ...]
    """Queues with lost jobs, each in one line."""

    @property
    def failed_checks(self) -> list[str]:
        """The checks that failed, each in one line."""
        return [str(check) for check in self.checks if not check.passed]


def status(history: History, options: EventOptions) -> Status:
    """Compare a history with the streams that it is read from."""
    counts = history.read(EVENTS).agg(F.count("*").alias("events"), F.max("at").alias("last"))
    stored = counts.collect()[0]
    return Status(
        events=stored["events"],
        last_at=stored["last"] and utc(stored["last"]),
        streams=tuple(_lags(history.root, options)),
        checks=tuple(last_checks(history)),
        lost=tuple(_lost(history)),
    )


def _lags(root: str, options: EventOptions) -> Iterator[StreamLag]:
    noted = delta.last_note(EVENTS.path(root), OFFSETS_NOTE)
    here = offsets.from_json(noted) if noted else {}
    streams = Streams(options)
    with faults.translated():
        for stream in streams.now():
            end = redis_streams.end_of(streams.store.at(stream.key), stream.key)
            if end is not None:
                yield StreamLag(stream.key, _between(here.get(stream.key, Offset()), end))


def _between(here: Offset, end: Offset) -> int | None:
    if here.added is None or end.added is None:
        return None
    # A stream that was deleted and began again holds only new entries.
    return end.added - here.added if end.added >= here.added else end.added


def _lost(history: History) -> Iterator[str]:
    rows = history.read(LEDGER).where(F.col("lost") > 0).orderBy("line", "queue", "hour").collect()
    for row in rows:
        named = ", ".join(row["lost_ids"])
        hour = f"{utc(row['hour']):%Y-%m-%d %H:00} UTC"
        yield f"{row['line']}/{row['queue']}, {hour}: {row['lost']:,} ({named})"
