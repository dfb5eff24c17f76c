from typing import Any, cast

import msgspec
import pytest
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, ConnectionError

from waystation.core.clock import HandClock
from waystation.core.errors import StoreBusy, StoreUnreachable, StoreUnsuitable
from waystation.core.store import server
from waystation.core.store.connection import StoreOptions, connect
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.server import Facts, Kind, facts, require_suitable, unsuitable

GOOD = Facts(
    kind=Kind.REDIS,
    version="6.2.14",
    policy="noeviction",
    append_only=True,
    snapshots=False,
    primary=True,
    cluster=False,
    memory_used=1,
    memory_limit=0,
    clock_skew_ms=0,
    round_trip_ms=0.1,
)


async def test_a_server_is_known_by_what_it_says(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.config_set("maxmemory", 10**9)
        found = await facts(store.redis)
    assert found.kind is Kind.VALKEY
    assert int(found.version.split(".")[0]) >= 8
    assert (found.policy, found.memory_limit) == ("noeviction", 10**9)
    assert (found.append_only, found.snapshots) == (False, False)
    assert found.primary
    assert not found.cluster
    assert 0 < found.memory_used < 10**9
    assert abs(found.clock_skew_ms) < 1000


async def test_persistence_is_seen(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.config_set("appendonly", "yes")
        await store.redis.config_set("save", "900 1")
        found = await facts(store.redis)
    assert found.append_only
    assert found.snapshots


async def test_a_clock_that_is_wrong_is_seen(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        found = await facts(store.redis, clock=HandClock(0))
    assert found.clock_skew_ms > 50 * 365 * 86_400_000


async def test_the_embedded_server_is_suitable(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        assert (await require_suitable(store.redis)).kind is Kind.VALKEY


async def test_a_server_that_evicts_is_refused(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(
            StoreUnsuitable, match=r"wanted .* noeviction, got allkeys-lru"
        ) as caught:
            await require_suitable(store.redis)
    assert "\n" not in str(caught.value)


async def test_a_server_without_scripts_is_refused(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.execute_command("ACL", "SETUSER", "default", "-@scripting")
        with pytest.raises(StoreUnsuitable, match=r"does not let us in|runs scripts"):
            await require_suitable(store.redis)


async def test_a_server_that_keeps_its_settings_to_itself_is_still_known(
    own_server: Ephemeral,
) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.execute_command("ACL", "SETUSER", "default", "-config")
        found = await require_suitable(store.redis)
    assert found.policy == "noeviction"
    assert not found.snapshots


async def test_a_replica_is_refused(own_server: Ephemeral) -> None:
    async with await connect(own_server.url) as store:
        await store.redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnsuitable, match="takes writes, got a replica"):
            await require_suitable(store.redis)


async def test_a_cluster_is_known(cluster_url: str) -> None:
    async with await connect(cluster_url) as store:
        assert (await require_suitable(store.redis)).cluster


async def test_a_server_that_is_gone_is_unreachable(own_server: Ephemeral) -> None:
    async with await connect(own_server.url, StoreOptions(connect_timeout=1)) as store:
        own_server.kill()
        with pytest.raises(StoreUnreachable):
            await require_suitable(store.redis)


@pytest.mark.parametrize("version", ["6.2.0", "7.0.15", "8.2.3", "10.0"])
def test_versions_from_the_oldest_on_are_taken(version: str) -> None:
    assert unsuitable(msgspec.structs.replace(GOOD, version=version)) is None


@pytest.mark.parametrize("version", ["6.0.16", "5.0.7", "2.8.24", "unknown"])
def test_older_versions_are_refused(version: str) -> None:
    reason = unsuitable(msgspec.structs.replace(GOOD, version=version))
    assert reason == f"wanted Redis 6.2 or newer, got {version}"


def test_dragonfly_is_known_by_its_own_version() -> None:
    about = {"redis_version": "7.4.0", "dragonfly_version": "df-v1.30.1"}
    known = server._kind_and_version(about)  # pyright: ignore[reportPrivateUsage]
    assert known == (Kind.DRAGONFLY, "1.30.1")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (BusyLoadingError("LOADING Redis is loading the dataset in memory"), StoreBusy),
        (ConnectionError("Connection closed by server."), StoreUnreachable),
    ],
)
@pytest.mark.parametrize("question", ["EVAL", "CONFIG GET"])
async def test_a_server_that_goes_away_between_two_questions_is_not_unsuitable(
    redis_url: str, question: str, fault: Exception, error: type[Exception]
) -> None:
    class Leaving(Redis):
        async def execute_command(self, *args: Any, **options: Any) -> Any:
            if args[0] == question:
                raise fault
            return cast(Any, await super().execute_command(*args, **options))

    async with Leaving.from_url(redis_url) as redis:
        with pytest.raises(error):
            await require_suitable(redis)
