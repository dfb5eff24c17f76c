"""What a connector asks the room for, seldom: its keys, its settings, and fresh signatures."""

import json
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from waystation.core.errors import InvalidOption, StoreUnreachable
from waystation.interfaces.connectors.gate import Gate, Told
from waystation.interfaces.connectors.rules import Rule
from waystation.interfaces.connectors.signed import CONFIG, Keys

PATIENCE_S = 2.0
FRESH_S = 15.0
"""How long what is known counts before it is asked for again."""
AGAIN_S = 1.0
"""The same after nobody answered."""
AWAY_AFTER = 3
"""Questions in a row without an answer after which the room counts as away."""

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
    """Keeps a gate's knowledge fresh; what it learnt last counts while the room is away."""

    def __init__(self, gate: Gate, fetch: Fetch) -> None:
        self._gate = gate
        self._fetch = fetch
        self._unanswered = 0

    def refresh(self) -> float:
        """Ask for keys and settings; how many seconds later to ask again."""
        try:
            keys = Keys(json.loads(self._get("/.well-known/jwks.json")))
            signed = self._get("/v1/connector-config", accept="application/jose").decode()
            told = _told(keys.read(signed, CONFIG) or {})
        except (StoreUnreachable, ValueError, KeyError, TypeError, InvalidOption):
            self._note_silence()
            return AGAIN_S
        self._gate.keys = keys
        # A copy from before does not take back what is known now.
        if told.issued >= self._gate.told.issued:
            self._gate.told = told
        self._note_answer()
        return FRESH_S

    def renew(self, session: str, token: str) -> str | None:
        """A fresh signature for a session; None when it has ended or nobody answered."""
        return self._session(session, token, "renew")

    def complete(self, session: str, token: str) -> None:
        """Free a seat."""
        self._session(session, token, "complete")

    def _get(self, path: str, *, accept: str = "application/json") -> bytes:
        status, body = self._fetch("GET", path, {"Accept": accept})
        if status != 200:
            raise StoreUnreachable(f"the room answered {status} to {path}")
        return body

    def _session(self, session: str, token: str, verb: str) -> str | None:
        path = f"/api/v1/sessions/{quote(session, safe='')}/{verb}"
        try:
            status, body = self._fetch("POST", path, {"Wr-Session": token})
            found = json.loads(body).get("session_token") if status == 200 else None
        except (StoreUnreachable, ValueError):
            self._note_silence()
            return None
        if status >= 500:
            self._note_silence()
        return found

    def _note_answer(self) -> None:
        self._unanswered = 0
        self._gate.away_since = None

    def _note_silence(self) -> None:
        self._unanswered += 1
        unknown = self._gate.keys is None
        if self._gate.away_since is None and (unknown or self._unanswered >= AWAY_AFTER):
            self._gate.away_since = self._gate.now()


def _told(claims: Mapping[str, Any]) -> Told:
    queues = {str(each["id"]): each for each in claims["queues"]}
    return Told(
        issued=int(claims["iat"]),
        epochs={id: int(each["epoch"]) for id, each in queues.items()},
        policies={id: str(each["fail_policy"]) for id, each in queues.items()},
        open_until={id: int(each["fail_open_until"]) for id, each in queues.items()},
        rules=[_rule(id, rule) for id, each in queues.items() for rule in each["rules"]],
    )


def _rule(queue: str, said: Mapping[str, Any]) -> Rule:
    name, colon, part = str(said.get("header", "")).partition(":")
    return Rule(
        queue=queue,
        path=str(said["path"]),
        methods=[str(each) for each in said.get("methods", ())],
        headers={name.strip(): part.strip()} if colon else {},
        cookie=str(said.get("cookie", "")),
        agent=str(said.get("agent", "")),
        action=said.get("action", "queue"),
    )
