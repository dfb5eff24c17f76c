"""Access codes: short codes that let a number of visitors into a lane.

Only keyed digests of them are kept, and a code is looked up by its digest: neither what is in the
store nor how long an answer takes tells anything about a code.
"""

import random
import re
from collections.abc import AsyncIterator

import msgspec

from waystation.core.codec import as_text
from waystation.core.errors import InvalidOption
from waystation.core.options import checked
from waystation.core.store.commands import fields_of
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Lane, digest

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's: no letter that is taken for a digit, or for another when it is read out."""
LENGTH = 12
MOST_AT_ONCE = 10_000
PAGE = 1000
MOST_USES = 1_000_000
_BATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MISTAKEN = str.maketrans({"O": "0", "I": "1", "L": "1", "-": None, " ": None})


class Batch(msgspec.Struct, kw_only=True):
    """Codes created together."""

    batch: str
    """The name of the batch."""
    lane: Lane
    """The lane that its codes open."""
    uses: int
    """Visitors that each code admits to the lane."""
    codes: int
    """How many codes there are."""
    used: int
    """Visitors who have used one of them."""
    expires_s: int
    """The second after which they expire; 0 for never."""


@checked
class Codes:
    """The access codes of one room."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def make(
        self,
        batch: str,
        count: int,
        *,
        bits: random.Random | None = None,
        lane: Lane = Lane.NORMAL,
        uses: int = 1,
        expires_s: int = 0,
    ) -> list[str]:
        """Create codes; only their digests are stored, so they are shown this once."""
        if not _BATCH.fullmatch(batch):
            raise InvalidOption(f"a batch must be 1 to 64 of A-Z a-z 0-9 _ . -, got {batch!r}")
        if not 1 <= count <= MOST_AT_ONCE:
            raise InvalidOption(f"count must be 1 to {MOST_AT_ONCE}, got {count}")
        if not 1 <= uses <= MOST_USES:
            raise InvalidOption(f"uses must be 1 to {MOST_USES}, got {uses}")
        if not 0 <= expires_s <= 2**40:
            raise InvalidOption(f"expires_s must be a second of this age, got {expires_s}")
        pepper = (await self._room.state()).pepper
        source = bits or random.SystemRandom()
        made = [_new(source) for _ in range(count)]
        kept = f"{int(lane)}:{uses}:{expires_s}:{batch}"
        # In one step: whoever revokes the batch meanwhile takes all of them back, or none.
        pairs = (part for code in made for part in (_digest(code, pepper), kept))
        await self._room.store.ask("HSET", self._room.store.keys.codes, *pairs)
        return [written(code) for code in made]

    async def redeem(self, code: str, visitor: str) -> Lane | None:
        """The lane that a code opens for this visitor; None for an invalid code."""
        pepper = (await self._room.state(max_age=60)).pepper
        reply = await scripts.redeem(
            await self._room.store.client(),
            self._room.store.keys,
            code=_digest(plain(code), pepper),
            visitor=digest(visitor, pepper=pepper),
            now=self._room.store.now(),
        )
        return Lane(int(reply[1])) if reply[0] == "granted" else None

    async def batches(self) -> list[Batch]:
        """Every batch and the use of its codes; one that was made twice on other terms, twice."""
        found: dict[str, Batch] = {}
        async for page in self._pages():
            used = await self._room.store.ask("HMGET", self._room.store.keys.redeemed, *page)
            for kept, many in zip(page.values(), used, strict=True):
                lane, uses, expires, name = kept.split(":", 3)
                batch = found.setdefault(
                    kept,
                    Batch(
                        batch=name, lane=Lane(int(lane)), uses=int(uses), codes=0, used=0,
                        expires_s=int(expires),
                    ),
                )  # fmt: skip
                batch.codes += 1
                batch.used += int(many or 0)
        return sorted(found.values(), key=lambda each: each.batch)

    async def revoke(self, batch: str) -> int:
        """Revoke the codes of a batch; return how many there were."""
        revoked = 0
        async for page in self._pages():
            if gone := [code for code, kept in page.items() if kept.split(":", 3)[3] == batch]:
                codes = self._room.store.keys.codes
                revoked += await self._room.store.ask("HDEL", codes, *gone)
        return revoked

    async def _pages(self) -> AsyncIterator[dict[str, str]]:
        """All codes with what is kept of them, each once; there may be a million."""
        seen, cursor = set[str](), b"0"
        while True:
            cursor, raw = await self._room.store.ask(
                "HSCAN", self._room.store.keys.codes, cursor, "COUNT", PAGE
            )
            page = {as_text(code): as_text(kept) for code, kept in fields_of(raw).items()}
            if fresh := {code: kept for code, kept in page.items() if code not in seen}:
                seen |= fresh.keys()
                yield fresh
            if cursor == b"0":
                return


def plain(code: str) -> str:
    """A code as it is kept, however it was typed."""
    return code.upper().translate(_MISTAKEN)


def written(code: str) -> str:
    """A code as people read it."""
    return "-".join(code[at : at + 4] for at in range(0, LENGTH, 4))


def _new(bits: random.Random) -> str:
    return "".join(ALPHABET[bits.getrandbits(5)] for _ in range(LENGTH))


def _digest(code: str, pepper: bytes) -> str:
    return digest(f"code|{code}", pepper=pepper)
