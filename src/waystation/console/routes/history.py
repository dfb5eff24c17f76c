"""Endpoints about the history: its hours, its ledger, and the pipeline that keeps it."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from waystation.console.context import Console
from waystation.console.past.views import CheckView, GapView, Hour, LedgerRow
from waystation.console.products.queue import alone
from waystation.console.routes import queries
from waystation.console.routes.queues import ROOT
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
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


class HistoryRoutes:
    """What the history knows."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @endpoint(
        f"GET {ROOT}/history/hours",
        gives={200: Hours},
        query={
            "product": {"type": "string"},
            "queue": {"type": "string", "maxLength": LONGEST},
            "days": {"type": "integer", "minimum": 1, "maximum": MOST_DAYS},
        },
        scope="viewer",
    )
    async def hours(self, request: Request) -> Answer:
        """Jobs by the hour, of one queue or of all: how many, how long, and how many were open."""
        await self._console.require(request, "viewer")
        product = queries.text(request, "product")
        queue = queries.text(request, "queue", most=LONGEST)
        days = queries.whole(request, "days", 7, least=1, most=MOST_DAYS)
        found = await self._console.history.about("hours", product, queue, days)
        return answer(Hours(available=found is not None, hours=found or []))

    @endpoint(f"GET {ROOT}/history/ledger", gives={200: Ledger}, scope="viewer")
    async def ledger(self, request: Request) -> Answer:
        """What became of the jobs of each queue: ended, removed, open, lost, completed twice."""
        await self._console.require(request, "viewer")
        found = await self._console.history.about("ledger")
        return answer(Ledger(available=found is not None, rows=found or []))

    @endpoint(f"GET {ROOT}/history/pipeline", gives={200: Pipeline}, scope="viewer")
    async def pipeline(self, request: Request) -> Answer:
        """How far the history is behind, its gaps, and whether its tables agree."""
        await self._console.require(request, "viewer")
        state: State | None = await self._console.history.about("state")
        if state is None:
            return answer(Pipeline(available=False))
        return answer(
            Pipeline(
                available=True,
                events=state.events,
                last_at=state.last_at,
                lags=await self._lags(state),
                checks=state.checks,
                checked_at=state.checked_at,
                gaps=state.gaps,
            )
        )

    async def _lags(self, state: "State") -> list[Lag]:
        # What reads the history was there when its state was read.
        from waystation.console.past.whole import Offset, behind

        await self._console.sampler.overview()
        found: list[Lag] = []
        for queue in self._console.directory.every():
            if not await self._console.store.ask("EXISTS", queue.stream):
                continue  # nothing has ever happened in it
            with alone(queue.product, queue.name):
                with faults.translated():
                    info: Any = await self._console.store.redis.xinfo_stream(queue.stream)
                added, last = info.get("entries-added"), info["last-generated-id"]
                last = last.decode() if isinstance(last, bytes) else last
                here = state.read_to.get(queue.stream, Offset())
                many = behind(here, last, None if added is None else int(added))
                found.append(Lag(product=queue.product, queue=queue.name, events=many))
        return found
