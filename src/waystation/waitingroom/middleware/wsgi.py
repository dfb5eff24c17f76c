"""Middleware for WSGI sites: Flask, Django and others."""

import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from waystation.waitingroom.middleware.answers import arrival, cookie_header, refusal
from waystation.waitingroom.middleware.gate import Ask, Gate, GateOptions, Pass, Redeem, Wait
from waystation.waitingroom.middleware.link import Asking, Fetch, Link, http_fetch


class WaitingRoomWsgi:
    """The same decision as for ASGI sites, for those that run in threads."""

    def __init__(
        self,
        app: WSGIApplication,
        *,
        room: str,
        options: GateOptions,
        fetch: Fetch | None = None,
    ) -> None:
        self._app = app
        self.gate = Gate(options)
        self._link = Link(self.gate, fetch or http_fetch(room))
        self._next = float("-inf")
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Decide, then answer or hand on."""
        self._fresh()
        headers = {
            name[5:].replace("_", "-").lower(): str(value)
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        path = str(environ.get("SCRIPT_NAME", "")) + str(environ.get("PATH_INFO", ""))
        method, query = str(environ["REQUEST_METHOD"]), str(environ.get("QUERY_STRING", ""))
        decision = self.gate.decide(method, path, query, headers)
        renewed: str | None = None
        if isinstance(decision, Ask):
            decision, renewed = self._link.settle(decision)
        if isinstance(decision, Wait):
            visitor = Asking(
                str(environ.get("REMOTE_ADDR", "")),
                headers.get("user-agent", ""),
                headers.get("host", ""),
                headers.get("sec-purpose", ""),
            )
            decision, renewed = self._link.enter(decision, visitor)
        if isinstance(decision, Pass):
            return self._pass(decision, renewed, environ, start_response)
        if isinstance(decision, Redeem):
            queue, token = self._link.redeem(decision)
            status, body, extra = arrival(decision.location, self.gate.cookie(queue), token)
        else:
            status, body, extra = refusal(decision)
        told = [(name.decode(), value.decode("latin-1")) for name, value in extra]
        start_response(f"{status} {HTTPStatus(status).phrase}", told)
        return [body]

    def _pass(
        self,
        passed: Pass,
        renewed: str | None,
        environ: WSGIEnvironment,
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        for name in [each for each in environ if each.startswith("HTTP_WR_")]:
            del environ[name]
        if "HTTP_COOKIE" in environ:
            environ["HTTP_COOKIE"] = self.gate.without_ours(str(environ["HTTP_COOKIE"]))

        def told(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            command = {name.lower(): value for name, value in headers}.get("wr-command", "")
            kept = [each for each in headers if each[0].lower() != "wr-command"]
            done = command in ("complete", "revoke") and passed.queue
            if done:
                self._link.complete(passed.session, renewed or passed.token)
            if done or renewed:
                token = "" if done else renewed or ""
                name, value = cookie_header(self.gate.cookie(passed.queue), token)
                kept.append((name.decode(), value.decode("latin-1")))
            return start_response(status, kept, *more)

        return self._app(environ, told)

    def _fresh(self) -> None:
        now = time.monotonic()
        # Only the first answer is worth waiting for; a room that is away must hold up nobody.
        first = self.gate.keys is None and self.gate.away_since is None
        if now < self._next or not self._lock.acquire(blocking=first):
            return
        try:
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + self._link.refresh()
        finally:
            self._lock.release()
