"""Storage of the rooms' themes; a process reads each of them once."""

import hashlib

from waystation.core import codec
from waystation.core.errors import WaystationError
from waystation.waitingroom.http.keys import HttpKeys
from waystation.waitingroom.pages.theme import Theme
from waystation.waitingroom.room import Room
from waystation.waitingroom.state import RoomState

FIELD = "looks"
"""Of a room's `meta`: the digest of its looks, which says when to read them again."""


class ThemeStore:
    """Keeps and finds how the pages of rooms look."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[str, Theme]] = {}

    async def looks(self, room: Room, state: RoomState) -> Theme:
        """How a room's page looks."""
        digest = state.fields.get(FIELD, "")
        if not digest:
            return Theme()
        known = self._read.get(room.queue_id)
        if known is None or known[0] != digest:
            known = self._read[room.queue_id] = (digest, await self._kept(room))
        return known[1]

    async def put(self, room: Room, looks: Theme) -> None:
        """Let a room's page look like this."""
        raw = codec.encode(looks)
        await room.store.ask("SET", HttpKeys(room.queue_id).looks, raw)
        await room.store.write({FIELD: hashlib.sha256(raw).hexdigest()[:16]})

    async def clear(self, room: Room) -> None:
        """Let a room's page look as it comes."""
        await room.store.write({FIELD: ""})
        await room.store.ask("DEL", HttpKeys(room.queue_id).looks)

    async def _kept(self, room: Room) -> Theme:
        raw = await room.store.ask("GET", HttpKeys(room.queue_id).looks)
        try:
            return codec.decode(raw, Theme) if raw else Theme()
        except WaystationError:
            # A page in plain clothes is better than none.
            return Theme()
