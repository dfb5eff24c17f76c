"""Options of the HTTP server."""

import re
from collections.abc import Sequence

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import networks
from waystation.waitingroom.http.captcha import CaptchaOptions


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the HTTP server."""

    issuer: str = "waystation"
    """The issuer of all tokens; the same for all processes and all releases."""
    public_url: str = ""
    """Where browsers reach the waiting pages, if that is another host than their sites'."""
    secure_cookies: bool = True
    """Off only where browsers reach another machine without TLS."""
    trusted_proxies: Sequence[str] = ()
    """Networks of proxies whose X-Forwarded-For is used."""
    poll_floor_ms: int = 1000
    """Polls of one visitor more often than this, beyond a few, are answered with 429."""
    change_floor_ms: int = 1000
    """Changes of one operator more often than this, beyond a minute's worth, get 429."""
    guess_floor_ms: int = 6000
    """Wrong keys and codes of one address more often than this, beyond ten, get 429."""
    ticket_s: int = 86_400
    session_token_s: int = 120
    """Seconds for which proxies accept a session token without asking."""
    webhook_networks: Sequence[str] = ()
    """Private networks that webhooks may go to, also without TLS."""
    front: int = 100
    """Visitors at the front of a lane who may follow their place live."""
    streams: int = 1000
    """Live streams of one process, at most."""
    streams_each: int = 3
    """Live streams of one visitor, at most."""
    streams_client: int = 50
    """Live streams of one client, an IPv4 address or an IPv6 /64, at most."""
    captcha: CaptchaOptions | None = None
    """What people of a crowded network are shown; without it they work for their places."""

    def __post_init__(self) -> None:
        networks(self.trusted_proxies, "trusted_proxies")
        networks(self.webhook_networks, "webhook_networks")
        if self.public_url and not re.fullmatch(r"https?://[^/?#@\s]+/?", self.public_url):
            raise InvalidOption(
                f"public_url must be such as https://wait.example, got {self.public_url!r}"
            )
        if not 10 <= self.session_token_s <= 3600:
            raise InvalidOption(f"session_token_s must be 10 to 3600, got {self.session_token_s}")
