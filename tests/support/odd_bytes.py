"""A store in which one thing after the other is no text."""

import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any, TypeAlias

from redis import Redis
from redis.exceptions import ResponseError

ODD = b"\xff\xfe"
"""No UTF-8, no JSON, no number."""

Command: TypeAlias = tuple[Any, ...]


async def with_odd_bytes(url: str, part: slice = slice(None)) -> AsyncGenerator[Command]:
    """Each kind of thing in the store replaced, or one put beside it; the store is then as before.

    Says by what command. Only a part of them is played where one is given.
    """
    with Redis.from_url(url, protocol=2) as client:
        store: Any = client
        dumped = ((key, store.dump(key), max(store.pttl(key), 0)) for key in store.keys("*"))
        whole = {key: (value, left_ms) for key, value, left_ms in dumped if value is not None}
        changes = [command for key in sorted(whole) for command in _changes(store, key)]
        # One job is as good as another.
        kinds = {_kind(command): command for command in changes}
        for command in list(kinds.values())[part]:
            try:
                store.execute_command(*command)
            except ResponseError:
                continue  # what a worker has taken meanwhile
            yield command
            as_before = store.pipeline().flushdb()
            for key, (value, left_ms) in whole.items():
                as_before.restore(key, left_ms, value)
            as_before.execute()


def _kind(command: Command) -> Command:
    return tuple(re.sub(rb"\d+", b"0", str(word).encode()) for word in command)


def _changes(store: Any, key: bytes) -> Iterator[Command]:
    match store.type(key):
        case b"string":
            yield "SET", key, ODD, "KEEPTTL"
        case b"hash":
            yield from (("HSET", key, field, ODD) for field in (*store.hkeys(key), ODD))
        case b"list":
            yield "LSET", key, 0, ODD
            yield "RPUSH", key, ODD
        case b"set":
            yield "SADD", key, ODD
        case b"zset":
            yield "ZADD", key, store.zrange(key, 0, 0, withscores=True)[0][1], ODD
        case b"stream":
            for _, fields in store.xrange(key):
                for name in (*fields, ODD):
                    changed = {**fields, name: ODD}
                    yield "XADD", key, "*", *(each for pair in changed.items() for each in pair)
        case _:
            return  # gone meanwhile, or empty
