"""Who works here: what workers offer, and whether they are alive."""

import os
import socket
from collections.abc import Iterable, Sequence

import msgspec

from waystation.core import codec
from waystation.core.errors import Malformed
from waystation.core.options import of_kind
from waystation.core.store import faults
from waystation.core.store.script import Client
from waystation.routing import scripts
from waystation.routing.keys import RoutingKeys, checked_server_id
from waystation.routing.scripts import SERVER_TIME

BEAT_S = 10.0
HEARTBEAT_MS = 30_000


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker offers."""

    server_id: str
    stack: str = "python"
    region: str = ""
    capabilities: tuple[str, ...] = ()
    """What it can do; `*` stands for anything and `?` for one character, as in `video:*`."""
    types: tuple[str, ...] = ()
    """The job types it has handlers for; none stands for all."""

    def __post_init__(self) -> None:
        checked_server_id(self.server_id)
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
                "serverId": self.server_id,
                "lastSeen": 0,
                "stack": self.stack,
                "region": self.region,
                "capabilities": list(self.capabilities),
                "pid": os.getpid(),
                "hostname": socket.gethostname(),
                "types": list(self.types),
            }
        )


class RegisteredWorker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A worker as the registry has it."""

    server_id: str
    stack: str = ""
    region: str = ""
    capabilities: tuple[str, ...] = ()
    last_seen: float = 0
    pid: int = 0
    hostname: str = ""
    types: tuple[str, ...] = ()
    alive: bool = False
    """Whether its heartbeat is there."""

    def matched(self) -> bytes:
        """What it offers, as the scripts match it."""
        return _matched(self)


def _matched(worker: Profile | RegisteredWorker) -> bytes:
    return codec.encode(
        {
            "server": worker.server_id,
            "stack": [worker.stack] if worker.stack else [],
            "capabilities": sorted(worker.capabilities),
            "region": [worker.region] if worker.region else [],
            "types": sorted(worker.types),
        }
    )


def profiles_of(workers: Iterable[RegisteredWorker]) -> bytes:
    """What several workers offer, as one JSON list."""
    return b"[" + b",".join(worker.matched() for worker in workers) + b"]"


async def beat(
    client: Client, keys: RoutingKeys, *profiles: Profile, now: str | int = SERVER_TIME
) -> int:
    """Say that workers are alive; how many of them were not known before."""
    return await scripts.beat(
        client,
        keys,
        namespace=keys.namespace,
        now=now,
        ttl_ms=HEARTBEAT_MS,
        workers=[text for each in profiles for text in (each.server_id, each.described())],
    )


async def leave(
    client: Client, keys: RoutingKeys, profile: Profile, *, now: str | int = SERVER_TIME
) -> bool:
    """Take the worker out of the registry."""
    return await scripts.leave(
        client, keys, namespace=keys.namespace, now=now, worker=profile.server_id
    )


async def registered(client: Client, keys: RoutingKeys) -> list[RegisteredWorker]:
    """Every worker in the registry; one whose entry cannot be read has only its id."""
    with faults.translated():
        found = await client.execute_command("SMEMBERS", keys.registered)
        ids = sorted(each.decode() for each in found)
        if not ids:
            return []
        entries = await client.execute_command("MGET", *(keys.worker_at(id).worker for id in ids))
        beats = await client.execute_command("MGET", *(keys.worker_at(id).heartbeat for id in ids))
    return _read(ids, entries, beats)


def _read(
    ids: Sequence[str], entries: Sequence[bytes | None], beats: Sequence[bytes | None]
) -> list[RegisteredWorker]:
    workers: list[RegisteredWorker] = []
    for id, entry, heard in zip(ids, entries, beats, strict=True):
        try:
            worker = codec.decode(entry or b"", RegisteredWorker)
        except Malformed:
            worker = RegisteredWorker(server_id=id)
        workers.append(msgspec.structs.replace(worker, server_id=id, alive=heard is not None))
    return workers
