"""Webhook requests: signed, and unable to reach private networks.

The name is resolved once, what it stands for is judged, and the connection goes to the address that
was judged: a name that means something else a moment later changes nothing. Redirects are not
followed. This is why the standard library's client is used here and httpx2 elsewhere: the socket is
opened to the checked address, while TLS still verifies the name.
"""

import asyncio
import hashlib
import hmac
import re
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from http.client import HTTPException
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidOption
from waystation.core.failure import message_of
from waystation.core.http import outgoing
from waystation.core.http.addresses import Network
from waystation.core.runtime.handlers.pools import Threads
from waystation.core.telemetry.logs import get_logger

PATIENCE_S = 5.0
"""For one delivery: connecting, sending and the answer."""
LONGEST_URL = 500
_NAT64 = IPv6Network("64:ff9b::/96")
"""How IPv4 is reached from networks that have none (RFC 6052)."""
_PROTOCOLS = IPv4Network("192.0.0.0/24")
"""For protocols (RFC 6890); clouds have their metadata there, and older Pythons call it public."""
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?", re.IGNORECASE)
"""A host name (RFC 1123), with the underscores that some networks of one's own have."""
_OWN_NAT64 = IPv6Network("64:ff9b:1::/48")

Address: TypeAlias = IPv4Address | IPv6Address

_log = get_logger(__name__)


class Unreachable(Exception):
    """Nobody answered, or nobody who may be asked."""


def checked(url: str, inside: Sequence[Network]) -> str:
    """An address that may be asked at all; InvalidOption says why another may not.

    What a name stands for is only known when it is asked, so names are judged then.
    """
    parts = _plain(url, inside)
    host = parts.hostname or ""
    address = _written_out(host)
    if address is None and not _NAME.fullmatch(host):
        raise InvalidOption(f"a webhook's url must name a host that can exist, got {host!r}")
    if address is not None and not _may_go(address, inside, secure=parts.scheme == "https"):
        raise InvalidOption(_leads_inside(host))
    return url


def _plain(url: str, inside: Sequence[Network]) -> SplitResult:
    parts = _split(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and inside):
        raise InvalidOption(
            "a webhook's url must start with https://; http is for networks of your own, "
            "which webhook_networks names"
        )
    return parts


def post(url: str, body: bytes, headers: Mapping[str, str], inside: Sequence[Network]) -> int:
    """Send a body and say what status came back."""
    parts = _plain(url, inside)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    address = _allowed(host, port, inside, secure=parts.scheme == "https")
    try:
        status, _ = outgoing.ask(
            "POST", url, limit_s=PATIENCE_S, address=address, body=body, headers=headers, most=0
        )
    except (OSError, HTTPException) as error:
        raise Unreachable(f"{host} does not answer: {type(error).__name__}") from error
    return status


def _split(url: str) -> SplitResult:
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidOption("a webhook's url cannot be read") from None
    if not plain or len(url) > LONGEST_URL or not parts.hostname or "@" in parts.netloc:
        raise InvalidOption("a webhook's url must be plain, short and without a user in it")
    return parts


def _allowed(host: str, port: int, inside: Sequence[Network], *, secure: bool) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"nobody knows {host}") from error
    for *_, place in found:
        address = ip_address(str(place[0]).partition("%")[0])
        if _may_go(address, inside, secure=secure):
            return str(address)
    raise Unreachable(_leads_inside(host))


def _leads_inside(host: str) -> str:
    return f"{host} leads inside, where no webhook may go, unless webhook_networks names it"


def _may_go(address: Address, inside: Sequence[Network], *, secure: bool) -> bool:
    """Whether a webhook may go to this address: to networks of our own, else to public ones."""
    ends = _ends(address)
    if any(end in network for end in ends for network in inside):
        return True
    return secure and all(_is_public(end) for end in ends)


def _is_public(address: Address) -> bool:
    # Python takes the networks' own kind of NAT64 (RFC 8215) for one that everybody reaches.
    own = address in (_OWN_NAT64 if isinstance(address, IPv6Address) else _PROTOCOLS)
    return address.is_global and not address.is_multicast and not own


def _ends(address: Address) -> list[Address]:
    """Where an address leads to: IPv6 has several ways of writing an IPv4 address into its own."""
    if isinstance(address, IPv4Address):
        return [address]
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    if address.teredo:
        return [address, *address.teredo]
    within = address.ipv4_mapped or address.sixtofour
    return [within] if within else [address]


def _written_out(host: str) -> Address | None:
    """The address that a host is, however it is written; None for a name."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return IPv4Address("127.0.0.1")
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return ip_address(str(found[0][4][0]).partition("%")[0])


class Sender:
    """Sends to public addresses, and to the private networks that were named."""

    def __init__(
        self,
        private: Sequence[Network] = (),
        *,
        headers: str = "Waystation",
        clock: Clock | None = None,
    ) -> None:
        self.private = private
        """Private networks that webhooks may go to."""
        self._headers = headers
        self._clock = clock or SystemClock()
        # Of its own: a name that nobody answers for must not keep others' threads.
        self._threads = Threads(name="webhook")

    def now_ms(self) -> int:
        """The instant, in milliseconds."""
        return self._clock.now_ms()

    async def send(self, url: str, secret: str, body: bytes, *, delivery: str) -> str:
        """Send a body; an empty text when it was taken, else what went wrong, whatever it was."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "waystation-webhook",
            f"{self._headers}-Delivery": delivery,
            f"{self._headers}-Signature": signature(secret, body, self.now_ms() // 1000),
        }
        try:
            # A little more than the request itself takes at most: names are asked for before.
            async with asyncio.timeout(2 * PATIENCE_S):
                status = await self._threads.run(partial(post, url, body, headers, self.private))
        except (Unreachable, InvalidOption) as error:
            return str(error)
        except TimeoutError:
            return "there was no answer in time"
        except Exception as error:
            _log.exception("webhook_not_sent")
            return f"{type(error).__name__}: {message_of(error)}"
        return "" if 200 <= status < 300 else f"the answer was {status}"


def signature(secret: str, body: bytes, now_s: int) -> str:
    """The signature of a body at an instant; whoever knows the secret can check it."""
    mac = hmac.new(secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256)
    return f"t={now_s},v1={mac.hexdigest()}"
