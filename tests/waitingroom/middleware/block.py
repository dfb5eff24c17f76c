"""A shop behind a room and a proxy, and the requests that reached it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.http.server import serving
from waystation.waitingroom.middleware import GateOptions, Rule, WaitingRoomMiddleware


class Got(msgspec.Struct):
    """An answer, as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: str


class Block:
    """A shop, a room, and a proxy in front of the shop."""

    def __init__(self, service: RoomService) -> None:
        self.service = service
        self.port = 0
        self.origin = 0
        self.room = 0
        self.close_room: Callable[[], Any] = lambda: None
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        """Requests that came through to the shop."""

    async def site(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {n.decode(): v.decode("latin-1") for n, v in scope["headers"]}
        self.seen.append((scope["method"], scope["path"], headers))
        await welcome(send)

    @asynccontextmanager
    async def guarded(self) -> AsyncGenerator[int]:
        """Serve the same shop with the middleware in it; give the port that it listens on."""
        options = GateOptions(rules=[Rule(queue=QUEUE, path="/checkout*")])
        shop = WaitingRoomMiddleware(
            self.site, room=f"http://127.0.0.1:{self.room}", options=options
        )
        port = free_port()
        async with serving(shop, host="127.0.0.1", port=port):
            yield port

    async def session(self) -> str:
        """Return the session cookie of a visitor who waited and entered."""
        visitor = self.service.visitor(f"10.9.0.{len(self.seen) % 250 + 1}")
        await visitor.enter()
        return f"__Host-wr_s_{QUEUE}={visitor.cookie(f's_{QUEUE}')}"

    async def facts(self, link: str) -> Got:
        """Send the request that the page behind a link makes when it is opened."""
        where, _, query = link.partition("?")
        return await self.send(f"GET {where}/facts?{query}")

    async def send(
        self, line: str, *headers: str, body: str = "", port: int = 0, host: str = "shop.test"
    ) -> Got:
        """Send a request as raw as an attacker would: `GET /path`."""
        version = "" if "HTTP/" in line else " HTTP/1.1"
        head = [f"{line}{version}", f"Host: {host}", "Connection: close", *headers]
        if body:
            head.append(f"Content-Length: {len(body)}")
        reader, writer = await asyncio.open_connection("127.0.0.1", port or self.port)
        writer.write(("\r\n".join(head) + "\r\n\r\n" + body).encode("latin-1"))
        raw = (await asyncio.wait_for(reader.read(), LIMIT_S)).decode("latin-1")
        writer.close()
        await writer.wait_closed()
        head_text, _, content = raw.partition("\r\n\r\n")
        first, *rest = head_text.split("\r\n")
        pairs = [each.partition(": ") for each in rest]
        status = int(first.split(" ")[1]) if first else 0
        return Got(status, {n.lower(): v for n, _, v in pairs}, content)


async def welcome(send: Any) -> None:
    """Answer as the shop answers everybody."""
    kind = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": kind})
    await send({"type": "http.response.body", "body": b"the shop"})
