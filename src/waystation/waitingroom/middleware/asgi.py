"""Middleware for ASGI sites: Starlette, FastAPI, Django and others."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from waystation.waitingroom.middleware.answers import arrival, cookie_header, refusal
from waystation.waitingroom.middleware.gate import Ask, Gate, GateOptions, Pass, Redeem, Wait
from waystation.waitingroom.middleware.link import Asking, Fetch, Link, http_fetch

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Site: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class WaitingRoomMiddleware:
    """Lets those with a session through and sends the others to the waiting page.

    A session's signature is checked here, and then the room is asked whether the session was ended;
    while the room does not answer, the signature alone counts. Keys and settings are asked for now
    and then.
    """

    def __init__(
        self, app: Site, *, room: str, options: GateOptions, fetch: Fetch | None = None
    ) -> None:
        self._app = app
        self.gate = Gate(options)
        self._link = Link(self.gate, fetch or http_fetch(room))
        self._next = float("-inf")
        self._asking: asyncio.Task[float] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide, then answer or hand on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        await self._fresh()
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
        method = scope.get("method", "WEBSOCKET")
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
        query = scope.get("query_string", b"").decode("latin-1")
        decision = self.gate.decide(method, path, query, headers)
        renewed: str | None = None
        if isinstance(decision, Ask):
            decision, renewed = await asyncio.to_thread(self._link.settle, decision)
        if isinstance(decision, Wait) and scope["type"] == "http":
            visitor = Asking(
                (scope.get("client") or ("",))[0],
                headers.get("user-agent", ""),
                headers.get("host", ""),
                headers.get("sec-purpose", ""),
            )
            decision, renewed = await asyncio.to_thread(self._link.enter, decision, visitor)
        if isinstance(decision, Redeem):
            queue, token = await asyncio.to_thread(self._link.redeem, decision)
            given = arrival(decision.location, self.gate.cookie(queue), token)
            await _answer(send, given)
        elif isinstance(decision, Pass):
            await self._pass(decision, renewed, scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013})
        else:
            await _answer(send, refusal(decision))

    async def _pass(
        self, passed: Pass, renewed: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        done: list[bool] = []

        async def told(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = [h for h in message.get("headers", []) if h[0].lower() != b"wr-command"]
                command = dict(message.get("headers", [])).get(b"wr-command", b"")
                done.append(command in (b"complete", b"revoke"))
                if renewed or done[0]:
                    kept = "" if done[0] else renewed or ""
                    headers.append(cookie_header(self.gate.cookie(passed.queue), kept))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(self._stripped(scope), receive, told if passed.queue else send)
        if any(done):
            await asyncio.to_thread(self._link.complete, passed.session, renewed or passed.token)

    def _stripped(self, scope: Scope) -> Scope:
        headers = list[tuple[bytes, bytes]]()
        for name, value in scope["headers"]:
            if name.startswith(b"wr-"):
                continue
            if name == b"cookie":
                value = self.gate.without_ours(value.decode("latin-1")).encode("latin-1")
            headers.append((name, value))
        return {**scope, "headers": headers}

    async def _fresh(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._next and self._asking is None:
            self._asking = asyncio.create_task(asyncio.to_thread(self._link.refresh))
            self._asking.add_done_callback(self._asked)
        # Only the first answer is worth waiting for; a room that is away must hold up nobody.
        if self.gate.keys is None and self.gate.away_since is None and self._asking is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._asking)

    def _asked(self, done: asyncio.Task[float]) -> None:
        self._asking = None
        if not done.cancelled():
            self._next = asyncio.get_running_loop().time() + done.result()


async def _answer(send: Send, given: tuple[int, bytes, list[tuple[bytes, bytes]]]) -> None:
    status, body, headers = given
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
