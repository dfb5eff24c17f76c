"""Idempotency keys: a repeated request must be the same."""

import hashlib

from waystation.core import codec
from waystation.core.http.exchange import Request
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http.keys import HttpKeys
from waystation.waitingroom.room import Room

KEPT_S = 600
LONGEST = 128


async def require_same(request: Request, room: Room, who: str, asked: object) -> None:
    """Refuse a request that comes under the key of another; without a key everything goes."""
    key = request.header("idempotency-key")
    if not key:
        return
    if len(key) > LONGEST:
        raise Problem(400, Code.MALFORMED, f"an Idempotency-Key may have {LONGEST} characters")
    what = hashlib.sha256(f"{who}|{key}".encode()).hexdigest()[:32]
    digest = hashlib.sha256(request.path.encode() + b"|" + codec.encode(asked)).hexdigest()[:32]
    at = HttpKeys(room.queue_id).of(what).idempotent
    kept = await room.store.ask("SET", at, digest, "EX", KEPT_S, "NX", "GET")
    if kept is not None and kept.decode() != digest:
        raise Problem(409, Code.IDEMPOTENCY_CONFLICT, "that key came with another request before")
