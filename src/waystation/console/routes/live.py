"""Endpoints that are followed live, as server-sent events: queues, and what a job emits."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from waystation.bullmq import Part
from waystation.console.context import Console
from waystation.console.products.bullmq import BullmqQueue
from waystation.console.products.queue import ConsoleQueue
from waystation.console.routes.calls import QUEUE, ROOT, Call, ConsoleRoutes, console_endpoint
from waystation.console.routes.queues import may_see
from waystation.core.errors import InvalidInput, JobFailed, NotFound, StoreError, WaystationError
from waystation.core.events import from_bullmq, from_entry
from waystation.core.http.exchange import Answer, Request, Stream
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operator
from waystation.core.store.commands import fields_of, newest_id
from waystation.core.webhooks.dispatch import GAP

LONGEST_S = 300.0
"""After this long the browser comes again by itself, and shows again who it is."""
QUIET_S = 15.0
"""A word at least this often, so that nobody in between takes the stream for dead."""
EVERY_S = 0.5
MOST_EVENTS = 100
"""Events that are sent at once; of more, the newest, after one that is called gap."""


class Live(ConsoleRoutes):
    """What changes, as it changes."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._open = 0

    @console_endpoint(f"GET {ROOT}/live", "viewer", anywhere=True, gives={200: None, 204: None})
    async def samples(self, call: Call) -> Answer:
        """Every new sample of the queues that one may see, as server-sent events."""
        return self._stream(call.request, self._samples(call.who))

    @console_endpoint(f"GET {QUEUE}/live", "viewer", gives={200: None, 204: None})
    async def events(self, call: Call) -> Answer:
        """What happens to the jobs of a queue, as server-sent events."""
        return self._stream(call.request, self._events(await call.queue()))

    def _stream(self, request: Request, events: AsyncIterator[tuple[str, Any]]) -> Answer:
        if self._open >= self.console.options.streams:
            return Answer(204, headers=[(b"retry-after", b"30")])
        self._open += 1
        return Stream(events=events, done=self._close, gone=request.gone)

    def _close(self) -> None:
        self._open -= 1

    async def _samples(self, who: Operator) -> AsyncIterator[tuple[str, Any]]:
        sampler, until = self.console.sampler, time.monotonic() + LONGEST_S
        version, sees_all = sampler.version, who.may("viewer", None)
        while time.monotonic() < until:
            if not await sampler.next_after(version, QUIET_S):
                yield "quiet", {}
                continue
            if sampler.version == version and sampler.away:
                yield "trouble", {"detail": sampler.away}
            if sampler.version == version:
                continue
            version = sampler.version
            yield (
                "sample",
                [
                    [q.product, q.name, q.points[-1], q.counts, q.paused, q.workers, q.trouble]
                    for q in sampler.latest.queues
                    if sees_all or may_see(who, q)
                ],
            )

    async def _events(self, queue: ConsoleQueue) -> AsyncIterator[tuple[str, Any]]:
        store, until, quiet = self.console.store, time.monotonic() + LONGEST_S, time.monotonic()
        after = await newest_id(store.hot, queue.stream)
        while time.monotonic() < until:
            await asyncio.sleep(EVERY_S)
            try:
                # From the newest back: of a flood only its end is read.
                latest = await store.ask(
                    "XREVRANGE", queue.stream, "+", f"({after}", "COUNT", MOST_EVENTS + 1
                )
            except StoreError as error:
                yield "trouble", {"detail": str(error)}
                return
            if latest:
                after, quiet = latest[0][0].decode(), time.monotonic()
                told = [_told(queue, *each) for each in latest[:MOST_EVENTS][::-1]]
                if len(latest) > MOST_EVENTS:
                    told.insert(0, {**told[0], "event": GAP, "job": None, "worker": None})
                yield "events", told
            elif time.monotonic() - quiet > QUIET_S:
                quiet = time.monotonic()
                yield "quiet", {}


def _told(queue: ConsoleQueue, id: bytes, flat: list[bytes]) -> dict[str, Any]:
    entry = fields_of(flat)
    read = from_bullmq(queue.name, id, entry) if queue.product == "bullmq" else None
    event = read or from_entry(id, entry)
    return {"job": event.subject, "event": event.name, "at": event.at_ms, "worker": event.worker}


START, END = "0-0", "end"
_PLACE = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_AHEAD = 100
"""Parts that are read before the reader has taken those before."""

Said = tuple[str, object] | tuple[str, object, str]


class Output(ConsoleRoutes):
    """What jobs say while they run."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._open = 0

    @console_endpoint(
        f"GET {QUEUE}/jobs/{{id}}/output",
        "viewer",
        gives={200: None, 204: None},
        query={"after": {"type": "string"}},
    )
    async def output(self, call: Call) -> Answer:
        """What a job emits, as server-sent events; goes on after `Last-Event-ID` or `after`."""
        queue, request = await call.queue(), call.request
        id = request.slots["id"]
        if not isinstance(queue, BullmqQueue):
            raise Problem(404, Code.NOT_FOUND, f"jobs of {queue.product} have no output")
        if await queue.job(id) is None:
            raise NotFound("there is no such job")
        after = request.header("last-event-id") or request.query.get("after") or START
        # A browser that has read everything comes again all the same, and this makes it stop.
        if after == END or self._open >= self.console.options.streams:
            return Answer(204, headers=[] if after == END else [(b"retry-after", b"30")])
        if not _PLACE.fullmatch(after):
            raise InvalidInput(f"a place is the id of a part such as 17-0, got {after[:40]!r}")
        self._open += 1
        return Stream(events=_events(queue.output(id, after)), done=self._close, gone=request.gone)

    def _close(self) -> None:
        self._open -= 1


async def _events(parts: AsyncGenerator[Part]) -> AsyncGenerator[Said]:
    """Each part with its place, a word now and then while there is none, and how the job ended."""
    until = time.monotonic() + LONGEST_S
    async with aclosing(_read_ahead(parts)) as said:
        async for each in said:
            yield each
            if time.monotonic() > until:
                return


async def _read_ahead(parts: AsyncGenerator[Part]) -> AsyncGenerator[Said]:
    # Read by a task of its own: a read that were given up after a while would lose its part.
    read: asyncio.Queue[Said] = asyncio.Queue(_AHEAD)
    reading = asyncio.create_task(_read(parts, read))
    try:
        while True:
            said: Said = "quiet", None
            # Not by `wait_for`, which may swallow the cancellation when the reader has left.
            with suppress(TimeoutError):
                async with asyncio.timeout(QUIET_S):
                    said = await read.get()
            yield said
            if said[0] in (END, "trouble"):
                return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _read(parts: AsyncGenerator[Part], read: "asyncio.Queue[Said]") -> None:
    async with aclosing(parts):
        try:
            async for part in parts:
                await read.put(("part", part.data, part.id))
        except JobFailed as error:
            await read.put((END, {"state": "failed", "reason": str(error)}, END))
        except NotFound:
            await read.put((END, {"state": "gone"}, END))
        except WaystationError:
            await read.put(("trouble", {}))
        else:
            await read.put((END, {"state": "completed"}, END))
