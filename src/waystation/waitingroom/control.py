"""What an operator can do to a room, each in one word."""

from waystation.core import codec
from waystation.core.errors import InvalidOption
from waystation.waitingroom.options import MOST_RATE, Status
from waystation.waitingroom.room import Room

LONGEST_FAIL_OPEN_S = 24 * 3600
LONGEST_RAMP_S = 24 * 3600
LATEST_MS = 32_503_680_000_000
"""The year 3000: what comes after it is a slip of the pen."""


class Control:
    """The operator's hand on a room; everything is told in the room's events."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def pause(self) -> int:
        """Call nobody in; everybody keeps their place."""
        return await self._become(Status.PAUSED, event="paused")

    async def queue_all(self) -> int:
        """Put everybody in line and call nobody in, as an emergency."""
        return await self._become(Status.QUEUE_ALL, event="paused")

    async def resume(self) -> int:
        """Call people in again."""
        return await self._become(Status.ACTIVE, event="resumed", fail_open_us="")

    async def drain(self) -> int:
        """Let the line in, and nobody join it."""
        return await self._become(Status.DRAINING, event="changed")

    async def maintain(self) -> int:
        """Let nobody join and nobody in; everybody keeps their place."""
        return await self._become(Status.MAINTENANCE, event="paused")

    async def shut(self) -> int:
        """End it."""
        return await self._become(Status.CLOSED, event="paused")

    async def fail_open(self, seconds: int) -> int:
        """Let everybody in who asks, for so long and no longer."""
        if not 1 <= seconds <= LONGEST_FAIL_OPEN_S:
            raise InvalidOption(f"seconds must be 1 to {LONGEST_FAIL_OPEN_S}, got {seconds}")
        until = (await self._room.state()).now_ms + seconds * 1000
        return await self._room.store.write({"fail_open_us": str(until * 1000)})

    async def set_rate(self, per_second: float, *, ramp_s: int = 0) -> int:
        """Call so many in per second, at once or step by step."""
        if not 0 <= per_second <= MOST_RATE:
            raise InvalidOption(f"per_second must be 0 to {MOST_RATE}, got {per_second}")
        if not 0 <= ramp_s <= LONGEST_RAMP_S:
            raise InvalidOption(f"ramp_s must be 0 to {LONGEST_RAMP_S}, got {ramp_s}")
        fields = {"admission_rate": f"{per_second:.10g}"}
        if ramp_s:
            seen = await self._room.state()
            ramp = {
                "ramp_from": f"{seen.rate:.10g}",
                "ramp_us": str(seen.now_ms * 1000),
                "ramp_s": str(ramp_s),
            }
        else:
            ramp = {"ramp_from": "", "ramp_us": "", "ramp_s": ""}
        return await self._room.store.write(fields | ramp)

    async def tell(self, text: dict[str, str], *, level: str = "info", expires_ms: int = 0) -> int:
        """Show everybody a message, by language; an empty one takes it away."""
        if level not in ("info", "warning"):
            raise InvalidOption(f"level must be info or warning, got {level!r}")
        message = {"text": text, "level": level, "expires_at_ms": expires_ms}
        return await self._room.store.write(
            {"message": codec.encode(message).decode() if text else ""}
        )

    async def revoke_everything(self) -> int:
        """Let no token given so far count any longer; the new epoch."""
        epoch = (await self._room.state()).epoch + 1
        await self._room.store.write({"epoch": str(epoch)})
        return epoch

    async def schedule(self, starts_ms: int, *, ends_ms: int | None = None) -> int:
        """Let people gather before the room opens."""
        for name, given in (("starts_ms", starts_ms), ("ends_ms", ends_ms or 0)):
            if not 0 <= given <= LATEST_MS:
                raise InvalidOption(f"{name} must be 0 to {LATEST_MS}, got {given}")
        if ends_ms is not None and ends_ms <= starts_ms:
            raise InvalidOption(f"ends_ms must be after starts_ms ({starts_ms}), got {ends_ms}")
        return await self._room.store.write(
            {
                "phase": "prequeue",
                "starts_us": str(starts_ms * 1000),
                "ends_us": "" if ends_ms is None else str(ends_ms * 1000),
            }
        )

    async def _become(self, status: Status, *, event: str, **more: str) -> int:
        return await self._room.store.write({"status": status.value, **more}, event=event)
