"""Key ring: named keys of which the first encrypts and all decrypt."""

import base64
import binascii
import hashlib
import hmac
import os
import re
from typing import Any

from waystation.core.errors import InvalidInput, InvalidOption

KEY_BYTES = (16, 24, 32)
NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_NONCE_BYTES = 12


class KeyRing:
    """Encrypts with AES-GCM, and knows by name which key a value was encrypted with.

    Written as `name=base64` of 16, 24 or 32 bytes, separated by commas. The first key encrypts;
    the others still decrypt. A new key is added behind the others first, put in front when every
    process knows it, and an old one taken away when nothing is left that needs it.
    """

    def __init__(self, text: str | None) -> None:
        self._keys = _keys_in(text)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self._keys)})"

    @property
    def first(self) -> str:
        """The name of the key that encrypts."""
        if not self._keys:
            raise InvalidInput("there is no key to encrypt with")
        return next(iter(self._keys))

    def digest(self, raw: bytes) -> str:
        """A keyed hash, which whoever has no key cannot find by trying values."""
        return hmac.new(self._keys[self.first], raw, hashlib.sha256).hexdigest()

    def steady_digest(self, raw: bytes) -> str:
        """As `digest`, and the same while keys are put in front or change places.

        It is made with the key whose name comes first in the alphabet.
        """
        return hmac.new(self._keys[min(self._keys)], raw, hashlib.sha256).hexdigest()

    def encrypt(self, raw: bytes) -> bytes:
        """Encrypt with the first key."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + _cipher(self._keys[self.first]).encrypt(nonce, raw, b"")

    def decrypt(self, name: str, sealed: bytes) -> bytes:
        """Decrypt with the key of this name; refuses one that is missing or does not fit."""
        if name not in self._keys:
            raise InvalidInput(f"a value was encrypted with the key {name!r}, which is not in keys")
        from cryptography.exceptions import InvalidTag

        try:
            nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
            return _cipher(self._keys[name]).decrypt(nonce, rest, b"")
        except (InvalidTag, ValueError):
            raise InvalidInput(f"a value cannot be decrypted with the key {name!r}") from None


def _keys_in(text: str | None) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for each in filter(None, (part.strip() for part in (text or "").split(","))):
        name, _, value = each.partition("=")
        try:
            key = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not NAME.fullmatch(name) or len(key) not in KEY_BYTES:
            raise InvalidOption(
                "keys must be name=base64 of 16, 24 or 32 bytes, separated by commas"
            )
        if name in keys:
            raise InvalidOption(f"keys must have different names, got {name!r} twice")
        keys[name] = key
    return keys


def _cipher(key: bytes) -> Any:
    # Only who encrypts needs the package.
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise InvalidOption(
            "encryption needs cryptography: run pip install 'waystation[encryption]'"
        ) from None
    return AESGCM(key)
