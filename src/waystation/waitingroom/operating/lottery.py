"""Lottery: a verifiable draw of the order in which early visitors enter.

Before the pre-queue opens, the digest of a secret seed is published. When it closes, the number of
people and a beacon are mixed into the seed, and everybody's score is a keyed digest of their id.
The seed is published then. With a witness, the beacon is the secret of a second party, who has
published its digest beforehand and reveals it once the list of all who take part is closed and
published. So neither of the two could have chosen the outcome, even with the store before them.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from waystation.core.codec import as_text
from waystation.core.errors import InvalidInput, WrongState
from waystation.core.options import checked
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.room import Room

SCORE_BITS = 44
BATCH = 500
PAGE = 5000
WITNESS_S = 120
"""How long the draw waits for the secret of its witness."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


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
    witness: str = ""
    """The digest of the witness's secret, published before anybody could join; empty for none."""
    revealed: bool = False
    """Whether the beacon is that secret; without it the draw was held after a wait in vain."""
    entrants: str = ""
    """With a witness, the digest of all ids in order of the alphabet, published before the draw."""


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
    if proof.revealed and _witnessed(proof.beacon) != proof.witness:
        raise InvalidInput("the beacon is not the secret that the witness committed to")
    if proof.entrants and digest_of(sorted(ids)) != proof.entrants:
        raise InvalidInput("those who were drawn are not those who took part")
    if len(ids) != proof.count:
        raise InvalidInput(f"the draw was among {proof.count}, the list has {len(ids)}")
    key = draw_key(proof.seed, count=proof.count, beacon=proof.beacon)
    again = [id for _, id in order(key, ids)]
    if again != list(ids):
        raise InvalidInput("the order is not the one that the seed gives")
    if digest_of(ids) != proof.digest:
        raise InvalidInput("the list is not the one whose digest was published")


def checked_witness(digest: str) -> str:
    """The digest of a witness's secret; InvalidInput if it cannot be one."""
    if not _DIGEST.fullmatch(digest):
        raise InvalidInput("a witness must be the SHA-256 of a secret, as 64 small hex digits")
    return digest


def _witnessed(secret: str) -> str:
    return commit(secret) if _DIGEST.fullmatch(secret) else ""


@checked
class Lottery:
    """The draw of one room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._store = room.store

    async def announce(
        self, seed: str | None = None, *, witness: str = "", version: int | None = None
    ) -> str:
        """Choose a seed and publish its commitment; a chosen seed stays, and so does a witness.

        Both stay until the draw has been held: the next one has others. The witness is the SHA-256
        of 32 bytes that a second party keeps secret until the draw. With `version` only if the
        room is still at that version, else WrongState.
        """
        chosen = seed or secrets.token_hex(32)
        [commitment] = await scripts.announce(
            await self._store.client(),
            self._store.keys,
            seed=chosen,
            commitment=commit(chosen),
            witness=checked_witness(witness) if witness else "",
            version="" if version is None else version,
            now=self._store.now(),
        )
        self._store.forget_state()
        return commitment

    async def draw(self, *, beacon: str = "") -> int:
        """Draw the order of the pre-queue and open the room; return how many took part.

        After a crash another process continues and comes to the same order. Where there is a
        witness, the first calls only close the list and publish who takes part; call again.
        """
        client, keys = await self._store.client(), self._store.keys
        now = self._store.now()
        seed, beacon, count, opened, ready = await scripts.begin_draw(
            client, keys, beacon=beacon, wait=WITNESS_S, now=now
        )
        early = await self._early()
        if ready != "1":
            entrants = digest_of(sorted(early))
            await self._store.ask("HSETNX", keys.lottery, "entrants", entrants)
            return int(count)
        ids = sorted(early, key=lambda id: (early[id], id))
        if seed:
            key = draw_key(seed, count=int(count), beacon=beacon)
            ids = [id for _, id in order(key, early)]
        await self._place(ids, opened)
        digest = digest_of(ids)
        await scripts.end_draw(client, keys, opened=opened, digest=digest, now=now)
        return int(count)

    async def _place(self, ids: Sequence[str], opened: str) -> None:
        """Put everybody in line, from the last to the first; several processes share the work."""
        client, keys = await self._store.client(), self._store.keys
        placed = 0
        while 0 <= placed < len(ids):
            last = len(ids) - placed
            people = list[str | int]()
            for rank in range(last - 1, max(0, last - BATCH) - 1, -1):
                people += (ids[rank], int(opened) + rank)
            placed = await scripts.draw(
                client, keys, opened=opened, placed=placed, now=self._store.now(), people=people
            )

    async def reveal(self, secret: str) -> bool:
        """Mix the witness's secret into the draw, 32 bytes in hex; False when that was done.

        WrongState before the list is closed, so that nobody knows the outcome who could still
        change it; InvalidInput for another secret.
        """
        return await scripts.reveal(
            await self._store.client(),
            self._store.keys,
            secret=secret,
            digest=_witnessed(secret) or "-",
        )

    async def entrants(self) -> tuple[str, int] | None:
        """The digest of all who take part and their number, while a witness is waited for."""
        key = self._store.keys.lottery
        digest, count = await self._store.ask("HMGET", key, "entrants", "count")
        return (digest.decode(), int(count)) if digest and count else None

    async def witness(self) -> str:
        """The digest of the witness's secret; empty for none."""
        found = await self._store.ask("HGET", self._store.keys.lottery, "witness")
        return found.decode() if found else ""

    async def commitment(self) -> str | None:
        """The commitment published before the draw; None when there is no draw."""
        found = await self._store.ask("HGET", self._store.keys.lottery, "commitment")
        return found.decode() if found else None

    async def is_held(self) -> bool:
        """Whether lots have been drawn, and the proof is there."""
        return bool(await self._store.ask("HEXISTS", self._store.keys.lottery, "digest"))

    async def proof(self) -> Proof:
        """The data to verify the draw; WrongState until it is over."""
        found = await self._store.hash(self._store.keys.lottery)
        if "digest" not in found or "seed" not in found:
            raise WrongState("there has been no draw yet")
        return msgspec.convert(found, Proof, strict=False)

    async def drawn(self, first: int = 0, count: int = PAGE) -> list[str]:
        """A page of the ids in the order drawn."""
        raw: Any = await self._store.ask("LRANGE", self._store.keys.drawn, first, first + count - 1)
        return [as_text(each) for each in raw]

    async def _early(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for start in range(0, 2**31, PAGE):
            page: Any = await self._store.ask(
                "ZRANGE", self._store.keys.prequeue, start, start + PAGE - 1, "WITHSCORES"
            )
            for at in range(0, len(page), 2):
                found[as_text(page[at])] = int(float(page[at + 1]))
            if len(page) < 2 * PAGE:
                break
        return found
