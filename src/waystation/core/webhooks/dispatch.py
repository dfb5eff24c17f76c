"""Webhooks: what is stored of them, and how events are delivered to them.

The position in each stream is kept in the store and moves on after a receiver has said yes, so an
event is sent at least once, whoever is restarted.
"""

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from waystation.core import codec
from waystation.core.backoff import Backoff, Growth
from waystation.core.durations import possible_instant
from waystation.core.errors import InvalidOption, Malformed, NotFound, StoreError
from waystation.core.store.commands import fields_of
from waystation.core.store.leader import Election, Term
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks.delivery import Sender

BATCH = 100
"""Events of one request."""
RETRY = Backoff(Growth.EXPONENTIAL, 2000, jitter=0.25, cap_ms=600_000)
"""How long to wait after a request that failed."""
PASS_S = 10.0
"""How long one webhook is served before it is looked at again; well below a term."""
WAIT_S = 1.0
"""How long a pass waits for those whom it serves; who is slower goes on meanwhile."""
MOST_AT_ONCE = 64
"""Webhooks that are served at once."""
KEPT_FAILURES = 10
START = "0-0"
"""Where a stream begins."""
GAP = "gap"
"""The event that says: others came before this one, and were trimmed unread."""
_log = get_logger(__name__)

Ask: TypeAlias = Callable[..., Awaitable[Any]]
Entry: TypeAlias = tuple[str, list[bytes]]
News: TypeAlias = list[dict[str, Any]]


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """Where events are sent to, and which."""

    id: str
    url: str
    events: list[str]
    queues: list[str] = []
    """The only ones, such as `bullmq/mail`; empty for all."""
    secret: str
    """What deliveries are signed with; shown when the webhook is made, and then no more."""
    added_ms: int = 0
    """By the store's clock; nothing older is sent."""


class FailedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was not taken."""

    at_ms: int
    error: str


class State(msgspec.Struct, kw_only=True):
    """How far a webhook has been delivered, and how that goes."""

    positions: dict[str, str] = {}
    """The last entry of each stream that was delivered, or that was not for it."""
    cursor: str = ""
    """The position of a webhook that is as old as the time when there was one stream for each."""
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
    """The webhooks of a store or of a room: two hashes, by id."""

    def __init__(
        self, ask: Ask, hooks: str, states: str, *, known: Sequence[str], usual: Sequence[str]
    ) -> None:
        self.ask = ask
        self._hooks = hooks
        self._states = states
        self._known = known
        """The events that can be asked for."""
        self._usual = usual
        """Those that are sent to a webhook that names none."""

    async def every(self) -> list[tuple[Hook, State]]:
        """All of them, the oldest first."""
        hooks = fields_of(await self.ask("HGETALL", self._hooks))
        if not hooks:
            return []
        states = fields_of(await self.ask("HGETALL", self._states))
        # One that was removed while it was being delivered has left its state behind.
        if left := states.keys() - hooks.keys():
            await self.ask("HDEL", self._states, *sorted(left))
        found = list[tuple[Hook, State]]()
        for id, hook in hooks.items():
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

    async def put(
        self,
        url: str,
        events: Sequence[str],
        queues: Sequence[str] = (),
        *,
        positions: dict[str, str] | None = None,
    ) -> Hook:
        """Send what happens from now on, or after these positions."""
        if unknown := sorted(set(events) - set(self._known)):
            known = ", ".join(self._known)
            raise InvalidOption(
                f"there are no events {', '.join(unknown)[:200]}; there are {known}"
            )
        seconds, micros = await self.ask("TIME")
        hook = Hook(
            id=f"wh_{secrets.token_urlsafe(9)}",
            url=url,
            events=sorted(set(events) or set(self._usual)),
            queues=sorted(set(queues)),
            secret=f"whs_{secrets.token_urlsafe(32)}",
            added_ms=int(seconds) * 1000 + int(micros) // 1000,
        )
        if positions:
            await self.write(hook.id, State(positions=positions))
        await self.ask("HSET", self._hooks, hook.id, codec.encode(hook))
        return hook

    async def remove(self, id: str) -> None:
        """Send nothing there any more; NotFound when there is none of this id."""
        gone = await self.ask("HDEL", self._hooks, id)
        await self.ask("HDEL", self._states, id)
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
        await self.ask("HSET", self._states, id, codec.encode(state))


class Feed(Protocol):
    """One stream of events, and how receivers are told of them."""

    @property
    def stream(self) -> str:
        """Its key."""
        ...

    @property
    def place(self) -> Mapping[str, str]:
        """What every event says about where it happened."""
        ...

    def read(self, id: str, entry: dict[bytes, bytes]) -> tuple[str, int, dict[str, Any]]:
        """An event's name, its instant and what else it says; ValueError for what is none."""
        ...

    async def body(self, hook: Hook, news: News) -> dict[str, Any]:
        """The body of one delivery."""
        ...


class Work(NamedTuple):
    """One webhook of a pass."""

    hooks: Hooks
    hook: Hook
    state: State
    feeds: Sequence[Feed]


class Dispatcher:
    """Sends what is new to webhooks; of several processes one does it at a time."""

    def __init__(
        self, election: Election, sender: Sender, *, dead_after: int | None = None
    ) -> None:
        self.sender = sender
        self.unsent: dict[str, int | None] = {}
        """Of each webhook: when the first event happened that it has not been sent."""
        self._election = election
        self._dead_after = dead_after
        self._term: Term | None = None
        self._passes = Passes()

    async def leads(self) -> bool:
        """Whether this process is the one that sends."""
        self._term = await self._election.acquire()
        return self._term is not None

    async def serve(self, work: Mapping[str, Work]) -> None:
        """Send what is due; one bounded pass in which no receiver holds up another."""
        self.unsent = {key: ms for key, ms in self.unsent.items() if key in work}
        await self._passes.serve(
            {key: partial(self._serve, key, each) for key, each in work.items()}
        )

    async def close(self) -> None:
        """Let another process send at once, instead of when the term of this one runs out."""
        await self._passes.close()
        if self._term is not None:
            with suppress(StoreError):
                await self._election.resign(self._term)

    async def _serve(self, key: str, work: Work) -> None:
        is_due = work.state.next_ms <= self.sender.now_ms()
        if work.state.dead or (not is_due and key in self.unsent):
            return
        until = time.monotonic() + PASS_S
        # In another order each time, so that a slow receiver hears of all streams.
        for feed in random.sample(work.feeds, len(work.feeds)):
            if not await self.serve_feed(key, work, feed, until):
                return

    async def serve_feed(self, key: str, work: Work, feed: Feed, until: float) -> bool:
        """Send what is new in one stream, in order; False when that is all for this pass."""
        hooks, hook, state, _ = work
        while time.monotonic() < until:
            known = state.positions.get(feed.stream) or state.cursor
            last = known or f"{hook.added_ms}-0"
            seen = known not in ("", START)
            entries, gap = await unread(hooks.ask, feed.stream, last, seen=seen)
            if not entries:
                self.unsent[key] = None
                return True
            first = entries[0][0]
            self.unsent[key] = first_ms = int(first.partition("-")[0])
            if state.next_ms > self.sender.now_ms():
                return False
            read = [_read(feed, *each) for each in entries]
            news = [each for each in read if each and each["event"] in hook.events]
            if gap:
                news.insert(0, event(f"{last}..{first}", GAP, first_ms, feed.place))
            if news and (wrong := await send(self.sender, hook, await feed.body(hook, news))):
                await self._note_failure(hooks, hook, state, wrong)
                return False
            state.positions[feed.stream] = entries[-1][0]
            if news:
                state.delivered += len(news)
                state.delivered_ms = self.sender.now_ms()
                state.failures, state.next_ms, state.last_error = 0, 0, ""
            await hooks.write(hook.id, state)
            if len(entries) < BATCH:
                self.unsent[key] = None
                return True
        return False

    async def _note_failure(self, hooks: Hooks, hook: Hook, state: State, wrong: str) -> None:
        state.failures += 1
        pause = RETRY.pause_ms(state.failures, random)
        now_ms = self.sender.now_ms()
        state.next_ms, state.last_error = now_ms + pause, wrong
        state.recent = [FailedDelivery(at_ms=now_ms, error=wrong), *state.recent][:KEPT_FAILURES]
        state.dead = self._dead_after is not None and state.failures >= self._dead_after
        name = "webhook_given_up" if state.dead else "webhook_failed"
        _log.warning(name, webhook=hook.id, attempt=state.failures, delay_ms=pause, error=wrong)
        await hooks.write(hook.id, state)


async def send(sender: Sender, hook: Hook, body: dict[str, Any]) -> str:
    """Send a delivery to a webhook; an empty text when it was taken."""
    last = body["events"][-1]["id"]
    return await sender.send(hook.url, hook.secret, codec.encode_shown(body), delivery=last)


def event(id: str, name: str, at_ms: int, place: Mapping[str, str]) -> dict[str, Any]:
    """An event as receivers are told of it."""
    # Other programs may have written a number that is no instant.
    found = possible_instant(at_ms)
    at = found.isoformat(timespec="milliseconds") if found else str(at_ms)
    return {"id": id, "event": name, "at": at, **place}


def _read(feed: Feed, id: str, flat: list[bytes]) -> dict[str, Any] | None:
    try:
        name, at_ms, more = feed.read(id, fields_of(flat))
    except ValueError as error:
        # Nothing that we have written; what came after it is told all the same.
        _log.error("webhook_failed", error, queue=feed.stream)
        return None
    return event(id, name, at_ms, feed.place) | more


class Passes:
    """Serves each webhook in a task of its own, one at a time."""

    def __init__(self) -> None:
        self._served: dict[str, asyncio.Task[None]] = {}
        self._before: dict[str, None] = {}
        """Those who have been served, the longest ago first."""

    async def serve(self, work: Mapping[str, Callable[[], Coroutine[Any, Any, None]]]) -> None:
        """Serve each of these whom no earlier pass still serves; what one raises is its own."""
        # Who has waited longest comes first: as many slow ones must not keep the others out.
        self._before = {id: None for id in self._before if id in work}
        for id in [*(id for id in work if id not in self._before), *self._before]:
            if id not in self._served and len(self._served) < MOST_AT_ONCE:
                self._served[id] = asyncio.ensure_future(work[id]())
                self._before.pop(id, None)
                self._before[id] = None
        if self._served:
            await asyncio.wait(self._served.values(), timeout=WAIT_S)
        for id, task in list(self._served.items()):
            if task.done():
                del self._served[id]
                if not task.cancelled() and (error := task.exception()):
                    _log.error("webhook_failed", error, webhook=id)

    async def close(self) -> None:
        """End what is under way; the next pass sends it again."""
        for task in self._served.values():
            task.cancel()
        await asyncio.gather(*self._served.values(), return_exceptions=True)
        self._served.clear()


async def unread(ask: Ask, stream: str, last: str, *, seen: bool) -> tuple[list[Entry], bool]:
    """The next entries after this id, and whether some before them were trimmed.

    `seen` says that an entry of that id was read: when it is gone, others may have gone with it.
    Without it the id is an instant, and an entry of the same millisecond is new, too.
    """
    raw = await ask("XRANGE", stream, last, "+", "COUNT", BATCH + 1)
    entries = [(id.decode(), fields) for id, fields in raw]
    if seen and entries and entries[0][0] == last:
        return entries[1:], False
    if not entries:
        return [], False
    return entries[:BATCH], seen or await _is_trimmed(ask, stream, last)


async def _is_trimmed(ask: Ask, stream: str, since: str) -> bool:
    """Whether entries after this one may be gone: none before it are left, and some are."""
    if since != START and await ask("XREVRANGE", stream, f"({since}", "-", "COUNT", 1):
        return False
    info = fields_of(await ask("XINFO", "STREAM", stream))
    # Servers before Redis 7 do not count.
    return int(info.get(b"entries-added") or 0) > int(info[b"length"])
