"""Lag of the event loop: how late it turns to what is due."""

import asyncio

from prometheus_client import Histogram


async def observe(lag: Histogram, *, every_s: float = 1.0) -> None:
    """Observe the lag once in each interval, until cancelled.

    The instants are fixed beforehand. Those that pass while the loop is blocked are observed
    afterwards, one by one, so that a long block weighs as much as the time it took.
    """
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        due += every_s
        await asyncio.sleep(max(0.0, due - loop.time()))
        # The loop rounds, and may wake up a little early.
        lag.observe(max(0.0, loop.time() - due))
