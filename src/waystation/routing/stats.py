"""How much is where: the numbers that BridgeMQ's monitoring page asks for."""

import asyncio

import msgspec

from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.routing.redis.keys import RoutingKeys


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How much is where, at one moment."""

    waiting: int
    active: int
    delayed: int
    cron: int
    dead: int
    held: int
    """Jobs that wait for other jobs."""
    workers: dict[str, bool]
    """Every registered worker, and whether it is alive."""
    concurrent: dict[str, int]
    """Running jobs of each type that has a limit."""
    paused: tuple[str, ...]

    @property
    def places(self) -> dict[str, int]:
        """How many jobs are where."""
        names = ("waiting", "active", "delayed", "cron", "dead", "held")
        return {name: getattr(self, name) for name in names}


async def stats(client: Client, keys: RoutingKeys) -> Stats:
    """Ask for everything at once."""
    ask = client.execute_command
    with faults.translated():
        counts = await asyncio.gather(
            ask("LLEN", keys.waiting),
            ask("SCARD", keys.active),
            ask("ZCARD", keys.delayed),
            ask("ZCARD", keys.cron),
            ask("LLEN", keys.deadletter),
            ask("HLEN", keys.held),
        )
        workers, limited, paused = await asyncio.gather(
            ask("SMEMBERS", keys.registered),
            ask("HKEYS", keys.limits),
            ask("SMEMBERS", keys.paused),
        )
        ids = sorted(each.decode() for each in workers)
        types = sorted(each.decode() for each in limited)
        alive = [await ask("EXISTS", keys.worker_at(id).heartbeat) for id in ids]
        running = [await ask("GET", keys.of_type(type).concurrent) for type in types]
    waiting, active, delayed, cron, dead, held = counts
    return Stats(
        waiting=waiting,
        active=active,
        delayed=delayed,
        cron=cron,
        dead=dead,
        held=held,
        workers={id: bool(there) for id, there in zip(ids, alive, strict=True)},
        concurrent={type: int(count or 0) for type, count in zip(types, running, strict=True)},
        paused=tuple(sorted(each.decode() for each in paused)),
    )
