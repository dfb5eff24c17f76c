"""Taking turns, so that a busy minute hits everybody who is compared."""

import statistics
from collections.abc import Awaitable, Callable

TIMES = 3


async def interleaved(*subjects: Callable[[], Awaitable[float]], times: int = TIMES) -> list[float]:
    """The median of each, measured in turn."""
    rounds = [[await subject() for subject in subjects] for _ in range(times)]
    return [statistics.median(each) for each in zip(*rounds, strict=True)]
