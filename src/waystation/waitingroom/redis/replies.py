"""What the scripts of a room reply, read."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from waystation.core.codec import as_text
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
    return [as_text(each) if isinstance(each, bytes) else str(each) for each in raw]


def word(raw: Any) -> str:
    """A reply that is one word."""
    return as_text(raw)


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


def statuses(raw: Any) -> list[VisitorStatus]:
    """How things stand for each."""
    return [read_status(each) for each in raw]


def beats(raw: Any) -> list[Forbidden | VisitorStatus]:
    """How things stand for each, or that the proof was wrong."""
    return [Forbidden() if each[0] == b"forbidden" else read_status(each) for each in raw]


def entered(raw: Any) -> Inside | None:
    """The session that began, if one did."""
    return Inside(until_ms=int(raw[1])) if raw[0] == b"passed" else None


def taken(raw: Any) -> Passed | None:
    """The session that was taken over, if it was there."""
    match texts(raw):
        case ["taken", id, owner, ends]:
            return Passed(Place(id, owner), Inside(until_ms=int(ends)))
        case _:
            return None


def round(raw: Any) -> Round:
    """What one round of admission did."""
    called, no_shows, ended, waiting = raw
    return Round(texts(called), int(no_shows), int(ended), int(waiting))


def swept(raw: Any) -> Swept:
    """Who was taken out of the line."""
    return Swept(texts(raw[0]), int(raw[1]))


def renewal(raw: Any) -> Renewal | None:
    """The session as it goes on; None when it has ended."""
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
