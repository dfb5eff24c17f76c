"""The settings of the waiting room's HTTP server."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from waystation.core.durations import Seconds
from waystation.core.http.addresses import networks
from waystation.core.operators.oidc_settings import OidcSettings
from waystation.core.settings.section import Secret, Section


class CaptchaSettings(Section, frozen=True, kw_only=True):
    """The CAPTCHA that people of a crowded network are shown; off while no provider is set."""

    provider: Literal["", "turnstile", "hcaptcha", "recaptcha"] = ""
    """turnstile, hcaptcha or recaptcha."""
    site_key: str = ""
    """What the provider knows the page by."""
    secret: Secret | None = None
    """What the provider knows this server by; best from the environment."""
    script_url: str = ""
    """The script of the box, where it is not the provider's own."""
    verify_url: str = ""
    """Where answers are verified, where it is not the provider's own."""


class RoomSettings(Section, frozen=True, kw_only=True):
    """The HTTP server of the waiting rooms."""

    host: str = "127.0.0.1"
    """The interface to listen on."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 8080
    """The port to listen on."""
    issuer: str = "waystation"
    """The issuer of the tokens; the same for all processes and all releases."""
    keys_file: Path = Path(".waystation/room-keys.json")
    """The file of the signing keys; made on the first start, and shared by all processes."""
    keys: Secret | None = None
    """The signing keys themselves, where a secret store provides them instead of a file."""
    public_url: str = ""
    """Where browsers reach the waiting pages, if that is another host than their sites'."""
    secure_cookies: bool = True
    """Off only to try things out without TLS from another machine."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks of proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8."""
    webhook_networks: tuple[str, ...] = ()
    """Private networks that webhooks may go to, also without TLS; all others must be public."""
    poll_floor: Seconds = 1.0
    """Visitors who poll more often than this, beyond a few times, are asked to slow down."""
    front: Annotated[int, msgspec.Meta(ge=0)] = 100
    """How many visitors at the front of a lane may follow their place live."""
    oidc: OidcSettings = OidcSettings()
    captcha: CaptchaSettings = CaptchaSettings()

    def __post_init__(self) -> None:
        networks(self.trusted_proxies, "trusted_proxies")
        networks(self.webhook_networks, "webhook_networks")
