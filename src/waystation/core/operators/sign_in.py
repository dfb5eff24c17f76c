"""The sign-in with an identity provider, from the way there to the cookie."""

import hmac
import secrets
from typing import Any, cast

import msgspec

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.http.exchange import Cookies, Header, Request, digest_of
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.oidc import Provider, SignInRefused, SignInUnknown
from waystation.core.operators.oidc_settings import Grant
from waystation.core.operators.operators import SIGNED_IN_S, OperatorKeys, Operators
from waystation.core.store.connection import Store
from waystation.core.telemetry.logs import get_logger

LIFE_S = 600


class SignInState(msgspec.Struct, frozen=True, kw_only=True):
    """What has to come back, and what for."""

    queue: str
    """The room whose page it began on."""
    nonce: str
    """What the provider has to repeat in the token."""
    verifier: str
    """What shows the provider that whoever brings the code is whoever asked for it."""
    browser: str
    """The digest of a cookie: only the browser that set out comes back."""


class OidcStateStore:
    """Remembers each sign_in until it ends, which it does once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = OperatorKeys()

    async def begin(self, queue: str) -> tuple[SignInState, str, str]:
        """Set out: the sign_in, the state that comes back with it, and the browser's cookie."""
        state, cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        sign_in = SignInState(
            queue=queue,
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            browser=digest_of(cookie),
        )
        await self._store.ask("SET", self._at(state), codec.encode(sign_in), "EX", LIFE_S)
        return sign_in, state, cookie

    async def end(self, state: str, cookie: str) -> SignInState:
        """Come back; SignInUnknown unless this browser set out, not long ago, and is not back."""
        kept = await self._store.ask("GETDEL", self._at(state))
        sign_in = codec.decode(kept, SignInState) if kept else None
        if sign_in is None or not hmac.compare_digest(sign_in.browser, digest_of(cookie)):
            raise SignInUnknown("this sign-in did not begin here, or is over; begin again")
        return sign_in

    def _at(self, state: str) -> str:
        return self._keys.of(digest_of(state)).sign_in


LONGEST_SUBJECT = 255
_log = get_logger(__name__)


class ProviderSignIn:
    """Sends browsers to the identity provider, and makes whoever comes back an operator."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        cookies: Cookies,
        operators: Operators,
        provider: Provider | None,
    ) -> None:
        self._cookies = cookies
        self._operators = operators
        self._provider = provider
        self._sign_ins = OidcStateStore(store)
        self._cookie = cookies.name("j")
        # Operators sign in now and then; whoever does nothing else fills the store.
        self._pace = Pace(every_s=3.0, burst=20, clock=clock)
        # Whoever has many networks as well: what is under way at once stays small.
        self._under_way = Pace(every_s=0.05, burst=1000, clock=clock)

    async def set_out(self, request: Request, page: str) -> tuple[str, Header]:
        """Where to send the browser, and the cookie it takes along; SignInRefused if nowhere."""
        provider = self.require_provider()
        self._pace.require(request.address)
        self._under_way.require("everybody")
        await provider.meet()
        sign_in, state, cookie = await self._sign_ins.begin(page)
        where = await provider.way_in(state=state, nonce=sign_in.nonce, verifier=sign_in.verifier)
        return where, self._cookies.header(self._cookie, cookie, LIFE_S)

    async def come_back(self, request: Request) -> tuple[str, list[Header]]:
        """The page that the sign-in began on, and the cookies of the one who came back."""
        provider = self.require_provider()
        self._pace.require(request.address)
        sign_in = await self._journey(request)
        try:
            token = await self._welcome(provider, request, sign_in)
        except SignInRefused as refused:
            refused.page = sign_in.queue
            _log.warning("sign_in_refused", queue=sign_in.queue, error_class=type(refused).__name__)
            raise
        cookie = self._cookies.strict_header(self._operators.cookie, token, SIGNED_IN_S)
        return sign_in.queue, [cookie, self._cookies.header(self._cookie, "", 0)]

    def require_provider(self) -> Provider:
        """The provider; a Problem when none is set up."""
        if self._provider is None:
            raise Problem(404, Code.NOT_FOUND, "no identity provider is set up here")
        return self._provider

    async def _journey(self, request: Request) -> SignInState:
        cookie, state = request.cookies.get(self._cookie, ""), request.query.get("state", "")
        if not cookie or not state:
            raise SignInUnknown("this sign-in did not begin here, or is over; begin again")
        return await self._sign_ins.end(state, cookie)

    async def _welcome(self, provider: Provider, request: Request, sign_in: SignInState) -> str:
        said, options = request.query, provider.options
        # Another provider's answer must not be taken for this one's (RFC 9207).
        if said.get("iss", options.issuer) != options.issuer:
            raise SignInUnknown("another identity provider answered than the one that was asked")
        if "error" in said or not said.get("code"):
            raise SignInRefused("the identity provider did not let you in")
        claims = await provider.claims(said["code"], nonce=sign_in.nonce, verifier=sign_in.verifier)
        subject = str(claims["sub"])
        if not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            raise SignInRefused("the identity provider calls you something that cannot be a name")
        return await self._operators.welcome(options.issuer, subject, _granted(provider, claims))


def _granted(provider: Provider, claims: dict[str, Any]) -> list[Grant]:
    claimed = claims.get(provider.options.claim, [])
    groups = cast("list[Any]", claimed) if isinstance(claimed, list) else [claimed]
    granted = provider.options.granted(each for each in groups if isinstance(each, str))
    if not granted:
        raise SignInRefused("the identity provider knows you, but no group of yours may operate")
    return granted
