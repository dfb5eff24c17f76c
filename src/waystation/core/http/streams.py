"""Server-sent events: an answer that goes on."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, cast

from waystation.core import codec
from waystation.core.http.exchange import NO_STORE, Answer, Send

QUIET_S = 15.0
"""After this long without news a comment is sent: proxies cut what is silent for a minute."""


class Stream(Answer, frozen=True):
    """An answer that goes on."""

    events: AsyncIterator[tuple[str, Any] | tuple[str, Any, str]] | None = None
    """Names and bodies, and the id that a reader who comes again shows as `Last-Event-ID`."""
    done: Callable[[], None] | None = None
    """Called when it is over, however it ends."""
    gone: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Returns when the reader has left, which sending alone does not show."""

    async def send(self, send: Send) -> None:
        """Send events until there are none, or nobody is left to read them."""
        sending = asyncio.ensure_future(self._send_all(send))
        watched = {sending, asyncio.ensure_future(self.gone())} if self.gone else {sending}
        try:
            ended, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if sending in ended:
                sending.result()
        finally:
            for each in watched:
                each.cancel()
            await asyncio.gather(*watched, return_exceptions=True)
            if self.done is not None:
                self.done()

    async def _send_all(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), NO_STORE, (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        assert self.events is not None  # noqa: S101
        try:
            async with aclosing(_never_quiet(self.events)) as texts:
                async for text in texts:
                    await send({"type": "http.response.body", "body": text, "more_body": True})
        finally:
            # What it reads from is let go of now, and not when somebody finds the time.
            if isinstance(self.events, AsyncGenerator):
                await cast(AsyncGenerator[Any], self.events).aclose()
        await send({"type": "http.response.body", "body": b""})


async def _never_quiet(
    events: AsyncIterator[tuple[str, Any] | tuple[str, Any, str]],
) -> AsyncGenerator[bytes]:
    """The text of each event, and of a comment where there is none for a while."""
    while True:
        coming = asyncio.ensure_future(anext(events, None))
        try:
            while not (await asyncio.wait({coming}, timeout=QUIET_S))[0]:
                yield b": no news\n\n"
            found = await coming
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
        if found is None:
            return
        name, body, *ids = found
        marks = b"".join(b"id: %s\n" % each.encode() for each in ids)
        yield b"event: %s\n%sdata: %s\n\n" % (name.encode(), marks, codec.encode_shown(body))
