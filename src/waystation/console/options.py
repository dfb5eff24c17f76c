"""Options of the console."""

from collections.abc import Sequence

import msgspec

from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import networks
from waystation.core.operators.roles import Role
from waystation.files import Layout


class ConsoleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the console."""

    sign_in: bool = False
    """Ask everybody for a key or a sign-in; needed to be reached from other machines."""
    local_role: Role = Role.VIEWER
    """The role of whoever asks from this machine while nobody has to sign in."""
    prefixes: Sequence[str] = ("bull",)
    """The prefixes of BullMQ's keys; queues under the first have no prefix in their names."""
    namespaces: Sequence[str] = ("bridge",)
    """The namespaces of routing."""
    layouts: Sequence[Layout] = (Layout(),)
    """The keys of queues of files."""
    history: str = ""
    """The directory or URL of the history; empty for none."""
    secure_cookies: bool = True
    """Off only to try a sign-in without TLS."""
    trusted_proxies: Sequence[str] = ()
    """Networks of proxies whose X-Forwarded-For is used."""
    webhook_networks: Sequence[str] = ()
    """Private networks that webhooks may go to, also without TLS."""
    every_s: float = 2.0
    """How often all queues are measured while somebody looks."""
    change_floor_s: float = 0.2
    """Actions of one operator more often than this, beyond a minute's worth, get 429."""
    guess_floor_s: float = 6.0
    """Wrong keys of one address more often than this, beyond ten, get 429."""
    streams: int = 100
    """Live streams of one process, at most."""

    def __post_init__(self) -> None:
        networks(self.trusted_proxies, "trusted_proxies")
        networks(self.webhook_networks, "webhook_networks")
        if not self.every_s > 0:
            raise InvalidOption(f"every_s must be above 0, got {self.every_s}")
