"""Server-sent events: an answer that goes on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from waystation.core import codec
from waystation.core.http.exchange import NO_STORE, Answer, Send


class Stream(Answer, frozen=True):
    """An answer that goes on."""

    events: AsyncIterator[tuple[str, Any]] | None = None
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
        async for name, body in self.events:
            text = b"event: %s\ndata: %s\n\n" % (name.encode(), codec.encode(body))
            await send({"type": "http.response.body", "body": text, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
