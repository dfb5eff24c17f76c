"""The breaker as the origin has it: a flag for the probe, and a window that is never cleared."""

import time
from collections.abc import Callable


class LiteralBreaker:
    def __init__(
        self,
        *,
        threshold: float,
        samples: int,
        cooldown: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = "closed"
        self._threshold, self._samples, self._cooldown = threshold, samples, cooldown
        self._now = now
        self._results: list[bool] = []
        self._opened = 0.0
        self._probing = False

    def allow(self) -> bool:
        if self.state == "open" and self._now() - self._opened >= self._cooldown:
            self.state = "half-open"
        if self.state == "half-open":
            if self._probing:
                return False
            self._probing = True
            return True
        return self.state == "closed"

    def record(self, ok: bool) -> None:
        self._results.append(ok)
        if self.state == "half-open":
            self._probing = False
            self.state = "closed" if ok else "open"
            self._opened = self._now()
            return
        fails = self._results.count(False)
        if len(self._results) >= self._samples and fails / len(self._results) >= self._threshold:
            self.state = "open"
            self._opened = self._now()
