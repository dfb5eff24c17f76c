"""Endpoints to search jobs."""

import msgspec

from waystation.console.actions.runs import Bulk
from waystation.console.actions.taking import ActOnMatches, Matched, act_on_all, act_on_matches
from waystation.console.query import LONGEST, PastJob, Query, parse
from waystation.console.routes import calls
from waystation.console.routes.calls import ROOT, Call, ConsoleRoutes, console_endpoint
from waystation.console.search import Reach, SearchResult
from waystation.core.http.exchange import Answer, Request, answer, whole

ASKED = {
    "q": {"type": "string", "minLength": 1, "maxLength": LONGEST},
    "limit": calls.PAGE["limit"],
}
"""What may be asked, of the store and of the history alike."""


class Past(msgspec.Struct, kw_only=True):
    """What was found in the history."""

    available: bool
    """False when no history is kept here."""
    jobs: list[PastJob] = []
    complete: bool = True
    """False when there are more than `limit`."""
    took_ms: float = 0


class BulkList(msgspec.Struct, kw_only=True):
    """Actions on whole searches."""

    runs: list[Bulk]
    forgotten: int
    """How many more there were, which ended before these."""


class Searching(ConsoleRoutes):
    """Finds jobs."""

    @console_endpoint(f"GET {ROOT}/search", "viewer", query=ASKED, needs=("q",))
    async def search(self, call: Call) -> SearchResult:
        """Jobs by id, name, state, error or a field of their data, such as data.tenant:acme."""
        query, limit = _asked(call.request)
        await self.console.sampler.overview()
        queues = self.console.directory.every()
        return await self.console.search.run(queues, query, Reach(limit=limit, counts_on=True))

    @console_endpoint(
        f"POST {ROOT}/search/actions/{{action}}", "operator", gives={200: Matched, 202: Bulk}
    )
    async def act(self, call: Call, asked: ActOnMatches) -> Answer:
        """Retry, promote, cancel or remove all jobs that a search finds, or count them."""
        action = call.request.slots["action"]
        if asked.whole and not asked.dry_run:
            return answer(await act_on_all(self.console, call.who, action, asked), 202)
        return answer(await act_on_matches(self.console, call.who, action, asked))

    @console_endpoint(f"GET {ROOT}/search/runs", "viewer")
    async def runs(self, call: Call) -> BulkList:
        """Actions on whole searches in this process, the newest first."""
        bulks = self.console.bulks
        return BulkList(runs=bulks.every(), forgotten=bulks.forgotten)

    @console_endpoint(f"DELETE {ROOT}/search/runs/{{id}}", "operator")
    async def stop(self, call: Call) -> Bulk:
        """Stop one of them; what was done stays done."""
        stopped = self.console.bulks.stop(call.request.slots["id"])
        await call.note(f"stop-{stopped.action}", "search", after={"q": stopped.q})
        return stopped

    @console_endpoint(f"GET {ROOT}/history/search", "viewer", query=ASKED, needs=("q",))
    async def search_history(self, call: Call) -> Past:
        """Jobs of any day, also those that are no longer in the store, by the same words."""
        query, limit = _asked(call.request)
        # Groups of failures are those of the store.
        asks = not query.get("failure")
        found = await self.console.history.search(query, limit) if asks else None
        return Past(available=True, **found._asdict()) if found else Past(available=False)


def _asked(request: Request) -> tuple[Query, int]:
    query = parse(calls.text(request, "q", most=LONGEST))
    return query, whole(request, "limit", 50, least=1, most=calls.MOST_PAGE)
