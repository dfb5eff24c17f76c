"""`waystation.bronze`: what `waystation.archive` has written becomes part of the bronze tables.

Spark starts a process for every batch to plan and to commit it, so nothing here asks for the store.
"""
# ruff: noqa: N802, N803 (Spark calls them so)

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from waystation.pipeline.options import parse
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import BEGINNING, Place, id_order
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import Batch, pa, schema_of
from waystation.pipeline.storage.delta import Identity
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.tables import EVENTS, GAPS

NAME = "waystation.bronze"
PLACES = "places"
"""The note in a commit that says how far the streams were read."""


class BronzeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked of `waystation.bronze`."""

    root: str
    application: str


class BronzeSink(DataSource):
    """The bronze tables, to write to."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For a query that goes on."""
        return BronzeStream(parse(self.options, BronzeOptions))


class Kept(WriterCommitMessage):
    """What one task has written, and the stretches it accounts for."""

    def __init__(self, parts: list[Part], stretches: list[dict[str, Any]]) -> None:
        self.parts = parts
        self.stretches = stretches


class BronzeStream(DataSourceStreamArrowWriter):
    """Commits batch after batch to both tables."""

    def __init__(self, options: BronzeOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Gather what a task says it has written."""
        return _kept(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit all of them, if that has not happened."""
        _commit(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete what the tasks had written; the batch will be read again."""
        delta.discard(EVENTS.place(self._options.root), _parts(messages))


def _kept(batches: Iterator[Batch]) -> Kept:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return Kept(
        [Part.of(row["part"]) for row in rows if row["part"]],
        [row for row in rows if not row["part"]],
    )


def _commit(options: BronzeOptions, messages: list[WriterCommitMessage | None], batch: int) -> None:
    stretches = [
        stretch for each in messages if isinstance(each, Kept) for stretch in each.stretches
    ]
    identity = Identity(options.application, batch)
    # Gaps first: once the events are there, the batch counts as read.
    _commit_gaps(options.root, stretches, identity)
    delta.commit(
        EVENTS.place(options.root),
        EVENTS.schema,
        _parts(messages),
        identity,
        partitions=EVENTS.partitions,
        notes={PLACES: _reached(options.root, stretches)},
    )


def _parts(messages: list[WriterCommitMessage | None]) -> list[Part]:
    return [part for each in messages if isinstance(each, Kept) for part in each.parts]


def _commit_gaps(root: str, stretches: list[dict[str, Any]], identity: Identity) -> None:
    rows = [gap(stretch) for stretch in stretches if is_gap(stretch["_range"])]
    if not rows:
        return
    with PartWriter(GAPS.place(root), GAPS.schema, GAPS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(GAPS.schema)))
    delta.commit(GAPS.place(root), GAPS.schema, writer.parts, identity)


def is_gap(account: Mapping[str, Any]) -> bool:
    """Whether entries of a stretch were gone, or may have been."""
    if account["lost"] is not None:
        return bool(account["lost"] > 0)
    return bool(account["recreated"])


def gap(stretch: Mapping[str, Any]) -> dict[str, Any]:
    """The row of `gaps` that a stretch with lost entries makes."""
    account = stretch["_range"]
    before = account["first"] or account["until"]
    return {
        "line": stretch["line"],
        "queue": stretch["queue"],
        "stream": stretch["stream"],
        "after": account["after"],
        "before": before,
        "lost": account["lost"],
        "reason": "recreated" if account["recreated"] else "trimmed",
        "after_at": None if account["after"] == BEGINNING else _instant(account["after"]),
        "before_at": _instant(before),
    }


def _reached(root: str, stretches: list[dict[str, Any]]) -> dict[str, Any]:
    """How far all streams have been read, with what is now added to it."""
    noted = delta.last_notes(EVENTS.place(root), PLACES)
    reached = offsets.read(noted) if noted else {}
    for stretch in stretches:
        account = stretch["_range"]
        reached[stretch["stream"]] = Place(account["until"], account["added"])
    return offsets.write(reached)


def _instant(entry_id: str) -> datetime:
    return datetime.fromtimestamp(min(id_order(entry_id)[0], 253_402_300_799_999) / 1000, UTC)
