"""Visitors: the request to join, the place it gives, and every status a visitor can have."""

import hashlib
from base64 import b32encode, urlsafe_b64encode
from datetime import datetime, timedelta
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import NamedTuple, TypeAlias

import msgspec

from waystation.core.durations import instant
from waystation.core.errors import InvalidInput
from waystation.core.identity import Bits
from waystation.core.options import check_fields

LONGEST_METADATA = 1024
LONGEST_KEY = 512


class Lane(IntEnum):
    """The four lanes, the most urgent with the highest number."""

    NORMAL = 0
    ELEVATED = 1
    VIP = 2
    PREMIUM = 3


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A visitor who asks for a place."""

    key: str
    """The identity of the visitor: a cookie's secret, a user's id or an invitation's key."""
    secret: str
    """The secret that `claim` and `leave` ask for; only its digest is stored."""
    lane: Lane = Lane.NORMAL
    """Take it from a signed ticket, never from the visitor's own request."""
    address: str | None = None
    """The visitor's IP address; it only limits how many join from one network."""
    agent: str = ""
    """The visitor's User-Agent."""
    metadata: str = ""
    """JSON of the site's own; short, because everybody in line carries it."""
    solved: bool = False
    """A challenge was solved for this place: ten times as many may come from one network so."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= len(self.key) <= LONGEST_KEY:
            raise InvalidInput(f"a visitor key must have 1 to {LONGEST_KEY} characters")
        if not self.secret:
            raise InvalidInput("a visitor needs a secret, got none")
        if len(self.metadata.encode()) > LONGEST_METADATA:
            raise InvalidInput(f"metadata must be at most {LONGEST_METADATA} bytes")


class Place(msgspec.Struct, frozen=True):
    """The id of a visitor in line and its owner; a ticket carries both."""

    id: str
    """The id of the visitor in line."""
    owner: str
    """The digest of the visitor's key."""


class Prequeued(msgspec.Struct, frozen=True, kw_only=True):
    """The room has not opened yet."""

    lane: Lane
    """The lane that the visitor will wait in."""
    starts_ms: int | None
    """When it opens, in milliseconds since 1970; None when that is not planned."""
    early: int
    """Visitors who came before the room opened."""
    ahead: int = 0
    """Those of them who came before this one; where lots are drawn it says nothing."""

    @property
    def starts_at(self) -> datetime | None:
        """The instant the room opens, if it is planned."""
        return None if self.starts_ms is None else instant(self.starts_ms)


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """In line."""

    lane: Lane
    """The lane that the visitor waits in."""
    seq: int
    """The place on the snapshot's curve."""
    ahead: int
    """People of the same lane who come first; rises only when one who left takes that back."""
    length: int
    """People in the same lane."""


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """Next to come in, because a missed turn was taken back."""

    ahead: int
    """People who come first."""


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """The visitor's turn: `claim` lets them in."""

    until_ms: int
    """The end of the turn, in milliseconds since 1970."""

    @property
    def until(self) -> datetime:
        """The end of the turn."""
        return instant(self.until_ms)


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """In a session."""

    until_ms: int
    """The end of the session, in milliseconds since 1970."""

    @property
    def until(self) -> datetime:
        """The end of the session, unless activity renews it."""
        return instant(self.until_ms)


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """The turn was missed; `recover` takes it back."""

    until_ms: int
    """When the turn is lost, in milliseconds since 1970."""

    @property
    def until(self) -> datetime:
        """The instant after which the turn is lost."""
        return instant(self.until_ms)


class Gone(msgspec.Struct, frozen=True):
    """Unknown here, or no longer in line."""


VisitorStatus: TypeAlias = Prequeued | Waiting | Returned | Called | Inside | Late | Gone
"""The answer of `Room.status`."""


class Joined(msgspec.Struct, frozen=True):
    """The visitor has a new place."""

    place: Place
    """The place in line, which a ticket carries."""
    status: VisitorStatus
    """Where the visitor stands."""


class Kept(msgspec.Struct, frozen=True):
    """The visitor had a place already, and this is it."""

    place: Place
    """The place in line, which a ticket carries."""
    status: VisitorStatus
    """Where the visitor stands."""


class Passed(msgspec.Struct, frozen=True):
    """Nobody has to wait: the visitor is inside."""

    place: Place
    """The place in line, which a ticket carries."""
    status: Inside
    """The session that has begun."""


class Refused(msgspec.Struct, frozen=True):
    """The visitor gets no place."""

    reason: str
    """full, crowded, rejected, draining, maintenance, closed or sold_out."""
    retry_after_ms: int = 0
    """Milliseconds before another attempt makes sense; 0 when that is not known."""

    @property
    def retry_after(self) -> timedelta:
        """The pause before another attempt makes sense; zero when unknown."""
        return timedelta(milliseconds=self.retry_after_ms)


Entry: TypeAlias = Joined | Kept | Passed | Refused
"""The outcome of `Room.join`."""


class Begun(msgspec.Struct, frozen=True):
    """The session of a visitor who has come in."""

    session_id: str
    """The id of the session."""
    until_ms: int
    """The end of the session, in milliseconds since 1970."""

    @property
    def until(self) -> datetime:
        """The end of the session, unless activity renews it."""
        return instant(self.until_ms)


class Forbidden(msgspec.Struct, frozen=True):
    """The secret is not the one of this place."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One visitor inside."""

    id: str
    """The id of the session."""
    queue_id: str
    """The name of the room."""
    status: str
    """`active`, or how it ended."""
    started_at: datetime
    """When the visitor came in."""
    expires_at: datetime
    """When it ends unless activity renews it."""
    last_activity: datetime
    """The visitor's last request."""
    page_views: int
    """How many requests there were."""
    user_id: str = ""
    """The user's id, where the site gave one."""


class Renewal(NamedTuple):
    """The new end of a session."""

    until_ms: int
    limit_ms: int
    """The latest end that renewals can reach."""
    views: int

    @property
    def until(self) -> datetime:
        """The end of the session, unless activity renews it again."""
        return instant(self.until_ms)


class Identity(NamedTuple):
    """The digests that are stored of a visitor."""

    owner: str
    networks: tuple[str, ...]
    """Those that the address lies in, the narrowest first; none without an address."""
    proof: str
    agent: str

    @property
    def network(self) -> str:
        """The narrowest network; empty without an address."""
        return self.networks[0] if self.networks else ""


def identify(request: JoinRequest, pepper: bytes) -> Identity:
    """The digests of a visitor who asks for a place."""
    return Identity(
        digest(request.key, pepper=pepper),
        network_digests(request.address, pepper) if request.address else (),
        proof_of(request.secret),
        agent_digest(request.agent),
    )


def new_id(bits: Bits) -> str:
    """An id of 80 random bits, short because every structure repeats it.

    In capitals and digits that nobody confuses: its end is read out over the telephone.
    """
    return b32encode(bits.getrandbits(80).to_bytes(10)).decode()


def digest(text: str, *, pepper: bytes = b"") -> str:
    """A digest of 96 bits that says nothing without the pepper."""
    mac = hashlib.blake2b(text.encode(), key=pepper, digest_size=12).digest()
    return urlsafe_b64encode(mac).decode()


def proof_of(secret: str) -> str:
    """What is kept of a secret."""
    return digest(secret)


@lru_cache(maxsize=4096)
def agent_digest(agent: str) -> str:
    """What is kept of a browser's name, of which there are few among many visitors."""
    return digest(agent)[:8] if agent else ""


@lru_cache(maxsize=16_384)
def network_digests(address: str, pepper: bytes) -> tuple[str, ...]:
    """What is kept of the networks that an address lies in."""
    return tuple(digest(each, pepper=pepper) for each in networks_of(address))


def network_of(address: str) -> str:
    """The narrowest network that shares a limit: an IPv4 address, or the /64 of an IPv6 one."""
    return networks_of(address)[0]


def networks_of(address: str) -> tuple[str, ...]:
    """The networks that share a limit: an IPv4 address, or the /64, /56 and /48 of an IPv6 one.

    One customer of a provider has a /64, a /56 or a /48 to themselves, and any address in it.
    """
    try:
        found = ip_address(address)
    except ValueError:
        raise InvalidInput(f"an address must be IPv4 or IPv6, got {address!r}") from None
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped:
            return (str(found.ipv4_mapped),)
        return tuple(str(ip_network((int(found), each), strict=False)) for each in (64, 56, 48))
    return (str(found),)
