"""The decision that all middleware shares: pass, wait, or refuse."""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import quote, urlsplit

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from waystation.core.durations import Duration, seconds
from waystation.core.errors import InvalidInput
from waystation.core.http.exchange import OURS
from waystation.waitingroom.rules import Rule, closing

SESSION = "wr-session+jwt"
CONFIG = "wr-config+jwt"
LONGEST_SESSION = 4096
_ALGORITHMS = ("Ed25519", "EdDSA")


class Keys:
    """The public keys of a room, by their ids."""

    def __init__(self, jwks: Mapping[str, Any]) -> None:
        self._keys = {
            str(key["kid"]): Ed25519PublicKey.from_public_bytes(_bytes(str(key["x"])))
            for key in jwks["keys"]
            if key.get("kty") == "OKP" and key.get("crv") == "Ed25519"
        }

    def read(self, token: str, kind: str) -> dict[str, Any] | None:
        """What a token of this kind says; None when the room has not signed it."""
        if token.count(".") != 2:
            return None
        head, payload, signature = token.split(".")
        try:
            header = json.loads(_bytes(head))
            if header.keys() != {"alg", "kid", "typ"} or header["typ"] != kind:
                return None
            key = self._keys.get(str(header["kid"]))
            if key is None or header["alg"] not in _ALGORITHMS:
                return None
            key.verify(_bytes(signature), f"{head}.{payload}".encode())
            claims = json.loads(_bytes(payload))
        except (ValueError, RecursionError, InvalidSignature, AttributeError):
            return None
        return cast("dict[str, Any]", claims) if isinstance(claims, dict) else None


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


LEEWAY_S = 30
RENEW_WITHIN_S = 30
TOKEN = "wr_token"  # noqa: S105
"""The parameter in which the waiting page hands a session over."""
IN_PATH = "/:@!$&'()*+,;=~"
"""What a path may hold besides letters and digits; all else is written as %XX."""


class Pass(msgspec.Struct, frozen=True):
    """Let the request through."""

    queue: str = ""
    session: str = ""
    token: str = ""
    renew: bool = False
    """Whether the token should be signed anew soon."""


class Ask(msgspec.Struct, frozen=True):
    """Let the request through if the room says that this session has not been ended."""

    passed: Pass
    otherwise: "Wait | Refuse"
    lapsed: bool
    """Whether the signature ran out meanwhile, so that the room has to sign it anew."""
    others: Sequence["Ask"] = ()
    """The sessions of other rooms that the same request needs."""


class Wait(msgspec.Struct, frozen=True):
    """Send a browser to the waiting page, unless the room lets it in at once."""

    location: str
    queue: str = ""
    straight: bool = True
    """Whether one room decides alone, and may let it in at once."""


class Refuse(msgspec.Struct, frozen=True):
    """Tell whatever is no browser that there is a line."""

    location: str


class Redeem(msgspec.Struct, frozen=True):
    """Take over the session that the waiting page has handed to this site."""

    token: str
    host: str
    location: str
    """The same address without the token."""


class Down(msgspec.Struct, frozen=True):
    """Say that nobody can be let in, because the room does not answer."""


class Forbid(msgspec.Struct, frozen=True):
    """Say that this is not for anybody."""


Decision: TypeAlias = Pass | Ask | Wait | Refuse | Redeem | Down | Forbid


class GateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a connector behaves."""

    rules: Sequence[Rule] = ()
    """Which requests have to wait; none for those that the room's operator has set."""
    room_url: str = ""
    """Where the waiting page is; empty when it is on the same host."""
    site_url: str = ""
    """Where this site is, when the waiting page is elsewhere; one of the room's `return_hosts`."""
    key: str = ""
    """The key of a connector, with which the room believes the addresses of visitors."""
    issuer: str = "waystation"
    fail: Literal["open", "closed"] = "closed"
    """What happens to those without a session while the room is away, unless its operator said."""
    open_at_most: Duration = 900.0
    """How long everybody is let in at most while it is away; after that nobody new is."""
    recheck: Duration = 0.0
    """How long a session counts after the room was asked about it; 0 asks at every request."""
    grace: Duration = 900.0
    """How long those inside stay inside while nobody can sign their sessions anew."""
    secure_cookies: bool = True

    def __post_init__(self) -> None:
        for name in ("open_at_most", "recheck", "grace"):
            seconds(getattr(self, name), name)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the connectors know of the rooms."""

    issued: int = 0
    epochs: Mapping[str, int] = {}
    """Tokens of an earlier epoch of a room no longer count."""
    policies: Mapping[str, str] = {}
    """What its operator wants while the room is away."""
    open_until: Mapping[str, int] = {}
    """Until when everybody is let in, because its operator says so."""
    rules: Sequence[Rule] = ()
    pages: Mapping[str, str] = {}
    """Who gets to see the waiting page of a room."""


class Gate:
    """Decides on its own: a signature is all it needs."""

    def __init__(self, options: GateOptions, *, now: Callable[[], float] = time.time) -> None:
        self._options = options
        self._now = now
        self.keys: Keys | None = None
        self.config = Config()
        self.away_since: float | None = None
        """Since when the room has not answered; None while it does."""

    def decide(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        also: Sequence[str] = (),
    ) -> Decision:
        """What to do with a request; header names are lower case.

        The path is the one of the request, with its %XX; `also` is what the server made of it.
        """
        if method in ("GET", "HEAD") and any(_is_token(each) for each in query.split("&")):
            return self._brought(path, query, headers)
        if not self._options.rules and not self.config.issued:
            # What is protected is not known yet, so everything may be.
            return self._without_room(Down(), "")
        rules = self._options.rules or self.config.rules
        try:
            closed = closing(rules, method, (path, *also), headers)
        except InvalidInput:
            return Forbid()
        if any(rule.action == "block" for rule in closed):
            return Forbid()
        # A path that two rooms could be meant by needs a session of each.
        queues = [
            each for each in dict.fromkeys(rule.queue for rule in closed) if not self._is_open(each)
        ]
        found = list[Decision]()
        for each in queues:
            otherwise = self._otherwise(each, method, path, query, headers)
            if isinstance(otherwise, Wait) and len(queues) > 1:
                otherwise = msgspec.structs.replace(otherwise, straight=False)
            found.append(self._in_front_of(each, headers, otherwise))
        return _all_of(found)

    def _in_front_of(
        self, queue: str, headers: Mapping[str, str], otherwise: Wait | Refuse
    ) -> Decision:
        token = self._shown(queue, headers)
        found = self._read(token, queue, otherwise) if token else otherwise
        return found if self.away_since is None else self._without_room(found, queue)

    @property
    def key(self) -> str:
        """The key that is shown to the room."""
        return self._options.key

    @property
    def recheck_s(self) -> float:
        """How long a session counts after the room was asked about it."""
        return seconds(self._options.recheck)

    def now(self) -> float:
        """The second it is."""
        return self._now()

    def cookie(self, queue: str) -> str:
        """The name of the cookie that a session is in."""
        return f"__Host-wr_s_{queue}" if self._options.secure_cookies else f"wr_s_{queue}"

    def without_ours(self, cookies: str) -> str:
        """The cookies that the site may see."""
        pairs = [each.strip() for each in cookies.split(";")]
        # A site may have cookies of its own that begin with wr_.
        ours = OURS[:1] if self._options.secure_cookies else OURS
        return "; ".join(each for each in pairs if not each.startswith(ours))

    def _brought(self, path: str, query: str, headers: Mapping[str, str]) -> Redeem:
        parts = query.split("&")
        token = next(each for each in parts if _is_token(each)).partition("=")[2]
        kept = "&".join(each for each in parts if not _is_token(each))
        # More slashes in front would lead to another host.
        here = _address("/" + path.lstrip("/\\"), kept)
        host = urlsplit(self._options.site_url).netloc or headers.get("host", "")
        return Redeem(token, host, here)

    def _is_open(self, queue: str) -> bool:
        return self.config.open_until.get(queue, 0) > self._now()

    def _without_room(self, found: Decision, queue: str) -> Decision:
        """Those inside stay for a while; for the others it is as the operator wants it."""
        away_s = self._now() - (self.away_since or 0)
        if isinstance(found, Ask) and (not found.lapsed or away_s <= seconds(self._options.grace)):
            return msgspec.structs.replace(found.passed, renew=False)
        policy = self.config.policies.get(queue) or self._options.fail
        if policy == "open" and away_s <= seconds(self._options.open_at_most):
            return Pass()
        return Down()

    def _otherwise(
        self, queue: str, method: str, path: str, query: str, headers: Mapping[str, str]
    ) -> Wait | Refuse:
        target = self._options.site_url.rstrip("/") + _address(path, query)
        location = f"{self._options.room_url}/wait/{queue}?target={quote(target, safe='')}"
        browser = method in ("GET", "HEAD") and "text/html" in headers.get("accept", "")
        shown = browser and "upgrade" not in headers
        return Wait(location, queue) if shown else Refuse(location)

    def _shown(self, queue: str, headers: Mapping[str, str]) -> str:
        name = self.cookie(queue)
        found = {
            value
            for each in headers.get("cookie", "").split(";")
            for key, _, value in [each.strip().partition("=")]
            if key == name
        }
        # Two sessions under one name: somebody planted one of them.
        return found.pop() if len(found) == 1 else ""

    def _read(self, token: str, queue: str, otherwise: Wait | Refuse) -> Ask | Wait | Refuse:
        claims = self._claims(token)
        if claims is None or claims.get("aud") != queue:
            return otherwise
        now, exp, iat = self._now(), claims.get("exp"), claims.get("iat")
        if claims.get("iss") != self._options.issuer or not isinstance(exp, int):
            return otherwise
        if not isinstance(iat, int) or iat - LEEWAY_S > now:
            return otherwise
        if int(claims.get("epoch", 0)) < self.config.epochs.get(queue, 0):
            return otherwise
        passed = Pass(queue, str(claims.get("sub", "")), token, exp - now < RENEW_WITHIN_S)
        return Ask(passed, otherwise, lapsed=exp + LEEWAY_S <= now)

    def _claims(self, token: str) -> dict[str, Any] | None:
        if len(token) > LONGEST_SESSION or self.keys is None:
            return None
        return self.keys.read(token, SESSION)


def _all_of(found: Sequence[Decision]) -> Decision:
    """One decision for a request that several rooms decide about."""
    for each in found:
        if not isinstance(each, Pass | Ask):
            return each
    asks = [each for each in found if isinstance(each, Ask)]
    if not asks:
        return next(iter(found), Pass())
    return msgspec.structs.replace(asks[0], others=asks[1:])


def _is_token(part: str) -> bool:
    return part.startswith(f"{TOKEN}=")


def _address(path: str, query: str) -> str:
    """A path and its query as a browser writes them; what came as bytes is Latin-1 here."""
    plain = quote(path, safe=f"{IN_PATH}%", encoding="latin-1", errors="replace")
    return f"{plain}?{quote(query, safe=f'{IN_PATH}%?[]', encoding='latin-1')}" if query else plain
