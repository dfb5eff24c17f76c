"""The settings of the console."""

from typing import Annotated, Literal

import msgspec

from waystation.bullmq.settings import BullmqSettings
from waystation.core.http.addresses import networks
from waystation.core.operators.oidc_settings import OidcSettings
from waystation.core.settings.load import Settings
from waystation.core.settings.section import Section


class ConsoleSettings(Section, frozen=True, kw_only=True):
    """The web console and its HTTP API."""

    host: str = "127.0.0.1"
    """The interface to listen on; another than this machine's own needs `sign_in`."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 8090
    """The port to listen on."""
    sign_in: bool = False
    """Ask everybody for a key, made with `waystation console key`, or for a sign-in."""
    local_role: Literal["viewer", "operator", "admin"] = "viewer"
    """What somebody on this machine may do while nobody has to sign in."""
    prefixes: tuple[str, ...] = ("bull",)
    """Prefixes of BullMQ besides `bullmq.prefix`; their queues are called `PREFIX:NAME`."""
    secure_cookies: bool = True
    """Off only to try a sign-in without TLS from another machine."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks of proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8."""
    webhook_networks: tuple[str, ...] = ()
    """Private networks that webhooks may go to, also without TLS; all others must be public."""
    oidc: OidcSettings = OidcSettings()

    def __post_init__(self) -> None:
        networks(self.trusted_proxies, "trusted_proxies")
        networks(self.webhook_networks, "webhook_networks")


def prefixes_of(settings: Settings) -> tuple[str, ...]:
    """The prefixes of BullMQ's keys: first that of the commands, then those of the console."""
    own = settings[BullmqSettings].prefix
    return own, *(each for each in settings[ConsoleSettings].prefixes if each != own)
