"""Those who are on their way to the identity provider and back."""

import hmac
import secrets

import msgspec

from waystation.core import codec
from waystation.core.store.connection import Store
from waystation.waitingroom.http.context import digest_of
from waystation.waitingroom.http.keys import DoorKeys
from waystation.waitingroom.http.operators.oidc.errors import SignInUnknown

LIFE_S = 600


class Journey(msgspec.Struct, frozen=True, kw_only=True):
    """What has to come back, and what for."""

    queue: str
    """The room whose page it began on."""
    nonce: str
    """What the provider has to repeat in the token."""
    verifier: str
    """What shows the provider that whoever brings the code is whoever asked for it."""
    browser: str
    """The digest of a cookie: only the browser that set out comes back."""


class Journeys:
    """Remembers each journey until it ends, which it does once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys = DoorKeys()

    async def begin(self, queue: str) -> tuple[Journey, str, str]:
        """Set out: the journey, the state that comes back with it, and the browser's cookie."""
        state, cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        journey = Journey(
            queue=queue,
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            browser=digest_of(cookie),
        )
        await self._store.ask("SET", self._at(state), codec.encode(journey), "EX", LIFE_S)
        return journey, state, cookie

    async def end(self, state: str, cookie: str) -> Journey:
        """Come back; SignInUnknown unless this browser set out, not long ago, and is not back."""
        kept = await self._store.ask("GETDEL", self._at(state))
        journey = codec.decode(kept, Journey) if kept else None
        if journey is None or not hmac.compare_digest(journey.browser, digest_of(cookie)):
            raise SignInUnknown("this sign-in did not begin here, or is over; begin again")
        return journey

    def _at(self, state: str) -> str:
        return self._keys.of(digest_of(state)).journey
