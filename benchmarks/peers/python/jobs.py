"""The function for libraries that look it up by its module's name."""

from countdown import Countdown

_countdown: list[Countdown] = []


def expect(package: str, jobs: int) -> None:
    """Count from now on."""
    _countdown.append(Countdown(package, jobs))


def nothing(n: int) -> None:
    _countdown[0].tick()
