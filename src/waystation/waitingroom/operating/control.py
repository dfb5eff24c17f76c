"""Control: what an operator does to a running room."""

from collections.abc import Mapping
from contextlib import suppress

from waystation.core import codec
from waystation.core.durations import Duration, seconds
from waystation.core.errors import InvalidOption, WrongState
from waystation.core.options import checked
from waystation.waitingroom.options import MOST_RATE, Status
from waystation.waitingroom.room import Room

LONGEST_FAIL_OPEN_S = 24 * 3600
LONGEST_RAMP_S = 24 * 3600
LONGEST_MESSAGE = 500
"""Characters of a text, which every visitor is sent with every look."""
LATEST_MS = 32_503_680_000_000
"""The year 3000: a later instant is a mistake."""


@checked
class Control:
    """Operator actions on a room; each returns the room's new version and emits an event."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def pause(self) -> int:
        """Stop admission; everybody keeps their place."""
        return await self._become(Status.PAUSED, event="paused")

    async def queue_all(self) -> int:
        """Make every arrival wait and stop admission, as an emergency."""
        return await self._become(Status.QUEUE_ALL, event="paused")

    async def resume(self) -> int:
        """Admit visitors again."""
        return await self._become(Status.ACTIVE, event="resumed", fail_open_us="", ending="")

    async def drain(self) -> int:
        """Admit those in line, and let nobody join."""
        return await self._become(Status.DRAINING, event="changed")

    async def enter_maintenance(self) -> int:
        """Let nobody join and admit nobody; everybody keeps their place."""
        return await self._become(Status.MAINTENANCE, event="paused")

    async def close(self, *, text: Mapping[str, str] | None = None, link: str = "") -> int:
        """End the room: those in line read it, in these words by language, and a link leads on."""
        return await self._end(Status.CLOSED, text, link)

    async def sell_out(self, *, text: Mapping[str, str] | None = None, link: str = "") -> int:
        """End the room because nothing is left; the rest is as for `close`."""
        return await self._end(Status.SOLD_OUT, text, link)

    async def _end(self, status: Status, text: Mapping[str, str] | None, link: str) -> int:
        if link and not link.startswith("https://"):
            raise InvalidOption(f"link must start with https://, got {link!r}")
        _require_short(link, *(text or {}).values())
        ending = codec.encode({"text": dict(text or {}), "link": link}).decode()
        kept = ending if text or link else ""
        return await self._become(status, event="paused", ending=kept)

    async def fail_open(self, duration: Duration) -> int:
        """Admit everybody who asks, for this long."""
        length_s = seconds(duration, "duration")
        if not 1 <= length_s <= LONGEST_FAIL_OPEN_S:
            raise InvalidOption(f"duration must be 1 to {LONGEST_FAIL_OPEN_S} s, got {length_s:g}")
        until = (await self._room.state()).now_ms + round(length_s * 1000)
        return await self._room.store.write({"fail_open_us": str(until * 1000)})

    async def set_rate(self, per_second: float, *, ramp: Duration = 0) -> int:
        """Admit that many per second, at once or over the time of the ramp."""
        ramp_s = round(seconds(ramp, "ramp"))
        if not 0 <= per_second <= MOST_RATE:
            raise InvalidOption(f"per_second must be 0 to {MOST_RATE}, got {per_second}")
        if not 0 <= ramp_s <= LONGEST_RAMP_S:
            raise InvalidOption(f"ramp must be 0 to {LONGEST_RAMP_S} s, got {ramp_s}")
        fields = {"admission_rate": f"{per_second:.10g}"}
        if ramp_s:
            seen = await self._room.state()
            fields |= {
                "ramp_from": f"{seen.rate:.10g}",
                "ramp_us": str(seen.now_ms * 1000),
                "ramp_s": str(ramp_s),
            }
        return await self._room.store.write(fields)

    async def show_message(
        self, text: dict[str, str], *, level: str = "info", expires_ms: int = 0
    ) -> int:
        """Show a message to all visitors, by language; an empty one removes it."""
        if level not in ("info", "warning"):
            raise InvalidOption(f"level must be info or warning, got {level!r}")
        _require_short(*text.values())
        message = {"text": text, "level": level, "expires_at_ms": expires_ms}
        return await self._room.store.write(
            {"message": codec.encode(message).decode() if text else ""}
        )

    async def revoke_everything(self) -> int:
        """Revoke every token given so far; return the new epoch."""
        while True:
            seen = await self._room.state()
            # Two at once are two epochs: what was given between them is revoked as well.
            with suppress(WrongState):
                await self._room.store.write({"epoch": str(seen.epoch + 1)}, version=seen.version)
                return seen.epoch + 1

    async def schedule(self, starts_ms: int, *, ends_ms: int | None = None) -> int:
        """Open a pre-queue now and the room at this instant (milliseconds since the epoch)."""
        for name, given in (("starts_ms", starts_ms), ("ends_ms", ends_ms or 0)):
            if not 0 <= given <= LATEST_MS:
                raise InvalidOption(f"{name} must be 0 to {LATEST_MS}, got {given}")
        if ends_ms is not None and ends_ms <= starts_ms:
            raise InvalidOption(f"ends_ms must be after starts_ms ({starts_ms}), got {ends_ms}")
        seen = await self._room.state()
        if seen.phase == "drawing":
            raise WrongState("lots are being drawn among those who gathered; wait until they are")
        return await self._room.store.write(
            {
                "phase": "prequeue",
                "starts_us": str(starts_ms * 1000),
                "ends_us": "" if ends_ms is None else str(ends_ms * 1000),
            },
            version=seen.version,
        )

    async def _become(self, status: Status, *, event: str, **more: str) -> int:
        return await self._room.store.write({"status": status.value, **more}, event=event)


def _require_short(*texts: str) -> None:
    if (longest := max(map(len, texts), default=0)) > LONGEST_MESSAGE:
        raise InvalidOption(f"a text may have {LONGEST_MESSAGE} characters, got {longest:,}")
