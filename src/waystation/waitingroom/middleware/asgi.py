"""Middleware for ASGI sites: FastAPI, Starlette and others."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

from waystation.waitingroom.middleware.connector import (
    COMMAND,
    Connector,
    Passing,
    Reply,
    SiteRequest,
    cookie_header,
)
from waystation.waitingroom.middleware.gate import IN_PATH, Gate, GateOptions, Pass
from waystation.waitingroom.middleware.link import Fetch

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
        self._connector = Connector(room, options, fetch)
        self._asking: asyncio.Task[None] | None = None

    @property
    def gate(self) -> Gate:
        """What is known of the room."""
        return self._connector.gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Decide, then answer or hand on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        await self._refresh()
        asked = _asked(scope)
        decision = self._connector.decide(asked)
        if isinstance(decision, Pass):
            found: Passing | Reply = Passing(decision)
        else:
            found = await asyncio.to_thread(self._connector.settle, decision, asked)
        if isinstance(found, Passing):
            await self._pass(found, scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013})
        else:
            status, body, headers = found
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def _pass(self, passing: Passing, scope: Scope, receive: Receive, send: Send) -> None:
        over: list[bool] = []

        async def send_on(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", [])
                headers = [each for each in given if each[0].lower() != COMMAND.encode()]
                command = dict(given).get(COMMAND.encode(), b"").decode("latin-1")
                over.append(passing.is_over(command))
                if cookie := self._connector.cookie_of(passing, command):
                    headers.append(cookie_header(*cookie))
                message = {**message, "headers": headers}
            await send(message)

        await self._app(self._stripped(scope), receive, send_on if passing.passed.queue else send)
        if any(over):
            await asyncio.to_thread(self._connector.complete, passing)

    def _stripped(self, scope: Scope) -> Scope:
        headers = list[tuple[bytes, bytes]]()
        for name, value in scope["headers"]:
            if name.startswith(b"wr-"):
                continue
            if name == b"cookie":
                value = self.gate.without_ours(value.decode("latin-1")).encode("latin-1")
            headers.append((name, value))
        return {**scope, "headers": headers}

    async def _refresh(self) -> None:
        if self._connector.is_stale and self._asking is None:
            self._asking = asyncio.create_task(asyncio.to_thread(self._connector.refresh))
            self._asking.add_done_callback(self._asked)
        if self._connector.is_old and self._asking is not None:
            # Whoever gives up the request ends that alone; others wait for the same answer.
            await asyncio.wait({self._asking})

    def _asked(self, _: asyncio.Task[None]) -> None:
        self._asking = None


def paths_of(scope: Scope) -> tuple[str, Sequence[str]]:
    """The path as it was asked for, with its %XX, and what the server made of it."""
    read = str(scope["path"])
    raw = scope.get("raw_path")
    return raw.decode("latin-1").partition("?")[0] if raw else quote(read, safe=IN_PATH), (read,)


def _asked(scope: Scope) -> SiteRequest:
    path, also = paths_of(scope)
    headers = dict[str, str]()
    for raw, value in scope["headers"]:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        # Over HTTP/2 cookies may come one by one.
        both = name == "cookie" and name in headers
        headers[name] = f"{headers[name]}; {text}" if both else text
    return SiteRequest(
        # The handshake of a websocket is a GET.
        scope.get("method", "GET"),
        path,
        scope.get("query_string", b"").decode("latin-1"),
        headers,
        (scope.get("client") or ("",))[0],
        also,
    )
