"""The decision of every connector: pass, wait here, or be told to wait."""

import json
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import quote

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from waystation.core.errors import InvalidOption
from waystation.interfaces.connectors.rules import Rule

TYPE = "wr-session+jwt"
LEEWAY_S = 30
RENEW_WITHIN_S = 30
LONGEST_TOKEN = 4096


class Pass(msgspec.Struct, frozen=True):
    """Let the request through."""

    queue: str = ""
    session: str = ""
    token: str = ""
    renew: bool = False
    """Whether the token should be signed anew soon."""


class Ask(msgspec.Struct, frozen=True):
    """Let the request through if the room signs this session anew, which ran out meanwhile."""

    passed: Pass
    otherwise: "Wait | Refuse"


class Wait(msgspec.Struct, frozen=True):
    """Send a browser to the waiting page."""

    location: str


class Refuse(msgspec.Struct, frozen=True):
    """Tell whatever is no browser that there is a line."""

    location: str


Decision: TypeAlias = Pass | Ask | Wait | Refuse


class GateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a connector behaves."""

    rules: Sequence[Rule]
    room_url: str = ""
    """Where the waiting page is; empty when it is on the same host."""
    issuer: str = "waystation"
    fail: Literal["open", "closed"] = "closed"
    """What happens to those without a session while the room's keys cannot be had."""
    secure_cookies: bool = True

    def __post_init__(self) -> None:
        if not self.rules:
            raise InvalidOption("a connector needs at least one rule, got none")


class Keys:
    """The public keys of a room, by their ids."""

    def __init__(self, jwks: Mapping[str, Any]) -> None:
        self._keys = {
            str(key["kid"]): Ed25519PublicKey.from_public_bytes(_bytes(str(key["x"])))
            for key in jwks["keys"]
            if key.get("kty") == "OKP" and key.get("crv") == "Ed25519"
        }

    def get(self, kid: str) -> Ed25519PublicKey | None:
        """The key of this id."""
        return self._keys.get(kid)


class Gate:
    """Decides on its own: a signature is all it needs."""

    def __init__(self, options: GateOptions, *, now: Callable[[], float] = time.time) -> None:
        self._options = options
        self._now = now
        self.keys: Keys | None = None
        self.epochs: dict[str, int] = {}
        """Tokens of an earlier epoch of a room no longer count."""

    def decide(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> Decision:
        """What to do with a request; header names are lower case."""
        rule = next(
            (each for each in self._options.rules if each.fits(method, path, headers)), None
        )
        if rule is None:
            return Pass()
        if self.keys is None and self._options.fail == "open":
            return Pass()
        target = quote(path + (f"?{query}" if query else ""), safe="/?&=%")
        location = f"{self._options.room_url}/wait/{rule.queue}?target={quote(target, safe='')}"
        browser = method in ("GET", "HEAD") and "text/html" in headers.get("accept", "")
        shown = browser and "upgrade" not in headers
        otherwise = Wait(location) if shown else Refuse(location)
        token = self._shown(rule.queue, headers)
        return self._read(token, rule.queue, otherwise) if token else otherwise

    def cookie(self, queue: str) -> str:
        """The name of the cookie that a session is in."""
        return f"__Host-wr_s_{queue}" if self._options.secure_cookies else f"wr_s_{queue}"

    def without_ours(self, cookies: str) -> str:
        """The cookies that the site may see."""
        pairs = [each.strip() for each in cookies.split(";")]
        ours = ("__Host-wr_", "wr_")
        return "; ".join(each for each in pairs if not each.startswith(ours))

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

    def _read(self, token: str, queue: str, otherwise: Wait | Refuse) -> Decision:
        claims = self._claims(token)
        if claims is None or claims.get("aud") != queue:
            return otherwise
        now, exp, iat = self._now(), claims.get("exp"), claims.get("iat")
        if claims.get("iss") != self._options.issuer or not isinstance(exp, int):
            return otherwise
        if not isinstance(iat, int) or iat - LEEWAY_S > now:
            return otherwise
        if int(claims.get("epoch", 0)) < self.epochs.get(queue, 0):
            return otherwise
        passed = Pass(queue, str(claims.get("sub", "")), token, exp - now < RENEW_WITHIN_S)
        return passed if exp + LEEWAY_S > now else Ask(passed, otherwise)

    def _claims(self, token: str) -> dict[str, Any] | None:
        if len(token) > LONGEST_TOKEN or token.count(".") != 2 or self.keys is None:
            return None
        head, payload, signature = token.split(".")
        try:
            header = json.loads(_bytes(head))
            if header.keys() != {"alg", "kid", "typ"} or header["typ"] != TYPE:
                return None
            key = self.keys.get(str(header["kid"]))
            if key is None or header["alg"] not in ("Ed25519", "EdDSA"):
                return None
            key.verify(_bytes(signature), f"{head}.{payload}".encode())
            claims = json.loads(_bytes(payload))
        except (ValueError, InvalidSignature, AttributeError):
            return None
        return cast("dict[str, Any]", claims) if isinstance(claims, dict) else None


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
