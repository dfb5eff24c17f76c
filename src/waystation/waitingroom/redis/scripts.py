"""The Lua scripts of a room as typed functions."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from waystation.core.store.script import Client, script
from waystation.waitingroom.redis.keys import RoomKeys
from waystation.waitingroom.visitor import (
    Called,
    Entry,
    Forbidden,
    Gone,
    Inside,
    Joined,
    Kept,
    Lane,
    Late,
    Passed,
    Place,
    Prequeued,
    Refused,
    Renewal,
    Returned,
    VisitorStatus,
    Waiting,
)

_LANES = tuple(Lane)


class Round(NamedTuple):
    """What one round of admission did."""

    called: Sequence[str]
    no_shows: int
    """Turns that were taken away because nobody came."""
    ended: int
    """Sessions that were over."""
    waiting: int
    """People still in line."""


class Swept(NamedTuple):
    """Who was taken out of the line."""

    silent: Sequence[str]
    lost: int
    """Missed turns that can no longer be taken back."""


def texts(raw: Any) -> list[str]:
    """A reply that is a list of texts."""
    return [each.decode() if isinstance(each, bytes) else str(each) for each in raw]


def as_is(raw: Any) -> Any:
    """A reply that needs no reading."""
    return raw


def word(raw: Any) -> str:
    """A reply that is one word."""
    return raw.decode()


def parse_status(reply: Sequence[str]) -> VisitorStatus:
    """Read how things stand for somebody."""
    match reply:
        case ["waiting", lane, seq, ahead, length]:
            return Waiting(lane=Lane(int(lane)), seq=int(seq), ahead=int(ahead), length=int(length))
        case ["prequeued", lane, starts, early, ahead]:
            return Prequeued(
                lane=Lane(int(lane)),
                starts_ms=int(starts) if starts else None,
                early=int(early),
                ahead=int(ahead),
            )
        case ["returned", ahead]:
            return Returned(ahead=int(ahead))
        case ["called", until]:
            return Called(until_ms=int(until))
        case ["inside", until]:
            return Inside(until_ms=int(until))
        case ["late", until]:
            return Late(until_ms=int(until))
        case _:
            return Gone()


def read_status(raw: Any) -> VisitorStatus:
    """Read how things stand for somebody from a reply as it came."""
    if raw[0] == b"waiting":
        # Nearly everybody who asks waits, so this is read without a detour.
        _, lane, seq, ahead, length = cast("tuple[bytes, int, bytes, int, int]", raw)
        return Waiting(lane=_LANES[lane], seq=int(seq), ahead=ahead, length=length)
    return parse_status(texts(raw))


def _statuses(raw: Any) -> list[VisitorStatus]:
    return [read_status(each) for each in raw]


def _beats(raw: Any) -> list[Forbidden | VisitorStatus]:
    return [Forbidden() if each[0] == b"forbidden" else read_status(each) for each in raw]


def _entered(raw: Any) -> Inside | None:
    return Inside(until_ms=int(raw[1])) if raw[0] == b"passed" else None


def _taken(raw: Any) -> Passed | None:
    match texts(raw):
        case ["taken", id, owner, ends]:
            return Passed(Place(id, owner), Inside(until_ms=int(ends)))
        case _:
            return None


def _round(raw: Any) -> Round:
    called, no_shows, ended, waiting = raw
    return Round(texts(called), int(no_shows), int(ended), int(waiting))


def _swept(raw: Any) -> Swept:
    return Swept(texts(raw[0]), int(raw[1]))


def _renewal(raw: Any) -> Renewal | None:
    until, limit, views = raw
    return Renewal(int(until), int(limit), int(views)) if int(until) else None


def read_entries(places: Sequence[Place], replies: Sequence[Sequence[Any]]) -> list[Entry]:
    """Read the replies of `join`, one for each of the places that were offered."""
    return [_entry(place, reply) for place, reply in zip(places, replies, strict=True)]


def _entry(place: Place, reply: Sequence[Any]) -> Entry:
    word, said, *rest = reply
    if word == b"joined":
        return Joined(place, read_status(rest))
    if word == b"refused":
        return Refused(said.decode(), int(rest[0]))
    theirs = Place(said.decode(), place.owner)
    if word == b"passed":
        return Passed(theirs, Inside(until_ms=int(rest[0])))
    return Kept(theirs, read_status(rest))


@script(reply=as_is)
async def join(
    redis: Client,
    keys: RoomKeys,
    *,
    queue: str,
    now: str | int,
    model: str,
    newcomers: Sequence[str | int],
) -> list[list[Any]]:
    """Give each newcomer a place in line, or the one they have."""
    ...


@script(reply=_entered)
async def enter(
    redis: Client,
    keys: RoomKeys,
    *,
    queue: str,
    id: str,
    visitor: str,
    proof: str,
    agent: str,
    network: str,
    now: str | int,
) -> Inside | None:
    """Begin a session at once, if nobody waits and there are a turn and a seat for it."""
    ...


@script(reply=_statuses)
async def status(
    redis: Client, keys: RoomKeys, *, now: str | int, ids: Sequence[str]
) -> list[VisitorStatus]:
    """How things stand for each of some people; changes nothing."""
    ...


@script(reply=_beats)
async def heartbeat(
    redis: Client, keys: RoomKeys, *, now: str | int, people: Sequence[str | int]
) -> list[Forbidden | VisitorStatus]:
    """Note that people in line are still there, and how things stand for each of them."""
    ...


@script(reply=_round)
async def admit(
    redis: Client,
    keys: RoomKeys,
    *,
    queue: str,
    now: str | int,
    most: int,
    extra: int,
    only: str | int,
) -> Round:
    """Call in as many as there are turns and seats for."""
    ...


@script(reply=texts)
async def claim(
    redis: Client, keys: RoomKeys, *, queue: str, id: str, proof: str, user: str, now: str | int
) -> list[str]:
    """Let somebody in whose turn it is; asking again gives the same session."""
    ...


@script(reply=texts)
async def recover(
    redis: Client, keys: RoomKeys, *, queue: str, id: str, proof: str, now: str | int
) -> list[str]:
    """Let somebody take back a turn that was missed."""
    ...


@script(reply=word)
async def leave(
    redis: Client, keys: RoomKeys, *, queue: str, id: str, proof: str, reason: str, now: str | int
) -> str:
    """Let somebody go who no longer wants to wait."""
    ...


@script(reply=texts)
async def rejoin(
    redis: Client, keys: RoomKeys, *, queue: str, id: str, proof: str, now: str | int
) -> list[str]:
    """Give somebody who left a short while ago the old place again."""
    ...


@script(reply=_taken)
async def take_over(redis: Client, keys: RoomKeys, *, host: str, now: str | int) -> Passed | None:
    """Take over a session that was handed to a site, once and on the host it was meant for."""
    ...


@script(reply=_renewal)
async def renew(
    redis: Client, keys: RoomKeys, *, id: str, views: int, now: str | int
) -> Renewal | None:
    """Keep a session alive; None when it has ended."""
    ...


@script(reply=bool)
async def complete(
    redis: Client, keys: RoomKeys, *, queue: str, id: str, status: str, reason: str, now: str | int
) -> bool:
    """End a session and free its seat; False when it had ended."""
    ...


@script(reply=_swept)
async def expire(redis: Client, keys: RoomKeys, *, queue: str, batch: int, now: str | int) -> Swept:
    """Take those out of the line who fell silent."""
    ...


@script(reply=int)
async def configure(
    redis: Client,
    keys: RoomKeys,
    *,
    queue: str,
    event: str,
    creates: str,
    version: str | int,
    pepper: str,
    now: str | int,
    fields: Sequence[str],
) -> int:
    """Change how the room is set up; its new version."""
    ...


@script(reply=bool)
async def plan(
    redis: Client,
    keys: RoomKeys,
    *,
    id: str,
    event: str,
    seed: str,
    begins: int,
    ends: int,
    most: int,
) -> bool:
    """Plan an event, unless a room has as many as it may or another at that time."""
    ...


@script(reply=int)
async def delete(redis: Client, keys: RoomKeys) -> int:
    """Delete a room with everything that is kept of it, if nobody is in it; how many are."""
    ...


@script(reply=as_is)
async def state(redis: Client, keys: RoomKeys, *, now: str | int) -> Any:
    """How the room is set up and how it does, in one look."""
    ...


@script(reply=bool)
async def sample(redis: Client, keys: RoomKeys, *, hour: str, now: str | int) -> bool:
    """Note the numbers of a room, once in a minute."""
    ...


@script(reply=as_is)
async def curve(redis: Client, keys: RoomKeys, *, points: int) -> Any:
    """Points on the line, lane by lane: a score, and how many of the lane come before it."""
    ...


@script(reply=texts)
async def begin_draw(
    redis: Client, keys: RoomKeys, *, beacon: str, wait: int, now: str | int
) -> list[str]:
    """Close the pre-queue: seed, beacon, number of people, instant, and 1 when lots may be drawn.

    The secret of a witness, where there is one, is waited for that many seconds.
    """
    ...


@script(reply=bool)
async def reveal(redis: Client, keys: RoomKeys, *, secret: str, digest: str) -> bool:
    """Mix the secret of a witness into the draw; False when that has been done."""
    ...


@script(reply=int)
async def draw(
    redis: Client,
    keys: RoomKeys,
    *,
    opened: str,
    placed: int,
    now: str | int,
    people: Sequence[str | int],
) -> int:
    """Put some of the pre-queue in line: how many stand there now; -1 once the draw is over."""
    ...


@script(reply=bool)
async def end_draw(
    redis: Client, keys: RoomKeys, *, queue: str, opened: str, digest: str, now: str | int
) -> bool:
    """Open the room once everybody of the pre-queue stands in line."""
    ...


@script(reply=int)
async def compact(redis: Client, keys: RoomKeys, *, lane: int, most: int) -> int:
    """Make a lane's list anew when most of it are ghosts; how many it lost."""
    ...


@script(reply=texts)
async def redeem(
    redis: Client, keys: RoomKeys, *, code: str, visitor: str, now: str | int
) -> list[str]:
    """Use an access code: once for each visitor, and for no more visitors than it allows."""
    ...


@script(reply=bool)
async def forget_draw(redis: Client, keys: RoomKeys) -> bool:
    """Forget the last draw once it is over, so that another one may be held."""
    ...


@script(reply=word)
async def notify(redis: Client, keys: RoomKeys, *, proof: str, handle: str) -> str:
    """Remember how to reach somebody when it is their turn, if they are still here."""
    ...


@script(reply=bool)
async def rebind(redis: Client, keys: RoomKeys, *, visitor: str, proof: str) -> bool:
    """Give the place of somebody who shows the same invitation again to the device shown on."""
    ...
