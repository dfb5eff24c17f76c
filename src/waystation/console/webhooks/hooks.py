"""The webhooks of a store, and how far each has been delivered."""

import secrets
from collections.abc import Sequence

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidOption, NotFound
from waystation.core.events import EventName
from waystation.core.store.connection import Store
from waystation.core.store.keyspace import Hash, Keyspace

MOST_HOOKS = 20
MOST_QUEUES = 100
KEPT_FAILURES = 10
ENDED = ("completed", "failed", "dead", "cancelled")
"""What is sent when a webhook names no events."""
SENT = (
    EventName.ADDED, EventName.WAITING, EventName.DELAYED, EventName.WAITING_CHILDREN,
    EventName.ACTIVE, EventName.PROGRESS, EventName.STEP, EventName.COMPLETED, EventName.RETRY,
    EventName.FAILED, EventName.RETRIES_EXHAUSTED, EventName.STALLED, EventName.RETURNED,
    EventName.DEAD, EventName.REDRIVEN, EventName.CANCELLED, EventName.REMOVED,
    EventName.DUPLICATED, EventName.DEDUPLICATED, EventName.FIRED, EventName.DRAINED,
    EventName.PAUSED, EventName.RESUMED, EventName.CLEANED,
)  # fmt: skip
"""The events that can be asked for."""


class WebhookKeys(Keyspace, root="waystation:webhooks"):
    """The webhooks of all queues of a store."""

    hooks = Hash("", "who hears what happens to jobs, by id")
    states = Hash("state", "how far each webhook has been delivered")

    def __init__(self) -> None:
        super().__init__("webhooks")


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """Where events are sent to, and which."""

    id: str
    url: str
    events: list[str]
    queues: list[str] = []
    """The only ones, such as `bullmq/mail`; empty for all."""
    secret: str
    """What deliveries are signed with; shown when the webhook is made, and then no more."""
    added_ms: int
    """By the store's clock; nothing older is sent."""


class FailedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was not taken."""

    at_ms: int
    error: str


class State(msgspec.Struct, kw_only=True):
    """How far a webhook has been delivered, and how that goes."""

    positions: dict[str, str] = {}
    """The last entry of each stream that was delivered, or that was not for it."""
    delivered: int = 0
    delivered_ms: int = 0
    """When something was delivered last."""
    failures: int = 0
    """In a row; none after one that went well."""
    next_ms: int = 0
    """Not to be tried again before."""
    last_error: str = ""
    recent: list[FailedDelivery] = []
    """The latest failures, the newest first; kept after one that went well."""
    dead: bool = False
    """It failed too often, and is not tried again until somebody resumes it."""


class Hooks:
    """The webhooks of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = WebhookKeys()

    async def every(self) -> list[tuple[Hook, State]]:
        """All of them, the oldest first."""
        raw = await self._store.ask("HGETALL", self._keys.hooks)
        if not raw:
            return []
        hooks = [codec.decode(each, Hook) for each in raw[1::2]]
        kept = await self._store.ask("HGETALL", self._keys.states)
        states = {
            id.decode(): codec.decode(state, State)
            for id, state in zip(kept[::2], kept[1::2], strict=True)
        }
        # One that was removed while it was being delivered has left its state behind.
        if left := states.keys() - {each.id for each in hooks}:
            await self._store.ask("HDEL", self._keys.states, *sorted(left))
        hooks.sort(key=lambda each: (each.added_ms, each.id))
        return [(each, states.get(each.id) or State()) for each in hooks]

    async def get(self, id: str) -> tuple[Hook, State]:
        """One of them; NotFound when there is none of this id."""
        for hook, state in await self.every():
            if hook.id == id:
                return hook, state
        raise NotFound("there is no such webhook")

    async def add(self, url: str, events: Sequence[str], queues: Sequence[str]) -> Hook:
        """Send what happens from now on."""
        if unknown := sorted(set(events) - set(SENT)):
            raise InvalidOption(
                f"there are no events {', '.join(unknown)[:200]}; there are {', '.join(SENT)}"
            )
        if len(queues) > MOST_QUEUES:
            raise InvalidOption(f"queues may name {MOST_QUEUES}, got {len(queues)}")
        if odd := [each for each in queues if not all(each.partition("/"))]:
            raise InvalidOption(f"a queue is named as bullmq/mail, got {odd[0][:80]!r}")
        if len(await self.every()) >= MOST_HOOKS:
            raise InvalidOption(f"a store may have {MOST_HOOKS} webhooks")
        seconds, micros = await self._store.ask("TIME")
        hook = Hook(
            id=f"wh_{secrets.token_urlsafe(9)}",
            url=url,
            events=sorted(set(events) or set(ENDED)),
            queues=sorted(set(queues)),
            secret=f"whs_{secrets.token_urlsafe(32)}",
            added_ms=int(seconds) * 1000 + int(micros) // 1000,
        )
        await self._store.ask("HSET", self._keys.hooks, hook.id, codec.encode(hook))
        return hook

    async def remove(self, id: str) -> None:
        """Send nothing there any more; NotFound when there is none of this id."""
        gone = await self._store.ask("HDEL", self._keys.hooks, id)
        await self._store.ask("HDEL", self._keys.states, id)
        if not gone:
            raise NotFound("there is no such webhook")

    async def resume(self, id: str) -> State:
        """Try again at once, from where it was."""
        _, state = await self.get(id)
        state = msgspec.structs.replace(state, failures=0, next_ms=0, dead=False)
        await self.write(id, state)
        return state

    async def write(self, id: str, state: State) -> None:
        """Remember how far a webhook has been delivered."""
        await self._store.ask("HSET", self._keys.states, id, codec.encode(state))
