"""What a database holds, said so that two runs can be compared, and how two of them differ."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

import msgspec
from redis.asyncio import Redis

from tests.wire.normal import Normal, Raw, RawKey, Stored, each

Snapshot: TypeAlias = Mapping[str, Stored]

# What our worker adds to BullMQ's events; Node's listeners ignore it.
OUR_EVENTS = {"retry"}
OUR_FIELDS = {"active": "workerId", "completed": "attemptsMade", "failed": "attemptsMade"}


async def dump(redis: Redis, *, since: int) -> Snapshot:
    """All keys with their values; instants are written as minutes after `since` (milliseconds)."""
    return Normal(since).snapshot(await _read(redis))


def differences(left: Snapshot, right: Snapshot, *, names: tuple[str, str] = ("a", "b")) -> str:
    """The lines that only one side has, each with its key; empty when both hold the same."""
    lines = difflib.unified_diff(render(left), render(right), *names, lineterm="", n=0)
    return "\n".join(line for line in lines if not line.startswith("@@"))


def render(snapshot: Snapshot) -> list[str]:
    """A line per field, member or entry, which can be read without the lines around it."""
    return [line for key in sorted(snapshot) for line in _lines(key, snapshot[key])]


def without_our_events(snapshot: Snapshot) -> Snapshot:
    """The same database, without what our events say beyond BullMQ's."""
    return {
        key: msgspec.structs.replace(stored, value=_plain_events(stored.value))
        if stored.kind == "stream"
        else stored
        for key, stored in snapshot.items()
    }


def unsigned(snapshot: Snapshot, queues: Iterable[str]) -> Snapshot:
    """The same database, in which these queues do not say by which release they were opened."""
    left = dict(snapshot)
    for key in [f"bull:{queue}:meta" for queue in queues]:
        if key not in left:
            continue
        fields = cast(dict[str, Any], left[key].value)
        left[key] = msgspec.structs.replace(
            left[key], value={name: fields[name] for name in fields if name != "version"}
        )
    return left


def _plain_events(entries: list[dict[str, str]]) -> list[dict[str, str]]:
    return [
        {field: text for field, text in entry.items() if field != OUR_FIELDS.get(entry["event"])}
        for entry in entries
        if entry["event"] not in OUR_EVENTS
    ]


def _lines(key: str, stored: Stored) -> list[str]:
    lasting = "" if stored.minutes is None else f", {stored.minutes} min left"
    head = f"{key} ({stored.kind}{lasting})"
    value = stored.value
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return [f"{head} {name} = {_json(fields[name])}" for name in sorted(fields)]
    if isinstance(value, list):
        items = cast(list[Any], value)
        return [f"{head} [{index}] = {_json(item)}" for index, item in enumerate(items)]
    return [f"{head} = {_json(value)}"]


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


async def _read(redis: Redis) -> Raw:
    keys = cast(list[bytes], await redis.keys())
    return {key.decode(): await _read_key(redis, key) for key in sorted(keys)}


async def _read_key(redis: Redis, key: bytes) -> RawKey:
    kind = _text(await redis.type(key))
    value: Any
    match kind:
        case "string":
            value = await redis.get(key)
        case "hash":
            value = await redis.hgetall(key)
        case "list":
            value = await redis.lrange(key, 0, -1)
        case "set":
            value = await redis.smembers(key)
        case "zset":
            value = await redis.zrange(key, 0, -1, withscores=True)
        case "stream":
            value = [fields for _, fields in await redis.xrange(key) or []]
        case _:
            raise TypeError(f"wanted a string, hash, list, set, zset or stream, got {kind} {key!r}")
    return RawKey(kind, each(value, _text), await redis.pttl(key))


def _text(value: Any) -> Any:
    """Bytes as text; those that are no text stay tellable apart."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
