"""The places in which work runs: what counts when it ends as it is stopped."""

import asyncio
from typing import Any

import pytest

from waystation.core.outcome import Done, Outcome, Returned
from waystation.core.runtime.claim import Claim
from waystation.core.runtime.handlers import handler_of
from waystation.core.runtime.slots import Slots


@pytest.mark.parametrize("batch", [0, 1])
async def test_what_is_done_before_it_is_interrupted_is_not_handed_back(batch: int) -> None:
    answer = asyncio.get_running_loop().create_future()
    ended: list[Outcome | None] = []

    async def handle(work: Any) -> Any:
        await answer
        return ["sold"] if batch else "sold"

    slots = Slots[str](
        handler_of(handle, batch=batch),
        concurrency=1,
        timeout_s=None,
        finished=lambda claim, outcome, took, alone: ended.append(outcome),
    )
    claim = Claim(id="1", token="t", work="A1")
    slots.run([claim])
    await asyncio.sleep(0)
    # The handler goes on in the same turn of the loop in which it is to be stopped, just before.
    answer.set_result(None)
    assert slots.stop(claim, Returned())
    await asyncio.sleep(0.01)
    await slots.close()

    assert ended == [Done("sold")]
