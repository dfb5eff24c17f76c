"""Search for visitors by the ticket that their page shows: the end of their id."""

import re
from typing import Any

from waystation.core.codec import as_text
from waystation.core.errors import InvalidInput
from waystation.waitingroom.room import Room

MOST_FOUND = 10
PAGE = 1000
TICKET = "^[ -]*([A-Za-z0-8][ -]*){4,16}$"
"""What may be asked for."""
_TICKET = re.compile(r"[ -]*([A-Za-z0-8][ -]*){4,16}")
_MISHEARD = str.maketrans("018", "OIB", " -")
"""Figures that no id has, and the letters that they are taken for."""


async def ids_by_ticket(room: Room, ticket: str) -> list[str]:
    """The ids that end like this, of all who gather, wait, are called or late, or are inside."""
    wanted = ticket.upper().translate(_MISHEARD)
    if not _TICKET.fullmatch(ticket):
        raise InvalidInput(f"a ticket must be 4 to 16 letters and figures, got {ticket[:32]!r}")
    keys = room.store.keys
    found = dict[str, None]()
    for key in (
        keys.positions, keys.prequeue, keys.admitted, keys.recovered, keys.missed,
        keys.sessions_expiry,
    ):  # fmt: skip
        cursor = b"0"
        while True:
            cursor, page = await _page(room, key, cursor, wanted)
            found |= dict.fromkeys(page)
            if len(found) > MOST_FOUND:
                raise InvalidInput(f"more than {MOST_FOUND} visitors fit: give more of the ticket")
            if cursor == b"0":
                break
    return list(found)


async def _page(room: Room, key: str, cursor: bytes, wanted: str) -> tuple[bytes, list[str]]:
    answer: Any = await room.store.ask("ZSCAN", key, cursor, "MATCH", f"*{wanted}", "COUNT", PAGE)
    following, pairs = answer
    return following, [as_text(each) for each in pairs[::2]]
