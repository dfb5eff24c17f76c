"""A cluster answers as a single server does: every command, every method, every page."""

import asyncio
import inspect
import re
from typing import Any, cast

import msgspec
import pytest

from tests.console import harness as console
from tests.support import kinds
from tests.support.project import SOURCE
from tests.support.things import KNOWN, OPENED, PREFIX
from tests.waitingroom.http import harness as waitingroom
from waystation.bullmq import open_store
from waystation.core.errors import WaystationError
from waystation.core.http.exchange import Request
from waystation.core.operators.roles import Role
from waystation.core.store.connection import Store

STORED = (
    "SET {a}text x",
    "HSET {a}hash x 1 y 2",
    "SADD {a}set x",
    "ZADD {a}sorted 1.5 x 2 y",
    "RPUSH {a}list x y",
    "XADD {a}stream 1-1 x 1 y 2",
    "XADD {a}stream 1-2 x 3",
)
ASKED = (
    *("GET {a}text", "MGET {a}text {a}none", "EXISTS {a}text {a}none", "TYPE {a}set"),
    *("PTTL {a}text", "STRLEN {a}text", "HGET {a}hash x", "HMGET {a}hash x none"),
    *("HGETALL {a}hash", "HGETALL {a}none", "HLEN {a}hash", "HKEYS {a}hash", "HVALS {a}hash"),
    *("HEXISTS {a}hash x", "HSCAN {a}hash 0 COUNT 10", "HSCAN {a}none 0", "SCARD {a}set"),
    *("SMEMBERS {a}set", "SISMEMBER {a}set x", "SMISMEMBER {a}set x y", "SSCAN {a}set 0"),
    *("ZSCAN {a}sorted 0", "ZCARD {a}sorted", "ZCOUNT {a}sorted -inf +inf", "ZSCORE {a}sorted x"),
    *("ZMSCORE {a}sorted x none", "ZRANK {a}sorted y", "ZRANGE {a}sorted 0 -1"),
    *("ZRANGE {a}sorted 0 -1 WITHSCORES", "ZREVRANGE {a}sorted 0 -1 WITHSCORES"),
    *("ZRANGEBYSCORE {a}sorted 0 9", "LLEN {a}list", "LRANGE {a}list 0 -1", "LPOS {a}list y"),
    *("LINDEX {a}list 0", "XLEN {a}stream", "XRANGE {a}stream - +", "XREVRANGE {a}stream + -"),
    *("XREAD COUNT 1 STREAMS {a}stream 0", "XREAD STREAMS {a}none 0", "XINFO STREAM {a}stream"),
    *("HSET {a}hash z 1", "HSETNX {a}hash z 1", "HDEL {a}hash z", "ZADD {a}sorted 3 z"),
    *("ZREM {a}sorted z", "SADD {a}set z", "SREM {a}set z", "EXPIRE {a}set 600", "PERSIST {a}set"),
    *(
        "SET {a}text y NX",
        "GETDEL {a}none",
        "XTRIM {a}stream MAXLEN 9",
        "XDEL {a}stream 1-2",
        "DEL {a}list",
    ),
)
OTHERS = {"PING", "TIME", "DBSIZE", "MEMORY", "SLOWLOG", "CONFIG", "POST"}
"""Commands about the server itself, and a method of HTTP."""


async def test_every_command_is_answered_in_one_form(redis_url: str, cluster_url: str) -> None:
    async with await open_store(redis_url) as single, await open_store(cluster_url) as cluster:
        for command in (*STORED, *ASKED):
            alone, together = [await each.ask(*command.split()) for each in (single, cluster)]
            assert together == alone, command


def test_every_command_that_is_sent_has_an_example() -> None:
    sent = {
        command
        for file in SOURCE.rglob("*.py")
        for command in re.findall(r'\bask\w*\(\s*(?:[\w.]+,\s*)?"([A-Z]+)"', file.read_text())
    }
    assert len(sent) > 20
    assert sent - OTHERS <= {each.split()[0] for each in (*STORED, *ASKED)}


async def test_whoever_runs_out_of_time_asks_no_more(cluster_url: str) -> None:
    async with await open_store(cluster_url) as store:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asking(store), 0.1)


async def asking(store: Store) -> None:
    while True:
        await store.ask("GET", "{a}text")


@pytest.mark.slow
@pytest.mark.parametrize("package", OPENED)
async def test_every_method_does_what_it_does_on_a_single_server(
    package: str, redis_url: str, cluster_url: str
) -> None:
    alone, together = [await outcomes(package, url) for url in (redis_url, cluster_url)]
    differ = {name: (alone[name], now) for name, now in together.items() if now != alone[name]}
    assert not differ, "\n".join(f"{name}: {was} -> {now}" for name, (was, now) in differ.items())


async def outcomes(package: str, url: str) -> dict[str, str]:
    """What comes of each method, called with no more than it needs."""
    found: dict[str, str] = {}
    things: dict[str, Any]
    async with OPENED[package](url) as things:
        for owner, thing in things.items():
            for name, function in kinds.methods(cast(Any, type(thing))):
                if Request in kinds.hints(function).values():
                    continue
                given = kinds.needed(function, KNOWN)
                found[f"{owner}.{name}"] = await outcome(getattr(thing, name), given)
    return found


async def outcome(call: Any, given: dict[str, Any]) -> str:
    """The kind of what comes back, or what is refused; some wait until they are stopped."""
    try:
        async with asyncio.timeout(0.5):
            answer = call(**given)
            if inspect.isawaitable(answer):
                answer = await answer
            elif hasattr(answer, "__anext__"):
                answer = await answer.__anext__()
    except TimeoutError:
        return "waits"
    except WaystationError as error:
        return f"refused: {type(error).__name__}"
    except Exception as error:
        return f"fails: {error!r}"
    return type(answer).__name__


PARTS = {
    "{product}": ("bullmq", "routing", "files"),
    "{queue}": ("mail",),
    "{room}": ("shop",),
    "{id}": ("1", "none"),
}
"""What stands in the paths of pages."""
FOLLOWED = {"live", "output"}
"""The last parts of paths whose answers have no end."""


async def test_no_page_of_the_console_fails(cluster_url: str) -> None:
    options = msgspec.structs.replace(console.ADMIN, prefixes=(PREFIX,), namespaces=(PREFIX,))
    async with console.api(cluster_url, options) as api:
        for package in ("bullmq", "routing", "files"):
            async with OPENED[package](cluster_url):
                pass
        await api.app.console.operators.issue("ann", Role.ADMIN)
        await complain_of_none(api.app, api.here)


async def test_no_page_of_a_room_fails(cluster_url: str) -> None:
    async with waitingroom.service(cluster_url) as service:
        operator = await service.operator()
        await (await service.joined()).enter()
        await complain_of_none(service.app, operator.http)


async def complain_of_none(app: Any, client: Any) -> None:
    """Look at every page, with every name in its path."""
    asked = 0
    for each in app.table:
        if each.method != "GET" or each.path.rsplit("/", 1)[-1] in FOLLOWED:
            continue
        for path in paths(each.path):
            answer = await client.get(path)
            assert answer.status_code < 500 or answer.status_code == 503, (path, answer.text)
            asked += 1
    assert asked > 20


def paths(path: str) -> list[str]:
    """The addresses that a declared path stands for."""
    named = re.search(r"{\w+}", path)
    if not named:
        return [path]
    values = PARTS.get(named[0], ("none",))
    return [each for value in values for each in paths(path.replace(named[0], value))]
