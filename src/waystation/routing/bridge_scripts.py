"""BridgeMQ's own scripts, under their names and with their arguments, for any language."""

from typing import Any

from waystation.core.store.script import Client, raw, script
from waystation.routing.keys import RoutingKeys


@script(reply=raw)
async def claim_job(
    redis: Client,
    keys: RoutingKeys,
    *,
    worker: str,
    stack: str,
    capabilities: str,
    region: str,
    now: int | str,
    lock_ttl: int,
    data_prefix: str,
    lock_prefix: str,
    limit_prefix: str,
) -> Any:
    """Claim the next job that fits a worker; its JSON, or None."""
    ...


@script(reply=int)
async def process_delayed(
    redis: Client, keys: RoutingKeys, *, now: int | str, batch: int = 100
) -> int:
    """Let delayed jobs wait whose time has come; how many did."""
    ...


@script(reply=raw)
async def process_cron(
    redis: Client, keys: RoutingKeys, *, now: int | str, batch: int = 100
) -> Any:
    """Fire the schedules that are due; a JSON list of those that need a next time."""
    ...


@script(reply=bool)
async def release_lock(redis: Client, keys: RoutingKeys, *, worker: str, id: str) -> bool:
    """Release a job's lock if the worker owns it; the keys are those of the job and its type."""
    ...
