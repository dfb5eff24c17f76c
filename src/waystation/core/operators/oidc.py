"""The identity provider: discovery, the authorization address and the exchange of codes."""

import asyncio
import hashlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

import httpx2
import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from waystation.core.clock import Clock
from waystation.core.operators.oidc_settings import OidcOptions, is_safe

TIMEOUT_S = 5.0
"""How long the whole answer may take."""
MOST = 1_000_000
"""Bytes of an answer that are read."""


async def ask(
    url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Get what is there, or post a form; return the status and the JSON object of the answer."""
    method = "GET" if form is None else "POST"
    wanted = {"Accept": "application/json", **(headers or {})}
    # A new client each time: people sign in seldom, and no proxy of the environment is used.
    client = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            client,
            client.stream(method, url, data=form, headers=wanted) as answer,
        ):
            body = b""
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MOST:
                    raise ProviderAway("the identity provider's answer is too long")
            status = answer.status_code
    except (httpx2.HTTPError, OSError) as error:
        raise ProviderAway("the identity provider does not answer; try again later") from error
    try:
        found = httpx2.Response(status, content=body).json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ProviderAway(f"the identity provider answers {status} without a JSON object")
    return status, cast("dict[str, Any]", found)


class SignInRefused(Exception):
    """Somebody is not let in; the words are for them."""

    status = 403
    page = ""
    """The page that the sign-in began on, as far as that is known."""


class SignInUnknown(SignInRefused):
    """What came back belongs to no sign-in that began in this browser."""

    status = 400


class ProviderAway(SignInRefused):
    """The provider does not answer, or not as it should."""

    status = 502


DISCOVERY = "/.well-known/openid-configuration"
FRESH_S = 600.0
"""How long what the provider says about itself counts."""
AWAY_S = 5.0
"""How long a provider that did not answer is not asked again, however many want to sign in."""


class Itself(msgspec.Struct, frozen=True):
    """What a provider says about itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Provider:
    """The one provider that operators may come from."""

    def __init__(self, options: OidcOptions, clock: Clock) -> None:
        self.options = options
        self._clock = clock
        self._meeting = asyncio.Lock()
        self._known: Itself | ProviderAway | None = None
        self._until = 0.0

    @property
    def host(self) -> str:
        """What people know it by."""
        return urlsplit(self.options.issuer).hostname or ""

    async def way_in(self, *, state: str, nonce: str, verifier: str) -> str:
        """The address at which the provider asks somebody who they are."""
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": self.options.callback,
            "scope": " ".join(self.options.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        where = (await self.meet()).authorization_endpoint
        return f"{where}{'&' if '?' in where else '?'}{urlencode(asked)}"

    async def claims(self, code: str, *, nonce: str, verifier: str) -> dict[str, Any]:
        """What the provider says about whoever came back with this code."""
        itself = await self.meet()
        token = await self._exchange(itself, code, verifier)
        # Asked for anew each time: people sign in seldom, and keys change without notice.
        status, jwks = await ask(itself.jwks_uri)
        if status != 200 or not isinstance(jwks.get("keys"), list):
            raise ProviderAway(f"the identity provider answers {status} instead of its keys")
        return read(
            token,
            jwks,
            issuer=self.options.issuer,
            client_id=self.options.client_id,
            nonce=nonce,
            now_s=self._clock.now_ms() // 1000,
        )

    async def _exchange(self, itself: Itself, code: str, verifier: str) -> str:
        options = self.options
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": options.callback,
            "code_verifier": verifier,
        }
        headers: dict[str, str] = {}
        if "client_secret_basic" in itself.token_endpoint_auth_methods_supported:
            pair = f"{quote(options.client_id, safe='')}:{quote(options.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": options.client_id, "client_secret": options.client_secret}
        status, body = await ask(itself.token_endpoint, form, headers)
        token = body.get("id_token")
        if status == 401 or body.get("error") == "invalid_client":
            raise ProviderAway(
                "the identity provider does not know this server; check client_id and its secret"
            )
        if status in (400, 403):
            raise SignInRefused("the identity provider does not know this sign-in; begin again")
        if status != 200 or not isinstance(token, str):
            raise ProviderAway(f"the identity provider answers {status} and not who you are")
        return token

    async def meet(self) -> Itself:
        """What the provider says about itself, asked by one for all; ProviderAway without it."""
        async with self._meeting:
            if self._known is None or self._clock.monotonic() >= self._until:
                self._known = await self._look()
                patience = AWAY_S if isinstance(self._known, ProviderAway) else FRESH_S
                self._until = self._clock.monotonic() + patience
        if isinstance(self._known, ProviderAway):
            raise ProviderAway(str(self._known))
        return self._known

    async def _look(self) -> Itself | ProviderAway:
        try:
            status, body = await ask(self.options.issuer.rstrip("/") + DISCOVERY)
            found = msgspec.convert(body, Itself)
        except ProviderAway as away:
            return away
        except msgspec.ValidationError:
            return ProviderAway("the identity provider does not say where to sign in")
        # Whoever speaks for another provider could have anybody sign in as anybody.
        if status != 200 or found.issuer != self.options.issuer:
            return ProviderAway("the identity provider calls itself something else")
        addresses = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
        if not all(is_safe(each) for each in addresses):
            return ProviderAway("the identity provider names an address without TLS")
        return found


ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Only those with which nobody but the provider can sign."""
LEEWAY_S = 30
LONGEST = 32_768


def read(
    token: str,
    jwks: Mapping[str, Any],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    now_s: int,
) -> dict[str, Any]:
    """The claims of a token that counts; SignInRefused for any other."""
    if len(token) > LONGEST:
        raise SignInRefused("the identity provider says more than anybody can read")
    known = jwt.JWTClaimsRegistry(
        now=now_s,
        leeway=LEEWAY_S,
        iss={"essential": True, "value": issuer},
        aud={"essential": True, "value": client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True, "value": nonce},
    )
    try:
        claims = jwt.decode(token, _keys(jwks), algorithms=ALGORITHMS).claims
        known.validate(claims)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        why = type(error).__name__
        raise SignInRefused(f"what the identity provider says is not valid ({why})") from error
    # A token for several is only for us if we are the one that asked for it.
    if claims.get("azp", client_id if _is_for_one(claims["aud"]) else None) != client_id:
        raise SignInRefused("what the identity provider says is meant for another site")
    return claims


def _is_for_one(audience: Any) -> bool:
    return isinstance(audience, str) or len(audience) == 1


def _keys(jwks: Mapping[str, Any]) -> KeySet:
    return KeySet([key for each in jwks["keys"] if (key := _key(each))])


def _key(written: Mapping[str, Any]) -> Key | None:
    # What is for encryption, or a shared secret, or of a kind yet to come, signs nothing here.
    if written.get("use") == "enc" or written.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    try:
        return JWKRegistry.import_key(dict(written))
    except (JoseError, ValueError):
        return None
