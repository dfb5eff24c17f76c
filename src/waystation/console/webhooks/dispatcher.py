"""Delivery of job events to webhooks: in order for each queue, signed, and retried with backoff.

The position in each stream is kept in the store and moves on after a receiver has said yes, so an
event is sent at least once, whoever is restarted.
"""

import random
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from waystation.console.finding.directory import Directory
from waystation.console.products.queue import ConsoleQueue, short
from waystation.console.webhooks.hooks import (
    KEPT_FAILURES,
    FailedDelivery,
    Hook,
    Hooks,
    State,
)
from waystation.core import codec
from waystation.core.durations import instant
from waystation.core.errors import StoreError
from waystation.core.events import Event, from_bullmq, from_entry
from waystation.core.store.connection import Store
from waystation.core.store.leader import Election, OfficeKeys, Term
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks.passes import Passes
from waystation.core.webhooks.reading import GAP, unread
from waystation.core.webhooks.sending import BATCH, RETRY, Sender

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
            if not await self._serve_queue(hook, state, queue, until):
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
    return instant(at_ms).isoformat(timespec="milliseconds")
