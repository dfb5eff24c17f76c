"""The function for libraries that look it up by its module's name."""

from countdown import Countdown, Given

_countdown: list[Countdown] = []


def expect(package: str, asked: Given) -> None:
    """Count from now on."""
    _countdown.append(Countdown(package, asked))


def nothing(n: int) -> None:
    _countdown[0].tick(n)
