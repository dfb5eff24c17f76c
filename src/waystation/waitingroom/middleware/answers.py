"""The answers that a middleware gives instead of the site's."""

import json

from waystation.waitingroom.middleware.gate import Down, Forbid, Refuse, Wait

KEPT_S = 14_400
"""How long a browser keeps the cookie of a session."""
_PLAIN = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]


def refusal(
    decision: Wait | Refuse | Down | Forbid,
) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers for somebody who does not get through."""
    match decision:
        case Down():
            return 503, b"The waiting room is not reachable.\n", [*_PLAIN, (b"retry-after", b"5")]
        case Forbid():
            return 403, b"This is not for you.\n", [*_PLAIN]
        case Wait(location=location) | Refuse(location=location):
            return _line(decision, location)


def _line(decision: Wait | Refuse, location: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    common = [(b"cache-control", b"no-store"), (b"wr-location", location.encode("latin-1"))]
    if isinstance(decision, Wait):
        return 303, b"", [(b"location", location.encode("latin-1")), *common]
    body = json.dumps(
        {
            "type": "urn:waystation:problem:waiting-room-required",
            "title": "Waiting room required",
            "status": 429,
            "code": "WAITING_ROOM_REQUIRED",
            "location": location,
        }
    ).encode()
    kind = (b"content-type", b"application/problem+json")
    return 429, body, [kind, (b"retry-after", b"5"), *common]


def arrival(location: str, cookie: str, token: str) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Status, body and headers that take the token out of the address and keep the session."""
    headers = [
        (b"location", location.encode("latin-1")),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"no-referrer"),
    ]
    return 303, b"", [*headers, cookie_header(cookie, token)] if token else headers


def cookie_header(name: str, token: str) -> tuple[bytes, bytes]:
    """The header that keeps a renewed session, or with no token throws an ended one away."""
    secure = "; Secure" if name.startswith("__Host-") else ""
    age = KEPT_S if token else 0
    text = f"{name}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", text.encode("latin-1")
