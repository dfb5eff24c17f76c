"""Proof of work before joining, so that a thousand places cost a thousand times as much.

The challenge is signed and kept nowhere: it names the room, the visitor and the minute. Checking a
solution costs one digest, and each solution counts once.
"""

import hashlib
import secrets
from functools import lru_cache

from waystation.core.errors import InvalidOption
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Problem
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.cookies import VisitorCookies
from waystation.waitingroom.http.keys import HttpKeys
from waystation.waitingroom.http.tokens import Tokens
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.state import RoomState

LIFE_S = 60
MOST_BITS = 24


@lru_cache(maxsize=64)
def bits_of(state: RoomState) -> int:
    """How hard the room makes it; 0 for not at all."""
    text = state.fields.get("pow_bits", "0")
    return min(MOST_BITS, int(text)) if text.isdigit() else 0


def checked_bits(bits: int) -> int:
    """Refuse what would keep honest phones busy for minutes."""
    if not 0 <= bits <= MOST_BITS:
        raise InvalidOption(f"pow_bits must be 0 to {MOST_BITS}, got {bits}")
    return bits


class Challenges:
    """Sets challenges and checks their solutions."""

    def __init__(self, rooms: Rooms, cookies: VisitorCookies, tokens: Tokens) -> None:
        self._rooms = rooms
        self._cookies = cookies
        self._tokens = tokens

    @endpoint(
        "GET /api/v1/queues/{id}/challenge",
        gives={200: bodies.Challenge, 204: None},
        fails=(400, 404, 503),
    )
    async def answer(self, request: Request) -> Answer:
        """The challenge to solve before joining, if there is one."""
        room, state = await self._rooms.visit(request.slots["id"])
        bits = bits_of(state)
        if not bits:
            return Answer(204)
        key = self._cookies.visitor_key(request)
        cookies: list[tuple[bytes, bytes]] = []
        if key is None:
            key, cookie = self._cookies.new_visitor_key()
            cookies.append(cookie)
        body = bodies.Challenge(
            algorithm="SHA-256",
            challenge=self._challenge(room, key, bits),
            difficulty=bits,
            expires_in=LIFE_S,
        )
        return answer(body, 200, *cookies)

    async def require(self, room: Room, state: RoomState, key: str, shown: str) -> None:
        """Refuse to go on without a fresh solution, where the room sets a challenge."""
        bits = bits_of(state)
        if not bits:
            return
        challenge, _, solution = shown.rpartition(":")
        if not self._is_solved(room, key, bits, challenge, solution):
            raise Problem(
                403, RoomCode.CHALLENGE_REQUIRED, "the room's challenge has to be solved first"
            )
        at = HttpKeys(room.queue_id).of(hashlib.sha256(challenge.encode()).hexdigest()[:32]).solved
        first = await room.store.ask("SET", at, "1", "EX", 2 * LIFE_S, "NX")
        if first is None:
            raise Problem(403, RoomCode.CHALLENGE_USED, "this solution was shown before")

    def _challenge(self, room: Room, key: str, bits: int) -> str:
        until = int(self._tokens.now_s()) + LIFE_S
        text = f"{until}.{bits}.{secrets.token_urlsafe(12)}"
        return f"{text}.{self._tokens.seal.stamp(_sealed(room, key, text))}"

    def _is_solved(self, room: Room, key: str, bits: int, challenge: str, solution: str) -> bool:
        text, _, signature = challenge.rpartition(".")
        if len(challenge) > 256 or len(solution) > 32 or text.count(".") != 2:
            return False
        if not self._tokens.seal.stamped(_sealed(room, key, text), signature):
            return False
        until, set_bits, _ = text.split(".")
        if int(until) <= self._tokens.now_s() or int(set_bits) < bits:
            return False
        digest = hashlib.sha256(f"{challenge}:{solution}".encode()).digest()
        return int.from_bytes(digest) >> (256 - bits) == 0


def _sealed(room: Room, key: str, text: str) -> str:
    return f"pow|{room.name}|{key}|{text}"
