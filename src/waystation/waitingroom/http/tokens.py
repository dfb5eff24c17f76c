"""Tokens that visitors carry: tickets of places, session tokens and invitations."""

import json
import random
from base64 import urlsafe_b64decode

from waystation.core.clock import Clock
from waystation.core.errors import InvalidToken
from waystation.core.http.problems import Problem
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.returns import Return, Seal, safe_path
from waystation.waitingroom.room import Room
from waystation.waitingroom.signing.tokens import (
    LEEWAY_S,
    EnqueueTicket,
    Keyring,
    QueueTicket,
    SessionToken,
)
from waystation.waitingroom.state import RoomState
from waystation.waitingroom.visitor import Lane, Place, new_id

MOST_REMEMBERED = 100_000
"""Tokens whose signature a process remembers having checked."""


class Tokens:
    """Signs tokens and checks them; remembers the signatures that it has checked."""

    def __init__(
        self, keyring: Keyring, clock: Clock, *, issuer: str, ticket_s: int, session_s: int
    ) -> None:
        self.keyring = keyring
        self.seal = Seal.of(keyring)
        self.issuer = issuer
        self.bits = random.SystemRandom()
        self._clock = clock
        self._ticket_s = ticket_s
        self.session_s = session_s
        """Seconds for which a session token is valid."""
        self._checked: dict[str, QueueTicket | SessionToken] = {}

    def adopt(self, keyring: Keyring) -> None:
        """Sign and check with these keys from now on."""
        self.keyring = keyring
        self.seal = Seal.of(keyring)
        self._checked.clear()

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._clock.now_ms() / 1000

    def sign_ticket(self, room: Room, place: Place, lane: Lane, state: RoomState) -> str:
        """The ticket of a place."""
        now = self._clock.now_ms() // 1000
        return self.keyring.sign(
            QueueTicket(
                iss=self.issuer,
                aud=room.name,
                iat=now,
                exp=now + self._ticket_s,
                jti=place.id,
                epoch=state.epoch,
                owner=place.owner,
                lane=lane,
            )
        )

    def sign_session(
        self, room: Room, place: Place, state: RoomState, *, host: str, life_s: int = 0
    ) -> str:
        """The token of a session, for the next two minutes unless another life is given."""
        now = self._clock.now_ms() // 1000
        return self.keyring.sign(
            SessionToken(
                iss=self.issuer,
                aud=room.name,
                iat=now,
                exp=now + (life_s or self.session_s),
                jti=new_id(self.bits),
                epoch=state.epoch,
                sub=place.id,
                owner=place.owner,
                host=host,
            )
        )

    def read_ticket(self, token: str, room: Room, state: RoomState) -> Place:
        """The place of a ticket that is valid in this room; a Problem for any other."""
        if not token:
            raise Problem(401, RoomCode.TICKET_REQUIRED, "this needs a ticket, got none")
        ticket = self._checked.get(token)
        if not isinstance(ticket, QueueTicket) or ticket.exp <= self.now_s():
            try:
                ticket = self.keyring.verify(
                    token,
                    QueueTicket,
                    audience=room.name,
                    issuer=self.issuer,
                    now_ms=self._clock.now_ms(),
                )
            except InvalidToken as error:
                raise Problem(401, RoomCode.INVALID_TOKEN, str(error)) from None
            self._remember(token, ticket)
        if ticket.aud != room.name or ticket.epoch < state.epoch:
            raise Problem(401, RoomCode.INVALID_TOKEN, "the ticket is no longer valid here")
        return Place(ticket.jti, ticket.owner)

    def read_session(self, token: str, room: str, *, grace_s: int = 0) -> SessionToken:
        """The claims of a session token, also of one that expired less than the grace ago."""
        known = self._checked.get(token)
        if isinstance(known, SessionToken) and known.aud == room and known.exp > self.now_s():
            return known
        claims = self.keyring.verify(
            token,
            SessionToken,
            audience=room,
            issuer=self.issuer,
            now_ms=self._clock.now_ms(),
            leeway_s=LEEWAY_S + grace_s,
        )
        # The grace is for expired tokens, not for those that are not valid yet.
        if max(claims.nbf, claims.iat) - LEEWAY_S > self.now_s():
            raise InvalidToken("the token is not valid: its time has not come yet")
        self._remember(token, claims)
        return claims

    def read_invitation(self, token: str, room: Room, state: RoomState) -> EnqueueTicket:
        """The claims of an invitation; a Problem for one that is not valid."""
        try:
            return self.keyring.verify(
                token,
                EnqueueTicket,
                audience=room.name,
                issuer=self.issuer,
                now_ms=self._clock.now_ms(),
                epoch=state.epoch,
            )
        except InvalidToken as error:
            raise Problem(401, RoomCode.INVALID_TOKEN, str(error)) from None

    def seal_target(self, room: Room, host: str, path: str) -> str:
        """Seal where a visitor wants to go; the host, if any, must be one of the room's own."""
        until = int(self.now_s()) + self._ticket_s
        return self.seal.close(Return(host=host, path=safe_path(path), queue=room.name, exp=until))

    def _remember(self, token: str, claims: QueueTicket | SessionToken) -> None:
        if len(self._checked) >= MOST_REMEMBERED:
            del self._checked[next(iter(self._checked))]
        self._checked[token] = claims


def audience_of(token: str) -> str:
    """The room that a token names; trust it only after the token was verified."""
    return _claim(token, "aud")


def subject_of(token: str) -> str:
    """The session that a token names; trust it only after the token was verified."""
    return _claim(token, "sub")


def _claim(token: str, claim: str) -> str:
    try:
        _, payload, _ = token.split(".")
        return str(json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))[claim])
    except (ValueError, KeyError, TypeError):
        raise InvalidToken("the token is not valid: it is not a token") from None
