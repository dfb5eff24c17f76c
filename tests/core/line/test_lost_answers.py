"""Lost answers: which calls may have claimed something, and how many are looked for at once."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.ports import free_port
from waystation.core.errors import StoreError, StoreUnreachable
from waystation.core.line.lost_answers import MOST_AT_ONCE, LostAnswers
from waystation.core.runtime.claim import Claim
from waystation.core.store.connection import Store, StoreOptions
from waystation.core.store.connection.address import parse


async def test_a_call_that_never_left_has_claimed_nothing() -> None:
    store = Store(parse(f"redis://127.0.0.1:{free_port()}"), StoreOptions())
    lost = LostAnswers[Any, Any]()
    with pytest.raises(StoreUnreachable), lost.calling(1):
        await store.ask("PING")
    assert lost.tokens == set()
    for error in (StoreUnreachable("no answer"), asyncio.CancelledError()):
        with pytest.raises(type(error)), lost.calling(1):
            raise error
    assert len(lost.tokens) == 2


async def test_of_many_lost_calls_some_are_looked_for_at_a_time() -> None:
    lost = LostAnswers[Any, Any]()
    lost.tokens.update(f"t{number}" for number in range(2 * MOST_AT_ONCE + 1))
    sizes: list[int] = []

    async def look(tokens: Sequence[str]) -> list[Claim[Any]]:
        sizes.append(len(tokens))
        if len(sizes) == 2:
            raise StoreError("away")
        return []

    while lost.tokens:
        try:
            await lost.find(look)
        except StoreError:
            continue
    assert sizes == [MOST_AT_ONCE, MOST_AT_ONCE, MOST_AT_ONCE, 1]
