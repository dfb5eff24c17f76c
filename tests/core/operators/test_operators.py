"""Operators: what is left when the store fails in the middle."""

import pytest

from waystation.core.clock import HandClock
from waystation.core.operators.operators import Operator, Operators
from waystation.core.operators.roles import Role
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral


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


async def test_a_key_that_cannot_be_read_keeps_nobody_from_withdrawing_another(
    redis_url: str,
) -> None:
    async with await connect(redis_url) as store:
        operators = Operators(store, HandClock())
        await operators.issue("ann", Role.VIEWER)
        await store.ask("HSET", "admin:keys", "later", b'{"name":"bob","role":"owner"}')
        assert [each.name for each in await operators.every()] == ["ann"]
        assert await operators.withdraw("ann") == 1
