"""The history as the API shows it."""

from datetime import datetime
from typing import Any

import msgspec


class Hour(msgspec.Struct, kw_only=True):
    """One hour of a queue, or of all of them."""

    at: datetime
    added: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    wait_p95_ms: float | None = None
    """Of several queues the longest."""
    run_p95_ms: float | None = None
    open: int = 0
    """Jobs that had been added and had not ended when the hour was over."""


class LedgerRow(msgspec.Struct, kw_only=True):
    """The jobs of one queue, counted."""

    product: str
    queue: str
    added: int
    ended: int
    """Completed or failed for good."""
    removed: int
    open: int | None
    """Still in the queue when that was last looked at; None when it never was."""
    lost: int | None
    twice: int
    """Completed more than once."""
    missed: int
    """Events that were gone before they could be read."""
    clean: bool | None
    """Nothing lost, completed twice or missed; None when the queue was never looked at."""
    lost_ids: list[str] = []


class CheckView(msgspec.Struct, kw_only=True):
    """A count in a table, and what it should be."""

    table: str
    what: str
    wanted: int
    found: int


class GapView(msgspec.Struct, kw_only=True):
    """Events that were gone before they could be read."""

    product: str
    queue: str
    lost: int | None
    reason: str
    after_at: datetime | None
    before_at: datetime | None


class Selected(msgspec.Struct, kw_only=True):
    """What a SELECT found."""

    columns: list[str]
    rows: list[list[Any]]
    complete: bool
    """False when there are more rows."""


class TableView(msgspec.Struct, kw_only=True):
    """A table of the history."""

    name: str
    a_row_is: str
    columns: dict[str, str]
    """The type of each column, and what it holds."""
