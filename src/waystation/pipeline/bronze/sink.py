"""`waystation.bronze`: commits the files of `waystation.archive` to the bronze tables.

Spark starts a process for every batch to plan and to commit it, so nothing here needs the store.
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
from waystation.pipeline.sources.offsets import BEGINNING, Offset, id_order
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import Batch, pa, schema_of
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.tables import EVENTS, GAPS

NAME = "waystation.bronze"
OFFSETS_NOTE = "places"
"""The note in a commit with the offsets reached; its text is part of existing tables."""


class BronzeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `waystation.bronze`."""

    root: str
    """Directory of the history."""
    application: str
    """Name under which batches are committed."""


class BronzeSink(DataSource):
    """The bronze tables, to write to."""

    @classmethod
    def name(cls) -> str:
        """The name that Spark knows it by."""
        return NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Write a streaming query."""
        return BronzeStream(parse(self.options, BronzeOptions))


class TaskResult(WriterCommitMessage):
    """The files that one task has written, and its reports on ranges."""

    def __init__(self, parts: list[Part], reports: list[dict[str, Any]]) -> None:
        self.parts = parts
        self.reports = reports


class BronzeStream(DataSourceStreamArrowWriter):
    """Commits micro-batches to both tables."""

    def __init__(self, options: BronzeOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Collect the files and reports of a task."""
        return _result(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the files of all tasks, unless the batch is committed."""
        _commit(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of the tasks; the batch is read again."""
        delta.discard(EVENTS.path(self._options.root), _parts(messages))


def _result(batches: Iterator[Batch]) -> TaskResult:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return TaskResult(
        [Part.of(row["part"]) for row in rows if row["part"]],
        [row for row in rows if not row["part"]],
    )


def _commit(options: BronzeOptions, messages: list[WriterCommitMessage | None], batch: int) -> None:
    reports = [
        report for each in messages if isinstance(each, TaskResult) for report in each.reports
    ]
    batch_id = BatchId(options.application, batch)
    # Gaps first: once the events are there, the batch counts as read.
    _commit_gaps(options.root, reports, batch_id)
    delta.commit(
        EVENTS.path(options.root),
        EVENTS.schema,
        _parts(messages),
        batch_id,
        partitions=EVENTS.partitions,
        notes={OFFSETS_NOTE: _reached(options.root, reports)},
    )


def _parts(messages: list[WriterCommitMessage | None]) -> list[Part]:
    return [part for each in messages if isinstance(each, TaskResult) for part in each.parts]


def _commit_gaps(root: str, reports: list[dict[str, Any]], batch_id: BatchId) -> None:
    rows = [gap(report) for report in reports if is_gap(report["_range"])]
    if not rows:
        return
    with PartWriter(GAPS.path(root), GAPS.schema, GAPS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(GAPS.schema)))
    delta.commit(GAPS.path(root), GAPS.schema, writer.parts, batch_id)


def is_gap(account: Mapping[str, Any]) -> bool:
    """Whether entries of a range were gone, or may have been."""
    if account["lost"] is not None:
        return bool(account["lost"] > 0)
    return bool(account["recreated"])


def gap(report: Mapping[str, Any]) -> dict[str, Any]:
    """The row of `gaps` for a range with lost entries."""
    account = report["_range"]
    before = account["first"] or account["until"]
    return {
        "line": report["line"],
        "queue": report["queue"],
        "stream": report["stream"],
        "after": account["after"],
        "before": before,
        "lost": account["lost"],
        "reason": "recreated" if account["recreated"] else "trimmed",
        "after_at": None if account["after"] == BEGINNING else _instant(account["after"]),
        "before_at": _instant(before),
    }


def _reached(root: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The offsets of all streams, this batch included."""
    noted = delta.last_note(EVENTS.path(root), OFFSETS_NOTE)
    reached = offsets.from_json(noted) if noted else {}
    for report in reports:
        account = report["_range"]
        reached[report["stream"]] = Offset(account["until"], account["added"])
    return offsets.to_json(reached)


def _instant(entry_id: str) -> datetime:
    return datetime.fromtimestamp(min(id_order(entry_id)[0], 253_402_300_799_999) / 1000, UTC)
