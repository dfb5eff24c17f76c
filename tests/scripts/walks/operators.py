"""Operators whom an identity provider knows."""

from waystation.core.clock import HandClock
from waystation.core.operators.operators import Operators
from waystation.core.operators.roles import Grant, Role
from waystation.core.store.connection import connect


async def walk(url: str) -> None:
    """Let somebody sign in when the sign-in of another is over, and of a third is not."""
    async with await connect(url) as store:
        clock = HandClock()
        operators = Operators(store, clock)
        for name in ("ann", "bob", "eve"):
            await operators.welcome("https://id.example", name, [Grant(role=Role.VIEWER)])
            await clock.advance(50_000)
