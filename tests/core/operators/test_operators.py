"""Operators: what is left when the store fails in the middle."""

from typing import Any

import pytest

from waystation.core.clock import HandClock
from waystation.core.errors import StoreUnreachable
from waystation.core.operators.operators import Operator, Operators
from waystation.core.operators.roles import Role
from waystation.core.store.connection import Store, connect
from waystation.core.store.embedded import Ephemeral


class Failing:
    """A store that fails at one of the calls that are made of it."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self._left = at
        self.hot = store.hot

    async def ask(self, *command: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise StoreUnreachable("gone")
        return await self._store.ask(*command)


async def test_no_key_is_left_without_its_code_whenever_a_withdrawal_fails(redis_url: str) -> None:
    async with await connect(redis_url) as store:
        for at in range(1, 6):
            operators = Operators(store, HandClock())
            await operators.issue("ann", Role.ADMIN)
            await operators.enrol("ann")
            failing: Any = Failing(store, at)
            try:
                await Operators(failing, HandClock()).withdraw("ann")
            except StoreUnreachable:
                kept = [each.name for each in await operators.every()]
                assert await operators.factors.enrolled("ann") or "ann" not in kept
            await operators.withdraw("ann")
            assert not await operators.every()
            assert not await operators.factors.enrolled("ann")


async def test_where_the_store_is_full_the_audit_is_in_the_log(
    own_server: Ephemeral, caplog: pytest.LogCaptureFixture
) -> None:
    async with await connect(own_server.url) as store:
        await store.ask("CONFIG", "SET", "maxmemory", "1")
        who = Operator(name="ann", role=Role.ADMIN)
        await Operators(store, HandClock()).note(who, "clean", "mail", before=None, after=3)
    assert "audit_not_written" in caplog.text
    for part in ("operator=ann", "action=clean", "queue=mail"):
        assert part in caplog.text
