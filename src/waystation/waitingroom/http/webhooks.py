"""Webhooks of rooms: which events are sent, and what they say."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from waystation.core.clock import Clock
from waystation.core.codec import as_text
from waystation.core.errors import InvalidOption, WaystationError
from waystation.core.http.addresses import Network, networks
from waystation.core.identity import worker_name
from waystation.core.store.commands import newest_id
from waystation.core.store.connection import Store
from waystation.core.store.leader import Election, OfficeKeys
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks import dispatch
from waystation.core.webhooks.delivery import Sender
from waystation.core.webhooks.dispatch import START, Dispatcher, Hook, Hooks, News, Work
from waystation.waitingroom.http.context import ServerContext
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.operating.alarms import CLEARED, RAISED, RINGING
from waystation.waitingroom.redis.keys import name_of
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms

MOST_HOOKS = 10
HOOK_EVENTS = (
    "waiting", "delayed", "admitted", "claimed", "missed", "recovered", "left", "expired",
    "refused", "completed", "cancelled", "paused", "resumed", "changed", "alarm", "alarm-over",
)  # fmt: skip
"""The events of a room that can be asked for."""


_OWN = ("lane", "seq", "waited", "delay", "ahead", "waiting", "active", "reason", "held", "views")
"""What an event may say besides: nothing that tells visitors apart by where they come from."""
_log = get_logger(__name__)


class Webhooks(Hooks):
    """The webhooks of one room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        keys = room.store.keys
        super().__init__(
            room.store.ask, keys.hooks, keys.hook_states, known=HOOK_EVENTS, usual=HOOK_EVENTS
        )

    async def add(self, url: str, events: Sequence[str]) -> Hook:
        """Send what happens in the room from now on."""
        if len(await self.every()) >= MOST_HOOKS:
            raise InvalidOption(f"a room may have {MOST_HOOKS} webhooks")
        stream = self._room.store.keys.events
        last = await newest_id(await self._room.store.client(), stream)
        return await self.put(url, events, positions={stream: last})


class DispatcherKeys(OfficeKeys, root="{webhooks}"):
    """The seat of the one process that carries."""

    def __init__(self) -> None:
        super().__init__("{webhooks}")


class WebhookDispatcher(Dispatcher):
    """Sends the events of all rooms."""

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
        election = Election(store.redis, DispatcherKeys(), owner=owner)
        super().__init__(election, Sender(private, headers="Wr", clock=clock))
        self._rooms = rooms
        self._metrics = metrics or RoomMetrics()

    async def carry(self) -> None:
        """Send what is due; one bounded pass."""
        if not await self.leads():
            return
        work: dict[str, Work] = {}
        for id in await self._rooms.look():
            room = self._rooms.of(id)
            hooks, feeds = Webhooks(room), [RoomFeed(room)]
            try:
                for hook, state in await hooks.every():
                    work[f"{id}/{hook.id}"] = Work(hooks, hook, state, feeds)
            except WaystationError as error:
                # The others hear of theirs all the same.
                _log.error("webhook_failed", error, queue=id)
        lagged = {key.rpartition("/")[0] for key in self.unsent}
        await self.serve(work)
        self._note_lags(lagged)

    async def try_out(self, room: Room, hook: Hook) -> str:
        """Send one event that means nothing; an empty text when it was taken."""
        feed = RoomFeed(room)
        ping = dispatch.event(START, "ping", self.sender.now_ms(), feed.place)
        return await dispatch.send(self.sender, hook, await feed.body(hook, [ping]))

    def _note_lags(self, lagged: set[str]) -> None:
        """A room lags as far behind as the last of its webhooks, one that is not due included."""
        now_ms, lags = time.time() * 1000, dict.fromkeys(lagged, 0.0)
        for key, oldest_ms in self.unsent.items():
            id = key.rpartition("/")[0]
            behind_ms = 0 if oldest_ms is None else max(0, now_ms - oldest_ms)
            lags[id] = max(lags.get(id, 0.0), behind_ms / 1000)
        for id, lag_s in lags.items():
            self._metrics.webhook_lag.of(name_of(id)).set(lag_s)


class RoomFeed:
    """The events of one room."""

    place: Mapping[str, str] = {}

    def __init__(self, room: Room) -> None:
        self._room = room
        self.stream = room.store.keys.events

    def read(self, id: str, entry: dict[bytes, bytes]) -> tuple[str, int, dict[str, Any]]:
        """An event's name, its instant and what else it says; ValueError for what is none."""
        said = {as_text(name): as_text(value) for name, value in entry.items()}
        name = said.get("event", "")
        more = {"subject": said["subject"]} if "subject" in said else {}
        if name in (RAISED, CLEARED):
            more["alarms"] = said.get("changed", "").removeprefix(f"{RINGING}=")
        more |= {each: said[each] for each in _OWN if said.get(each)}
        return name, int(said.get("at", "0")), more

    async def body(self, hook: Hook, news: News) -> dict[str, Any]:
        """The body of one delivery, with the handles of those who asked for a message."""
        for each in news:
            if each["event"] == "admitted":
                at = self._room.store.keys.of(each["subject"]).position
                if handle := await self._room.store.ask("HGET", at, "notify"):
                    each["notify"] = as_text(handle)
        return {"queue": self._room.name, "events": news}


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
