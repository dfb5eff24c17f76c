"""Options of the HTTP API, its codes and keys, and CAPTCHAs.

Turnstile, hCaptcha and reCAPTCHA work alike: a script of theirs puts a box on the page, which
yields a text, and whether that counts is asked with `POST secret, response`.
"""

import hashlib
from enum import StrEnum

from waystation.core.clock import Clock
from waystation.core.errors import InvalidOption
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Problem
from waystation.core.operators.oidc import ProviderAway, ask
from waystation.core.store.keyspace import Keyspace, String
from waystation.core.telemetry.logs import get_logger
from waystation.waitingroom.room import Room
from waystation.waitingroom.settings import PROVIDERS, CaptchaOptions, HttpSettings

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


class ServerOptions(HttpSettings, frozen=True, kw_only=True):
    """Options of the HTTP server, those included that no file sets."""

    change_floor_ms: int = 1000
    """Changes of one operator more often than this, beyond a minute's worth, get 429."""
    guess_floor_ms: int = 6000
    """Wrong keys and codes of one address more often than this, beyond ten, get 429."""
    ticket_s: int = 86_400
    session_token_s: int = 120
    """Seconds for which proxies accept a session token without asking, at most."""
    streams: int = 1000
    """Live streams of one process, at most."""
    streams_each: int = 3
    """Live streams of one visitor, at most."""
    streams_client: int = 50
    """Live streams of one client, an IPv4 address or an IPv6 /64, at most."""
    captcha: CaptchaOptions | None = None
    """The CAPTCHA of a crowded network; without it its people work for their places."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 10 <= self.session_token_s <= 3600:
            raise InvalidOption(f"session_token_s must be 10 to 3600, got {self.session_token_s}")
