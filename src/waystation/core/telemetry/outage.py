"""Outages of the store, as the log shows them: one line when it is gone, one when it is back."""

import time
from collections.abc import Callable

from waystation.core.telemetry.logs import Logger, describe

_REMIND_S = 60.0


class Outage:
    """Logs that the store cannot be used: once at the beginning, then once a minute."""

    def __init__(self, log: Logger, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._monotonic = monotonic
        self._since: float | None = None
        self._said = 0.0

    def goes_on(self, error: BaseException, **fields: str | int) -> None:
        """The store has been asked in vain."""
        now = self._monotonic()
        if self._since is None:
            self._since = now
        elif now - self._said < _REMIND_S:
            return
        self._said = now
        about = describe(error)
        about.pop("error_at", None)  # Where we translated what the client raised.
        away_ms = round((now - self._since) * 1000)
        self._log.warning("store_unreachable", duration_ms=away_ms, **about, **fields)

    def is_over(self) -> None:
        """The store has answered."""
        if self._since is None:
            return
        away_ms = round((self._monotonic() - self._since) * 1000)
        self._since = None
        self._log.warning("store_back", duration_ms=away_ms)
