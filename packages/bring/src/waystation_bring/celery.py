"""Celery's queues in Redis: messages of its protocol 2, as kombu stores them."""

import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from redis import Redis

from waystation_bring.message import Message, Place, Unreadable, ask

_SEPARATOR = "\x06\x16"
_PRIORITIES = range(1, 10)
_TYPES: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": lambda text: date.fromisoformat(text[:10]),
    "time": time.fromisoformat,
    "decimal": Decimal,
    "uuid": lambda parts: UUID(**parts),
    "bytes": str.encode,
    "base64": base64.b64decode,
}
"""What kombu writes as an object of a type and a value."""


class CeleryQueue:
    """A queue of Celery in Redis."""

    system = "Celery"

    def __init__(
        self, name: str = "celery", *, key_prefix: str = "", unacked: bool = False
    ) -> None:
        self.name = name
        self._prefix = key_prefix
        self._unacked = unacked

    def places(self, client: Redis) -> list[Place]:
        """The list of each priority, the first one first; then what workers held."""
        key = f"{self._prefix}{self.name}"
        keys = [key, *(f"{key}{_SEPARATOR}{step}" for step in _PRIORITIES)]
        lists = [Place("stack", each) for each in keys]
        held = Place("hash", f"{self._prefix}unacked", indexed_by=f"{self._prefix}unacked_index")
        return [*lists, held] if self._unacked else lists

    def read(self, client: Redis, place: Place, member: bytes) -> Message:
        """Read one message; raises `Unreadable`."""
        if place.holder == "stack":
            return _message(member, _parsed(member), member)
        stored = ask(client, "HGET", place.key, member)
        if stored is None:
            raise Unreadable("its worker has put it back")
        held = _parsed(stored)
        if not isinstance(held, list) or len(cast("list[Any]", held)) != 3:
            raise Unreadable("it is not what Celery's workers keep of a message")
        raw, _, routing_key = cast("list[Any]", held)
        if routing_key != self.name:
            raise Unreadable(f"it belongs to the queue {routing_key}")
        return _message(member, raw, stored)

    def held(self, client: Redis) -> str:
        """What Celery's workers hold, unless that is brought, too."""
        many = int(ask(client, "HLEN", f"{self._prefix}unacked") or 0)
        if not many or self._unacked:
            return ""
        return f"{many:,} held by Celery's workers, of all queues: stop the workers, then --unacked"

    def others(self, client: Redis) -> list[str] | None:
        """The queues that Celery has declared, unless this is one of them."""
        bound: set[str] = set()
        for key in cast("Any", client).scan_iter(f"{self._prefix}_kombu.binding.*", count=1000):
            members = ask(client, "SMEMBERS", key)
            bound |= {each.decode(errors="replace").rpartition(_SEPARATOR)[2] for each in members}
        return None if self.name in bound else sorted(bound)


def _parsed(text: bytes, typed: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    try:
        return json.loads(text, object_hook=typed)
    except (ValueError, RecursionError):
        raise Unreadable("it is not JSON") from None


def _typed(found: dict[str, Any]) -> Any:
    """An argument as kombu gives it to Celery's workers."""
    if found.keys() != {"__type__", "__value__"}:
        return found
    kind = found["__type__"]
    try:
        return _TYPES[kind](found["__value__"])
    except Exception:
        raise Unreadable(f"its arguments hold a {kind!r} that cannot be read here") from None


def _message(member: bytes, raw: Any, mark: bytes) -> Message:
    if not isinstance(raw, dict):
        raise Unreadable("it is no message of Celery")
    message = cast("dict[str, Any]", raw)
    headers, properties = _table(message, "headers"), _table(message, "properties")
    if not isinstance(headers.get("task"), str) or not isinstance(headers.get("id"), str):
        raise Unreadable("it is no message of Celery's protocol 2")
    try:
        return _call(member, message, headers, properties, mark)
    except Unreadable as error:
        raise Unreadable(str(error), headers["id"], headers["task"]) from None


def _call(
    member: bytes,
    message: dict[str, Any],
    headers: dict[str, Any],
    properties: dict[str, Any],
    mark: bytes,
) -> Message:
    args, kwargs, embed = _body(message, properties)
    for part in ("callbacks", "errbacks", "chain", "chord"):
        if embed.get(part):
            raise Unreadable(f"it has a {part.removesuffix('s')}: let Celery's workers finish it")
    limits = headers.get("timelimit")
    hard = cast("list[Any]", limits)[0] if isinstance(limits, list) and limits else None
    return Message(
        member=member,
        mark=mark,
        id=headers["id"],
        task=headers["task"],
        args=args,
        kwargs=kwargs,
        due=_instant(headers, "eta"),
        expires=_instant(headers, "expires"),
        timeout=hard if isinstance(hard, int | float) and hard > 0 else None,
        priority=_whole(properties.get("priority")),
        attempts_made=_whole(headers.get("retries")),
    )


def _body(
    message: dict[str, Any], properties: dict[str, Any]
) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
    kind = message.get("content-type")
    if kind != "application/json":
        raise Unreadable(f"its arguments are {kind}, not application/json")
    if headers_compression := _table(message, "headers").get("compression"):
        raise Unreadable(f"its arguments are compressed with {headers_compression}")
    text = message.get("body")
    if properties.get("body_encoding") == "base64" and isinstance(text, str):
        try:
            text = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Unreadable("its arguments are not base64") from None
    if not isinstance(text, str | bytes):
        raise Unreadable("it has no arguments")
    body = _parsed(text.encode() if isinstance(text, str) else text, _typed)
    parts = cast("list[Any]", body) if isinstance(body, list) else []
    if [type(part) for part in parts] != [list, dict, dict]:
        raise Unreadable("it is no message of Celery's protocol 2")
    args, kwargs, embed = parts
    return args, kwargs, embed


def _table(message: dict[str, Any], name: str) -> dict[str, Any]:
    found = message.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _instant(headers: dict[str, Any], name: str) -> datetime | None:
    text = headers.get(name)
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise Unreadable(f"its {name} is no instant: {text!r}") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
