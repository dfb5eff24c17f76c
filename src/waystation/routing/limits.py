"""Limits of a job type over all workers: how many jobs run at once and start per minute."""

from collections.abc import Awaitable, Callable

import msgspec

from waystation.core import codec
from waystation.core.durations import whole_number
from waystation.core.errors import InvalidInput
from waystation.core.options import at_least, checked, of_kind
from waystation.core.store.commands import fields_of
from waystation.core.store.connection import Store
from waystation.core.store.script import texts
from waystation.routing.redis import scripts
from waystation.routing.redis.keys import RoutingKeys, checked_type


class Limit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How many jobs of one type may run; what is left out is not limited."""

    max_concurrent: int | None = None
    """Jobs running at once, over all workers."""
    max_per_minute: int | None = None
    """Jobs started in a minute, over all workers."""

    def __post_init__(self) -> None:
        for name in ("max_concurrent", "max_per_minute"):
            if (value := getattr(self, name)) is not None:
                at_least(name, value, 1)


@checked
class Limits:
    """The limits of a queue's job types: `queue.limits`."""

    def __init__(self, connected: Callable[[], Awaitable[Store]], keys: RoutingKeys) -> None:
        """Internal: a queue makes it."""
        self._connected = connected
        self._keys = keys

    async def set(self, type: str, limit: Limit) -> None:
        """Limit the jobs of a type, from now on."""
        of_kind("limit", limit, Limit)
        await self._write(type, codec.encode(limit))

    async def remove(self, type: str) -> None:
        """Lift the limit of a type."""
        await self._write(type, "")

    async def get(self, type: str) -> Limit | None:
        """The limit of a type; None when it has none."""
        store = await self._connected()
        found = await store.ask("HGET", self._keys.limits, checked_type(type))
        return _limit(found) if found else None

    async def all(self) -> dict[str, Limit]:
        """The limit of every type that has one; what cannot be read limits nothing."""
        found = fields_of(await (await self._connected()).ask("HGETALL", self._keys.limits))
        read = dict(zip(texts(found), map(_limit, found.values()), strict=True))
        return {type: limit for type, limit in read.items() if limit is not None}

    async def running(self) -> dict[str, int]:
        """The number of running jobs of every type that has a limit."""
        store = await self._connected()
        types = sorted(texts(await store.ask("HKEYS", self._keys.limits)))
        if not types:
            return {}
        counts = await store.ask("MGET", *(self._keys.of_type(type).concurrent for type in types))
        # Another program may have written something else there.
        numbers = (whole_number(each) or 0 for each in counts)
        return dict(zip(types, numbers, strict=True))

    async def _write(self, type: str, config: str | bytes) -> None:
        await scripts.set_limit(
            (await self._connected()).hot, self._keys, queue=checked_type(type), config=config
        )


def _limit(config: bytes) -> Limit | None:
    try:
        return codec.decode(config, Limit)
    except InvalidInput:
        return None
