"""Delivery of events to webhooks: in order, signed, and retried with backoff."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.http.addresses import Network, networks
from waystation.core.identity import worker_name
from waystation.core.store.connection import Store
from waystation.core.store.leader import Election, OfficeKeys
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks.sending import BATCH, RETRY, Sender
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.http.webhooks.hooks import State, Webhook, Webhooks
from waystation.waitingroom.operating.alarms import CLEARED, RAISED, RINGING
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms

_OWN = ("lane", "seq", "waited", "delay", "ahead", "waiting", "active", "reason", "held", "views")
"""What an event may say besides: nothing that tells visitors apart by where they come from."""
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
    ) -> None:
        self._rooms = rooms
        self._election = Election(store.redis, DispatcherKeys(), owner=owner)
        self.sender = Sender(private, headers="Wr", clock=clock)

    async def carry(self) -> None:
        """Tell everybody who is due; one bounded pass."""
        if await self._election.acquire() is None:
            return
        for id in await self._rooms.look():
            room = self._rooms.of(id)
            hooks = Webhooks(room)
            await asyncio.gather(*(self._tell(room, hooks, each) for each in await hooks.every()))

    async def try_out(self, room: Room, hook: Webhook) -> str:
        """Send one event that means nothing; an empty text when it was taken."""
        now_ms = self.sender.now_ms()
        ping = [{"id": "0-0", "event": "ping", "at": rfc3339(now_ms)}]
        return await self._send(room, hook, ping)

    async def _tell(self, room: Room, hooks: Webhooks, hook: Webhook) -> None:
        state = await hooks.state(hook.id)
        now_ms = self.sender.now_ms()
        if state.next_ms > now_ms:
            return
        entries = await self._entries(room, state.cursor)
        if not entries:
            return
        news = [each for _, each in entries if each["event"] in hook.events]
        wrong = await self._send(room, hook, await self._with_handles(room, news)) if news else ""
        if wrong:
            pause = RETRY.pause_ms(state.failures + 1, random)
            state.failures += 1
            state.next_ms, state.last_error = now_ms + pause, wrong
            _log.warning(
                "webhook_failed",
                queue=room.queue_id,
                attempt=state.failures,
                delay_ms=pause,
            )
        else:
            read = entries[-1][0]
            delivered = state.delivered + len(news)
            state = State(cursor=read, delivered=delivered)
        await hooks.write(hook.id, state)

    async def _send(self, room: Room, hook: Webhook, news: list[dict[str, Any]]) -> str:
        body = codec.encode({"queue": room.name, "events": news})
        return await self.sender.send(hook.url, hook.secret, body, delivery=news[-1]["id"])

    async def _entries(self, room: Room, cursor: str) -> list[tuple[str, dict[str, Any]]]:
        raw = await room.store.ask(
            "XRANGE", room.store.keys.events, f"({cursor}", "+", "COUNT", BATCH
        )
        return [(id.decode(), _payload(id.decode(), fields)) for id, fields in raw]

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
    )


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
