"""Middleware for WSGI sites: Flask and others."""

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from waystation.waitingroom.middleware.connector import (
    COMMAND,
    Connector,
    Passing,
    SiteRequest,
    cookie_header,
)
from waystation.waitingroom.middleware.gate import IN_PATH, Gate, GateOptions
from waystation.waitingroom.middleware.link import Fetch


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
        self._connector = Connector(room, options, fetch)

    @property
    def gate(self) -> Gate:
        """What is known of the room."""
        return self._connector.gate

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Decide, then answer or hand on."""
        self._connector.refresh()
        # The bytes of the path, decoded once, come as Latin-1.
        read = str(environ.get("SCRIPT_NAME", "")) + str(environ.get("PATH_INFO", ""))
        asked = asked_in(environ, *paths_in(environ, read.encode("latin-1")))
        found = self._connector.settle(self._connector.decide(asked), asked)
        if isinstance(found, Passing):
            return self._pass(found, environ, start_response)
        status, body, headers = found
        texts = [(name.decode(), value.decode("latin-1")) for name, value in headers]
        start_response(f"{status} {HTTPStatus(status).phrase}", texts)
        return [body]

    def _pass(
        self, passing: Passing, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        strip(environ, self.gate)

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            command = {name.lower(): value for name, value in headers}.get(COMMAND, "")
            kept = [each for each in headers if each[0].lower() != COMMAND]
            if passing.is_over(command):
                self._connector.complete(passing)
            if cookie := self._connector.cookie_of(passing, command):
                name, value = cookie_header(*cookie)
                kept.append((name.decode(), value.decode("latin-1")))
            return start_response(status, kept, *more)

        return self._app(environ, start)


def paths_in(environ: dict[str, Any], read: bytes) -> tuple[str, Sequence[str]]:
    """The path as it was asked for, with its %XX, and what the server made of it.

    Some servers say what was sent; all give what they read.
    """
    sent = str(environ.get("RAW_URI") or environ.get("REQUEST_URI") or "").partition("?")[0]
    path = sent if sent.startswith("/") else quote(read, safe=IN_PATH)
    return path, [each for each in (read.decode("utf-8", "replace"), sent) if each]


def asked_in(environ: dict[str, Any], path: str, also: Sequence[str]) -> SiteRequest:
    """The request that the variables of CGI describe."""
    headers = {
        name[5:].replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    return SiteRequest(
        str(environ["REQUEST_METHOD"]),
        path,
        str(environ.get("QUERY_STRING", "")),
        headers,
        str(environ.get("REMOTE_ADDR", "")),
        also,
    )


def strip(environ: dict[str, Any], gate: Gate) -> None:
    """Take out what is between the visitor and the room."""
    for name in [each for each in environ if each.startswith("HTTP_WR_")]:
        del environ[name]
    if "HTTP_COOKIE" in environ:
        environ["HTTP_COOKIE"] = gate.without_ours(str(environ["HTTP_COOKIE"]))
