"""Endpoints of failures: groups, and redrives of a group."""

from typing import Annotated

import msgspec

from waystation.console.actions.failures import Groups
from waystation.console.actions.redrives import Mode, Redrive
from waystation.console.context import Console
from waystation.console.routes import queries
from waystation.console.routes.queues import QUEUE, ROOT
from waystation.core.errors import NotFound
from waystation.core.http.endpoints import endpoint, stated
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Code, Problem


class NewRedrive(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A group of failures to be run again."""

    group: str
    mode: Mode = Mode.CANARY
    """One job, a canary of five, or all: five first, then more and more while they go well."""
    dry_run: bool = False
    expected: Annotated[int | None, stated(minimum=0)] = None
    reason: Annotated[str, stated(maxLength=500)] = ""


class Counted(msgspec.Struct, kw_only=True):
    """How many jobs a redrive would run again."""

    affected: int


class RedriveList(msgspec.Struct, kw_only=True):
    """Redrives."""

    redrives: list[Redrive]
    forgotten: int
    """How many more there were, which ended before these."""


class Failures:
    """What fails, and how it is run again."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @endpoint(
        f"GET {ROOT}/failures",
        gives={200: Groups},
        query={"product": {"type": "string"}, "queue": {"type": "string"}},
        scope="viewer",
    )
    async def groups(self, request: Request) -> Answer:
        """Failed jobs of all queues or of one, grouped by their errors."""
        product, name = queries.text(request, "product"), queries.text(request, "queue")
        about = f"{product}/{name}" if name else None
        await self._console.require(request, "viewer", about)
        return answer(await self._console.failing(product, name))

    @endpoint(
        f"POST {QUEUE}/redrives",
        takes=NewRedrive,
        gives={200: Counted, 202: Redrive},
        scope="operator",
    )
    async def redrive(self, request: Request) -> Answer:
        """Run the jobs of a group of failures again; stops by itself when they fail again."""
        queue, who = await self._console.queue(request, "operator")
        asked = await request.read(NewRedrive)
        ids = await self._console.redrives.ids_of(queue, asked.group, asked.mode)
        if asked.dry_run:
            return answer(Counted(affected=len(ids)))
        if not ids:
            raise NotFound("there is no failed job of this group")
        if asked.expected is not None and len(ids) > asked.expected:
            raise Problem(412, Code.CHANGED_MEANWHILE, f"there are {len(ids)} by now; look again")
        started = self._console.redrives.start(queue, asked.group, asked.mode, ids, by=who.name)
        self._console.failures.forget()
        after = {"id": started.id, "group": asked.group, "mode": asked.mode, "total": len(ids)}
        about = f"{queue.product}/{queue.name}"
        await self._console.note(who, "redrive", about, after={**after, "reason": asked.reason})
        return answer(started, 202)

    @endpoint(f"GET {ROOT}/redrives", gives={200: RedriveList}, scope="viewer")
    async def redrives(self, request: Request) -> Answer:
        """Redrives of this process, the newest first."""
        await self._console.require(request, "viewer")
        kept = self._console.redrives
        return answer(RedriveList(redrives=kept.every(), forgotten=kept.forgotten))

    @endpoint(f"GET {ROOT}/redrives/{{id}}", gives={200: Redrive}, scope="viewer")
    async def one(self, request: Request) -> Answer:
        """One redrive, as far as it is."""
        await self._console.require(request, "viewer")
        return answer(self._console.redrives.get(request.slots["id"]))

    @endpoint(f"DELETE {ROOT}/redrives/{{id}}", gives={200: Redrive}, scope="operator")
    async def stop(self, request: Request) -> Answer:
        """Stop a redrive; jobs that were released go on."""
        who = await self._console.require(request, "operator")
        stopped = self._console.redrives.stop(request.slots["id"])
        about = f"{stopped.product}/{stopped.queue}"
        await self._console.note(who, "stop-redrive", about, after={"id": stopped.id})
        return answer(stopped)
