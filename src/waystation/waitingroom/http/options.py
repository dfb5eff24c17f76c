"""Options of the HTTP API, its codes and keys, and CAPTCHAs.

Turnstile, hCaptcha and reCAPTCHA work alike: a script of theirs puts a box on the page, which
yields a text, and whether that counts is asked with `POST secret, response`.
"""

import hashlib
import re
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from waystation.core.clock import Clock
from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import networks
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Problem
from waystation.core.operators.oidc import ProviderAway, ask
from waystation.core.operators.oidc_settings import is_safe
from waystation.core.store.keyspace import Keyspace, String
from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom.room import Room

# ruff: noqa: S105  # names of errors, not passwords


class RoomCode(StrEnum):
    """The `code` of a problem that only a waiting room has."""

    # Visitors: the key, the ticket, the place
    VISITOR_KEY_REQUIRED = "VISITOR_KEY_REQUIRED"
    AMBIGUOUS_VISITOR = "AMBIGUOUS_VISITOR"
    AMBIGUOUS_TOKEN = "AMBIGUOUS_TOKEN"
    TICKET_REQUIRED = "TICKET_REQUIRED"
    INVALID_TOKEN = "INVALID_TOKEN"
    SECRET_REQUIRED = "SECRET_REQUIRED"
    NOT_YOURS = "NOT_YOURS"
    TURN_MISSED = "TURN_MISSED"
    PLACE_LOST = "PLACE_LOST"
    SOLD_OUT = "SOLD_OUT"
    TARGET_NOT_ALLOWED = "TARGET_NOT_ALLOWED"
    LINK_INVALID = "LINK_INVALID"
    # Joining
    QUEUE_FULL = "QUEUE_FULL"
    REJECTED = "REJECTED"
    DRAINING = "DRAINING"
    MAINTENANCE_MODE = "MAINTENANCE_MODE"
    ENDED = "ENDED"
    INVITE_REQUIRED = "INVITE_REQUIRED"
    WRONG_NETWORK = "WRONG_NETWORK"
    CHALLENGE_REQUIRED = "CHALLENGE_REQUIRED"
    CHALLENGE_USED = "CHALLENGE_USED"
    # Sessions and proxies
    SESSION_REQUIRED = "SESSION_REQUIRED"
    SESSION_ENDED = "SESSION_ENDED"
    QUEUE_REQUIRED = "QUEUE_REQUIRED"
    WAITING_ROOM_REQUIRED = "WAITING_ROOM_REQUIRED"
    # Operators
    KEYS_ELSEWHERE = "KEYS_ELSEWHERE"


class HttpKeys(Keyspace, root=""):
    """The keys of the HTTP side."""

    idempotent = String("idempotency:<name>:<what>", "what was asked under a key", ttl="10 min")
    solved = String("pow:<name>:<what>", "a challenge that was solved already", ttl="10 min")

    def __init__(self, name: str = "http") -> None:
        super().__init__(name)

    def of(self, what: str) -> "HttpKeys":
        """The same keys with those of one request filled in."""
        return self.within(HttpKeys, what=what)


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
        _log.warning("captcha_unreachable", product="waitingroom", queue=room.name, error=error)


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
    """Seconds for which proxies accept a session token without asking, at most."""
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
