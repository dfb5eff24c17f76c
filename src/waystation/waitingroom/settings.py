"""The settings of the waiting room's HTTP server."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from waystation.core.durations import Seconds
from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import networks
from waystation.core.operators.oidc_settings import OidcSettings, is_safe
from waystation.core.settings.section import Secret, Section


class Provider(msgspec.Struct, frozen=True):
    """Where a provider is, and what its box needs."""

    script_url: str
    verify_url: str
    hosts: tuple[str, ...]
    """What the page's policy has to allow, besides the script."""


PROVIDERS = {
    "turnstile": Provider(
        "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit",
        "https://challenges.cloudflare.com/turnstile/v0/siteverify",
        ("https://challenges.cloudflare.com",),
    ),
    "hcaptcha": Provider(
        "https://js.hcaptcha.com/1/api.js?render=explicit",
        "https://api.hcaptcha.com/siteverify",
        ("https://hcaptcha.com", "https://*.hcaptcha.com"),
    ),
    "recaptcha": Provider(
        "https://www.google.com/recaptcha/api.js?render=explicit",
        "https://www.google.com/recaptcha/api/siteverify",
        ("https://www.google.com/recaptcha/", "https://www.gstatic.com/recaptcha/"),
    ),
}


class CaptchaOptions(Section, frozen=True, kw_only=True):
    """The CAPTCHA that people of a crowded network are shown."""

    provider: Literal["turnstile", "hcaptcha", "recaptcha"]
    """turnstile, hcaptcha or recaptcha."""
    site_key: str
    """What the provider knows the page by."""
    secret: Secret
    """What the provider knows this server by; best from the environment."""
    script_url: str = ""
    """The script of the box, where it is not the provider's own."""
    verify_url: str = ""
    """Where answers are verified, where it is not the provider's own."""

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            known = ", ".join(PROVIDERS)
            raise InvalidOption(f"provider must be one of {known}, got {self.provider!r}")
        if not self.site_key or not self.secret:
            raise InvalidOption("a CAPTCHA needs site_key and secret, as its provider gave them")
        for name in ("script_url", "verify_url"):
            url = getattr(self, name)
            if url and (not is_safe(url) or any(each in url for each in " ;,'\"")):
                raise InvalidOption(f"{name} must be an https address, got {url!r}")

    @property
    def script(self) -> str:
        """Where the script of the box is."""
        return self.script_url or PROVIDERS[self.provider].script_url

    @property
    def policy(self) -> str:
        """What the page may load from the provider."""
        script = self.script.partition("?")[0]
        if not self.script_url:
            return " ".join(PROVIDERS[self.provider].hosts)
        return "/".join(script.split("/")[:3])


class HttpSettings(Section, frozen=True, kw_only=True):
    """How the server answers."""

    issuer: str = "waystation"
    """The issuer of the tokens; the same for all processes and all releases."""
    public_url: str = ""
    """Where browsers reach the waiting pages, if that is another host than their sites'."""
    secure_cookies: bool = True
    """Off only to try things out without TLS from another machine."""
    trusted_proxies: Sequence[str] = ()
    """Networks of proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8."""
    webhook_networks: Sequence[str] = ()
    """Private networks that webhooks may go to, also without TLS; all others must be public."""
    poll_floor: Seconds = 1.0
    """Visitors who poll more often than this, beyond a few times, are asked to slow down."""
    front: Annotated[int, msgspec.Meta(ge=0)] = 100
    """How many visitors at the front of a lane may follow their place live."""

    def __post_init__(self) -> None:
        networks(self.trusted_proxies, "trusted_proxies")
        networks(self.webhook_networks, "webhook_networks")
        if self.public_url and not re.fullmatch(r"https?://[^/?#@\s]+/?", self.public_url):
            raise InvalidOption(
                f"public_url must be such as https://wait.example, got {self.public_url!r}"
            )


class RoomSettings(HttpSettings, frozen=True, kw_only=True):
    """The HTTP server of the waiting rooms."""

    host: str = "127.0.0.1"
    """The interface to listen on."""
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 8080
    """The port to listen on."""
    keys_file: Path = Path(".waystation/room-keys.json")
    """The file of the signing keys; made on the first start, and shared by all processes."""
    keys: Secret | None = None
    """The signing keys themselves, where a secret store provides them instead of a file."""
    oidc: OidcSettings = OidcSettings()
    captcha: CaptchaOptions | None = None
    """The CAPTCHA of a crowded network; without it its people work for their places."""
