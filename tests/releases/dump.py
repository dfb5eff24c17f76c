"""A store as text: each key with its type, its value and its lifetime, for any server."""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis

OF_STREAM = ("last-generated-id", "entries-added", "max-deleted-entry-id")


_NO_ENTRY: list[Any] = [["0-1", ["none", ""]]]


class Dump(NamedTuple):
    """A store at one instant, and what its writer wants to be remembered."""

    at_ms: int
    keys: list[list[Any]]
    told: dict[str, Any]


def taken(store: Redis, told: dict[str, Any]) -> Dump:
    """All keys of a store, in their order."""
    seconds, micros = _all(store).time()
    keys = sorted(_all(store).keys())
    found = [[_text(key), *_read(_all(store), key)] for key in keys]
    there = [each for each in found if each[1] != "none"]  # some expire meanwhile
    return Dump(seconds * 1000 + micros // 1000, there, told)


def write(dump: Dump, file: Path) -> None:
    """Store a dump in a file."""
    lines = [json.dumps(each) for each in (dump.at_ms, dump.told, *dump.keys)]
    file.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


def read(file: Path) -> Dump:
    """A dump from its file."""
    at_ms, told, *keys = map(json.loads, lzma.decompress(file.read_bytes()).splitlines())
    return Dump(at_ms, keys, told)


def load(dump: Dump, store: Redis, *, later_s: float = 0) -> None:
    """Fill an empty store as it would be so much later: what was to live shorter is gone."""
    is_old = int(_all(store).info("server")["redis_version"].split(".")[0]) < 7
    pipe: Any = store.pipeline(transaction=False)
    for name, kind, ttl_ms, value in dump.keys:
        left_ms = ttl_ms - later_s * 1000
        if ttl_ms >= 0 and left_ms <= 0:
            continue
        for command in _commands(kind, value):
            if is_old and command[0] == "XSETID":
                command = command[:2]  # before 7 a stream did not know more
            pipe.execute_command(command[0], _bytes(name), *map(_bytes, command[1:]))
        if ttl_ms >= 0:
            pipe.pexpire(_bytes(name), round(left_ms))
    pipe.execute()


def _read(store: Any, key: bytes) -> tuple[str, int, Any]:
    kind, ttl_ms = store.type(key).decode(), store.pttl(key)
    match kind:
        case "string":
            value = _text(store.get(key))
        case "hash":
            value = sorted([_text(a), _text(b)] for a, b in store.hgetall(key).items())
        case "list":
            value = [_text(each) for each in store.lrange(key, 0, -1)]
        case "set":
            value = sorted(_text(each) for each in store.smembers(key))
        case "zset":
            value = [
                [repr(s), _text(each)] for each, s in store.zrange(key, 0, -1, withscores=True)
            ]
        case "stream":
            entries = [[_text(id), _texts(said)] for id, said in store.xrange(key)]
            known = store.xinfo_stream(key)
            value = [[_text(known[name]) for name in OF_STREAM], entries]
        case "none":
            value = None
        case _:
            raise AssertionError(f"{key} is a {kind}, which no product has")
    return kind, ttl_ms, value


def _commands(kind: str, value: Any) -> Iterator[tuple[str, ...]]:
    match kind:
        case "string":
            yield "SET", value
        case "hash":
            yield "HSET", *_flat(value)
        case "list":
            yield "RPUSH", *value
        case "set":
            yield "SADD", *value
        case "zset":
            yield "ZADD", *_flat(value)
        case _:
            [last, added, deleted], entries = value[0], value[1]
            for id, said in entries or _NO_ENTRY:
                yield "XADD", id, *said
            if not entries:
                yield "XDEL", "0-1"
            yield "XSETID", last, "ENTRIESADDED", added, "MAXDELETEDID", deleted


def _texts(said: dict[bytes, bytes]) -> list[str]:
    return _flat([_text(name), _text(value)] for name, value in said.items())


def _flat(pairs: Any) -> list[str]:
    return [each for pair in pairs for each in pair]


def _text(raw: bytes | int) -> str:
    return str(raw) if isinstance(raw, int) else raw.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def _all(store: Redis) -> Any:
    return store
