"""Where the looks of rooms are kept; a process reads each of them once."""

import hashlib

from waystation.core import codec
from waystation.core.errors import WaystationError
from waystation.core.store import faults
from waystation.waitingroom.http.keys import DoorKeys
from waystation.waitingroom.pages.theme import Looks
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import Pulse

FIELD = "looks"
"""Of a room's `meta`: the digest of its looks, which says when to read them again."""


class Wardrobe:
    """Keeps and finds how the pages of rooms look."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[str, Looks]] = {}

    async def looks(self, room: Room, pulse: Pulse) -> Looks:
        """How a room's page looks."""
        digest = pulse.fields.get(FIELD, "")
        if not digest:
            return Looks()
        known = self._read.get(room.queue_id)
        if known is None or known[0] != digest:
            known = self._read[room.queue_id] = (digest, await self._kept(room))
        return known[1]

    async def put(self, room: Room, looks: Looks) -> None:
        """Let a room's page look like this."""
        raw = codec.encode(looks)
        with faults.translated():
            client = await room.client()
            await client.execute_command("SET", DoorKeys(room.queue_id).looks, raw)
        await room.write({FIELD: hashlib.sha256(raw).hexdigest()[:16]})

    async def clear(self, room: Room) -> None:
        """Let a room's page look as it comes."""
        await room.write({FIELD: ""})
        with faults.translated():
            client = await room.client()
            await client.execute_command("DEL", DoorKeys(room.queue_id).looks)

    async def _kept(self, room: Room) -> Looks:
        with faults.translated():
            client = await room.client()
            raw = await client.execute_command("GET", DoorKeys(room.queue_id).looks)
        try:
            return codec.decode(raw, Looks) if raw else Looks()
        except WaystationError:
            # A page in plain clothes is better than none.
            return Looks()
