"""Addresses of visitors behind trusted proxies."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from waystation.core.errors import InvalidOption

Network: TypeAlias = IPv4Network | IPv6Network


def networks(texts: Sequence[str], name: str) -> tuple[Network, ...]:
    """Read the networks that an option of this name gives."""
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError:
        raise InvalidOption(f"{name} must be networks such as 10.0.0.0/8, got {texts}") from None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host of this name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def visitor_address(peer: str, forwarded: str, trusted: Sequence[Network]) -> str:
    """The right-most hop that is no proxy of ours; what a stranger says about itself is ignored."""
    if not is_among(peer, trusted):
        return peer
    for hop in reversed(forwarded.split(",")):
        text = _without_port(hop)
        if not is_address(text):
            return peer
        if not is_among(text, trusted):
            return text
        peer = text
    return peer


def _without_port(hop: str) -> str:
    """The address of a hop in any form of RFC 7239: bare, with a port, in brackets, quoted."""
    text = hop.strip().strip('"')
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


@lru_cache(maxsize=10_000)
def client_of(address: str) -> str:
    """Whom a limit counts: an IPv4 address, or the /64 of an IPv6 one, which one client has."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped or ip_network((int(found), 64), strict=False))
    return str(found)


def is_address(text: str) -> bool:
    """Whether this is an address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_among(text: str, networks: Sequence[Network]) -> bool:
    """Whether this is an address in one of these networks."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return any(address in network for network in networks)
