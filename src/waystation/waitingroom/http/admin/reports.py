"""Operator routes for reports, as JSON and CSV."""

import msgspec

from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.queries import whole
from waystation.core.http.tables import table
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, ROOT, AdminContext
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.operating import statistics as hours
from waystation.waitingroom.operating.history import MOST_MINUTES, History
from waystation.waitingroom.operating.statistics import MOST_HOURS, Hour

MOST_ENTRIES = 200
MOST_EXPORTED = 10_000
_HOURS = {"hours": {"type": "integer", "minimum": 1, "maximum": MOST_HOURS}}
_MINUTES = {"minutes": {"type": "integer", "minimum": 1, "maximum": MOST_MINUTES}}
_AUDIT = ("at", "who", "role", "action", "queue", "before", "after")


class Reports:
    """The last day of a room, and what operators did."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    @endpoint(
        f"GET {ROOT}/{{id}}/analytics",
        gives={200: bodies.Analytics},
        query=_HOURS,
        fails=FAILS,
        scope="viewer",
    )
    async def analytics(self, request: Request) -> Answer:
        """Arrivals, departures and waits by the hour."""
        room, _ = await self._context.allowed(request, "viewer")
        found = await hours.last(room, _asked(request, "hours", MOST_HOURS))
        return answer(bodies.Analytics(queue=room.name, hours=found))

    @endpoint(
        f"GET {ROOT}/{{id}}/history",
        gives={200: bodies.MinuteHistory},
        query=_MINUTES,
        fails=FAILS,
        scope="viewer",
    )
    async def history(self, request: Request) -> Answer:
        """The line, arrivals, admissions, no-shows and estimates by the minute, for a day."""
        room, _ = await self._context.allowed(request, "viewer")
        minutes = _asked(request, "minutes", MOST_MINUTES)
        return answer(
            bodies.MinuteHistory(queue=room.name, minutes=await History(room).last(minutes))
        )

    @endpoint(
        f"GET {ROOT}/{{id}}/export", gives={200: None}, query=_HOURS, fails=FAILS, scope="viewer"
    )
    async def export(self, request: Request) -> Answer:
        """The same as a CSV file."""
        room, _ = await self._context.allowed(request, "viewer")
        found = await hours.last(room, _asked(request, "hours", MOST_HOURS))
        rows = [list(msgspec.structs.astuple(each)) for each in found]
        return table(f"{room.name}-hours", Hour.__struct_fields__, rows)

    @endpoint("GET /api/v1/admin/audit", fails=(400, 401, 403, 429, 503), scope="admin")
    async def audit(self, request: Request) -> Answer:
        """The audit log, the latest first."""
        await self._context.operators.require(request, "admin")
        return answer({"entries": await self._context.operators.audit(MOST_ENTRIES)})

    @endpoint(
        "GET /api/v1/admin/audit/export",
        gives={200: None},
        fails=(400, 401, 403, 429, 503),
        scope="admin",
    )
    async def export_audit(self, request: Request) -> Answer:
        """The same as a CSV file, as far back as it is kept."""
        await self._context.operators.require(request, "admin")
        entries = await self._context.operators.audit(MOST_EXPORTED)
        rows = [
            [rfc3339(int(each["at"])), *(each[name] for name in _AUDIT[1:])] for each in entries
        ]
        return table("audit", _AUDIT, rows)


def _asked(request: Request, name: str, most: int) -> int:
    try:
        return whole(request, name, most, least=1, most=most)
    except InvalidInput as error:
        raise InvalidOption(str(error)) from None
