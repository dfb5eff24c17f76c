"""CAPTCHA: a provider that tells people from programs, instead of the proof of work.

Turnstile, hCaptcha and reCAPTCHA work alike: a script of theirs puts a box on the page, which
yields a text, and whether that counts is asked with `POST secret, response`.
"""

import hashlib

import msgspec

from waystation.core.clock import Clock
from waystation.core.errors import InvalidOption
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Problem
from waystation.core.operators.oidc.client import ask
from waystation.core.operators.oidc.errors import ProviderAway
from waystation.core.operators.oidc.options import is_safe
from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.keys import HttpKeys
from waystation.waitingroom.room import Room

_log = get_logger(__name__)

AWAY_S = 60.0
"""How long a provider that did not answer is not asked; meanwhile people work for their places."""
LONGEST = 8192
USED_S = 600
"""How long it is known that an answer was used; providers forget theirs sooner."""


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


class CaptchaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The CAPTCHA that people of a crowded network are shown."""

    provider: str
    """turnstile, hcaptcha or recaptcha."""
    site_key: str
    """What the provider knows the page by."""
    secret: str
    """What the provider knows this server by."""
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


class Captcha:
    """Asks the provider whether an answer counts."""

    def __init__(self, options: CaptchaOptions, clock: Clock) -> None:
        self.options = options
        self._clock = clock
        self._away_until = 0.0
        # Nobody makes this server ask without end.
        self._pace = Pace(every_s=1.0, burst=20, clock=clock)

    @property
    def is_away(self) -> bool:
        """The provider did not answer of late."""
        return self._clock.monotonic() < self._away_until

    async def counts(self, room: Room, address: str, shown: str) -> bool:
        """Whether somebody has shown to be a person; each answer counts once."""
        if not shown or len(shown) > LONGEST or self.is_away:
            return False
        self._pace.require(address)
        form = {"secret": self.options.secret, "response": shown}
        where = self.options.verify_url or PROVIDERS[self.options.provider].verify_url
        try:
            status, found = await ask(where, form)
        except ProviderAway as error:
            self._miss(room, str(error.__cause__ or error))
            return False
        if status >= 500:
            self._miss(room, f"it answers {status}")
            return False
        if found.get("success") is not True:
            return False
        what = hashlib.sha256(shown.encode()).hexdigest()[:32]
        at = HttpKeys(room.queue_id).of(what).solved
        if await room.store.ask("SET", at, "1", "EX", USED_S, "NX") is None:
            raise Problem(403, RoomCode.CHALLENGE_USED, "this solution was shown before")
        return True

    def _miss(self, room: Room, error: str) -> None:
        self._away_until = self._clock.monotonic() + AWAY_S
        _log.warning("captcha_unreachable", line="waitingroom", queue=room.name, error=error)
