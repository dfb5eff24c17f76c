"""Fairness: limits for networks, and work that a place costs.

A room may ask it of everybody, and asks it of whoever comes from a crowded network, unless the
server has a CAPTCHA for these.

The challenge is signed and kept nowhere: it names the room, the visitor and the minute. Checking a
solution costs one digest, and each solution counts once.
"""

import hashlib
import math
import secrets
from functools import lru_cache

from waystation.core.errors import InvalidOption
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer, whole
from waystation.core.http.problems import Problem
from waystation.waitingroom.http import bodies
from waystation.waitingroom.http.context import Tokens, VisitorCookies
from waystation.waitingroom.http.options import Captcha, CaptchaOptions, HttpKeys, RoomCode
from waystation.waitingroom.operating.lottery import Lottery
from waystation.waitingroom.operating.schedule import next_draw
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms
from waystation.waitingroom.state import RoomState

LAST = 999_999_999


class Fairness:
    """Hands out the commitment before the draw, and everything after it."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    @endpoint(
        "GET /api/v1/queues/{id}/fairness", gives={200: bodies.FairnessBody}, fails=(404, 409)
    )
    async def fairness(self, request: Request) -> Answer:
        """The data to verify the draw."""
        room, state = await self._rooms.visit(request.slots["id"])
        lottery = Lottery(room)
        commitment = await lottery.commitment()
        if commitment is None:
            planned = await next_draw(room)
            return answer(
                bodies.FairnessBody(
                    method="lottery" if planned else state.options.queueing_method.value,
                    commit=planned.commitment if planned else None,
                    witness=(planned.witness or None) if planned else None,
                )
            )
        witness = await lottery.witness() or None
        if state.phase != "open" or not await lottery.is_held():
            body = bodies.FairnessBody(method="lottery", commit=commitment, witness=witness)
            if closed := await lottery.entrants():
                body.entrants, body.n = closed
            return answer(body)
        proof = await lottery.proof()
        return answer(
            bodies.FairnessBody(
                method="lottery",
                commit=proof.commitment,
                seed=proof.seed,
                beacon=proof.beacon,
                n=proof.count,
                opened_us=proof.opened_us,
                digest=proof.digest,
                proof_url=f"/api/v1/queues/{room.name}/fairness/order",
                witness=witness,
                revealed=proof.revealed if witness else None,
                entrants=proof.entrants or None,
            )
        )

    @endpoint(
        "POST /api/v1/queues/{id}/fairness/reveal",
        takes=bodies.Reveal,
        gives={200: bodies.Revealed},
        fails=(400, 404, 409, 413, 415, 422, 503),
    )
    async def reveal(self, request: Request) -> Answer:
        """Reveal the secret of the draw's witness, once the list of all who take part is closed."""
        room = await self._rooms.find(request.slots["id"])
        asked = await request.read(bodies.Reveal)
        return answer(bodies.Revealed(mixed=await Lottery(room).reveal(asked.secret)))

    @endpoint(
        "GET /api/v1/queues/{id}/fairness/order",
        query={"first": {"type": "integer", "minimum": 0, "maximum": LAST}},
        fails=(400, 404),
    )
    async def order(self, request: Request) -> Answer:
        """The drawn order, page by page."""
        room = await self._rooms.find(request.slots["id"])
        first = whole(request, "first", 0, least=0, most=LAST)
        return answer({"first": first, "ids": await Lottery(room).drawn(first)})


LIFE_S = 300
MOST_BITS = 20
"""A million tries: seconds for a browser, and well below a challenge's life for a phone."""
CROWDED_BITS = 16
"""What a browser works off in less than a second."""
MOST_HARDER = 4
"""How many bits harder it gets, one with each doubling of a crowd."""


@lru_cache(maxsize=64)
def bits_of(state: RoomState) -> int:
    """How hard the room makes it; 0 for not at all."""
    text = state.fields.get("pow_bits", "0")
    return min(MOST_BITS, int(text)) if text.isdigit() else 0


@lru_cache(maxsize=64)
def crowded_bits_of(state: RoomState) -> int:
    """How hard the room makes it for those whose network is crowded; 0 to refuse them."""
    text = state.fields.get("crowded_pow_bits", "")
    return min(MOST_BITS, int(text)) if text.isdigit() else CROWDED_BITS


def checked_bits(bits: int, name: str) -> int:
    """Refuse what would keep honest phones busy for minutes."""
    if not 0 <= bits <= MOST_BITS:
        raise InvalidOption(f"{name} must be 0 to {MOST_BITS}, got {bits}")
    return bits


class Challenges:
    """Sets challenges and checks their solutions."""

    def __init__(
        self, rooms: Rooms, cookies: VisitorCookies, tokens: Tokens, captcha: Captcha | None = None
    ) -> None:
        self._rooms = rooms
        self._cookies = cookies
        self._tokens = tokens
        self._captcha = captcha

    @endpoint(
        "GET /api/v1/queues/{id}/challenge",
        gives={200: bodies.Challenge, 204: None},
        fails=(400, 404, 503),
    )
    async def answer(self, request: Request) -> Answer:
        """The challenge to solve before joining, if there is one."""
        room, state = await self._rooms.visit(request.slots["id"])
        crowded = await _bits_of_crowd(room, state, request.address)
        if crowded and not bits_of(state) and self._captcha and not self._captcha.is_away:
            return answer(_box(self._captcha.options))
        bits = max(bits_of(state), crowded)
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

    async def check(
        self, room: Room, state: RoomState, key: str, asked: bodies.Enqueue, address: str
    ) -> bool:
        """Whether a solution counts where a network is crowded.

        A Problem where the room sets everybody a challenge and no fresh solution is shown.
        """
        person = False
        if self._captcha and asked.captcha and crowded_bits_of(state):
            person = await self._captcha.counts(room, address, asked.captcha)
        return await self._has_worked(room, state, key, asked.pow) or person

    async def _has_worked(self, room: Room, state: RoomState, key: str, shown: str) -> bool:
        bits, crowded_bits = bits_of(state), crowded_bits_of(state)
        if not bits and not (shown and crowded_bits):
            return False
        challenge, _, solution = shown.rpartition(":")
        solved = self._solved_bits(room, key, challenge, solution)
        if solved < bits:
            raise Problem(
                403, RoomCode.CHALLENGE_REQUIRED, "the room's challenge has to be solved first"
            )
        if not solved:
            return False
        at = HttpKeys(room.queue_id).of(hashlib.sha256(challenge.encode()).hexdigest()[:32]).solved
        first = await room.store.ask("SET", at, "1", "EX", 2 * LIFE_S, "NX")
        if first is None:
            raise Problem(403, RoomCode.CHALLENGE_USED, "this solution was shown before")
        return 0 < crowded_bits <= solved

    def _challenge(self, room: Room, key: str, bits: int) -> str:
        until = int(self._tokens.now_s()) + LIFE_S
        text = f"{until}.{bits}.{secrets.token_urlsafe(12)}"
        return f"{text}.{self._tokens.seal.stamp(_sealed(room, key, text))}"

    def _solved_bits(self, room: Room, key: str, challenge: str, solution: str) -> int:
        """How hard a challenge was that is solved; 0 for one that is not."""
        text, _, signature = challenge.rpartition(".")
        if len(challenge) > 256 or len(solution) > 32 or text.count(".") != 2:
            return 0
        if not self._tokens.seal.stamped(_sealed(room, key, text), signature):
            return 0
        until, bits, _ = text.split(".")
        if int(until) <= self._tokens.now_s():
            return 0
        digest = hashlib.sha256(f"{challenge}:{solution}".encode()).digest()
        return int(bits) if int.from_bytes(digest) >> (256 - int(bits)) == 0 else 0


def _box(options: CaptchaOptions) -> bodies.Challenge:
    return bodies.Challenge(
        algorithm="captcha",
        challenge=options.site_key,
        difficulty=0,
        expires_in=LIFE_S,
        provider=options.provider,
        script_url=options.script,
    )


async def _bits_of_crowd(room: Room, state: RoomState, address: str) -> int:
    bits = crowded_bits_of(state)
    if not bits or not address:
        return 0
    crowd = await room.crowd(address)
    return min(MOST_BITS, bits + min(MOST_HARDER, int(math.log2(crowd)))) if crowd >= 1 else 0


def _sealed(room: Room, key: str, text: str) -> str:
    return f"pow|{room.name}|{key}|{text}"
