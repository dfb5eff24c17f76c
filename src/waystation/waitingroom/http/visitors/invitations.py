"""Who may join which lane: whoever shows a signed invitation, or an access code."""

import msgspec

from waystation.core.errors import InvalidToken
from waystation.waitingroom.codes import Codes
from waystation.waitingroom.http.bodies import Enqueue
from waystation.waitingroom.http.context import Desk
from waystation.waitingroom.http.framework.exchange import Request
from waystation.waitingroom.http.framework.pace import Pace
from waystation.waitingroom.http.framework.problems import Problem
from waystation.waitingroom.room import Room
from waystation.waitingroom.rooms import name_of
from waystation.waitingroom.signing.tokens import EnqueueTicket
from waystation.waitingroom.state import Pulse
from waystation.waitingroom.visitor import Lane, network_of


class Welcome(msgspec.Struct, frozen=True):
    """What somebody joins as."""

    lane: Lane
    identity: str
    """What makes them one visitor."""


class Invitations:
    """Reads what newcomers bring."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        # Wrong codes are few among people and many among guessers.
        self._wrong = Pace(every_s=desk.options.guess_floor_ms / 1000, burst=10, clock=desk.clock)

    def unasked(self, pulse: Pulse, asked: Enqueue, key: str | None) -> Welcome | None:
        """How those join who bring nothing, unless the room asks for something."""
        if asked.ticket or asked.code or pulse.fields.get("invite_only") == "1":
            return None
        return Welcome(Lane.NORMAL, f"cookie|{key}")

    async def welcome(
        self, request: Request, room: Room, pulse: Pulse, asked: Enqueue, key: str | None
    ) -> Welcome:
        """The lane that they may join; a Problem when they may join none."""
        if asked.ticket:
            invited = await self._invited(request, room, asked.ticket, pulse)
            return Welcome(invited.lane, f"invite|{invited.key}")
        if asked.code and key is not None:
            return Welcome(await self._lane(request, room, asked.code, key), f"cookie|{key}")
        raise Problem(403, "INVITE_REQUIRED", "this line is for those who were invited")

    async def _lane(self, request: Request, room: Room, code: str, key: str) -> Lane:
        self._wrong.require_left(request.address, "too many wrong codes came from there")
        lane = await Codes(room).redeem(code[:64], key)
        if lane is None:
            self._wrong.count(request.address)
            # One answer for all: whoever guesses does not learn that a code was there.
            raise Problem(403, "CODE_INVALID", "the code does not count, or is used up")
        return lane

    async def _invited(
        self, request: Request, room: Room, ticket: str, pulse: Pulse
    ) -> EnqueueTicket:
        try:
            invited = self._desk.keyring.verify(
                ticket,
                EnqueueTicket,
                audience=name_of(room.queue_id),
                issuer=self._desk.options.issuer,
                now_ms=self._desk.clock.now_ms(),
                epoch=pulse.epoch,
            )
        except InvalidToken as error:
            raise Problem(401, error.code, str(error)) from None
        if await room.revoked(invited.jti):
            raise Problem(401, "INVALID_TOKEN", "the invitation was taken back")
        if invited.ip and invited.ip != network_of(request.address):
            raise Problem(403, "WRONG_NETWORK", "this invitation is for another network")
        return invited
