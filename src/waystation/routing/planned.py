"""The schedules that are set up, and when each fires next."""

from typing import Any

import msgspec

from waystation.core.errors import InvalidInput
from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.routing.job import Job
from waystation.routing.keys import RoutingKeys

PER_CALL = 500


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule; what cannot be read of it is left empty."""

    id: str
    next_ms: float
    """Milliseconds since the epoch."""
    type: str = ""
    cron: str = ""
    timezone: str = "UTC"


async def planned(client: Client, keys: RoutingKeys) -> list[Planned]:
    """Every schedule, the next to fire first."""
    with faults.translated():
        found: Any = await client.execute_command("ZRANGE", keys.cron, 0, -1, "WITHSCORES")
    pairs = [(found[at].decode(), float(found[at + 1])) for at in range(0, len(found), 2)]
    schedules: list[Planned] = []
    for first in range(0, len(pairs), PER_CALL):
        page = pairs[first : first + PER_CALL]
        with faults.translated():
            texts = await client.execute_command("MGET", *(keys.of(id).data for id, _ in page))
        for (id, next_ms), raw in zip(page, texts, strict=True):
            schedules.append(_read(Planned(id=id, next_ms=next_ms), raw))
    return schedules


def _read(bare: Planned, raw: bytes | None) -> Planned:
    try:
        job = Job(bare.id, raw or b"")
        schedule = job.schedule
    except InvalidInput:
        return bare
    return msgspec.structs.replace(
        bare, type=job.type, cron=schedule.cron or "", timezone=schedule.timezone or "UTC"
    )
