"""Questions to an identity provider: few, short, and answered in seconds or not at all."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from waystation.waitingroom.http.operators.oidc.errors import ProviderAway

PATIENCE_S = 5.0
MOST = 1_000_000


async def ask(
    url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Get what is there, or send a form; the status and the JSON object that came back."""
    status, body = await asyncio.to_thread(_ask, url, form, dict(headers or {}))
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ProviderAway(f"the identity provider answers {status} and nothing that can be read")
    return status, cast("dict[str, Any]", told)


def _ask(url: str, form: Mapping[str, str] | None, headers: dict[str, str]) -> tuple[int, bytes]:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers["Accept"] = "application/json"
    body = None
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = urlencode(form)
    host, port = parts.hostname or "", parts.port
    try:
        with closing(_connection(parts.scheme, host, port)) as connection:
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(MOST)
    except (OSError, HTTPException) as error:
        raise ProviderAway("the identity provider does not answer; try again later") from error


def _connection(scheme: str, host: str, port: int | None) -> HTTPConnection:
    if scheme == "https":
        return HTTPSConnection(host, port, timeout=PATIENCE_S, context=_context())
    return HTTPConnection(host, port, timeout=PATIENCE_S)


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
