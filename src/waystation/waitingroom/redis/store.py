"""Internal: a room's way to Redis, shared by everything that works on one room."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from waystation.core.clock import SERVER_TIME, Clock, SystemClock
from waystation.core.codec import as_text
from waystation.core.identity import Bits
from waystation.core.store.commands import ask, fields_of
from waystation.core.store.script import Client
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.redis.keys import RoomKeys
from waystation.waitingroom.state import RoomState, read_state

STATE_S = 1.0
"""Age up to which a known state is good enough for answers to visitors."""
HOUR_MS = 3_600_000


class RoomStore:
    """The keys, the clock and the last known state of one room."""

    def __init__(
        self,
        keys: RoomKeys,
        client: Callable[[], Awaitable[Client]],
        *,
        clock: Clock | None,
        bits: Bits,
    ) -> None:
        self.keys = keys
        self.client = client
        self.queue_id = keys.name
        self._clock = clock
        self._hours: Clock = clock or SystemClock()
        self._bits = bits
        self._hour = -1
        self._keys_now = keys
        self._state: tuple[float, RoomState] | None = None

    def now(self) -> str | int:
        """The instant for a script, in microseconds; empty to use the server's."""
        return self._clock.now_ms() * 1000 if self._clock else SERVER_TIME

    def now_ms(self) -> int:
        """Milliseconds since the epoch by this process' clock."""
        return self._hours.now_ms()

    def keys_now(self) -> RoomKeys:
        """The keys, with those of this hour."""
        now_ms = self._hours.now_ms()
        if now_ms // HOUR_MS != self._hour:
            self._hour, self._keys_now = now_ms // HOUR_MS, self.keys.at(now_ms)
        return self._keys_now

    def call(self) -> tuple[RoomKeys, str | int]:
        """The keys of this hour and the instant for a script."""
        return self.keys_now(), self.now()

    async def ask(self, *command: Any) -> Any:
        """Send one command; errors of the client become ours."""
        return await ask(await self.client(), *command)

    async def hash(self, key: str) -> dict[str, str]:
        """A hash as texts."""
        found = fields_of(await self.ask("HGETALL", key))
        return {as_text(name): as_text(value) for name, value in found.items()}

    async def write(
        self,
        fields: Mapping[str, str],
        *,
        event: str = "changed",
        version: int | None = None,
        creates: bool = False,
    ) -> int:
        """Change fields of the `meta` hash, an empty text removing one; return the new version."""
        changed = await scripts.configure(
            await self.client(),
            self.keys,
            event=event,
            creates="1" if creates else "",
            version="" if version is None else version,
            pepper=self._bits.getrandbits(128).to_bytes(16).hex(),
            now=self.now(),
            fields=[part for pair in fields.items() for part in pair],
        )
        self.forget_state()
        return changed

    def recent_state(self) -> RoomState | None:
        """The state, if one is known that is at most a second old."""
        kept = self._state
        return kept[1] if kept and self._hours.monotonic() - kept[0] <= STATE_S else None

    async def state(self, max_age_s: float) -> RoomState:
        """The state, at most that many seconds old."""
        now = self._hours.monotonic()
        kept = self._state
        if kept is not None and 0 < max_age_s >= now - kept[0]:
            return kept[1]
        if kept is not None and max_age_s > 0:
            # One caller reads, the others use the known state until the reply is here.
            self._state = (now, kept[1])
        raw = await scripts.state(await self.client(), self.keys, now=self.now())
        seen = read_state(self.queue_id, raw)
        self._state = (now, seen)
        return seen

    def forget_state(self) -> None:
        """Read the state anew before it is next used."""
        self._state = None
