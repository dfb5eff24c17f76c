"""Webhooks of the console: which events of jobs are sent, and what is shown of deliveries."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from waystation.console.directory import Directory
from waystation.console.products.queue import ConsoleQueue, alone
from waystation.console.products.views import short
from waystation.core.durations import instant
from waystation.core.errors import InvalidOption
from waystation.core.events import EventName, from_bullmq, from_entry
from waystation.core.store.connection import Store
from waystation.core.store.keyspace import Hash, Keyspace
from waystation.core.store.leader import Election, OfficeKeys
from waystation.core.webhooks import dispatch
from waystation.core.webhooks.delivery import Sender
from waystation.core.webhooks.dispatch import Dispatcher, Feed, Hook, News, State, Work

MOST_HOOKS = 20
MOST_QUEUES = 100
DEAD_AFTER = 30
"""Failures in a row, over about four hours, until a webhook is given up."""
ENDED = ("completed", "failed", "dead", "cancelled")
"""What is sent when a webhook names no events."""
SENT = (
    EventName.ADDED, EventName.WAITING, EventName.DELAYED, EventName.WAITING_CHILDREN,
    EventName.ACTIVE, EventName.PROGRESS, EventName.STEP, EventName.COMPLETED, EventName.RETRY,
    EventName.FAILED, EventName.RETRIES_EXHAUSTED, EventName.STALLED, EventName.RETURNED,
    EventName.DEAD, EventName.REDRIVEN, EventName.CANCELLED, EventName.REMOVED,
    EventName.DUPLICATED, EventName.DEDUPLICATED, EventName.FIRED, EventName.DRAINED,
    EventName.PAUSED, EventName.RESUMED, EventName.CLEANED, EventName.GROUP_BUDGET,
)  # fmt: skip
"""The events that can be asked for."""


class WebhookKeys(Keyspace, root="waystation:webhooks"):
    """The webhooks of all queues of a store."""

    hooks = Hash("", "who hears what happens to jobs, by id")
    states = Hash("state", "how far each webhook has been delivered")

    def __init__(self) -> None:
        super().__init__("webhooks")


class Hooks(dispatch.Hooks):
    """The webhooks of a store."""

    def __init__(self, store: Store) -> None:
        keys = WebhookKeys()
        super().__init__(store.ask, keys.hooks, keys.states, known=SENT, usual=ENDED)

    async def add(self, url: str, events: Sequence[str], queues: Sequence[str]) -> Hook:
        """Send what happens from now on."""
        if len(queues) > MOST_QUEUES:
            raise InvalidOption(f"queues may name {MOST_QUEUES}, got {len(queues)}")
        if odd := [each for each in queues if not all(each.partition("/"))]:
            raise InvalidOption(f"a queue is named as bullmq/mail, got {odd[0][:80]!r}")
        if len(await self.every()) >= MOST_HOOKS:
            raise InvalidOption(f"a store may have {MOST_HOOKS} webhooks")
        return await self.put(url, events, queues)


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


_REASONS = ("failedReason", "reason", "error")
"""The fields that say what went wrong, by product."""


class DispatcherKeys(OfficeKeys, root="{job-webhooks}"):
    """The lead of the one process that sends."""

    def __init__(self) -> None:
        super().__init__("{job-webhooks}")


class JobDispatcher(Dispatcher):
    """Sends the events of all queues."""

    def __init__(self, store: Store, directory: Directory, sender: Sender, *, owner: str) -> None:
        election = Election(store.redis, DispatcherKeys(), owner=owner)
        super().__init__(election, sender, dead_after=DEAD_AFTER)
        self._directory = directory
        self._hooks = Hooks(store)

    async def carry(self) -> None:
        """Send what is due; one bounded pass."""
        hooks = await self._hooks.every()
        if not hooks or not await self.leads():
            return
        await self._directory.look_if_due()
        feeds = [JobFeed(queue) for queue in self._directory.every()]
        await self.serve(
            {
                hook.id: Work(
                    self._hooks,
                    hook,
                    state,
                    [each for each in feeds if not hook.queues or each.name in hook.queues],
                )
                for hook, state in hooks
            }
        )

    async def serve_feed(self, key: str, work: Work, feed: Feed, until: float) -> bool:
        """Send what is new in one queue; what is wrong with it concerns no other."""
        with alone(feed.place["product"], feed.place["queue"]):
            return await super().serve_feed(key, work, feed, until)
        return True


class JobFeed:
    """The events of one queue."""

    def __init__(self, queue: ConsoleQueue) -> None:
        self._queue = queue
        self.stream = queue.stream
        self.name = f"{queue.product}/{queue.name}"
        self.place: Mapping[str, str] = {"product": queue.product, "queue": queue.name}

    def read(self, id: str, entry: dict[bytes, bytes]) -> tuple[str, int, dict[str, Any]]:
        """An event's name, its instant and what else it says."""
        is_bullmq = self._queue.product == "bullmq"
        event = from_bullmq(self._queue.name, id, entry) if is_bullmq else from_entry(id, entry)
        reason = next((event.fields[each] for each in _REASONS if event.fields.get(each)), None)
        more = {
            "job": event.subject,
            "attempt": event.attempt,
            "worker": event.worker,
            "reason": short(reason, 500) if reason else None,
        }
        said = {name: value for name, value in more.items() if value is not None}
        if event.name == EventName.GROUP_BUDGET.value:
            said |= event.fields
        return event.name, event.at_ms, said

    async def body(self, hook: Hook, news: News) -> dict[str, Any]:
        """The body of one delivery."""
        return _body(hook, news)


async def try_out(sender: Sender, hook: Hook) -> str:
    """Send one event that means nothing; an empty text when it was taken."""
    nowhere = {"product": "", "queue": ""}
    ping = dispatch.event(dispatch.START, "ping", sender.now_ms(), nowhere)
    return await dispatch.send(sender, hook, _body(hook, [ping]))


def _body(hook: Hook, news: News) -> dict[str, Any]:
    return {"webhook": hook.id, "events": news}
