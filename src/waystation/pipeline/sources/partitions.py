"""Partitions of event streams: what each of Spark's tasks reads."""

from collections.abc import Iterator, Sequence
from typing import cast

from pyspark.sql.datasource import InputPartition

from waystation.pipeline.sources.offsets import StreamRange
from waystation.pipeline.sources.redis_streams import EVENT_FORM, RowForm, rows_of
from waystation.pipeline.sources.store import Store
from waystation.pipeline.sources.streams import StreamOptions
from waystation.pipeline.storage.arrow import Batch

LEAST_ROWS_A_TASK = 20_000
"""Starting a task costs as much as reading some thousand rows."""


class StreamPartition(InputPartition):
    """The ranges that one task reads."""

    def __init__(self, ranges: Sequence[StreamRange]) -> None:
        super().__init__(None)
        self.ranges = ranges


def rows(
    store: Store,
    options: StreamOptions,
    partition: InputPartition,
    accounts: bool,
    form: RowForm = EVENT_FORM,
) -> Iterator[Batch]:
    """The rows of one task."""
    for span in cast(StreamPartition, partition).ranges:
        client = store.at(span.stream.key)
        yield from rows_of(client, span, page=options.page, accounts=accounts, form=form)
