"""The state of sign-ins that are under way at the identity provider."""

import hmac
import secrets

import msgspec

from waystation.core import codec
from waystation.core.http.cookies import digest_of
from waystation.core.operators.keys import OperatorKeys
from waystation.core.operators.oidc.errors import SignInUnknown
from waystation.core.store.connection import Store

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
