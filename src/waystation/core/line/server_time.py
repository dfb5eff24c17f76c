"""Server time: scripts read the server's clock, unless a test passes an instant of its own."""

from waystation.core.clock import Clock

SERVER_TIME = ""
"""A script's `now`: the server's clock at the moment the script runs."""


def script_time(clock: Clock | None) -> int | str:
    """A script's `now`; only tests have a clock."""
    return clock.now_ms() if clock else SERVER_TIME
