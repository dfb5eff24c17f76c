"""Signed tokens: invitations, tickets of places, and sessions.

Each kind has keys of its own and a type of its own, so that none passes for another. A token names
its key, never its algorithm: what the header says about that only has to agree with the key.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Any, NoReturn, Self, TypeVar, cast

import msgspec
from joserfc.errors import JoseError

from waystation.core.errors import InvalidInput, InvalidToken
from waystation.core.identity import Bits
from waystation.waitingroom.signing.keys import Pair, Secret, SigningKey
from waystation.waitingroom.visitor import Lane

LONGEST_TOKEN = 4096
LEEWAY_S = 30
CONFIG = "wr-config+jwt"
"""The `typ` of the answers that connectors get; no check of a token accepts it."""
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Kind(StrEnum):
    """What a token is for; the `typ` of its header."""

    ENQUEUE = "wr-enqueue+jwt"
    QUEUE = "wr-queue+jwt"
    SESSION = "wr-session+jwt"


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every token says."""

    iss: str
    aud: str
    """The room."""
    iat: int
    exp: int
    jti: str
    nbf: int = 0
    epoch: int = 0


class EnqueueTicket(Claims, frozen=True, kw_only=True):
    """An invitation: whoever shows it joins under this key, in this lane."""

    key: str
    lane: Lane = Lane.NORMAL
    ip: str = ""
    """The only network it may be used from; empty for any."""


class QueueTicket(Claims, frozen=True, kw_only=True):
    """A place in line; `jti` is its id."""

    owner: str
    lane: Lane = Lane.NORMAL


class SessionToken(Claims, frozen=True, kw_only=True):
    """A seat inside, for two minutes at a time."""

    sub: str
    """The session's id."""
    owner: str
    host: str = ""
    net: str = ""


T = TypeVar("T", bound=Claims)

KINDS: Mapping[Kind, type[Claims]] = {
    Kind.ENQUEUE: EnqueueTicket,
    Kind.QUEUE: QueueTicket,
    Kind.SESSION: SessionToken,
}
_KIND_OF: Mapping[type[Claims], Kind] = {struct: kind for kind, struct in KINDS.items()}
SIGNED_WITH: Mapping[Kind, type[SigningKey]] = {
    Kind.ENQUEUE: Pair,
    Kind.QUEUE: Secret,
    Kind.SESSION: Pair,
}
"""Invitations and sessions are checked by sites and proxies, places in line by the room alone."""


class Ring:
    """The keys of one kind: the one in use, the one to come and those before, the last first."""

    def __init__(self, next: SigningKey, current: SigningKey, *previous: SigningKey) -> None:
        self.next = next
        self.current = current
        self.previous = previous
        self.by_id = {key.id: key for key in (next, current, *previous)}
        self._heads: dict[Kind, bytes] = {}

    def head(self, kind: Kind) -> bytes:
        """The header of a token signed now, as it is written."""
        if kind not in self._heads:
            key = self.current
            said = {"alg": key.algorithms[0], "kid": key.id, "typ": kind.value}
            self._heads[kind] = _text(msgspec.json.encode(said))
        return self._heads[kind]

    def rotated(self, bits: Bits) -> "Ring":
        """The next key in use, and a new one announced."""
        return Ring(type(self.next).generate(bits), self.next, self.current, *self.previous)

    def retired(self, ids: Container[str] | None = None) -> "Ring":
        """The same without these keys before; without all of them when none are named."""
        kept = () if ids is None else tuple(k for k in self.previous if k.id not in ids)
        return Ring(self.next, self.current, *kept)

    def written(self) -> dict[str, Any]:
        """All keys, private ones included."""
        return {
            "next": self.next.written(private=True),
            "current": self.current.written(private=True),
            "previous": [key.written(private=True) for key in self.previous],
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any], made: type[SigningKey]) -> Self:
        """Read what `written` gave; one key before may stand there alone."""
        before: Any = kept.get("previous", [])
        previous = cast("list[Any]", before if isinstance(before, list) else [before])
        return cls(*(made.read(key) for key in (kept["next"], kept["current"], *previous)))


class Keyring:
    """All keys of an installation; every process must have the same."""

    def __init__(self, rings: Mapping[Kind, Ring]) -> None:
        self._rings = dict(rings)

    @classmethod
    def generate(cls, bits: Bits) -> Self:
        """Make new keys."""
        return cls(
            {
                kind: Ring(made.generate(bits), made.generate(bits))
                for kind, made in SIGNED_WITH.items()
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote."""
        try:
            kept = cast("dict[str, dict[str, Any]]", json.loads(text))
            rings = {kind: Ring.read(kept[kind], made) for kind, made in SIGNED_WITH.items()}
        except (ValueError, KeyError, TypeError, AttributeError, JoseError) as error:
            raise InvalidInput(f"these are not the keys of a waiting room: {error}") from None
        return cls(rings)

    def to_json(self) -> str:
        """Everything, private keys included: for a secret store, never for a log."""
        return json.dumps({kind.value: ring.written() for kind, ring in self._rings.items()})

    def rotate(self, kind: Kind, bits: Bits) -> None:
        """Use the key announced last; tokens signed with the one in use so far go on counting."""
        self._rings[kind] = self._rings[kind].rotated(bits)

    def retire(self, kind: Kind, ids: Container[str] | None = None) -> None:
        """Let tokens of these keys before count no longer; of all of them when none are named."""
        self._rings[kind] = self._rings[kind].retired(ids)

    def ids(self, kind: Kind) -> tuple[str, ...]:
        """The ids of the next, the current and the previous keys of one kind."""
        ring = self._rings[kind]
        return ring.next.id, ring.current.id, *(key.id for key in ring.previous)

    def jwks(self) -> dict[str, list[dict[str, Any]]]:
        """The public keys that connectors check sessions with, the one to come among them."""
        ring = self._rings[Kind.SESSION]
        return {
            "keys": [
                {**key.written(private=False), "use": "sig", "alg": key.algorithms[0]}
                for key in ring.by_id.values()
            ]
        }

    def sign(self, claims: Claims) -> str:
        """Write a token."""
        kind = _KIND_OF[type(claims)]
        ring = self._rings[kind]
        content = ring.head(kind) + b"." + _text(msgspec.json.encode(claims))
        return (content + b"." + _text(ring.current.sign(content))).decode()

    def sign_config(self, config: bytes) -> str:
        """Sign the configuration of connectors, with the key that they check sessions with."""
        key = self._rings[Kind.SESSION].current
        said = {"alg": key.algorithms[0], "kid": key.id, "typ": CONFIG}
        text = _text(msgspec.json.encode(said)) + b"." + _text(config)
        return (text + b"." + _text(key.sign(text))).decode()

    def verify(
        self,
        token: str,
        want: type[T],
        *,
        audience: str,
        issuer: str,
        now_ms: int,
        epoch: int = 0,
        leeway_s: int = LEEWAY_S,
    ) -> T:
        """Read a token that counts here and now; InvalidToken says why another does not."""
        kind = _KIND_OF[want]
        payload = self._payload(token, kind)
        try:
            claims = msgspec.convert(_object(payload), want)
        except (ValueError, msgspec.ValidationError):
            _refuse(f"it does not say what a {kind} says")
        now_s = now_ms / 1000
        if claims.aud != audience or claims.iss != issuer:
            _refuse("it is meant for another room")
        if claims.exp + leeway_s <= now_s:
            _refuse("it has expired")
        if max(claims.nbf, claims.iat) - leeway_s > now_s:
            _refuse("its time has not come yet")
        if claims.epoch < epoch:
            _refuse("every token of its time was revoked")
        return claims

    def _payload(self, token: str, kind: Kind) -> bytes:
        """What a token says, if one of our keys signed it."""
        if len(token) > LONGEST_TOKEN or not _COMPACT.fullmatch(token):
            _refuse("it is not a token")
        head, payload, written = token.split(".")
        try:
            header = _object(_bytes(head))
        except ValueError:
            _refuse("its header cannot be read")
        if header.keys() != {"alg", "kid", "typ"}:
            _refuse("its header says more or less than it should")
        if header["typ"] != kind.value:
            _refuse(f"it is not a {kind}")
        key = self._rings[kind].by_id.get(str(header["kid"]))
        if key is None:
            _refuse("nobody here knows its key")
        if header["alg"] not in key.algorithms:
            _refuse("its header says another algorithm than its key")
        signature = _bytes(written)
        if _text(signature).decode() != written:
            _refuse("its signature is not written as it should be")
        if not key.signed(f"{head}.{payload}".encode(), signature):
            _refuse("its signature is not ours")
        return _bytes(payload)


def _text(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")


def _bytes(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        _refuse("it is not written as it should be")


def _object(raw: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name twice")
        return found

    found = json.loads(raw.decode("utf-8"), object_pairs_hook=once)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return cast("dict[str, Any]", found)


def _refuse(why: str) -> NoReturn:
    raise InvalidToken(f"the token is not valid: {why}")
