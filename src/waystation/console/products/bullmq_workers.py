"""The workers of BullMQ's queues, and the jobs that each holds."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from waystation.bullmq.redis.client import client_name
from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.products.views import HeldJob, WorkerView
from waystation.core.codec import as_text
from waystation.core.durations import possible_instant, whole_number
from waystation.core.store import faults
from waystation.core.store.connection import Store

FRESH_S = 1.0
"""How long a list of connections serves: all queues of a page are asked for at once."""
MOST_HELD = 500
"""Active jobs of one queue that are looked at."""
SHOWN = 20
"""Jobs of one worker that are named."""


class Connections:
    """All connections of a store, listed once for all queues that are asked for together."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listed: list[dict[str, str]] = []
        self._at = float("-inf")

    async def of(self, keys: QueueKeys) -> list[dict[str, str]]:
        """The connections of a queue's workers."""
        name = client_name(keys)
        return [
            each
            for each in await self._every()
            if each["name"] == name or each["name"].startswith(f"{name}:w:")
        ]

    async def _every(self) -> list[dict[str, str]]:
        if time.monotonic() - self._at > FRESH_S:
            redis: Any = self._store.redis
            with faults.translated():
                self._listed = await redis.client_list()
            self._at = time.monotonic()
        return self._listed


async def workers_of(
    store: Store, keys: QueueKeys, connections: Connections, *, shown: str
) -> list[WorkerView]:
    """The workers of a queue, and those that hold jobs and are not connected any more."""
    raw = await store.ask("LRANGE", keys.active, 0, MOST_HELD)
    held = await _held(store, keys, shown, [as_text(id) for id in raw[:MOST_HELD]])
    clients = await connections.of(keys)
    names = Counter(_name(each) for each in clients)
    found = [_connected(shown, each, held, names[_name(each)]) for each in clients]
    for name in sorted(held.keys() - names.keys()):
        jobs = held[name]
        found.append(_view(shown, name, jobs, alive=False, facts={"connected": False}))
    for each in found:
        each.is_complete = each.active is None or len(raw) <= MOST_HELD
    return found


async def _held(
    store: Store, keys: QueueKeys, shown: str, ids: Sequence[str]
) -> dict[str, list[HeldJob]]:
    """Active jobs by the names of their workers; those of workers without a name are left out."""
    if not ids:
        return {}
    redis: Any = store.redis
    with faults.translated():
        async with redis.pipeline(transaction=False) as pipeline:
            for id in ids:
                pipeline.hmget(keys.of(id).job, "pb", "name", "processedOn")
            rows: list[Any] = await pipeline.execute(raise_on_error=False)
    found: dict[str, list[HeldJob]] = {}
    for id, row in zip(ids, rows, strict=True):
        if isinstance(row, Exception):
            continue  # not a job, whatever it is
        worker, name, started = row
        if worker:
            job = HeldJob(id=id, name=_text(name), queue=shown, started_at=_instant(started))
            found.setdefault(_text(worker), []).append(job)
    return found


def _connected(
    queue: str, client: Mapping[str, str], held: Mapping[str, Sequence[HeldJob]], alike: int
) -> WorkerView:
    age = client.get("age", "")
    facts: dict[str, Any] = {
        "address": _address(client.get("addr", "")),
        "connected_s": int(age) if age.isdigit() else None,
    }
    if alike > 1:
        facts["alike"] = alike
    name = _name(client)
    jobs = held.get(name, []) if ":w:" in client["name"] else None
    return _view(queue, name, jobs, facts=facts)


def _view(
    queue: str,
    name: str,
    jobs: Sequence[HeldJob] | None,
    *,
    facts: dict[str, Any],
    alive: bool = True,
) -> WorkerView:
    return WorkerView(
        name=name,
        product="bullmq",
        queues=[queue],
        alive=alive,
        active=None if jobs is None else len(jobs),
        holds=list(jobs or ())[:SHOWN],
        facts=facts,
    )


def _address(addr: str) -> str:
    """Where a worker is; over a socket in a file the server tells only the file."""
    return "this machine" if "/" in addr else addr


def _name(client: Mapping[str, str]) -> str:
    _, _, name = client["name"].partition(":w:")
    return name or client.get("addr", "?")


def _text(raw: bytes | None) -> str:
    return raw.decode("utf-8", "replace") if raw else ""


def _instant(raw: bytes | None) -> datetime | None:
    return possible_instant(whole_number(raw))
