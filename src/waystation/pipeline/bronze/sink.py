"""`waystation.bronze`: commits the files of `waystation.archive` to the bronze tables.

Spark starts a process for every batch to plan and to commit it, so nothing here needs the store.
"""
# ruff: noqa: N802, N803 (Spark calls them so)

from collections.abc import Iterator
from typing import Any

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from waystation.pipeline.bronze import commits
from waystation.pipeline.bronze.reading import WRITTEN
from waystation.pipeline.options import parse
from waystation.pipeline.storage.arrow import Batch
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part
from waystation.pipeline.tables import Table

NAME = "waystation.bronze"


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

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows


class BronzeStream(DataSourceStreamArrowWriter):
    """Commits micro-batches to the tables."""

    def __init__(self, options: BronzeOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Batch]) -> WriterCommitMessage:
        """Collect the files and reports of a task."""
        return TaskResult([row for batch in iterator for row in batch.to_pylist()])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the files of all tasks, unless the batch is committed."""
        _commit(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of the tasks; the batch is read again."""
        commits.discard(self._options.root, _parts(_rows(messages)))


def _commit(options: BronzeOptions, messages: list[WriterCommitMessage | None], batch: int) -> None:
    rows = _rows(messages)
    reports = [row for row in rows if not row["part"]]
    commits.store(options.root, _parts(rows), reports, BatchId(options.application, batch))


def _rows(messages: list[WriterCommitMessage | None]) -> list[dict[str, Any]]:
    return [row for each in messages if isinstance(each, TaskResult) for row in each.rows]


def _parts(rows: list[dict[str, Any]]) -> dict[Table, list[Part]]:
    return {
        table: [Part.of(row["part"]) for row in rows if row["table"] == table.name]
        for table in WRITTEN
    }
