"""Who waits, and how things stand for them."""

import hashlib
from base64 import urlsafe_b64encode
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TypeAlias

import msgspec

from waystation.core.errors import InvalidInput
from waystation.core.identity import Bits

LONGEST_METADATA = 1024
LONGEST_KEY = 512


class Lane(IntEnum):
    """The four lanes, the most urgent with the highest number."""

    NORMAL = 0
    ELEVATED = 1
    VIP = 2
    PREMIUM = 3


class Newcomer(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who asks for a place."""

    key: str
    """What makes them one visitor: a cookie's secret, a user's id or an invitation's key."""
    secret: str
    """What they have to know when it is their turn; only its digest is kept."""
    lane: Lane = Lane.NORMAL
    """Never what the visitor asks for, only what a signed ticket says."""
    address: str | None = None
    """The address they come from, which only limits how many come from there."""
    agent: str = ""
    metadata: str = ""
    """JSON of the site's own; short, because everybody in line carries it."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.key) <= LONGEST_KEY:
            raise InvalidInput(f"a visitor key must have 1 to {LONGEST_KEY} characters")
        if not self.secret:
            raise InvalidInput("a visitor needs a secret, got none")
        if len(self.metadata.encode()) > LONGEST_METADATA:
            raise InvalidInput(f"metadata must be at most {LONGEST_METADATA} bytes")


class Place(msgspec.Struct, frozen=True):
    """What it takes to find a visitor again; the ticket carries it."""

    id: str
    owner: str
    """The digest of the visitor's key."""


class Prequeued(msgspec.Struct, frozen=True, kw_only=True):
    """The room has not opened yet."""

    lane: Lane
    starts_ms: int | None
    early: int
    """How many are here already."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """In line."""

    lane: Lane
    seq: int
    """The place on the snapshot's curve."""
    ahead: int
    """People of the same lane who come first; never rises."""
    length: int
    """People in the same lane."""


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """Next to come in, because a missed turn was taken back."""

    ahead: int


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """It is their turn."""

    until_ms: int


class Inside(msgspec.Struct, frozen=True, kw_only=True):
    """In the shop."""

    until_ms: int


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """The turn was missed, but can be taken back."""

    until_ms: int


class Gone(msgspec.Struct, frozen=True):
    """Not here, or no longer."""


Standing: TypeAlias = Prequeued | Waiting | Returned | Called | Inside | Late | Gone


def new_id(bits: Bits) -> str:
    """An id of 96 random bits, short because every structure repeats it."""
    return urlsafe_b64encode(bits.getrandbits(96).to_bytes(12)).decode()


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
def network_digest(address: str, pepper: bytes) -> str:
    """What is kept of the network that an address lies in."""
    return digest(network_of(address), pepper=pepper)


def network_of(address: str) -> str:
    """The network that shares a limit: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        found = ip_address(address)
    except ValueError:
        raise InvalidInput(f"an address must be IPv4 or IPv6, got {address!r}") from None
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped:
            return str(found.ipv4_mapped)
        return str(ip_network((int(found), 64), strict=False))
    return str(found)
