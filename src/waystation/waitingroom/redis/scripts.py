"""The scripts of a waiting room, one function each: one atomic step each.

Written by `make docs` from the headers of the scripts; do not edit.
"""

from collections.abc import Sequence
from typing import Any

from waystation.core.store.script import Client, raw, script
from waystation.waitingroom.redis import replies
from waystation.waitingroom.redis.keys import RoomKeys


@script(reply=replies.round)
async def admit(
    redis: Client, keys: RoomKeys, *, now: str | int, most: int, extra: int, only: str | int
) -> replies.Round:
    """Call in as many as there are turns and seats for."""
    ...


@script(reply=replies.texts)
async def claim(
    redis: Client, keys: RoomKeys, *, id: str, proof: str, user: str, now: str | int
) -> list[str]:
    """Let somebody in whose turn it is; asking again gives the same session."""
    ...


@script(reply=bool)
async def complete(
    redis: Client, keys: RoomKeys, *, id: str, status: str, reason: str, now: str | int
) -> bool:
    """End a session and free its seat; 0 when it had ended."""
    ...


@script(reply=int)
async def configure(
    redis: Client,
    keys: RoomKeys,
    *,
    event: str,
    creates: str,
    version: str | int,
    pepper: str,
    now: str | int,
    fields: Sequence[str],
) -> int:
    """Change how the room is set up; its new version."""
    ...


@script(reply=int)
async def delete(redis: Client, keys: RoomKeys) -> int:
    """Delete a room with everything that is kept of it, if nobody is in it; how many people are."""
    ...


@script(reply=replies.entered)
async def enter(
    redis: Client,
    keys: RoomKeys,
    *,
    id: str,
    visitor: str,
    proof: str,
    agent: str,
    network: str,
    now: str | int,
) -> replies.Inside | None:
    """Begin a session at once, if nobody waits and there are a turn and a seat for it."""
    ...


@script(reply=replies.swept)
async def expire(redis: Client, keys: RoomKeys, *, batch: int, now: str | int) -> replies.Swept:
    """Take those out of the line who fell silent; the ids of at most so many."""
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


@script(reply=replies.texts)
async def recover(
    redis: Client, keys: RoomKeys, *, id: str, proof: str, now: str | int
) -> list[str]:
    """Let somebody take back a turn that was missed; they come in next, in the old order."""
    ...


@script(reply=replies.texts)
async def redeem(
    redis: Client, keys: RoomKeys, *, code: str, visitor: str, now: str | int
) -> list[str]:
    """Use an access code: once for each visitor, and for no more visitors than it allows."""
    ...


@script(reply=replies.renewal)
async def renew(
    redis: Client, keys: RoomKeys, *, id: str, views: int, now: str | int
) -> replies.Renewal | None:
    """Keep a session alive, unless it has ended."""
    ...


@script(reply=replies.taken)
async def take_over(
    redis: Client, keys: RoomKeys, *, host: str, now: str | int
) -> replies.Passed | None:
    """Take over a session that was handed to a site, once and on the host it was meant for."""
    ...


@script(reply=replies.texts)
async def announce(
    redis: Client,
    keys: RoomKeys,
    *,
    seed: str,
    commitment: str,
    witness: str,
    version: str | int,
    now: str | int,
) -> list[str]:
    """Choose the seed of the next draw and publish its commitment, in one step; the commitment
    of the seed that counts. One that was chosen stays until its draw has been held, and so does
    a witness.
    """
    ...


@script(reply=replies.texts)
async def begin_draw(
    redis: Client, keys: RoomKeys, *, beacon: str, wait: int, now: str | int
) -> list[str]:
    """Close the pre-queue: seed, beacon, number of people, instant, and 1 when lots may be
    drawn; the same however often it is asked. The secret of a witness, where there is one, is
    waited for `wait` seconds.
    """
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
    """Put some of the pre-queue in line; how many stand there now, or -1 once it is over."""
    ...


@script(reply=bool)
async def end_draw(
    redis: Client, keys: RoomKeys, *, opened: str, digest: str, now: str | int
) -> bool:
    """Open the room once everybody of the pre-queue stands in line."""
    ...


@script(reply=bool)
async def reveal(redis: Client, keys: RoomKeys, *, secret: str, digest: str) -> bool:
    """Mix the secret of a witness into the draw; 0 when that has been done."""
    ...


@script(reply=int)
async def compact(redis: Client, keys: RoomKeys, *, lane: int, most: int) -> int:
    """Make a lane's list anew when most of it are ghosts; how many it lost."""
    ...


@script(reply=raw)
async def curve(redis: Client, keys: RoomKeys, *, points: int) -> Any:
    """Points on the line, lane by lane: a score, and how many of the lane come before it."""
    ...


@script(reply=replies.beats)
async def heartbeat(
    redis: Client, keys: RoomKeys, *, now: str | int, people: Sequence[str | int]
) -> list[replies.Forbidden | replies.VisitorStatus]:
    """Note that people in line are still there, and how things stand for each of them."""
    ...


@script(reply=raw)
async def join(
    redis: Client, keys: RoomKeys, *, now: str | int, model: str, newcomers: Sequence[str | int]
) -> list[list[Any]]:
    """Give each newcomer a place in line, or the one they have; in the order they stand here."""
    ...


@script(reply=replies.word)
async def leave(
    redis: Client, keys: RoomKeys, *, id: str, proof: str, reason: str, now: str | int
) -> str:
    """Let somebody go who no longer wants to wait."""
    ...


@script(reply=replies.word)
async def notify(redis: Client, keys: RoomKeys, *, proof: str, handle: str) -> str:
    """Remember how to reach somebody when it is their turn, if they are still here."""
    ...


@script(reply=int)
async def promise(redis: Client, keys: RoomKeys, *, estimates: Sequence[str]) -> int:
    """Remember the estimates of some who have just joined; how many of them are new."""
    ...


@script(reply=bool)
async def rebind(redis: Client, keys: RoomKeys, *, visitor: str, proof: str) -> bool:
    """Give the place of somebody who shows the same invitation again to the device shown on."""
    ...


@script(reply=replies.texts)
async def rejoin(
    redis: Client, keys: RoomKeys, *, id: str, proof: str, now: str | int
) -> list[str]:
    """Give somebody who left a short while ago the old place again."""
    ...


@script(reply=bool)
async def sample(redis: Client, keys: RoomKeys, *, hour: str, now: str | int) -> bool:
    """Note the numbers of a room, once in a minute; a day of them is kept."""
    ...


@script(reply=raw)
async def state(redis: Client, keys: RoomKeys, *, now: str | int) -> Any:
    """How the room is set up and how it does, in one look."""
    ...


@script(reply=replies.statuses)
async def status(
    redis: Client, keys: RoomKeys, *, now: str | int, ids: Sequence[str]
) -> list[replies.VisitorStatus]:
    """How things stand for each of some people; changes nothing."""
    ...
