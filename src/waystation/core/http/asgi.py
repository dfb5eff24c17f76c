"""What every ASGI application does: read who asks, report errors, live and end."""

import secrets
from collections.abc import Sequence

from waystation.core.errors import NotReplicated, StoreBusy, StoreUnreachable
from waystation.core.http.addresses import Network, is_among, visitor_address
from waystation.core.http.exchange import (
    NO_STORE,
    Answer,
    Headers,
    Receive,
    Request,
    Scope,
    Send,
    SlowBodies,
)
from waystation.core.http.problems import KIND, Problem, from_error
from waystation.core.telemetry.logs import get_logger

_log = get_logger(__name__)
_NOT_OURS = (Problem, StoreUnreachable, StoreBusy, NotReplicated)
"""What no change of ours would mend, and whoever asks may try again."""
_SAFE = (b"x-content-type-options", b"nosniff")
_HANDED_ON = {
    b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"forwarded",
    b"via",
}  # fmt: skip
"""What a proxy adds: who asks through one is not on this machine, whatever the address says."""


def request_of(
    scope: Scope, receive: Receive, trusted: Sequence[Network], slow: SlowBodies
) -> Request:
    """The request, from the address that is believed."""
    peer = scope.get("client")
    address = peer[0] if peer else ""
    if not trusted or not is_among(address, trusted):
        return Request(scope, receive, address, slow=slow)
    said = [v for n, v in scope["headers"] if n == b"x-forwarded-for"]
    hops = b",".join(said).decode("latin-1")
    visitor = visitor_address(address, hops, trusted)
    return Request(scope, receive, visitor, slow=slow, proxied=True)


def is_from_here(request: Request) -> bool:
    """Whether the request comes from this machine, and not through a proxy on it."""
    return request.address in ("127.0.0.1", "::1") and not _HANDED_ON & request.headers.keys()


def reported(error: Exception) -> tuple[Problem, str, Headers]:
    """The problem of an error, logged if it is ours to mend: its request id and its headers."""
    problem = from_error(error)
    request_id = secrets.token_hex(8)
    if problem.status >= 500 and not isinstance(error, _NOT_OURS):
        _log.error("request_failed", error, request_id=request_id)
    headers = [(n.encode(), v.encode("latin-1")) for n, v in problem.headers.items()]
    return problem, request_id, headers


def problem_answer(problem: Problem, request_id: str, headers: Headers) -> Answer:
    """The problem document."""
    return Answer(problem.status, problem.body(request_id), KIND, [NO_STORE, _SAFE, *headers])


async def lifespan(receive: Receive, send: Send) -> None:
    """Say yes to the beginning and the end."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
