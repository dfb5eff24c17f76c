"""Rows of silver that a batch has added or taken back."""

import msgspec
from pyspark.sql import DataFrame

from waystation.pipeline.storage.delta import BatchId


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one batch: rows of each table with `sign`, 1 for added, -1 for taken back.

    A row that changed is there twice. Rows about open work are among them.
    """

    batch: BatchId
    steps: DataFrame | None = None
    """Steps, each with the context that `with_context` adds."""
    attempts: DataFrame | None = None
    items: DataFrame | None = None
    failed_items: DataFrame | None = None
    places: DataFrame | None = None
    room: DataFrame | None = None
    """New events of the waiting room: queue, event, at, reason and lane."""
    routed: DataFrame | None = None
    files: DataFrame | None = None
    """Items that are files, with their directory, type and size."""
