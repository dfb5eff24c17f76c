"""Webhooks of the console: what is stored, what is sent, and when.

The position in each stream is kept in the store and moves on after a receiver has said yes, so an
event is sent at least once, whoever is restarted.
"""

import random
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from waystation.console.finding.directory import Directory
from waystation.console.products.queue import ConsoleQueue, alone, short
from waystation.core import codec
from waystation.core.durations import instant, possible_instant
from waystation.core.errors import InvalidOption, Malformed, NotFound, StoreError
from waystation.core.events import Event, EventName, from_bullmq, from_entry
from waystation.core.store.connection import Store
from waystation.core.store.keyspace import Hash, Keyspace
from waystation.core.store.leader import Election, OfficeKeys, Term
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks.passes import Passes
from waystation.core.webhooks.reading import GAP, unread
from waystation.core.webhooks.sending import BATCH, RETRY, Sender

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
        kept = await self._store.ask("HGETALL", self._keys.states)
        states = dict(zip(kept[::2], kept[1::2], strict=True))
        # One that was removed while it was being delivered has left its state behind.
        if left := states.keys() - set(raw[::2]):
            await self._store.ask("HDEL", self._keys.states, *sorted(left))
        found = list[tuple[Hook, State]]()
        for id, hook in zip(raw[::2], raw[1::2], strict=True):
            try:
                state = states.get(id, b"{}")
                found.append((codec.decode(hook, Hook), codec.decode(state, State)))
            except Malformed as error:
                # The others hear of theirs all the same.
                _log.error("webhook_failed", error, webhook=id.decode("utf-8", "replace"))
        return sorted(found, key=lambda each: (each[0].added_ms, each[0].id))

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


class FailureView(msgspec.Struct, kw_only=True):
    """A request that was not taken."""

    at: datetime
    error: str


class HookView(msgspec.Struct, kw_only=True):
    """A webhook, and how it goes."""

    id: str
    url: str
    events: list[str]
    queues: list[str]
    delivered: int
    delivered_at: datetime | None
    """When something was delivered last."""
    failures: int
    """In a row."""
    last_error: str
    next_try_at: datetime | None
    dead: bool
    """Given up after too many failures, until it is resumed."""
    recent_failures: list[FailureView]
    """The newest first; kept after one that went well."""


def view_of(hook: Hook, state: State) -> HookView:
    """A webhook, without its secret."""
    waits = state.failures and not state.dead
    return HookView(
        id=hook.id,
        url=hook.url,
        events=hook.events,
        queues=hook.queues,
        delivered=state.delivered,
        delivered_at=instant(state.delivered_ms) if state.delivered_ms else None,
        failures=state.failures,
        last_error=state.last_error,
        next_try_at=instant(state.next_ms) if waits else None,
        dead=state.dead,
        recent_failures=[
            FailureView(at=instant(each.at_ms), error=each.error) for each in state.recent
        ],
    )


PASS_S = 10.0
"""How long one webhook is served before it is looked at again; well below a term."""
DEAD_AFTER = 30
"""Failures in a row, over about four hours, until a webhook is given up."""
_REASONS = ("failedReason", "reason", "error")
"""The fields that say what went wrong, by product."""
_log = get_logger(__name__)


class DispatcherKeys(OfficeKeys, root="{job-webhooks}"):
    """The lead of the one process that sends."""

    def __init__(self) -> None:
        super().__init__("{job-webhooks}")


class JobDispatcher:
    """Sends the events of all queues; of several processes one does it at a time."""

    def __init__(self, store: Store, directory: Directory, sender: Sender, *, owner: str) -> None:
        self.sender = sender
        self._store = store
        self._directory = directory
        self._hooks = Hooks(store)
        self._election = Election(store.redis, DispatcherKeys(), owner=owner)
        self._term: Term | None = None
        self._passes = Passes()

    async def carry(self) -> None:
        """Send what is due; one bounded pass."""
        hooks = await self._hooks.every()
        if not hooks:
            return
        self._term = await self._election.acquire()
        if self._term is None:
            return
        await self._directory.look_if_due()
        queues = self._directory.every()
        await self._passes.serve(
            {hook.id: partial(self._serve, hook, state, queues) for hook, state in hooks}
        )

    async def close(self) -> None:
        """Let another process send at once, instead of when the term of this one runs out."""
        await self._passes.close()
        if self._term is not None:
            with suppress(StoreError):
                await self._election.resign(self._term)

    async def _serve(self, hook: Hook, state: State, queues: Sequence[ConsoleQueue]) -> None:
        if state.dead or state.next_ms > self.sender.now_ms():
            return
        until = time.monotonic() + PASS_S
        # In another order each time, so that a slow receiver hears of all queues.
        for queue in random.sample(queues, len(queues)):
            if hook.queues and f"{queue.product}/{queue.name}" not in hook.queues:
                continue
            goes_on = True
            with alone(queue.product, queue.name):
                goes_on = await self._serve_queue(hook, state, queue, until)
            if not goes_on:
                return

    async def _serve_queue(
        self, hook: Hook, state: State, queue: ConsoleQueue, until: float
    ) -> bool:
        """Send what is new in one queue; False when that is all for this pass."""
        while time.monotonic() < until:
            known = state.positions.get(queue.stream)
            last = known or f"{hook.added_ms}-0"
            entries, gap = await unread(self._store.ask, queue.stream, last, seen=known is not None)
            if not entries:
                return True
            events = [_read(queue, id, fields) for id, fields in entries]
            news = [
                _body(queue, id, event)
                for (id, _), event in zip(entries, events, strict=True)
                if event.name in hook.events
            ]
            if gap:
                news.insert(0, _gap(queue, last, entries[0][0]))
            if news and (wrong := await send(self.sender, hook, news)):
                await self._note_failure(hook, state, wrong)
                return False
            state.positions[queue.stream] = entries[-1][0]
            if news:
                state.delivered += len(news)
                state.delivered_ms = self.sender.now_ms()
                state.failures, state.next_ms, state.last_error = 0, 0, ""
            await self._hooks.write(hook.id, state)
            if len(entries) < BATCH:
                return True
        return False

    async def _note_failure(self, hook: Hook, state: State, wrong: str) -> None:
        state.failures += 1
        pause = RETRY.pause_ms(state.failures, random)
        now_ms = self.sender.now_ms()
        state.next_ms, state.last_error = now_ms + pause, wrong
        state.recent = [FailedDelivery(at_ms=now_ms, error=wrong), *state.recent][:KEPT_FAILURES]
        state.dead = state.failures >= DEAD_AFTER
        name = "webhook_given_up" if state.dead else "webhook_failed"
        _log.warning(name, webhook=hook.id, attempt=state.failures, delay_ms=pause, error=wrong)
        await self._hooks.write(hook.id, state)


async def try_out(sender: Sender, hook: Hook) -> str:
    """Send one event that means nothing; an empty text when it was taken."""
    at = _instant(sender.now_ms())
    ping = {"id": "0-0", "event": "ping", "at": at, "product": "", "queue": ""}
    return await send(sender, hook, [ping])


async def send(sender: Sender, hook: Hook, news: list[dict[str, Any]]) -> str:
    """Send events to a webhook; an empty text when they were taken."""
    body = codec.encode_shown({"webhook": hook.id, "events": news})
    return await sender.send(hook.url, hook.secret, body, delivery=news[-1]["id"])


def _read(queue: ConsoleQueue, id: str, flat: list[bytes]) -> Event:
    entry = dict(zip(flat[::2], flat[1::2], strict=True))
    return (
        from_bullmq(queue.name, id, entry) if queue.product == "bullmq" else from_entry(id, entry)
    )


def _body(queue: ConsoleQueue, id: str, event: Event) -> dict[str, Any]:
    said: dict[str, Any] = {
        "id": id,
        "event": event.name,
        "at": _instant(event.at_ms),
        "product": queue.product,
        "queue": queue.name,
    }
    reason = next((event.fields[each] for each in _REASONS if event.fields.get(each)), None)
    more = {
        "job": event.subject,
        "attempt": event.attempt,
        "worker": event.worker,
        "reason": short(reason, 500) if reason else None,
    }
    return said | {name: value for name, value in more.items() if value is not None}


def _gap(queue: ConsoleQueue, after: str, before: str) -> dict[str, Any]:
    at_ms = int(before.partition("-")[0])
    return {
        "id": f"{after}..{before}", "event": GAP, "at": _instant(at_ms),
        "product": queue.product, "queue": queue.name,
    }  # fmt: skip


def _instant(at_ms: int) -> str:
    # Other programs may have written a number that is no instant.
    found = possible_instant(at_ms)
    return found.isoformat(timespec="milliseconds") if found else str(at_ms)
