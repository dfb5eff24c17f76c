"""Connection of a middleware to the room: signing keys, configuration and session checks.

Written with the standard library: it runs inside other people's sites, WSGI ones among them, and
must not bring them a dependency.
"""

import json
import logging
import selectors
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import quote, urlsplit

from waystation.core.errors import InvalidOption, StoreUnreachable
from waystation.core.http.outgoing import answer_within
from waystation.waitingroom.middleware.gate import (
    CONFIG,
    Ask,
    Config,
    Gate,
    Keys,
    Pass,
    Redeem,
    Refuse,
    Wait,
)
from waystation.waitingroom.rules import rule_of, understood

# The site's own logging, not ours: it is set up by somebody else.
_log = logging.getLogger("waystation.waitingroom.middleware")

PATIENCE_S = 2.0
"""How long the whole answer to a question may take."""
FRESH_S = 15.0
"""How long what is known counts before it is asked for again."""
AGAIN_S = 1.0
"""The same after nobody answered."""
LINE_S = 0.5
"""How long a room counts as crowded after it let somebody wait."""
LONGEST_ANSWER = 1_000_000
MOST_FREE = 32
"""Connections to the room that are left open."""
MOST_FOUND = 10_000
"""Sessions that are remembered as asked about."""
AWAY_AFTER = 3
"""Questions in a row without an answer after which the room counts as away."""


class Fetch(Protocol):
    """Asks the room: method, path, headers and a body in, status and body out."""

    def __call__(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """Ask, and wait for the answer."""
        ...


class Asking(NamedTuple):
    """The visitor whose request is decided on."""

    address: str
    agent: str
    host: str
    purpose: str = ""
    """What the browser says it loads the page for, other than to show it."""


def http_fetch(base: str) -> Fetch:
    """The way to a room at this address."""
    if urlsplit(base).scheme not in ("http", "https"):
        raise InvalidOption(f"room must start with http:// or https://, got {base!r}")
    return _HttpFetch(base)


class _HttpFetch:
    """Asks over connections that are left open for the next question."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._parts = urlsplit(base)
        self._free: list[HTTPConnection] = []
        weakref.finalize(self, _close, self._free)

    def __call__(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        try:
            # One that was left open may break at the other end; what was sent over it may have
            # had its effect all the same, so only a question is asked again.
            again = (ConnectionError, HTTPException) if method == "GET" else ()
            with suppress(IndexError, *again):
                return self._ask(self._left_open(), method, path, headers, body)
            return self._ask(self._new(), method, path, headers, body)
        except (OSError, HTTPException) as error:
            raise StoreUnreachable(f"the room does not answer at {self._base}: {error}") from error

    def _new(self) -> HTTPConnection:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        return kind(self._parts.netloc, timeout=PATIENCE_S)

    def _left_open(self) -> HTTPConnection:
        """A connection for the next question; IndexError when there is none."""
        while True:
            connection = self._free.pop()
            with selectors.DefaultSelector() as looking:
                looking.register(connection.sock, selectors.EVENT_READ)
                # There is nothing yet that the other end could say, but that it has closed.
                if not looking.select(0):
                    return connection
            connection.close()

    def _ask(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
    ) -> tuple[int, bytes]:
        try:
            answer_within(connection, time.monotonic() + PATIENCE_S)
            connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            content = answer.read(LONGEST_ANSWER)
        except (OSError, HTTPException):
            connection.close()
            raise
        if answer.isclosed() and connection.sock is not None and len(self._free) < MOST_FREE:
            self._free.append(connection)
        else:
            connection.close()
        return answer.status, content


def _close(connections: list[HTTPConnection]) -> None:
    for each in connections:
        each.close()


class Link:
    """Keeps a gate's knowledge fresh; what it learnt last counts while the room is away."""

    def __init__(self, gate: Gate, fetch: Fetch) -> None:
        self._gate = gate
        self._fetch = fetch
        self._unanswered = 0
        self._found: dict[str, float] = {}
        self._lines: dict[str, float] = {}
        """Until when a room need not be asked again whether somebody may pass."""

    def refresh(self) -> float:
        """Ask for keys and settings; how many seconds later to ask again."""
        try:
            keys = Keys(json.loads(self._get("/.well-known/jwks.json")))
            signed = self._get("/v1/connector-config", accept="application/jose").decode()
            config = _config(keys.read(signed, CONFIG) or {})
        except (StoreUnreachable, ValueError, KeyError, TypeError, InvalidOption) as error:
            self._note_silence(str(error) or type(error).__name__)
            return AGAIN_S
        self._gate.keys = keys
        # A copy from before does not take back what is known now.
        if config.issued >= self._gate.config.issued:
            self._gate.config = config
        self._note_answer()
        return FRESH_S

    def settle(self, asked: Ask) -> tuple[Pass | Wait | Refuse, str | None]:
        """What becomes of a request with a session, and the fresh signature if it needed one."""
        for other in asked.others:
            found, _ = self.settle(other)
            if not isinstance(found, Pass):
                return found, None
        passed = asked.passed
        if asked.lapsed or passed.renew:
            status, fresh = self._session(passed.session, passed.token, "renew")
        else:
            status, fresh = self._look(passed), None
        # Without an answer the signature counts for as long as it was meant to.
        if 400 <= status < 500 or (asked.lapsed and not fresh):
            return asked.otherwise, None
        return passed, fresh

    def enter(self, wait: Wait, visitor: Asking) -> tuple[Pass | Wait, str | None]:
        """Let somebody pass who need not wait, and the signature of the session that begins."""
        now = self._gate.now()
        if not wait.straight:
            return wait, None
        if self._gate.config.pages.get(wait.queue) == "always" or "prefetch" in visitor.purpose:
            return wait, None
        if self._lines.get(wait.queue, now) > now:
            return wait, None
        asked = {"queue": wait.queue, "agent": visitor.agent[:1024], "host": visitor.host[:255]}
        headers = {"Content-Type": "application/json"}
        if self._gate.key:
            asked["address"] = visitor.address
            headers["Authorization"] = f"Bearer {self._gate.key}"
        status, body = self._ask("POST", "/v1/enter", headers, json.dumps(asked).encode())
        answer = _object(body) if status == 200 else {}
        token = str(answer.get("session_token") or "")
        if not token:
            self._lines[wait.queue] = now + LINE_S
            return wait, None
        return Pass(wait.queue, str(answer.get("session_id", "")), token), token

    def redeem(self, brought: Redeem) -> tuple[str, str] | None:
        """The room and the signature of a session that was handed over; empty without one.

        None when the room does not answer, so that the token may still count.
        """
        asked = json.dumps({"token": brought.token[:256], "host": brought.host[:255]})
        headers = {"Content-Type": "application/json"}
        status, body = self._ask("POST", "/v1/redeem", headers, asked.encode())
        if status >= 500:
            return None
        answer = _object(body) if status == 200 else {}
        return str(answer.get("queue_id") or ""), str(answer.get("session_token") or "")

    def complete(self, session: str, token: str) -> None:
        """Free a seat."""
        self._found.pop(token, None)
        self._session(session, token, "complete")

    def _look(self, passed: Pass) -> int:
        """The status that the room answers with when asked whether somebody may pass."""
        now = self._gate.now()
        if self._found.get(passed.token, now) > now:
            return 204
        path = f"/v1/verify?queue={quote(passed.queue, safe='')}"
        status, _ = self._ask("GET", path, {"Wr-Session": passed.token})
        if status == 204 and self._gate.recheck_s > 0:
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            self._found[passed.token] = now + self._gate.recheck_s
        return status

    def _get(self, path: str, *, accept: str = "application/json") -> bytes:
        status, body = self._fetch("GET", path, {"Accept": accept})
        if status != 200:
            raise StoreUnreachable(f"the room answered {status} to {path}")
        return body

    def _session(self, session: str, token: str, verb: str) -> tuple[int, str | None]:
        path = f"/api/v1/sessions/{quote(session, safe='')}/{verb}"
        status, body = self._ask("POST", path, {"Wr-Session": token})
        return status, _object(body).get("session_token") if status == 200 else None

    def _ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        """Status and body of what the room answers; 503 when nobody does."""
        said = ""
        try:
            status, content = self._fetch(method, path, headers, body)
        except StoreUnreachable as error:
            status, content, said = 503, b"", str(error)
        if status >= 500:
            self._note_silence(said or f"the room answered {status} to {path}")
        else:
            self._unanswered = 0
        return status, content

    def _note_answer(self) -> None:
        self._unanswered = 0
        if self._gate.away_since is not None:
            _log.warning("the waiting room answers again")
        self._gate.away_since = None

    def _note_silence(self, said: str) -> None:
        self._unanswered += 1
        unknown = self._gate.keys is None
        if self._gate.away_since is None and (unknown or self._unanswered >= AWAY_AFTER):
            self._gate.away_since = self._gate.now()
            _log.error("the waiting room does not answer: %s", said)


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _config(claims: Mapping[str, Any]) -> Config:
    queues = {str(each["id"]): each for each in claims["queues"]}
    return Config(
        issued=int(claims["iat"]),
        epochs={id: int(each["epoch"]) for id, each in queues.items()},
        policies={id: str(each["fail_policy"]) for id, each in queues.items()},
        open_until={id: int(each["fail_open_until"]) for id, each in queues.items()},
        pages={id: str(each.get("waiting_page", "")) for id, each in queues.items()},
        rules=[
            rule_of(id, rule) for id, each in queues.items() for rule in understood(each["rules"])
        ],
    )
