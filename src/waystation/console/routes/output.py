"""The endpoint that streams what a job's handler emits, as server-sent events."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from waystation.bullmq import Part
from waystation.console.context import Console
from waystation.console.products.bullmq import BullmqQueue
from waystation.console.routes import live
from waystation.console.routes.calls import QUEUE, Call, ConsoleRoutes, console_endpoint
from waystation.core.errors import InvalidInput, JobFailed, NotFound, WaystationError
from waystation.core.http.exchange import Answer, Stream
from waystation.core.http.problems import Code, Problem

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
    until = time.monotonic() + live.LONGEST_S
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
                async with asyncio.timeout(live.QUIET_S):
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
