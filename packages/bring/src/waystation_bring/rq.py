"""RQ's queues: ids in a list, jobs in hashes, arguments as pickles or JSON."""

import io
import json
import pickle
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from redis import Redis

from waystation.core.store.commands import fields_of
from waystation_bring.message import Message, Place, Unreadable, ask

_HARMLESS = {
    ("datetime", "datetime"),
    ("datetime", "date"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("datetime", "timezone"),
    ("decimal", "Decimal"),
    ("uuid", "UUID"),
    ("builtins", "set"),
    ("builtins", "frozenset"),
}
"""What a pickle may name; anything else could run code while it is read."""
_CALLBACKS = ("success_callback_name", "failure_callback_name", "stopped_callback_name")


class RqQueue:
    """A queue of RQ."""

    system = "RQ"

    def __init__(self, name: str = "default") -> None:
        self.name = name

    def places(self, client: Redis) -> list[Place]:
        """What is ready, then what is scheduled."""
        return [
            Place("list", f"rq:queue:{self.name}"),
            Place("zset", f"rq:scheduled:{self.name}"),
        ]

    def read(self, client: Redis, place: Place, member: bytes) -> Message | None:
        """Read one job; None when it is gone from there. Raises `Unreadable`."""
        id = member.decode(errors="replace")
        key = f"rq:job:{id}"
        found = fields_of(ask(client, "HGETALL", key))
        job: dict[str, bytes] = {name.decode(): value for name, value in found.items()}
        if not job:
            find = "LPOS" if place.holder == "list" else "ZSCORE"
            if ask(client, find, place.key, member) is None:
                return None
            raise Unreadable("its job is gone, or expired")
        if any(job.get(name) for name in _CALLBACKS):
            raise Unreadable("it has callbacks: let RQ's workers finish it")
        if job.get("repeats_left", b"0") not in (b"", b"0"):
            raise Unreadable("it repeats: make a schedule of it")
        if ask(client, "SCARD", f"{key}:dependents"):
            raise Unreadable("other jobs depend on it: let RQ's workers finish them")
        task, args, kwargs = _call(job.get("data", b""))
        retries = _whole(job.get("retries_left"))
        return Message(
            member=member,
            mark=member + b"\0" + job.get("created_at", b"") + job.get("enqueued_at", b""),
            id=id,
            task=task,
            args=args,
            kwargs=kwargs,
            due=_due(client, place, member),
            expires=_expires(client, key),
            timeout=_whole(job.get("timeout")) or None,
            attempts=retries + 1,
            backoff=_pause(job.get("retry_intervals")),
            owned=(key, f"{key}:dependencies", f"rq:executions:{id}", f"rq:results:{id}"),
        )

    def held(self, client: Redis) -> str:
        """What RQ's workers run, and what waits for other jobs."""
        running = int(ask(client, "ZCARD", f"rq:wip:{self.name}") or 0)
        deferred = int(ask(client, "ZCARD", f"rq:deferred:{self.name}") or 0)
        losses = [
            f"{running:,} run by RQ's workers" if running else "",
            f"{deferred:,} that wait for other jobs" if deferred else "",
        ]
        return ", ".join(filter(None, losses))

    def others(self, client: Redis) -> list[str] | None:
        """The queues that RQ has, unless this is one of them."""
        names = ask(client, "SMEMBERS", "rq:queues")
        known = {each.decode(errors="replace").removeprefix("rq:queue:") for each in names}
        return None if self.name in known else sorted(known)


def _call(data: bytes) -> tuple[str, list[Any], dict[str, Any]]:
    try:
        text = zlib.decompress(data)
    except zlib.error:
        text = data
    try:
        loaded: Any = json.loads(text) if text[:1] == b"[" else _Reader(io.BytesIO(text)).load()
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"its arguments cannot be read: {error}") from None
    parts = list(cast("list[Any]", loaded)) if isinstance(loaded, list | tuple) else []
    if len(parts) != 4 or not isinstance(parts[0], str) or not isinstance(parts[3], dict):
        raise Unreadable("it is no call of RQ")
    name, instance, args, kwargs = parts
    if instance is not None:
        raise Unreadable("it calls a method of a pickled object")
    return name, list(args), cast("dict[str, Any]", kwargs)


class _Reader(pickle.Unpickler):
    """Reads pickles of plain values, and refuses to import anything else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _HARMLESS:
            raise Unreadable(f"its arguments hold a pickled {module}.{name}")
        return super().find_class(module, name)


def _due(client: Redis, place: Place, member: bytes) -> datetime | None:
    if place.holder == "list":
        return None
    score = ask(client, "ZSCORE", place.key, member)
    try:
        return None if score is None else datetime.fromtimestamp(float(score), UTC)
    except (OverflowError, ValueError):
        raise Unreadable(f"its time is no instant: {score}") from None


def _expires(client: Redis, key: str) -> datetime | None:
    left = int(ask(client, "PTTL", key))
    return datetime.now(UTC) + timedelta(milliseconds=left) if left > 0 else None


def _whole(value: bytes | None) -> int:
    try:
        return max(0, int(value or 0))
    except ValueError:
        return 0


def _pause(intervals: bytes | None) -> float | None:
    try:
        found: Any = json.loads(intervals or b"null")
        first = cast("Any", found[0] if isinstance(found, list) and found else found)
        return float(first) if isinstance(first, int | float) and first >= 0 else None
    except (OverflowError, ValueError):
        return None
