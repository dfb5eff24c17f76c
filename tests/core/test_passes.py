"""Webhooks are served in turn, however many there are and however slow they are."""

import asyncio
from functools import partial

import pytest

from waystation.core.webhooks import dispatch
from waystation.core.webhooks.dispatch import Passes


async def test_more_slow_receivers_than_are_served_at_once_keep_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(dispatch, "WAIT_S", 0.01)
    served = list[str]()
    done: asyncio.Event = asyncio.Event()

    async def serve(id: str) -> None:
        served.append(id)
        await done.wait()

    work = {id: partial(serve, id) for id in "abcde"}
    turns = Passes()
    for _ in range(5):
        done = asyncio.Event()
        await turns.serve(work)
        done.set()
        await turns.serve(work)
    await turns.close()
    assert {id: served.count(id) for id in work} == dict.fromkeys(work, 2)
