"""Questions to the history, where there is one, and what it answers."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from waystation.console.query import PastFound, PastJob, Query
from waystation.core.errors import InvalidInput
from waystation.pipeline.storage.places import checked_root, is_remote


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


AT_ONCE = 2
"""Questions that are answered at a time, and as many in SQL; the others wait."""
FRESH_S = 20.0
"""How long an answer about all of the history serves."""
_MOST_KEPT = 64


class History:
    """The history at a place; asks it in threads, a few at a time."""

    def __init__(self, root: str) -> None:
        self._root = checked_root(root) if root else ""
        self._turns = asyncio.Semaphore(AT_ONCE)
        # Apart, because questions of callers may take as long as they may, and ours do not.
        self._sql_turns = asyncio.Semaphore(AT_ONCE)
        self._kept: dict[tuple[Any, ...], tuple[float, Any]] = {}

    @property
    def is_there(self) -> bool:
        """Whether anything can have been kept; an object store is asked only by a question."""
        return is_remote(self._root) or (bool(self._root) and Path(self._root).is_dir())

    @property
    def missing(self) -> str:
        """What to say to somebody who asks for it while there is none."""
        place = self._root or "pipeline.history"
        return f"there is no history at {place}; `waystation pipeline run` keeps one"

    async def search(self, query: Query, limit: int) -> PastFound | None:
        """The newest jobs that fit; None without a history."""
        began = time.monotonic()
        found = await self._ask("jobs", "find", query, limit + 1)
        if found is None:
            return None
        took_ms = round((time.monotonic() - began) * 1000, 1)
        return PastFound(found[:limit], complete=len(found) <= limit, took_ms=took_ms)

    async def job(self, id: str, *, product: str = "", queue: str = "") -> PastJob | None:
        """The latest job of this id, in a product or a queue; None when the history knows none."""
        given = {"id": id, "product": product, "queue": queue}
        fields = tuple((name, value) for name, value in given.items() if value)
        found = await self._ask("jobs", "find", Query(fields=fields), 1)
        return found[0] if found else None

    async def sql(self, query: str, *, most: int, seconds: float) -> Selected:
        """Answer one SELECT over the tables, with so many rows at most and in so many seconds."""
        found = await self._ask("sql", "answer", query, most, seconds)
        if found is None:
            raise InvalidInput(self.missing)
        return found

    async def about(self, what: str, *asked: Any) -> Any:
        """What the function of this name says of the whole history, some seconds old at most."""
        key = (what, *asked)
        kept = self._kept.get(key)
        if kept and time.monotonic() - kept[0] < FRESH_S:
            return kept[1]
        found = await self._ask("whole", what, *asked)
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[key] = time.monotonic(), found
        return found

    async def _ask(self, module: str, name: str, *asked: Any) -> Any:
        if not self.is_there:
            return None
        try:
            # Those who keep no history need not install what reads it.
            step: Callable[..., Any] = getattr(
                import_module(f"waystation.console.past.{module}"), name
            )
        except ModuleNotFoundError:
            return None
        async with self._sql_turns if name == "answer" else self._turns:
            return await asyncio.to_thread(step, self._root, *asked)
