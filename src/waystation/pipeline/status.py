"""How far a history has come, and whether it adds up."""

import datetime as dt
from collections.abc import Iterator

import msgspec
from pyspark.sql import functions as F

from waystation.core.store import faults
from waystation.pipeline.bronze import ingest
from waystation.pipeline.history import History, utc
from waystation.pipeline.refresh.checks import Check, checked
from waystation.pipeline.sources import offsets, walking
from waystation.pipeline.sources.offsets import Place
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS, LEDGER


class Behind(msgspec.Struct, frozen=True):
    """One stream, and what of it is not kept yet."""

    stream: str
    events: int | None
    """How many; None where the server does not count them."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that tells whether the pipeline is well."""

    events: int
    last_at: dt.datetime | None
    streams: tuple[Behind, ...]
    checks: tuple[Check, ...]
    lost: tuple[str, ...]
    """Queues that have lost something, each in a line."""

    @property
    def ill(self) -> list[str]:
        """The checks that failed, each in a line."""
        return [str(check) for check in self.checks if not check.well]


def status(history: History, options: EventOptions) -> Status:
    """Look at a history and at the streams that it follows."""
    told = history.read(EVENTS).agg(F.count("*").alias("events"), F.max("at").alias("last"))
    kept = told.collect()[0]
    return Status(
        events=kept["events"],
        last_at=kept["last"] and utc(kept["last"]),
        streams=tuple(_behind(history.root, options)),
        checks=tuple(checked(history)),
        lost=tuple(_lost(history)),
    )


def _behind(root: str, options: EventOptions) -> Iterator[Behind]:
    noted = delta.last_notes(EVENTS.place(root), ingest.PLACES)
    here = offsets.read(noted) if noted else {}
    streams = Streams(options)
    with faults.translated():
        for told in streams.now():
            end = walking.end_of(streams.store.at(told.stream), told.stream)
            if end is not None:
                yield Behind(told.stream, _between(here.get(told.stream, Place()), end))


def _between(here: Place, end: Place) -> int | None:
    if here.added is None or end.added is None:
        return None
    # A stream that began anew has told everything that it holds since.
    return end.added - here.added if end.added >= here.added else end.added


def _lost(history: History) -> Iterator[str]:
    rows = history.read(LEDGER).where(F.col("lost") > 0).orderBy("line", "queue", "hour").collect()
    for row in rows:
        named = ", ".join(row["lost_ids"])
        hour = f"{utc(row['hour']):%Y-%m-%d %H:00} UTC"
        yield f"{row['line']}/{row['queue']}, {hour}: {row['lost']:,} ({named})"
