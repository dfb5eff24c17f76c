"""Endpoints of failures: groups, and redrives of a group."""

from typing import Annotated

import msgspec

from waystation.console.actions.failures import Groups
from waystation.console.actions.runs import Mode, Redrive
from waystation.console.routes import calls
from waystation.console.routes.calls import QUEUE, ROOT, Call, ConsoleRoutes, console_endpoint
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


class Failures(ConsoleRoutes):
    """What fails, and how it is run again."""

    @endpoint(
        f"GET {ROOT}/failures",
        gives={200: Groups},
        query={"product": {"type": "string"}, "queue": {"type": "string"}},
        scope="viewer",
    )
    async def groups(self, request: Request) -> Answer:
        """Failed jobs of all queues or of one, grouped by their errors."""
        product, name = calls.text(request, "product"), calls.text(request, "queue")
        about = f"{product}/{name}" if name else None
        await self.console.require(request, "viewer", about)
        return answer(await self.console.failing(product, name))

    @console_endpoint(f"POST {QUEUE}/redrives", "operator", gives={200: Counted, 202: Redrive})
    async def redrive(self, call: Call, asked: NewRedrive) -> Answer:
        """Run the jobs of a group of failures again; stops by itself when they fail again."""
        queue, redrives = await call.queue(), self.console.redrives
        ids = await redrives.ids_of(queue, asked.group, asked.mode)
        if asked.dry_run:
            return answer(Counted(affected=len(ids)))
        if not ids:
            raise NotFound("there is no failed job of this group")
        if asked.expected is not None and len(ids) > asked.expected:
            raise Problem(412, Code.CHANGED_MEANWHILE, f"there are {len(ids)} by now; look again")
        started = redrives.start(queue, asked.group, asked.mode, ids, by=call.who.name)
        self.console.failures.forget()
        after = {"id": started.id, "group": asked.group, "mode": asked.mode, "total": len(ids)}
        about = f"{queue.product}/{queue.name}"
        await call.note("redrive", about, after={**after, "reason": asked.reason})
        return answer(started, 202)

    @console_endpoint(f"GET {ROOT}/redrives", "viewer")
    async def redrives(self, call: Call) -> RedriveList:
        """Redrives of this process, the newest first."""
        kept = self.console.redrives
        return RedriveList(redrives=kept.every(), forgotten=kept.forgotten)

    @console_endpoint(f"GET {ROOT}/redrives/{{id}}", "viewer")
    async def one(self, call: Call) -> Redrive:
        """One redrive, as far as it is."""
        return self.console.redrives.get(call.request.slots["id"])

    @console_endpoint(f"DELETE {ROOT}/redrives/{{id}}", "operator")
    async def stop(self, call: Call) -> Redrive:
        """Stop a redrive; jobs that were released go on."""
        stopped = self.console.redrives.stop(call.request.slots["id"])
        about = f"{stopped.product}/{stopped.queue}"
        await call.note("stop-redrive", about, after={"id": stopped.id})
        return stopped
