"""Demand beside supply: what waits, who could do it, and what is missing where nobody can."""

from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.store import faults
from waystation.core.store.script import Client

from . import admin_scripts
from .keys import RoutingKeys
from .registry import registered

PER_CALL = 500


class Covered(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting jobs with one set of needs, and who could do them."""

    type: str
    signature: str
    first: str
    """The id of the job that has waited longest."""
    waiting: int
    workers: int
    """How many live workers could take them."""
    missing: tuple[str, ...] = ()
    """What the nearest live worker lacks, each a few words; empty when somebody fits."""

    @property
    def served(self) -> bool:
        """Whether anybody could do them."""
        return self.workers > 0


async def coverage(client: Client, keys: RoutingKeys) -> list[Covered]:
    """Hold every set of needs that waits against every live worker."""
    alive = [worker for worker in await registered(client, keys) if worker.alive]
    profiles = b"[" + b",".join(worker.matched() for worker in alive) + b"]"
    covered: list[Covered] = []
    with faults.told():
        while True:
            rows = await admin_scripts.coverage(
                client,
                keys,
                namespace=keys.namespace,
                profiles=profiles,
                first=len(covered),
                count=PER_CALL,
            )
            for signature, first, waiting, workers, lacks in rows:
                needs = codec.decode(signature)
                missing = _words(needs, lacks) if alive else ("no worker is alive",)
                covered.append(
                    Covered(
                        type=needs[0],
                        signature=signature.decode(),
                        first=first.decode(),
                        waiting=waiting,
                        workers=workers,
                        missing=() if workers else missing,
                    )
                )
            if len(rows) < PER_CALL:
                return covered


_SENTENCES = {
    "type": "no handler for {}",
    "server": "server {} is not here",
    "stack": "stack {}",
    "capabilities": "capability {}",
    "region": "region {}",
    "avoid": "another server than {}",
}


_CATEGORIES = ("stack", "capabilities", "region")


def _words(needs: list[Any], lacks: bytes) -> tuple[str, ...]:
    comma = ", " if needs[1] == "all" else " or "
    said = [
        (category, _SENTENCES[category].format(comma.join(values)))
        for category, values in codec.decode(lacks, list[tuple[str, list[str]]])
    ]
    if len(needs) < 8 or needs[7].get("match") != "category-any":
        return tuple(words for _, words in said)
    # Any one of the categories would do, the rest is needed besides.
    either = " or ".join(words for category, words in said if category in _CATEGORIES)
    others = [words for category, words in said if category not in _CATEGORIES]
    return tuple(others + ([either] if either else []))
