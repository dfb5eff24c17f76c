"""The registry of workers: what each offers, and the heartbeats that show it is alive."""

import os
import socket
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from waystation.core import codec
from waystation.core.clock import SERVER_TIME
from waystation.core.durations import possible_instant
from waystation.core.errors import Malformed
from waystation.core.options import of_kind
from waystation.core.store.commands import ask
from waystation.core.store.script import Client, texts
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys, checked_server

HEARTBEAT_MS = 30_000


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker offers."""

    server: str
    stack: str = "python"
    region: str = ""
    capabilities: tuple[str, ...] = ()
    """What it can do; `*` stands for anything and `?` for one character, as in `video:*`."""
    types: tuple[str, ...] = ()
    """The job types it has handlers for; none stands for all."""

    def __post_init__(self) -> None:
        checked_server(self.server)
        of_kind("stack", self.stack, str)
        of_kind("region", self.region, str)
        for capability in self.capabilities:
            of_kind("a capability", capability, str)

    def matched(self) -> bytes:
        """The profile as the scripts match it."""
        return _matched(self)

    def described(self) -> bytes:
        """The registry's JSON; `lastSeen` is filled in by the server."""
        return codec.encode(
            {
                "serverId": self.server,
                "lastSeen": 0,
                "stack": self.stack,
                "region": self.region,
                "capabilities": list(self.capabilities),
                "pid": os.getpid(),
                "hostname": socket.gethostname(),
                "types": list(self.types),
            }
        )


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A worker that is registered with a queue."""

    server: str = msgspec.field(name="serverId")
    """The name of the worker, which targets ask for."""
    stack: str = ""
    """The stack it runs."""
    region: str = ""
    """The region it is in."""
    capabilities: tuple[str, ...] = ()
    """What it can do."""
    seen_ms: float = msgspec.field(name="lastSeen", default=0)
    """Its last heartbeat, in milliseconds since 1970."""
    pid: int = 0
    """The id of its process."""
    hostname: str = ""
    """The machine it runs on."""
    types: tuple[str, ...] = ()
    """The job types that it has handlers for; none stands for all."""
    alive: bool = False
    """False once its heartbeat has lapsed; its jobs are then taken back."""

    @property
    def seen_at(self) -> datetime | None:
        """Its latest heartbeat; None when that is not known."""
        return possible_instant(self.seen_ms) if self.seen_ms else None

    def matched(self) -> bytes:
        """Internal: what it offers, as the scripts match it."""
        return _matched(self)


def _matched(worker: Profile | WorkerInfo) -> bytes:
    return codec.encode(
        {
            "server": worker.server,
            "stack": [worker.stack] if worker.stack else [],
            "capabilities": sorted(worker.capabilities),
            "region": [worker.region] if worker.region else [],
            "types": sorted(worker.types),
        }
    )


def profiles_of(workers: Iterable[WorkerInfo]) -> bytes:
    """What several workers offer, as one JSON list."""
    return b"[" + b",".join(worker.matched() for worker in workers) + b"]"


async def beat(
    client: Client, keys: RoutingKeys, *profiles: Profile, now: str | int = SERVER_TIME
) -> int:
    """Say that workers are alive; how many of them were not known before."""
    return await scripts.beat(
        client,
        keys,
        now=now,
        ttl_ms=HEARTBEAT_MS,
        workers=[text for each in profiles for text in (each.server, each.described())],
    )


async def leave(
    client: Client, keys: RoutingKeys, profile: Profile, *, now: str | int = SERVER_TIME
) -> bool:
    """Take the worker out of the registry."""
    return await scripts.leave(client, keys, now=now, worker=profile.server)


async def registered(client: Client, keys: RoutingKeys) -> list[WorkerInfo]:
    """Every worker in the registry; one whose entry cannot be read has only its id."""
    found = await ask(client, "SMEMBERS", keys.registered)
    ids = sorted(texts(found))
    if not ids:
        return []
    entries = await ask(client, "MGET", *(keys.worker_at(id).worker for id in ids))
    beats = await ask(client, "MGET", *(keys.worker_at(id).heartbeat for id in ids))
    return _read(ids, entries, beats)


def _read(
    ids: Sequence[str], entries: Sequence[bytes | None], beats: Sequence[bytes | None]
) -> list[WorkerInfo]:
    workers: list[WorkerInfo] = []
    for id, entry, heard in zip(ids, entries, beats, strict=True):
        try:
            worker = codec.decode(entry or b"", WorkerInfo)
        except Malformed:
            worker = WorkerInfo(server=id)
        workers.append(msgspec.structs.replace(worker, server=id, alive=heard is not None))
    return workers
