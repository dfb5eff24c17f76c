"""A site behind the middleware, and the room it asks."""

import asyncio
from typing import Any

import httpx2

from examples.shop.site import site
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.clock import HandClock
from waystation.core.errors import StoreUnreachable
from waystation.waitingroom.middleware import GateOptions, Rule, WaitingRoomMiddleware
from waystation.waitingroom.middleware.link import Fetch

OPTIONS = GateOptions(rules=[Rule(queue=QUEUE, path="/checkout*")], room_url="https://wait.test")
PAGE = {"accept": "text/html"}


class Shop:
    """A site behind the middleware, and the room it asks."""

    def __init__(
        self, service: RoomService, clock: HandClock, options: GateOptions = OPTIONS
    ) -> None:
        self.service, self.clock, self.options = service, clock, options
        self.asked: list[str] = []
        self.away = False
        self.seen: list[dict[str, str]] = []
        self.middleware = WaitingRoomMiddleware(
            self._site, room="", options=options, fetch=self.fetch_from(asyncio.get_running_loop())
        )
        self.middleware.gate._now = lambda: clock.now_ms() / 1000  # pyright: ignore[reportPrivateUsage]
        transport = httpx2.ASGITransport(app=self.middleware)
        self.http = httpx2.AsyncClient(transport=transport, base_url="https://shop.test")

    def fetch_from(self, loop: asyncio.AbstractEventLoop) -> Fetch:
        def fetch(
            method: str, path: str, headers: dict[str, str], body: bytes | None = None
        ) -> tuple[int, bytes]:
            self.asked.append(path)
            if self.away:
                raise StoreUnreachable("away")
            asking = self.service.visitor().http.request(
                method, path, headers=headers, content=body
            )
            answer = asyncio.run_coroutine_threadsafe(asking, loop).result(10)
            return answer.status_code, answer.content

        return fetch

    async def _site(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append({n.decode(): v.decode() for n, v in scope["headers"]})
        await site(scope, receive, send)

    async def session(self) -> dict[str, str]:
        """The headers of a browser whose visitor waited and came in."""
        visitor = self.service.visitor()
        await visitor.enter()
        return {**PAGE, "cookie": f"own=1; __Host-wr_s_{QUEUE}={visitor.cookie(f's_{QUEUE}')}"}

    async def look_again(self) -> None:
        """Let the middleware ask the room, as it does by itself after a while."""
        self.middleware._connector.expire()  # pyright: ignore[reportPrivateUsage]
        await self.http.get("/")
        await self.http.get("/")
        while self.middleware._asking:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)
