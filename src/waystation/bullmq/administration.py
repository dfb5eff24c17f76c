"""Looking after a queue: emptying, cleaning, retrying, removing."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Literal, TypeAlias, cast

from waystation.bullmq.job_steps import remove_job
from waystation.bullmq.redis import queue_scripts
from waystation.bullmq.redis.client import QueueClient
from waystation.bullmq.redis.commands import ask
from waystation.bullmq.redis.queue_scripts import Sweep
from waystation.bullmq.states import known
from waystation.core.errors import InvalidOption, WrongState
from waystation.core.options import at_least
from waystation.core.store import faults

AT_ONCE = 500
"""Jobs that one step looks at; more would keep everybody else waiting."""
IDS_AT_ONCE = 10_000
SUSPECTS_AT_ONCE = 50
NOW, EVER = "", "+inf"

Cleanable: TypeAlias = Literal[
    "waiting", "wait", "active", "prioritized", "delayed", "completed", "failed"
]
Retryable: TypeAlias = Literal["failed", "completed"]


class Administration(QueueClient):
    """What changes many jobs at once, in steps that let workers go on in between."""

    async def drain(self, delayed: bool = False) -> int:
        """Remove all jobs that wait and, if asked, those that are delayed; how many there were.

        What keeps a scheduler going stays.
        """
        states = ["wait", "paused", "prioritized", *(["delayed"] if delayed else [])]
        return sum([await self._empty(state) for state in states])

    async def clean(
        self, grace: int, limit: int = 1000, state: Cleanable = "completed"
    ) -> list[str]:
        """Remove up to `limit` jobs of a state that are older than `grace` milliseconds, 0 for no
        limit; the ids of those removed."""
        at_least("grace", grace, 0)
        at_least("limit", limit, 0)
        removed: list[str] = []
        for name in _swept(state):
            left = limit and limit - len(removed)
            async for swept in self._sweeps(name, grace=grace, limit=left, event="cleaned"):
                removed += swept.removed
            if limit and len(removed) >= limit:
                break
        return removed

    async def obliterate(self, *, force: bool = False) -> None:
        """Delete the queue with everything in it; `force` takes active jobs from their workers."""
        client, keys = await self._at_hand()
        more = 1
        while more == 1:
            more = await queue_scripts.obliterate(
                client, keys, base=keys.base, most=AT_ONCE, force="1" if force else ""
            )
        if more < 0:
            raise WrongState(f"the queue {self.name} has active jobs: `force` deletes them, too")

    async def retry_jobs(
        self, *, state: Retryable = "failed", count: int = 1000, timestamp: int | None = None
    ) -> int:
        """Let finished jobs run again that ended until `timestamp`; how many there were.

        They go `count` at a time, until none is left.
        """
        if state not in ("failed", "completed"):
            raise InvalidOption(f"only failed and completed jobs can be retried, got {state!r}")
        return await self._wait_again(state, NOW if timestamp is None else timestamp, count)

    async def promote_jobs(self, *, count: int = 1000) -> int:
        """Let all delayed jobs run now, `count` at a time; how many there were."""
        return await self._wait_again("delayed", EVER, count)

    async def remove(self, job_id: str, *, remove_children: bool = True) -> bool:
        """Remove a job and, unless asked otherwise, its children; False when a worker holds it."""
        client, keys = await self._at_hand()
        return await remove_job(client, keys, job_id, remove_children=remove_children)

    async def remove_orphans(self, *, count: int = 1000, limit: int = 0) -> int:
        """Delete jobs that no state knows of, up to `limit` of them if that is not 0; how many.

        All keys of the store are walked over, about `count` at a time.
        """
        client, keys = await self._at_hand()
        removed = 0
        async for ids in self._suspects(count):
            removed += await queue_scripts.remove_orphans(
                client, keys, base=keys.base, most=limit - removed if limit else len(ids), ids=ids
            )
            if limit and removed >= limit:
                break
        return removed

    async def remove_deduplication_key(self, deduplication_id: str) -> bool:
        """Let others like a job in, whichever stands for them; whether one did."""
        client, keys = await self._at_hand()
        return bool(await ask(client, "DEL", f"{keys.base}de:{deduplication_id}"))

    async def trim_events(self, max_len: int) -> int:
        """Keep about so many of the newest events; how many were dropped."""
        at_least("max_len", max_len, 0)
        client, keys = await self._at_hand()
        return await ask(client, "XTRIM", keys.events, "MAXLEN", "~", max_len)

    async def _empty(self, state: str) -> int:
        removed = 0
        while True:
            # While workers take jobs out, places shift; the last pass finds nothing to remove.
            passed = 0
            async for swept in self._sweeps(state):
                passed += len(swept.removed)
            if not passed:
                return removed
            removed += passed

    async def _sweeps(
        self, state: str, *, grace: int | str = "", limit: int = 0, event: str = ""
    ) -> AsyncGenerator[Sweep]:
        client, keys = await self._at_hand()
        removed = skip = 0
        while True:
            most = min(AT_ONCE, limit - removed) if limit else AT_ONCE
            swept = await queue_scripts.sweep(
                client,
                keys,
                base=keys.base,
                state=state,
                grace=grace,
                most=most,
                skip=skip,
                event=event,
            )
            yield swept
            removed, skip = removed + len(swept.removed), skip + swept.spared
            if swept.seen < most or (limit and removed >= limit):
                return

    async def _wait_again(self, state: str, until: int | str, count: int) -> int:
        at_least("count", count, 1)
        client, keys = await self._at_hand()
        moved = 0
        while True:
            many = min(count, AT_ONCE)
            found = await queue_scripts.retry_jobs(
                client, keys, base=keys.base, state=state, until_ms=until, most=many
            )
            moved += found
            if found < many:
                return moved

    async def _suspects(self, count: int) -> AsyncGenerator[list[str]]:
        """What may be ids of jobs that no list holds; the script then looks whether it is true."""
        store, base = await self._connected(), self.keys.base
        # Looking an id up in a list takes the longer the longer the list is, so it is done rarely.
        listed = await self._listed()
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", base) + "*"
        keys = cast(
            AsyncIterator[bytes], store.redis.scan_iter(match=pattern, count=count, _type="HASH")
        )
        found: list[str] = []
        with faults.translated():
            async for key in keys:
                name = key.removeprefix(base.encode())
                if name not in listed:
                    found.append(name.decode("utf-8", "replace"))
                if len(found) == SUSPECTS_AT_ONCE:
                    yield found
                    found = []
        if found:
            yield found

    async def _listed(self) -> set[bytes]:
        client, keys = await self._at_hand()
        ids: set[bytes] = set()
        for key in (keys.wait, keys.active, keys.paused):
            for first in range(0, await ask(client, "LLEN", key), IDS_AT_ONCE):
                ids.update(await ask(client, "LRANGE", key, first, first + IDS_AT_ONCE - 1))
        return ids


def _swept(state: str) -> list[str]:
    if state not in ("wait", "paused"):
        [state] = known(state)
    if state == "waiting-children":
        raise InvalidOption("jobs that wait for their children cannot be cleaned")
    # What BullMQ 5 has set aside is older than what came since.
    return ["paused", "wait"] if state in ("waiting", "wait", "paused") else [state]
