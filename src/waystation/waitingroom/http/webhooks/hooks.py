"""The webhooks of a room, and how far each has been delivered."""

import secrets
from collections.abc import Sequence

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidOption, Malformed, NotFound
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks.reading import START
from waystation.waitingroom.http.keys import HttpKeys
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import new_id

_log = get_logger(__name__)
MOST_HOOKS = 10
HOOK_EVENTS = (
    "waiting", "delayed", "admitted", "claimed", "missed", "recovered", "left", "expired",
    "refused", "completed", "cancelled", "paused", "resumed", "changed", "alarm", "alarm-over",
)  # fmt: skip
"""The events of a room that can be asked for."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook: where events of a room are sent."""

    id: str
    url: str
    events: list[str]
    secret: str
    """What deliveries are signed with; shown when the hook is made, and then no more."""


class State(msgspec.Struct, kw_only=True):
    """How far the deliveries of a hook have come, and how they go."""

    cursor: str
    """The last entry of the room's stream that it knows, or that was not for it."""
    delivered: int = 0
    failures: int = 0
    """In a row; none after one that went well."""
    next_ms: int = 0
    """Not to be tried again before."""
    last_error: str = ""


class Webhooks:
    """The webhooks of one room."""

    def __init__(self, room: Room) -> None:
        self._store = room.store
        self._keys = HttpKeys(room.queue_id)

    async def every(self) -> list[Webhook]:
        """All of them."""
        raw: Sequence[bytes] = await self._store.ask("HVALS", self._keys.hooks)
        hooks = list[Webhook]()
        for each in raw:
            try:
                hooks.append(codec.decode(each, Webhook))
            except Malformed as error:
                # The others hear of theirs all the same.
                _log.error("webhook_failed", error, queue=self._keys.name)
        return sorted(hooks, key=lambda each: each.id)

    async def add(self, url: str, events: Sequence[str]) -> Webhook:
        """Tell whoever listens there from now on."""
        if unknown := sorted(set(events) - set(HOOK_EVENTS)):
            known = ", ".join(HOOK_EVENTS)
            raise InvalidOption(f"a room sends no {', '.join(unknown)}; it sends {known}")
        if len(await self.every()) >= MOST_HOOKS:
            raise InvalidOption(f"a room may have {MOST_HOOKS} webhooks")
        hook = Webhook(
            id=new_id(secrets.SystemRandom()),
            url=url,
            events=sorted(set(events) or set(HOOK_EVENTS)),
            secret=f"whs_{secrets.token_urlsafe(32)}",
        )
        newest = await self._store.ask("XREVRANGE", self._store.keys.events, "+", "-", "COUNT", 1)
        await self.write(hook.id, State(cursor=newest[0][0].decode() if newest else START))
        await self._store.ask("HSET", self._keys.hooks, hook.id, codec.encode(hook))
        return hook

    async def remove(self, id: str) -> None:
        """Tell them nothing any more; NotFound when there is no such hook."""
        gone = await self._store.ask("HDEL", self._keys.hooks, id)
        await self._store.ask("HDEL", self._keys.hook_states, id)
        if not gone:
            raise NotFound("there is no such webhook")

    async def state(self, id: str) -> State:
        """How far the deliveries of a hook have come."""
        raw = await self._store.ask("HGET", self._keys.hook_states, id)
        return codec.decode(raw, State) if raw else State(cursor=START)

    async def write(self, id: str, state: State) -> None:
        """Remember how far the deliveries of a hook have come."""
        await self._store.ask("HSET", self._keys.hook_states, id, codec.encode(state))
