"""Endpoints to search jobs."""

import msgspec

from waystation.console.actions.matching import ActOnMatches, Matched, act_on_all, act_on_matches
from waystation.console.actions.runs import Bulk
from waystation.console.context import Console
from waystation.console.routes import queries
from waystation.console.routes.queues import ROOT
from waystation.console.search.live_jobs import Reach, SearchResult
from waystation.console.search.query import LONGEST, PastJob, Query, parse
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer

ASKED = {
    "q": {"type": "string", "minLength": 1, "maxLength": LONGEST},
    "limit": queries.PAGE["limit"],
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


class Searching:
    """Finds jobs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @endpoint(
        f"GET {ROOT}/search", gives={200: SearchResult}, query=ASKED, needs=("q",), scope="viewer"
    )
    async def search(self, request: Request) -> Answer:
        """Jobs by id, name, state, error or a field of their data, such as data.tenant:acme."""
        query, limit = await self._asked(request)
        await self._console.sampler.overview()
        queues = self._console.directory.every()
        reach = Reach(limit=limit, counts_on=True)
        return answer(await self._console.search.run(queues, query, reach))

    @endpoint(
        f"POST {ROOT}/search/actions/{{action}}",
        takes=ActOnMatches,
        gives={200: Matched, 202: Bulk},
        scope="operator",
    )
    async def act(self, request: Request) -> Answer:
        """Retry, promote, cancel or remove all jobs that a search finds, or count them."""
        who = await self._console.require(request, "operator")
        asked, action = await request.read(ActOnMatches), request.slots["action"]
        if asked.whole and not asked.dry_run:
            return answer(await act_on_all(self._console, who, action, asked), 202)
        return answer(await act_on_matches(self._console, who, action, asked))

    @endpoint(f"GET {ROOT}/search/runs", gives={200: BulkList}, scope="viewer")
    async def runs(self, request: Request) -> Answer:
        """Actions on whole searches in this process, the newest first."""
        await self._console.require(request, "viewer")
        bulks = self._console.bulks
        return answer(BulkList(runs=bulks.every(), forgotten=bulks.forgotten))

    @endpoint(f"DELETE {ROOT}/search/runs/{{id}}", gives={200: Bulk}, scope="operator")
    async def stop(self, request: Request) -> Answer:
        """Stop one of them; what was done stays done."""
        who = await self._console.require(request, "operator")
        stopped = self._console.bulks.stop(request.slots["id"])
        await self._console.note(who, f"stop-{stopped.action}", "search", after={"q": stopped.q})
        return answer(stopped)

    @endpoint(
        f"GET {ROOT}/history/search", gives={200: Past}, query=ASKED, needs=("q",), scope="viewer"
    )
    async def search_history(self, request: Request) -> Answer:
        """Jobs of any day, also those that are no longer in the store, by the same words."""
        query, limit = await self._asked(request)
        found = await self._console.history.search(query, limit)
        if found is None:
            return answer(Past(available=False))
        return answer(Past(available=True, **found._asdict()))

    async def _asked(self, request: Request) -> tuple[Query, int]:
        await self._console.require(request, "viewer")
        query = parse(queries.text(request, "q", most=LONGEST))
        return query, queries.whole(request, "limit", 50, least=1, most=queries.MOST_PAGE)
