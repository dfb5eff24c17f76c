"""Middleware for Django, configured by `WAITING_ROOM` in its settings.

`room` is where the site reaches the room; the rest are the options of a connector:

    MIDDLEWARE = ["waystation.waitingroom.middleware.django.WaitingRoom", ...]
    WAITING_ROOM = {
        "room": "http://127.0.0.1:8080",
        "rules": [{"queue": "shop", "path": "/checkout*"}],
    }
"""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportMissingImports=false

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from waystation.core.errors import InvalidOption
from waystation.waitingroom.middleware.asgi import paths_of
from waystation.waitingroom.middleware.connector import (
    COMMAND,
    KEPT_S,
    Connector,
    Passing,
    Reply,
    SiteRequest,
)
from waystation.waitingroom.middleware.gate import GateOptions, Pass
from waystation.waitingroom.middleware.wsgi import asked_in, paths_in, strip


class WaitingRoom:
    """Lets those with a session through and sends the others to the waiting page."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._site = get_response
        self._connector = connector_of(getattr(settings, "WAITING_ROOM", None))
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        """Decide, then answer or hand on."""
        if self._is_async:
            return self._answer_later(request)
        self._connector.refresh()
        asked = _asked(request)
        found = self._connector.settle(self._connector.decide(asked), asked)
        if not isinstance(found, Passing):
            return _response(found)
        response, over = self._mark(found, self._site(self._stripped(request)))
        if over:
            self._connector.complete(found)
        return response

    async def _answer_later(self, request: HttpRequest) -> HttpResponseBase:
        if self._connector.is_stale:
            await asyncio.to_thread(self._connector.refresh)
        asked = _asked(request)
        decision = self._connector.decide(asked)
        if isinstance(decision, Pass):
            found: Passing | Reply = Passing(decision)
        else:
            found = await asyncio.to_thread(self._connector.settle, decision, asked)
        if not isinstance(found, Passing):
            return _response(found)
        response, over = self._mark(found, await self._site(self._stripped(request)))
        if over:
            await asyncio.to_thread(self._connector.complete, found)
        return response

    def _stripped(self, request: HttpRequest) -> HttpRequest:
        strip(request.META, self._connector.gate)
        for known in ("COOKIES", "headers"):
            # Read from META anew: other middleware may have looked at them before.
            request.__dict__.pop(known, None)
        return request

    def _mark(self, passing: Passing, response: HttpResponseBase) -> tuple[HttpResponseBase, bool]:
        """The site's answer with the session's cookie, and whether the session is over."""
        command = response.headers.get(COMMAND, "")
        response.headers.pop(COMMAND, None)
        if cookie := self._connector.cookie_of(passing, command):
            name, token = cookie
            response.set_cookie(
                name,
                token,
                max_age=KEPT_S if token else 0,
                secure=name.startswith("__Host-"),
                httponly=True,
                samesite="Lax",
            )
        return response, passing.is_over(command)


def connector_of(configured: Any) -> Connector:
    """The connector that `WAITING_ROOM` describes; ImproperlyConfigured when it cannot be read."""
    if not isinstance(configured, dict) or not isinstance(configured.get("room"), str):
        raise ImproperlyConfigured("WAITING_ROOM must be a dictionary with the address of a room")
    given = {name: value for name, value in configured.items() if name != "room"}
    if unknown := given.keys() - set(GateOptions.__struct_fields__):
        raise ImproperlyConfigured(f"WAITING_ROOM has no option {', '.join(sorted(unknown))}")
    try:
        return Connector(configured["room"], msgspec.convert(given, GateOptions))
    except (msgspec.ValidationError, InvalidOption) as error:
        raise ImproperlyConfigured(f"WAITING_ROOM: {error}") from None


def _asked(request: HttpRequest) -> SiteRequest:
    # The path among the variables of CGI is one that Django has decoded.
    scope = getattr(request, "scope", None)
    path, also = paths_of(scope) if scope else paths_in(request.META, request.path.encode())
    return asked_in(request.META, path, (*also, request.path))


def _response(reply: Reply) -> HttpResponse:
    status, body, headers = reply
    response = HttpResponse(body, status=status)
    del response.headers["Content-Type"]
    for name, value in headers:
        if name == b"set-cookie":
            response.cookies.load(value.decode("latin-1"))
        else:
            response.headers[name.decode()] = value.decode("latin-1")
    return response
