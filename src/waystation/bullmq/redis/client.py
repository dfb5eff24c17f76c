"""Queue clients: objects that work on one queue. Internal."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.core.store.client import StoreClient
from waystation.core.store.connection import Store
from waystation.core.store.script import Client

Connect: TypeAlias = Callable[[], Awaitable[tuple[Client, QueueKeys]]]
"""Connects a part of a queue, such as `queue.limits`: a client, and the queue's keys."""

BULLMQS_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "add_bulk": "add_many",
        "get_job_counts": "counts",
        "get_job_state": "state",
        "get_job_logs": "logs",
        "retry_jobs": "retry_all",
        "promote_jobs": "promote_all",
        "upsert_job_scheduler": "schedulers.upsert",
        "get_job_scheduler": "schedulers.get",
        "get_job_schedulers": "schedulers.list",
        "get_job_schedulers_count": "schedulers.count",
        "remove_job_scheduler": "schedulers.remove",
        "set_global_concurrency": "limits.set_concurrency",
        "get_global_concurrency": "limits.get_concurrency",
        "remove_global_concurrency": "limits.remove_concurrency",
        "set_global_rate_limit": "limits.set_rate_limit",
        "get_global_rate_limit": "limits.get_rate_limit",
        "remove_global_rate_limit": "limits.remove_rate_limit",
        "rate_limit": "limits.rate_limit",
        "get_rate_limit_ttl": "limits.rate_limit_ttl",
        "remove_rate_limit_key": "limits.reset_rate_limit",
        "is_maxed": "limits.is_maxed",
        "set_group_concurrency": "groups.set",
        "get_group_concurrency": "groups.settings",
        "set_group_rate_limit": "groups.set",
        "get_groups": "groups.list",
        "get_groups_jobs_count": "groups.count_jobs",
        "pause_group": "groups.pause",
        "resume_group": "groups.resume",
        **{
            f"get_{state}{count}": "counts" if count else "get_jobs"
            for state in ("waiting", "active", "delayed", "prioritized", "completed", "failed")
            for count in ("", "_count")
        },
    }
)
"""What Node's BullMQ calls the methods of a queue, in our spelling, where that is another name."""


class QueueClient(StoreClient):
    """An object that works on one queue."""

    def __init__(self, name: str, url: str | Store | None = None, *, prefix: str = PREFIX) -> None:
        super().__init__(url)
        self._keys = QueueKeys(name, prefix=prefix)

    async def _connect_queue(self) -> tuple[Client, QueueKeys]:
        return (await self._connected()).hot, self._keys

    async def _connect_durably(self) -> tuple[Client, QueueKeys]:
        """For what must be on a replica as well before it counts, where that is asked for."""
        return (await self._connected()).durable, self._keys

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._keys.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._keys.qualified!r})"


def client_name(keys: QueueKeys, suffix: str = "") -> str:
    """The name that BullMQ's dashboards look for."""
    return f"{keys.prefix}:{base64.b64encode(keys.name.encode()).decode()}{suffix}"
