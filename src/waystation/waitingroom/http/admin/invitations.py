"""Operator routes for invitations and access codes."""

import re

from waystation.core.errors import InvalidOption, NotFound
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, MOST_BODY, ROOT, AdminContext
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.tokens import Tokens
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.room import Room
from waystation.waitingroom.signing.tokens import LEEWAY_S, EnqueueTicket
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, network_of, new_id

_ENDS = re.compile(r"[A-Za-z0-9_-]{16}\.([0-9a-f]{1,10})")
"""The id of an invitation of ours, and the second after which it no longer counts."""


class InvitationAdmin:
    """Who may join, and in which lane."""

    def __init__(self, context: AdminContext, tokens: Tokens) -> None:
        self._context = context
        self._tokens = tokens

    @endpoint(
        f"POST {ROOT}/{{id}}/invites",
        takes=bodies.NewInvites,
        gives={201: bodies.Invites},
        fails=FAILS,
        scope="admin",
    )
    async def invite(self, request: Request) -> Answer:
        """Sign invitations, one place in line for each key."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(bodies.NewInvites, MOST_BODY)
        if not 1 <= len(asked.keys) <= bodies.MOST_INVITES or not all(asked.keys):
            raise InvalidOption(
                f"keys must be 1 to {bodies.MOST_INVITES} names, none of them empty"
            )
        if any(len(key) > bodies.LONGEST_KEY for key in asked.keys):
            raise InvalidOption(f"a key may have {bodies.LONGEST_KEY} characters")
        expires = self._expires_s(asked.minutes, least=1)
        network = network_of(asked.address) if asked.address else ""
        state = await room.state()
        signed = [
            self._signed(room, state, key, asked.lane, expires, network) for key in asked.keys
        ]
        after = {"invites": len(signed), "lane": asked.lane, "expires_s": expires}
        await self._context.note(who, "invite", room, before=None, after=after)
        return answer(bodies.Invites(invites=signed), 201)

    @endpoint(
        f"DELETE {ROOT}/{{id}}/invites/{{jti}}", gives={204: None}, fails=FAILS, scope="admin"
    )
    async def take_back(self, request: Request) -> Answer:
        """Revoke an invitation; a place that it gave is kept."""
        room, who = await self._context.allowed(request, "admin")
        jti = request.slots["jti"][:64]
        await room.revoke(jti, "invitation_revoked", ttl=self._left_s(jti))
        await self._context.note(who, "take-back-invite", room, before=jti, after=None)
        return Answer(204)

    @endpoint(
        f"POST {ROOT}/{{id}}/codes",
        takes=bodies.NewCodes,
        gives={201: bodies.MadeCodes},
        fails=FAILS,
        scope="admin",
    )
    async def make_codes(self, request: Request) -> Answer:
        """Create access codes; they are shown once."""
        room, who = await self._context.allowed(request, "admin")
        asked = await request.read(bodies.NewCodes)
        expires = self._expires_s(asked.minutes)
        made = await Codes(room).make(
            asked.batch,
            asked.count,
            bits=self._tokens.bits,
            lane=Lane(asked.lane),
            uses=asked.uses,
            expires_s=expires,
        )
        after = {"batch": asked.batch, "count": asked.count, "lane": asked.lane, "uses": asked.uses}
        await self._context.note(who, "make-codes", room, before=None, after=after)
        return answer(bodies.MadeCodes(batch=asked.batch, codes=made), 201)

    @endpoint(f"GET {ROOT}/{{id}}/codes", gives={200: bodies.Batches}, fails=FAILS, scope="viewer")
    async def batches(self, request: Request) -> Answer:
        """List the batches of codes and their use."""
        room, _ = await self._context.allowed(request, "viewer")
        listed = [
            bodies.CodeBatch(
                batch=each.batch,
                lane=int(each.lane),
                uses=each.uses,
                codes=each.codes,
                used=each.used,
                expires_at=rfc3339(each.expires_s * 1000) if each.expires_s else None,
            )
            for each in await Codes(room).batches()
        ]
        return answer(bodies.Batches(batches=listed))

    @endpoint(
        f"DELETE {ROOT}/{{id}}/codes/{{batch}}", gives={204: None}, fails=FAILS, scope="admin"
    )
    async def revoke_codes(self, request: Request) -> Answer:
        """Revoke a batch of codes."""
        room, who = await self._context.allowed(request, "admin")
        batch = request.slots["batch"]
        if not await Codes(room).revoke(batch):
            raise NotFound("there is no batch of that name")
        await self._context.note(who, "revoke-codes", room, before=batch, after=None)
        return Answer(204)

    def _expires_s(self, minutes: float, *, least: float = 0) -> int:
        most = bodies.LONGEST_DAYS * 1440
        if not least <= minutes <= most:
            raise InvalidOption(f"minutes must be {least} to {most}, got {minutes}")
        return round(self._tokens.now_s() + minutes * 60) if minutes else 0

    def _left_s(self, jti: str) -> int:
        """How long an invitation may still count: what we signed says so in its id."""
        most = bodies.LONGEST_DAYS * 86_400
        end = _ENDS.fullmatch(jti)
        if end is None:
            return most
        return min(most, max(1, int(end[1], 16) - int(self._tokens.now_s()) + LEEWAY_S))

    def _signed(
        self, room: Room, state: RoomState, key: str, lane: int, expires: int, network: str
    ) -> bodies.Invite:
        name, jti = room.name, f"{new_id(self._tokens.bits)}.{expires:x}"
        ticket = self._tokens.keyring.sign(
            EnqueueTicket(
                iss=self._tokens.issuer,
                aud=name,
                iat=int(self._tokens.now_s()),
                exp=expires,
                jti=jti,
                epoch=state.epoch,
                key=key,
                lane=Lane(lane),
                ip=network,
            )
        )
        return bodies.Invite(
            key=key,
            jti=jti,
            ticket=ticket,
            url=f"/wait/{name}?ticket={ticket}",
            expires_at=rfc3339(expires * 1000),
        )
