"""Rate limits in this process' memory."""

from waystation.core.clock import Clock
from waystation.core.errors import RateLimited
from waystation.core.http.addresses import client_of

MOST_WATCHED = 100_000


class Pace:
    """One question per interval and client, with some to spare; kept in this process alone.

    All addresses that one client can take are one (`client_of`), whoever asks for the limit.
    """

    def __init__(self, *, every_s: float, burst: int, clock: Clock) -> None:
        self._every_s = every_s
        self._burst_s = every_s * burst
        self._clock = clock
        self._due: dict[str, float] = {}

    def require(self, who: str) -> None:
        """Let a question through, or raise RateLimited; a refused one counts for nothing."""
        if self._every_s <= 0:
            return
        over_s = self._over_s(who)
        if over_s > 0:
            wait_ms = int(over_s * 1000) + 1
            raise RateLimited(f"asked too often, ask again in {wait_ms} ms", wait_ms)
        self.count(who)

    def require_left(self, who: str, otherwise: str) -> None:
        """Raise RateLimited if the next would be refused; counts nothing."""
        over_s = self._over_s(who)
        if over_s > 0:
            raise RateLimited(otherwise, int(over_s * 1000) + 1)

    def count(self, who: str) -> None:
        """Take a question down."""
        who = client_of(who)
        now = self._clock.monotonic()
        if who not in self._due and len(self._due) >= MOST_WATCHED:
            del self._due[next(iter(self._due))]
        self._due[who] = max(now, self._due.get(who, now)) + self._every_s

    def _over_s(self, who: str) -> float:
        due = self._due.get(client_of(who))
        return 0.0 if due is None else due - self._clock.monotonic() - self._burst_s
