"""Status of a history: lag behind the streams, consistency checks, lost jobs."""

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from deltalake import DeltaTable

from waystation.core.store import faults
from waystation.pipeline.ask.active_files import ActiveFile, contents, read_rows
from waystation.pipeline.refresh.quality import Check, last_checks
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import Offset, behind
from waystation.pipeline.sources.streams import EventOptions, Streams
from waystation.pipeline.tables import (
    ATTEMPTS,
    CAPACITY,
    EVENTS,
    FAILURES,
    HOURLY,
    ITEMS,
    LEDGER,
    QUALITY,
    WORKERS,
)

COMPUTED = (ATTEMPTS, ITEMS, STEPS, HOURLY, FAILURES, LEDGER, CAPACITY, WORKERS, QUALITY)
"""The tables that every round computes, whatever the events are about."""


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
    missing: tuple[str, ...] = ()
    """Tables that every history with events has, and this one has not."""

    @property
    def failed_checks(self) -> list[str]:
        """The checks that failed, each in one line."""
        gone = ", ".join(self.missing)
        remedy = "`waystation pipeline run --once` or `rebuild` computes them"
        torn = [f"tables are missing: {gone}; {remedy}"] if gone else []
        return torn + [str(check) for check in self.checks if not check.passed]


class Stored(NamedTuple):
    """What is stored of the streams."""

    events: int = 0
    last_at: dt.datetime | None = None
    """When the last of them happened."""
    read_to: Mapping[str, Offset] = {}
    """How far each stream was read, by its key."""


def status(root: str, options: EventOptions) -> Status:
    """Compare the history at `root` with the streams that it is read from."""
    here = stored(root)
    return Status(
        events=here.events,
        last_at=here.last_at,
        streams=tuple(_lags(here.read_to, options)),
        checks=tuple(last_checks(root)),
        lost=tuple(_lost(root)),
        missing=tuple(
            table.name
            for table in COMPUTED
            if here.events and not DeltaTable.is_deltatable(table.path(root))
        ),
    )


def stored(root: str) -> Stored:
    """How many events are stored, and how far the streams were read: from the table's log."""
    found = contents(EVENTS.path(root))
    if found is None:
        return Stored()
    # Statistics are rounded up to milliseconds.
    last = max((each.most["at"] for each in found.files if "at" in each.most), default=None)
    if isinstance(last, str):
        last = dt.datetime.fromisoformat(last)
    return Stored(
        events=sum(each.rows for each in found.files),
        last_at=last and last.astimezone(dt.UTC),
        read_to=dict(offsets.reached(found.table).offsets),
    )


def _lags(here: Mapping[str, Offset], options: EventOptions) -> Iterator[StreamLag]:
    streams = Streams(options)
    with faults.translated():
        for key, end in streams.ends().items():
            yield StreamLag(key, behind(here.get(key, Offset()), end))


def _lost(root: str) -> Iterator[str]:
    columns = ("product", "queue", "hour", "lost", "lost_ids")
    rows = [row for row in read_rows(root, LEDGER, columns, _may_name_lost) if row["lost"]]
    for row in sorted(rows, key=lambda each: [each[name] for name in columns[:3]]):
        named = ", ".join(row["lost_ids"] or ())
        hour = f"{row['hour'].astimezone(dt.UTC):%Y-%m-%d %H:00} UTC"
        yield f"{row['product']}/{row['queue']}, {hour}: {row['lost']:,} ({named})"


def _may_name_lost(file: ActiveFile) -> bool:
    return file.most.get("lost") != 0
