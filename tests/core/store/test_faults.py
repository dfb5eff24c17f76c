"""Whatever a client raises is a fault of the store, in a sentence that says what helps."""

import builtins
from typing import Any

import pytest
from redis import asyncio as redis_asyncio
from redis import exceptions as redis
from redis.asyncio.connection import AbstractConnection

from waystation.core.errors import (
    NotFound,
    StoreBusy,
    StoreError,
    StoreUnreachable,
    StoreUnsuitable,
)
from waystation.core.store import faults
from waystation.core.store.connection import Store, StoreOptions
from waystation.core.store.connection.address import parse
from waystation.core.store.leader import Election, OfficeKeys

EVERY_ERROR = [
    each
    for each in [*vars(builtins).values(), *vars(redis).values()]
    if isinstance(each, type)
    and issubclass(each, Exception)
    and not issubclass(each, UnicodeError | BaseExceptionGroup | redis.MovedError)
]


@pytest.mark.parametrize("url", ["redis+cluster://127.0.0.1:1", "redis://127.0.0.1:1"])
@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda each: each.__name__)
async def test_whatever_a_client_raises_during_a_call_is_an_error_of_the_store(
    error: type[Exception], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise error("1 127.0.0.1:1") if issubclass(error, redis.AskError) else error("a mistake")

    for each in (redis_asyncio.Redis, redis_asyncio.RedisCluster):
        monkeypatch.setattr(each, "execute_command", fail)
    monkeypatch.setattr(AbstractConnection, "connect", fail)
    store = Store(parse(url), StoreOptions())
    for client in (store.hot, store.redis):
        with pytest.raises(StoreError):
            await Election(client, OfficeKeys("key"), owner="a").acquire()
    with pytest.raises(StoreError):
        await store.ask("PING")
    with pytest.raises(StoreError):
        await store.check()


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (redis.ClusterError("TTL exhausted."), StoreBusy, "being moved; try again"),
        (
            redis.ResponseError("DB index is out of range"),
            StoreUnsuitable,
            "has no database of this number",
        ),
        (redis.ResponseError("MOVED 4247 127.0.0.1:7001"), StoreUnsuitable, r"redis\+cluster://"),
        (
            redis.RedisClusterException("EVALSHA - all keys must map to the same key slot"),
            StoreUnsuitable,
            "must share a hash tag, such as the prefix {bull}$",
        ),
        (
            redis.ConnectionError(
                "Error 1 connecting to h:1. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
                "failed: unable to get local issuer certificate (_ssl.c:1006)."
            ),
            StoreUnsuitable,
            r"not trusted \(unable to get local issuer certificate\)",
        ),
        (
            redis.ConnectionError("Error 1 connecting to h:1. [SSL: WRONG_VERSION_NUMBER] wrong."),
            StoreUnsuitable,
            "does not speak TLS; use redis://",
        ),
        (
            redis.InvalidResponse('Protocol error, got "\\x15" as reply type byte'),
            StoreUnsuitable,
            "speaks TLS; use rediss://",
        ),
        (
            redis.ConnectionError("No master found for 'm' : <redis.Redis(<a(<b>)>)> - network"),
            StoreUnreachable,
            "cannot be reached: no sentinel names a server for 'm'$",
        ),
    ],
)
def test_what_helps_is_said(error: Exception, kind: type[StoreError], sentence: str) -> None:
    translated = faults.to_waystation_error(error)
    assert type(translated) is kind
    with pytest.raises(kind, match=sentence):
        raise translated


@pytest.mark.parametrize("word", ["CROSSSLOT", "WRONG_VERSION_NUMBER", "-BUSY", "script"])
def test_what_a_script_refuses_is_known_by_its_code_whatever_it_quotes(word: str) -> None:
    reply = redis.ResponseError(f"NOT_FOUND job 1 depends on job {word}, which is unknown")
    assert isinstance(faults.to_waystation_error(reply), NotFound)
