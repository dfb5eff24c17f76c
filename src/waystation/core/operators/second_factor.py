"""Second factor of operators: the code of an authenticator (RFC 6238), each accepted once."""

import hmac
import secrets
from base64 import b32decode, b32encode

import msgspec
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from waystation.core.clock import Clock
from waystation.core.errors import RateLimited, WrongState
from waystation.core.http.cookies import digest_of
from waystation.core.operators.keys import OperatorKeys
from waystation.core.store import limits
from waystation.core.store.connection import Store
from waystation.core.store.limits import FixedWindow

ISSUER = "waystation"
STEP_S = 30
DIGITS = 6
DRIFT = (-1, 0, 1)
"""Steps that a clock may be off, and that typing takes."""
USED_S = 2 * STEP_S * len(DRIFT)
"""How long a used code is remembered, which is longer than it could count."""
GUESSES = FixedWindow(5, 15 * 60_000)
"""Three codes in a million count at a time; so few tries hit one of them in a lifetime or two."""


class Enrolled(msgspec.Struct, frozen=True, kw_only=True):
    """The secret for an authenticator, shown once."""

    secret: str
    uri: str
    """The same as an otpauth address, for a QR code."""


class SecondFactors:
    """The operators who need a code, and the check of codes."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._keys = OperatorKeys()

    async def enrol(self, name: str) -> Enrolled:
        """Ask this operator for a code from now on; WrongState if that is so already."""
        secret = b32encode(secrets.token_bytes(20)).decode()
        if not await self._store.ask("HSETNX", self._keys.second_factors, name, secret):
            raise WrongState(f"{name} has a second factor; an admin has to remove it first")
        return Enrolled(secret=secret, uri=_totp(secret).get_provisioning_uri(name, ISSUER))

    async def remove(self, name: str) -> bool:
        """Ask for no code any more; False if none was asked for."""
        return bool(await self._store.ask("HDEL", self._keys.second_factors, name))

    async def enrolled(self, name: str) -> bool:
        """Whether this operator has to show a code."""
        return bool(await self._store.ask("HEXISTS", self._keys.second_factors, name))

    async def accept(self, name: str, code: str) -> bool:
        """Whether a code counts, which it does once; RateLimited after a few that did not."""
        at = self._keys.of(digest_of(name)).guesses
        # Counted before it is looked at, so that guesses made at once are as many as one by one.
        verdict = await limits.allow(self._store.hot, at, GUESSES)
        if not verdict.allowed:
            raise RateLimited("too many wrong codes came for this key", verdict.retry_after_ms)
        secret = await self._store.ask("HGET", self._keys.second_factors, name)
        step = step_of(secret.decode(), code, self._clock.now_ms() // 1000) if secret else None
        if step is None or not await self._use(name, step):
            return False
        await self._store.ask("DEL", at)
        return True

    async def _use(self, name: str, step: int) -> bool:
        at = self._keys.of(digest_of(f"{name}|{step}")).used_code
        return await self._store.ask("SET", at, "1", "EX", USED_S, "NX") is not None


def code_at(secret: str, step: int) -> str:
    """The digits of one step of time."""
    return _totp(secret).generate(step * STEP_S).decode()


def step_of(secret: str, code: str, now_s: int) -> int | None:
    """The step that a code belongs to, if that is about now."""
    totp, found = _totp(secret), None
    shown = code.replace(" ", "").encode()
    for drift in DRIFT:
        step = now_s // STEP_S + drift
        # All are compared, so that the time it takes says nothing about the digits.
        if hmac.compare_digest(totp.generate(step * STEP_S), shown):
            found = step
    return found


def _totp(secret: str) -> TOTP:
    # SHA-1 is what authenticators know; RFC 6238 needs no resistance to collisions.
    return TOTP(b32decode(secret), DIGITS, SHA1(), STEP_S)  # noqa: S303
