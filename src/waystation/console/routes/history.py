"""Endpoints about the history: its hours, its ledger, and the pipeline that keeps it."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from waystation.console.past.history import CheckView, GapView, Hour, LedgerRow
from waystation.console.products.queue import ConsoleQueue
from waystation.console.routes import calls
from waystation.console.routes.calls import ROOT, Call, ConsoleRoutes, console_endpoint
from waystation.core.http.exchange import whole
from waystation.core.store import faults

if TYPE_CHECKING:
    from waystation.console.past.whole import State

MOST_DAYS = 400
LONGEST = 512


class Hours(msgspec.Struct, kw_only=True):
    """Hours of the past, oldest first."""

    available: bool
    """False when no history is kept here."""
    hours: list[Hour] = []


class Ledger(msgspec.Struct, kw_only=True):
    """What became of the jobs of each queue."""

    available: bool
    rows: list[LedgerRow] = []


class Lag(msgspec.Struct, kw_only=True):
    """How far the history is behind a queue."""

    product: str
    queue: str
    events: int | None
    """Events that are not stored yet; None where the server does not count them."""


class Pipeline(msgspec.Struct, kw_only=True):
    """The pipeline: what it has stored, how far it is behind, whether its tables agree."""

    available: bool
    events: int = 0
    last_at: datetime | None = None
    """When the last event that is stored happened."""
    lags: list[Lag] = []
    checks: list[CheckView] = []
    checked_at: datetime | None = None
    gaps: list[GapView] = []


class HistoryRoutes(ConsoleRoutes):
    """What the history knows."""

    @console_endpoint(
        f"GET {ROOT}/history/hours",
        "viewer",
        query={
            "product": {"type": "string"},
            "queue": {"type": "string", "maxLength": LONGEST},
            "days": {"type": "integer", "minimum": 1, "maximum": MOST_DAYS},
        },
    )
    async def hours(self, call: Call) -> Hours:
        """Jobs by the hour, of one queue or of all: how many, how long, and how many were open."""
        request = call.request
        product = calls.text(request, "product")
        queue = calls.text(request, "queue", most=LONGEST)
        days = whole(request, "days", 7, least=1, most=MOST_DAYS)
        found = await self.console.history.about("hours", product, queue, days)
        return Hours(available=found is not None, hours=found or [])

    @console_endpoint(f"GET {ROOT}/history/ledger", "viewer")
    async def ledger(self, call: Call) -> Ledger:
        """What became of the jobs of each queue: ended, removed, open, lost, completed twice."""
        found = await self.console.history.about("ledger")
        return Ledger(available=found is not None, rows=found or [])

    @console_endpoint(f"GET {ROOT}/history/pipeline", "viewer")
    async def pipeline(self, call: Call) -> Pipeline:
        """How far the history is behind, its gaps, and whether its tables agree."""
        state: State | None = await self.console.history.about("state")
        if state is None:
            return Pipeline(available=False)
        return Pipeline(
            available=True,
            events=state.events,
            last_at=state.last_at,
            lags=await call.of_each_queue(lambda queue: self._lag(queue, state)),
            checks=state.checks,
            checked_at=state.checked_at,
            gaps=state.gaps,
        )

    async def _lag(self, queue: ConsoleQueue, state: "State") -> list[Lag]:
        # What reads the history was there when its state was read.
        from waystation.console.past.whole import Offset, behind

        store = self.console.store
        if not await store.ask("EXISTS", queue.stream):
            return []  # nothing has ever happened in it
        with faults.translated():
            info: Any = await store.redis.xinfo_stream(queue.stream)
        added, last = info.get("entries-added"), info["last-generated-id"]
        last = last.decode() if isinstance(last, bytes) else last
        here = state.read_to.get(queue.stream, Offset())
        many = behind(here, last, None if added is None else int(added))
        return [Lag(product=queue.product, queue=queue.name, events=many)]
