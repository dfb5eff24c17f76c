"""What a source may raise, and what its worker makes of it."""

import asyncio
import builtins
from collections.abc import Sequence
from typing import Any

import pytest

from tests.core.runtime.harness import Recorded, no_op, until_all, working
from tests.support.patience import LIMIT_S, until
from waystation.core.backoff import Backoff, Growth
from waystation.core.errors import (
    ScriptFailed,
    StoreError,
    WrongType,
)
from waystation.core.runtime import worker as worker_module
from waystation.core.runtime.claim import Claim, Reply, Settled
from waystation.testing.memory import MemorySource


class Mistaken(MemorySource):
    """Raises an error once in each of its methods, and always for one outcome."""

    def __init__(self, error: type[BaseException], poison: str) -> None:
        super().__init__()
        self.error = error
        self.poison = poison
        self.raised: set[str] = set()

    def mistake(self, where: str) -> None:
        if where not in self.raised:
            self.raised.add(where)
            raise self.error("a mistake")

    async def settle(self, settled: Sequence[Settled[Any]], *, claim: int) -> Reply[Any]:
        if claim:
            self.mistake("claim")
        if settled:
            self.mistake("settle")
        if any(each.claim.id == self.poison for each in settled):
            raise self.error("a mistake in this one")
        return await super().settle(settled, claim=claim)

    async def wait(self, at_most: float) -> None:
        self.mistake("wait")
        await super().wait(at_most)

    async def _extend(self, claims: Sequence[Claim[Any]]) -> Sequence[Claim[Any]]:
        self.mistake("extend")
        self.raised.add("and renewed")
        return await super()._extend(claims)


def _completed(source: MemorySource) -> int:
    return [each.state for each in source.entries.values()].count("completed")


EVERY_ERROR = [
    each
    for each in [*vars(builtins).values(), asyncio.CancelledError, ScriptFailed]
    if isinstance(each, type)
    and issubclass(each, Exception | asyncio.CancelledError)
    and not issubclass(each, UnicodeError | BaseExceptionGroup)
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda each: each.__name__)
async def test_a_worker_ends_by_stop_whatever_its_source_raises(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_RETRY_BACKOFF", Backoff(Growth.FIXED, delay_ms=1))
    source = Mistaken(error, poison="2")
    for _ in range(6):
        source.add("work")

    async def until_renewed(work: Any) -> None:
        await until(lambda: "and renewed" in source.raised)

    async with working(source, until_renewed, concurrency=3, lease=1, renew=0.005):
        await until(lambda: _completed(source) == 5 and "wait" in source.raised)
        source.add("one more")
        await until(lambda: source.entries["7"].state == "completed")

    assert source.raised == {"claim", "settle", "wait", "extend", "and renewed"}
    assert source.entries["2"].state == "active"


def ignore(*_: object) -> None:
    pass


async def test_a_script_that_fails_is_asked_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[int] = []

    class Patience:
        def pause_ms(self, tries: int, dice: object) -> int:
            pauses.append(tries)
            return 1

    monkeypatch.setattr(worker_module, "_RETRY_BACKOFF", Patience())
    codes: list[str] = []

    class Listening:
        def troubled(self, error: StoreError) -> None:
            codes.append(error.code)

        def __getattr__(self, name: str) -> Any:
            return ignore

    source = Recorded()
    source.trouble = [WrongType("a key is spoiled"), *[ScriptFailed("no") for _ in range(4)]]
    source.add("work")
    async with working(source, no_op, listener=Listening()):
        await until_all(source)
    assert pauses == [1, 2, 3, 4, 5]
    assert codes == ["SCRIPT_FAILED"] * 4 + ["WRONG_TYPE"]


async def test_what_cannot_be_claimed_keeps_no_outcome_from_being_filed() -> None:
    source = Recorded()
    source.add("work")

    async def lock(work: Any) -> None:
        source.locked = True

    async with working(source, lock):
        await until_all(source)


async def test_a_worker_whose_script_fails_stops_when_told_to() -> None:
    source = Recorded()
    source.locked = True
    async with asyncio.timeout(LIMIT_S), working(source, no_op, grace=10 * LIMIT_S):
        await asyncio.sleep(0)
