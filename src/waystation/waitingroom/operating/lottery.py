"""Lottery: a verifiable draw of the order in which early visitors enter.

Before the pre-queue opens, the digest of a secret seed is published. When it closes, the number of
people and a public beacon are mixed into the seed, so that not even the operator could have chosen
the outcome, and everybody's score is a keyed digest of their id. The seed is published then.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from waystation.core.errors import InvalidInput, WrongState
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.room import Room

SCORE_BITS = 44
"""Scores stay below the instant of the draw, so that whoever comes later stands behind."""
BATCH = 500
PAGE = 5000


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The data to repeat a draw and compare."""

    commitment: str
    """Published before anybody could join."""
    seed: str
    """The secret that was committed to."""
    beacon: str
    """Something public that nobody knew when the commitment was made."""
    count: int
    """How many visitors were drawn."""
    opened_us: int
    """When the room opened, in microseconds since 1970."""
    digest: str
    """Of all ids in the order drawn."""


def commit(seed: str) -> str:
    """The commitment to a seed, published before the draw."""
    return hashlib.sha256(bytes.fromhex(seed)).hexdigest()


def draw_key(seed: str, *, count: int, beacon: str) -> bytes:
    """The key of the draw: the seed with what nobody could know before it closed."""
    return hashlib.sha256(f"{seed}|{count}|{beacon}".encode()).digest()


def score(key: bytes, position_id: str) -> int:
    """The number of one visitor; the lowest comes first."""
    mac = hmac.digest(key, position_id.encode(), hashlib.sha256)
    return int.from_bytes(mac[:8]) >> (64 - SCORE_BITS)


def order(key: bytes, ids: Iterable[str]) -> list[tuple[int, str]]:
    """All visitors by their numbers; ties are broken by id, as Redis does."""
    return sorted((score(key, id), id) for id in ids)


def digest_of(ids: Iterable[str]) -> str:
    """One digest for a whole order."""
    whole = hashlib.sha256()
    for id in ids:
        whole.update(id.encode() + b"\n")
    return whole.hexdigest()


def verify(proof: Proof, ids: Sequence[str]) -> None:
    """Repeat a published draw; InvalidInput says what does not match."""
    if commit(proof.seed) != proof.commitment:
        raise InvalidInput("the seed is not the one that was committed to")
    if len(ids) != proof.count:
        raise InvalidInput(f"the draw was among {proof.count}, the list has {len(ids)}")
    key = draw_key(proof.seed, count=proof.count, beacon=proof.beacon)
    again = [id for _, id in order(key, ids)]
    if again != list(ids):
        raise InvalidInput("the order is not the one that the seed gives")
    if digest_of(ids) != proof.digest:
        raise InvalidInput("the list is not the one whose digest was published")


class Lottery:
    """The draw of one room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._store = room.store

    async def announce(self, seed: str | None = None) -> str:
        """Choose a seed and publish its commitment; a chosen seed stays."""
        if (await self._room.state()).early:
            raise WrongState("a seed must be committed to before anybody has joined")
        chosen = seed or secrets.token_hex(32)
        await self._store.ask("HSETNX", self._store.keys.lottery, "seed", chosen)
        kept = await self._store.ask("HGET", self._store.keys.lottery, "seed")
        commitment = commit(kept.decode())
        await self._store.ask("HSET", self._store.keys.lottery, "commitment", commitment)
        await self._store.write({"commitment": commitment})
        return commitment

    async def draw(self, *, beacon: str = "") -> int:
        """Draw the order of the pre-queue and open the room; return how many took part.

        After a crash another process continues and comes to the same order.
        """
        client, keys = await self._store.client(), self._store.keys
        now = self._store.now()
        seed, beacon, count, opened = await scripts.begin_draw(client, keys, beacon=beacon, now=now)
        early = await self._early()
        if seed:
            key = draw_key(seed, count=int(count), beacon=beacon)
            # All scores lie before the draw and keep the order of the numbers.
            first = int(opened) - 2**SCORE_BITS
            placed = [(first + number, id) for number, id in order(key, early)]
        else:
            placed = sorted((joined, id) for id, joined in early.items())
        for end in range(len(placed), 0, -BATCH):
            batch = placed[max(0, end - BATCH) : end]
            flat = [part for at, id in reversed(batch) for part in (id, at)]
            await scripts.draw(client, keys, now=now, people=flat)
        await scripts.end_draw(
            client, keys, queue=self._room.queue_id, digest=await self._digest(), now=now
        )
        return int(count)

    async def commitment(self) -> str | None:
        """The commitment published before the draw; None when there is no draw."""
        found = await self._store.ask("HGET", self._store.keys.lottery, "commitment")
        return found.decode() if found else None

    async def proof(self) -> Proof:
        """The data to verify the draw; WrongState until it is over."""
        raw: Sequence[bytes] = await self._store.ask("HGETALL", self._store.keys.lottery)
        texts = [each.decode() for each in raw]
        found = dict(zip(texts[::2], texts[1::2], strict=True))
        if "digest" not in found or "seed" not in found:
            raise WrongState("there has been no draw yet")
        return msgspec.convert(found, Proof, strict=False)

    async def drawn(self, first: int = 0, count: int = PAGE) -> list[str]:
        """A page of the ids in the order drawn."""
        raw: Any = await self._store.ask("LRANGE", self._store.keys.drawn, first, first + count - 1)
        return [each.decode() for each in raw]

    async def _early(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for start in range(0, 2**31, PAGE):
            page: Any = await self._store.ask(
                "ZRANGE", self._store.keys.prequeue, start, start + PAGE - 1, "WITHSCORES"
            )
            for at in range(0, len(page), 2):
                found[page[at].decode()] = int(float(page[at + 1]))
            if len(page) < 2 * PAGE:
                break
        return found

    async def _digest(self) -> str:
        ids: list[str] = []
        while page := await self.drawn(len(ids)):
            ids += page
        return digest_of(ids)
