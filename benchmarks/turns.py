"""Taking turns, so that a busy minute hits everybody who is compared."""

import statistics
from collections.abc import Awaitable, Callable, Sequence

TIMES = 3


async def interleaved(*subjects: Callable[[], Awaitable[float]], times: int = TIMES) -> list[float]:
    """The median of each, measured in turn."""
    return medians([[await subject() for subject in subjects] for _ in range(times)])


def medians(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The median of each subject over the rounds."""
    return [statistics.median(each) for each in zip(*rounds, strict=True)]
