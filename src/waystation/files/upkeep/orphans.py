"""Orphans: lists of workers that never registered, such as another program left behind.

They can only be found among all keys of the database, so one process of a fleet scans a part of
them at a time. Their workers are registered, and the reaper treats them like every other.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from waystation.core.errors import Malformed
from waystation.core.store import faults
from waystation.core.store.commands import ask
from waystation.core.store.script import Client
from waystation.core.telemetry.logs import get_logger
from waystation.files import job as jobs
from waystation.files.redis import scripts
from waystation.files.redis.keys import FileKeys

_log = get_logger(__name__)

ROUND_S = 30
"""Between two scans of all keys, by any process."""
KEYS_A_STEP = 1000
STEPS_A_PASS = 10


class Orphans:
    """Finds lists of unregistered workers, and registers those workers."""

    def __init__(self, client: Client, keys: FileKeys) -> None:
        self._client = client
        self._keys = keys
        self._cursor = 0

    async def register(self) -> list[str]:
        """Scan a bounded part of the keys; the workers that were registered."""
        if not await self._is_our_turn():
            return []
        registered: list[str] = []
        for _ in range(STEPS_A_PASS):
            self._cursor, workers = await _step(self._client, self._keys, self._cursor)
            registered += [worker for worker in workers if await self._register(worker)]
            if not self._cursor:
                break
        return registered

    async def _is_our_turn(self) -> bool:
        # The process that began a scan continues it; others wait until its lock lapses.
        begins = () if self._cursor else ("NX",)
        return bool(await ask(self._client, "SET", self._keys.orphans, "1", "EX", ROUND_S, *begins))

    async def _register(self, worker: str) -> bool:
        keys = self._keys.of(worker)
        oldest: list[bytes] = await ask(self._client, "LRANGE", keys.processing, -1, -1)
        # A wide pattern may match other lists; only one that holds our jobs is a worker's.
        if not oldest or not _is_ours(oldest[0], self._keys):
            return False
        if not await scripts.register(self._client, keys, worker=worker):
            return False
        _log.warning("orphan_found", worker_id=worker)
        return True


async def everywhere(client: Client, keys: FileKeys) -> AsyncGenerator[str]:
    """Every worker that has a list, registered or not; scans all keys."""
    cursor = None
    while cursor != 0:
        cursor, workers = await _step(client, keys, cursor or 0)
        for worker in workers:
            yield worker


async def _step(client: Client, keys: FileKeys, cursor: int) -> tuple[int, list[str]]:
    before, _, after = keys.layout.processing_list_pattern.partition("%s")
    pattern = f"{_escaped(before)}*{_escaped(after)}"
    found: list[str] = []
    cursor, page = await _scan(client, keys, cursor, pattern)
    for key in page:
        # A key that is no text has no name that a worker of ours could have.
        name = key.decode(errors="replace")
        if "\ufffd" not in name and name not in keys.lists:
            found.append(name.removeprefix(before).removesuffix(after))
    return cursor, found


async def _scan(
    client: Client, keys: FileKeys, cursor: int, pattern: str
) -> tuple[int, list[bytes]]:
    # On a cluster all keys of a line lie on one node, and only that one is asked.
    node_of = getattr(client, "get_node_from_key", None)
    options = {"target_nodes": node_of(keys.workers)} if node_of else {}
    with faults.translated():
        answer = await cast(Any, client).execute_command(
            "SCAN", cursor, "MATCH", pattern, "COUNT", KEYS_A_STEP, "TYPE", "list", **options
        )
    following, page = answer
    if isinstance(following, Mapping):
        (following,) = cast(Mapping[Any, Any], following).values()
    return int(following), page


def _is_ours(raw: bytes, keys: FileKeys) -> bool:
    try:
        job = jobs.read(raw)
    except Malformed:
        return False
    # Fleets with other queues may share the pattern of these lists.
    return job.origin_queue is None or job.origin_queue in keys.queues


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)
