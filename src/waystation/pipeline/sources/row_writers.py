"""Writers of rows, as Spark drives them: each key of a batch is written once."""
# ruff: noqa: N803 (Spark calls them so)

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from waystation.pipeline.sources.batch_writer import Added, BatchWriter
from waystation.pipeline.sources.store import Store
from waystation.pipeline.storage.arrow import Batch


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
