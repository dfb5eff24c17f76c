"""What a connector asks the room for, seldom: its keys, its epochs, and fresh signatures."""

import json
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from waystation.core.errors import StoreUnreachable
from waystation.interfaces.connectors.gate import Gate, Keys

PATIENCE_S = 2.0
FRESH_S = 60.0

Fetch: TypeAlias = Callable[[str, str, dict[str, str]], tuple[int, bytes]]
"""Asks the room: method, path and headers in, status and body out."""


def http_fetch(base: str) -> Fetch:
    """The way to a room at this address."""
    parts = urlsplit(base)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection

    def fetch(method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = kind(parts.netloc, timeout=PATIENCE_S)
        try:
            connection.request(method, parts.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(1_000_000)
        except (OSError, HTTPException) as error:
            raise StoreUnreachable(f"the room does not answer at {base}: {error}") from error
        finally:
            connection.close()

    return fetch


class Link:
    """Keeps a gate's keys fresh; what it learnt last counts while the room is away."""

    def __init__(self, gate: Gate, fetch: Fetch) -> None:
        self._gate = gate
        self._fetch = fetch

    def refresh(self) -> bool:
        """Ask for keys and epochs; False when the room was away."""
        try:
            _, keys = self._fetch("GET", "/.well-known/jwks.json", {})
            _, config = self._fetch("GET", "/v1/connector-config", {})
            self._gate.keys = Keys(json.loads(keys))
            told: dict[str, Any] = json.loads(config)
            self._gate.epochs = {each["id"]: int(each["epoch"]) for each in told["queues"]}
        except (StoreUnreachable, ValueError, KeyError):
            return False
        return True

    def renew(self, session: str, token: str) -> str | None:
        """A fresh signature for a session; None when it has ended or nobody answered."""
        return self._session(session, token, "renew")

    def complete(self, session: str, token: str) -> None:
        """Free a seat."""
        self._session(session, token, "complete")

    def _session(self, session: str, token: str, verb: str) -> str | None:
        path = f"/api/v1/sessions/{quote(session, safe='')}/{verb}"
        try:
            status, body = self._fetch("POST", path, {"Wr-Session": token})
            return json.loads(body).get("session_token") if status == 200 else None
        except (StoreUnreachable, ValueError):
            return None
