"""Access codes: short codes that let a number of visitors into a lane.

Only keyed digests of them are kept, and a code is looked up by its digest: neither what is in the
store nor how long an answer takes tells anything about a code.
"""

import random
import re
from collections.abc import Sequence

import msgspec

from waystation.core.checked import checked
from waystation.core.errors import InvalidOption
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Lane, digest

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's: no letter that is taken for a digit, or for another when it is read out."""
LENGTH = 12
MOST_AT_ONCE = 10_000
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
        for start in range(0, count, 1000):
            page = [_digest(code, pepper) for code in made[start : start + 1000]]
            await self._ask("HSET", *(part for code in page for part in (code, kept)))
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
        """Every batch and the use of its codes."""
        found: dict[str, Batch] = {}
        used = {
            code: int(count) for code, count in await self._pairs(self._room.store.keys.redeemed)
        }
        for code, kept in await self._pairs(self._room.store.keys.codes):
            lane, uses, expires, name = kept.split(":", 3)
            batch = found.setdefault(
                name,
                Batch(
                    batch=name, lane=Lane(int(lane)), uses=int(uses), codes=0, used=0,
                    expires_s=int(expires),
                ),
            )  # fmt: skip
            batch.codes += 1
            batch.used += used.get(code, 0)
        return sorted(found.values(), key=lambda each: each.batch)

    async def revoke(self, batch: str) -> int:
        """Revoke the codes of a batch; return how many there were."""
        gone = [
            code
            for code, kept in await self._pairs(self._room.store.keys.codes)
            if kept.split(":", 3)[3] == batch
        ]
        if gone:
            await self._ask("HDEL", *gone)
        return len(gone)

    async def _ask(self, verb: str, *parts: str) -> None:
        await self._room.store.ask(verb, self._room.store.keys.codes, *parts)

    async def _pairs(self, key: str) -> Sequence[tuple[str, str]]:
        return list((await self._room.store.hash(key)).items())


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
