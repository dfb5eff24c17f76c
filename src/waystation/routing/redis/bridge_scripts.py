"""BridgeMQ's own scripts, under their names and with their arguments, for any language."""

from collections.abc import Mapping
from typing import Any

from waystation.core.store.script import Client, LuaScript, raw, script
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys


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
    """Fire the schedules that are due, each slot once however often this is called; a JSON list of
    those that need a next time.
    """
    ...


@script(reply=bool)
async def release_lock(redis: Client, keys: RoutingKeys, *, worker: str, id: str) -> bool:
    """Release a job's lock if the worker owns it; the keys are those of the job and its type."""
    ...


def own_scripts() -> dict[str, LuaScript[Any, Any]]:
    """BridgeMQ's scripts by name."""
    return _declared(globals())


def every_script() -> dict[str, LuaScript[Any, Any]]:
    """All scripts by name, BridgeMQ's own first."""
    return own_scripts() | _declared(vars(scripts))


def _declared(names: Mapping[str, Any]) -> dict[str, LuaScript[Any, Any]]:
    return {name: each for name, each in names.items() if isinstance(each, LuaScript)}
