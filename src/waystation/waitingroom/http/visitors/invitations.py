"""Invitations and access codes that newcomers bring."""

import msgspec

from waystation.core.clock import Clock
from waystation.core.http.exchange import Request
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Code, Problem
from waystation.waitingroom.http.bodies import Enqueue
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.tokens import Tokens
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.room import Room
from waystation.waitingroom.signing.tokens import EnqueueTicket
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, network_of

INVITED = "invite|"
"""What the identity of somebody begins with who shows an invitation."""


class Welcome(msgspec.Struct, frozen=True):
    """What somebody joins as."""

    lane: Lane
    identity: str
    """What makes them one visitor."""


class Invitations:
    """Reads what newcomers bring."""

    def __init__(self, tokens: Tokens, clock: Clock, *, guess_s: float) -> None:
        self._tokens = tokens
        # Wrong codes are few among people and many among guessers.
        self._wrong = Pace(every_s=guess_s, burst=10, clock=clock)

    async def welcome(
        self, request: Request, room: Room, state: RoomState, asked: Enqueue, key: str | None
    ) -> Welcome:
        """The lane that they may join; a Problem when they may join none."""
        if asked.ticket:
            invited = await self._invited(request, room, asked.ticket, state)
            return Welcome(invited.lane, f"{INVITED}{invited.key}")
        if asked.code and key is not None:
            return Welcome(await self._lane(request, room, asked.code, key), f"cookie|{key}")
        raise Problem(403, RoomCode.INVITE_REQUIRED, "this line is for those who were invited")

    async def _lane(self, request: Request, room: Room, code: str, key: str) -> Lane:
        self._wrong.require_left(request.address, "too many wrong codes came from there")
        lane = await Codes(room).redeem(code[:64], key)
        if lane is None:
            self._wrong.count(request.address)
            # One answer for all: whoever guesses does not learn that a code was there.
            raise Problem(403, Code.CODE_INVALID, "the code is not valid, or is used up")
        return lane

    async def _invited(
        self, request: Request, room: Room, ticket: str, state: RoomState
    ) -> EnqueueTicket:
        invited = self._tokens.read_invitation(ticket, room, state)
        if await room.revoked(invited.jti):
            raise Problem(401, RoomCode.INVALID_TOKEN, "the invitation was revoked")
        if invited.ip and invited.ip != network_of(request.address):
            raise Problem(403, RoomCode.WRONG_NETWORK, "this invitation is for another network")
        return invited
