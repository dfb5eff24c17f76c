"""Server checks: what kind of server the store is, and whether it is safe for jobs."""

import re
from enum import StrEnum
from typing import Any

import msgspec
from redis.asyncio import Redis

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import StoreBusy, StoreError, StoreUnreachable, StoreUnsuitable
from waystation.core.store import faults

OLDEST_REDIS = (6, 2)
SAFE_POLICY = "noeviction"


class Kind(StrEnum):
    """The servers we know."""

    REDIS = "redis"
    VALKEY = "valkey"
    DRAGONFLY = "dragonfly"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says about itself."""

    kind: Kind
    version: str
    policy: str
    """What the server does when its memory is full."""
    append_only: bool
    """Whether every write goes to a log on disk."""
    snapshots: bool
    """Whether the whole is written to disk now and then; no where the server does not say."""
    primary: bool
    cluster: bool
    memory_used: int
    memory_limit: int
    """Bytes; 0 when only the machine sets a limit."""
    clock_skew_ms: int
    """How far the server's clock is ahead of ours, give or take half a round trip."""
    round_trip_ms: float


async def facts(redis: Redis, *, clock: Clock | None = None) -> Facts:
    """Ask the server about itself."""
    clock = clock or SystemClock()
    with faults.translated():
        about = await _info(redis)
        before, started = clock.now_ms(), clock.monotonic()
        seconds, micros = await redis.time()
        round_trip_ms = (clock.monotonic() - started) * 1000
    kind, version = _kind_and_version(about)
    return Facts(
        kind=kind,
        version=version,
        policy=str(about.get("maxmemory_policy", "unknown")),
        append_only=about.get("aof_enabled") == 1,
        snapshots=await _snapshots(redis),
        primary=about.get("role", "master") == "master",
        cluster="cluster" in (about.get("redis_mode"), about.get("server_mode")),
        memory_used=int(about.get("used_memory", 0)),
        memory_limit=int(about.get("maxmemory", 0)),
        clock_skew_ms=round(seconds * 1000 + micros / 1000 - before - round_trip_ms / 2),
        round_trip_ms=round_trip_ms,
    )


async def require_suitable(redis: Redis) -> Facts:
    """Make sure that work may be kept here; raises `StoreUnsuitable` with a sentence that helps."""
    found = await facts(redis)
    if complaint := unsuitable(found):
        raise StoreUnsuitable(complaint)
    try:
        with faults.translated():
            await redis.execute_command("EVAL", "return 1", 0)
    except (StoreUnsuitable, StoreUnreachable, StoreBusy):
        # Away or still loading: that says nothing about what the server can do.
        raise
    except StoreError as error:
        raise StoreUnsuitable(f"wanted a server that runs scripts, got: {error}") from error
    return found


def unsuitable(found: Facts) -> str | None:
    """Why work must not be kept on such a server; None when it may."""
    if found.kind is Kind.REDIS and _numbers(found.version) < OLDEST_REDIS:
        oldest = ".".join(map(str, OLDEST_REDIS))
        return f"wanted Redis {oldest} or newer, got {found.version}"
    if found.policy != SAFE_POLICY:
        return (
            f"wanted maxmemory-policy {SAFE_POLICY}, got {found.policy}: the server would throw "
            f"work away when its memory is full; run `CONFIG SET maxmemory-policy {SAFE_POLICY}`"
        )
    if not found.primary:
        return "wanted a server that takes writes, got a replica; use the primary's address"
    return None


async def _info(redis: Redis) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for section in ("server", "memory", "persistence", "replication"):
        facts |= await redis.info(section)
    return facts


async def _snapshots(redis: Redis) -> bool:
    try:
        with faults.translated():
            return bool((await redis.config_get("save")).get("save"))
    except (StoreUnreachable, StoreBusy):
        raise
    except StoreError:
        # Hosted servers keep their configuration to themselves.
        return False


def _kind_and_version(about: dict[str, Any]) -> tuple[Kind, str]:
    for kind in (Kind.DRAGONFLY, Kind.VALKEY, Kind.REDIS):
        if version := about.get(f"{kind}_version"):
            return kind, str(version).removeprefix("df-v")
    return Kind.REDIS, "unknown"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
