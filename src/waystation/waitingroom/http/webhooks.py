"""Webhooks of rooms: what is stored, and how events are delivered."""

import random
import secrets
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.errors import InvalidOption, Malformed, NotFound, WaystationError
from waystation.core.http.addresses import Network, networks
from waystation.core.identity import worker_name
from waystation.core.store.connection import Store
from waystation.core.store.leader import Election, OfficeKeys
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks.passes import Passes
from waystation.core.webhooks.reading import GAP, START, unread
from waystation.core.webhooks.sending import RETRY, Sender
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.operating.alarms import CLEARED, RAISED, RINGING
from waystation.waitingroom.redis.keys import name_of
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.visitor import new_id

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
        self._keys = room.store.keys

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


_OWN = ("lane", "seq", "waited", "delay", "ahead", "waiting", "active", "reason", "held", "views")
"""What an event may say besides: nothing that tells visitors apart by where they come from."""
PASS_S = 10.0
"""How long one webhook is served before it is looked at again; well below a term."""
_log = get_logger(__name__)


class DispatcherKeys(OfficeKeys, root="{webhooks}"):
    """The seat of the one process that carries."""

    def __init__(self) -> None:
        super().__init__("{webhooks}")


class WebhookDispatcher:
    """Carries the events of all rooms; of several processes one does it at a time."""

    def __init__(
        self,
        store: Store,
        rooms: Rooms,
        *,
        owner: str,
        private: Sequence[Network] = (),
        clock: Clock | None = None,
        metrics: RoomMetrics | None = None,
    ) -> None:
        self._rooms = rooms
        self._metrics = metrics or RoomMetrics()
        self._passes = Passes()
        self._oldest: dict[tuple[str, str], int | None] = {}
        """Of each room and webhook: when the first event happened that it has not been told."""
        self._election = Election(store.redis, DispatcherKeys(), owner=owner)
        self.sender = Sender(private, headers="Wr", clock=clock)

    async def carry(self) -> None:
        """Tell everybody who is due; one bounded pass in which no receiver holds up another."""
        if await self._election.acquire() is None:
            return
        work: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        for id in await self._rooms.look():
            room = self._rooms.of(id)
            try:
                hooks = Webhooks(room)
                for hook in await hooks.every():
                    work[f"{id}/{hook.id}"] = partial(self._tell, room, hooks, hook)
            except WaystationError as error:
                # The others hear of theirs all the same.
                _log.error("webhook_failed", error, queue=id)
        await self._passes.serve(work)
        self._note_lags(work)

    async def close(self) -> None:
        """End what is under way; whoever goes on sends it again."""
        await self._passes.close()

    async def try_out(self, room: Room, hook: Webhook) -> str:
        """Send one event that means nothing; an empty text when it was taken."""
        now_ms = self.sender.now_ms()
        ping = [{"id": "0-0", "event": "ping", "at": rfc3339(now_ms)}]
        return await self._send(room, hook, ping)

    async def _tell(self, room: Room, hooks: Webhooks, hook: Webhook) -> None:
        """Send what is new, in order, until all is sent, something goes wrong, or time is up."""
        state = await hooks.state(hook.id)
        until = time.monotonic() + PASS_S
        while time.monotonic() < until:
            is_due = state.next_ms <= self.sender.now_ms()
            if not is_due and (room.queue_id, hook.id) in self._oldest:
                return
            stream = room.store.keys.events
            entries, gap = await unread(
                room.store.ask, stream, state.cursor, seen=state.cursor != START
            )
            oldest_ms = int(entries[0][0].partition("-")[0]) if entries else None
            self._oldest[room.queue_id, hook.id] = oldest_ms
            if not entries or not is_due:
                return
            news = [_gap(state.cursor, entries[0][0])] if gap else []
            for id, fields in entries:
                try:
                    said = _payload(id, fields)
                except ValueError as error:
                    # Nothing that we have written; what came after it is told all the same.
                    _log.error("webhook_failed", error, queue=room.queue_id)
                    continue
                if said["event"] in hook.events:
                    news.append(said)
            wrong = await self._send(room, hook, news) if news else ""
            if wrong:
                await self._note_failure(room, hooks, hook, state, wrong)
                return
            state = State(cursor=entries[-1][0], delivered=state.delivered + len(news))
            await hooks.write(hook.id, state)

    def _note_lags(self, served: Collection[str]) -> None:
        """A room lags as far behind as the last of its webhooks, one that is not due included."""
        now_ms, lags = time.time() * 1000, {id: 0.0 for id, _ in self._oldest}
        self._oldest = {at: ms for at, ms in self._oldest.items() if "/".join(at) in served}
        for (id, _), oldest_ms in self._oldest.items():
            behind_ms = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
            lags[id] = max(lags[id], behind_ms / 1000)
        for id, lag_s in lags.items():
            self._metrics.webhook_lag.of(name_of(id)).set(lag_s)

    async def _note_failure(
        self, room: Room, hooks: Webhooks, hook: Webhook, state: State, wrong: str
    ) -> None:
        state.failures += 1
        pause = RETRY.pause_ms(state.failures, random)
        state.next_ms, state.last_error = self.sender.now_ms() + pause, wrong
        _log.warning(
            "webhook_failed",
            queue=room.queue_id,
            attempt=state.failures,
            delay_ms=pause,
            error=wrong,
        )
        await hooks.write(hook.id, state)

    async def _send(self, room: Room, hook: Webhook, news: list[dict[str, Any]]) -> str:
        news = await self._with_handles(room, news)
        body = codec.encode({"queue": room.name, "events": news})
        return await self.sender.send(hook.url, hook.secret, body, delivery=news[-1]["id"])

    async def _with_handles(self, room: Room, news: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add the handle of whoever asked for a message when it is their turn."""
        for each in news:
            if each["event"] == "admitted":
                at = room.store.keys.of(each["subject"]).position
                handle = await room.store.ask("HGET", at, "notify")
                if handle:
                    each["notify"] = handle.decode()
        return news


def dispatcher_of(context: ServerContext) -> WebhookDispatcher:
    """The dispatcher of a server."""
    return WebhookDispatcher(
        context.rooms.store,
        context.rooms,
        owner=worker_name(),
        private=networks(context.options.webhook_networks, "webhook_networks"),
        clock=context.clock,
        metrics=context.metrics,
    )


def _gap(after: str, before: str) -> dict[str, Any]:
    """Events that were trimmed before they could be sent."""
    at_ms = int(before.partition("-")[0])
    return {"id": f"{after}..{before}", "event": GAP, "at": rfc3339(at_ms)}


def _payload(id: str, fields: Sequence[bytes]) -> dict[str, Any]:
    texts = [each.decode() for each in fields]
    said = dict(zip(texts[::2], texts[1::2], strict=True))
    payload: dict[str, Any] = {
        "id": id,
        "event": said.get("event", ""),
        "at": rfc3339(int(said.get("at", "0"))),
    }
    if "subject" in said:
        payload["subject"] = said["subject"]
    if payload["event"] in (RAISED, CLEARED):
        payload["alarms"] = said.get("changed", "").removeprefix(f"{RINGING}=")
    return payload | {name: said[name] for name in _OWN if said.get(name)}
