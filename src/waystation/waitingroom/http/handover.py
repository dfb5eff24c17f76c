"""Sessions handed from the waiting page to a site on another host.

Cookies belong to one host, so the way from the page to the site carries a token in its address: it
counts once, for a minute, and on that host alone.
"""

from urllib.parse import urlsplit

from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import Rooms, is_name
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Passed, Place

PARAMETER = "wr_token"
LONGEST = 256


async def onward(room: Room, place: Place, destination: str, *, host: str) -> str:
    """Where a visitor goes on to from a page on this host, with a token if that is another host."""
    there = urlsplit(destination)
    if not there.netloc or there.netloc == host:
        return destination
    token = f"{PARAMETER}={room.name}.{await room.hand_over(place, there.netloc)}"
    # In front of a fragment, which no server sees.
    return there._replace(query=f"{there.query}&{token}" if there.query else token).geturl()


async def redeemed(rooms: Rooms, token: str, *, host: str) -> tuple[Room, RoomState, Passed] | None:
    """The session that a token brings to this host; None when it is not valid."""
    name, _, secret = token.rpartition(".")
    if len(token) > LONGEST or not is_name(name) or not secret.isalnum():
        return None
    room, state = await rooms.visit(name)
    passed = await room.take_over(secret, host)
    return None if passed is None else (room, state, passed)


def split_token(path: str) -> tuple[str, str]:
    """A path with its query but without the token, and the token."""
    plain, mark, query = path.partition("?")
    parts = query.split("&") if mark else []
    tokens = [each for each in parts if each.startswith(f"{PARAMETER}=")]
    kept = "&".join(each for each in parts if not each.startswith(f"{PARAMETER}="))
    token = tokens[0].partition("=")[2] if len(tokens) == 1 else ""
    return f"{plain}?{kept}" if kept else plain, token
