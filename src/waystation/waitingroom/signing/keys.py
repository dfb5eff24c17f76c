"""Signing keys: an Ed25519 pair where others verify, a shared secret where only the room does.

A signature of a pair costs as much as a whole request and checking it three times that; a place in
line is signed for everybody who joins, shown at every look, and read by nobody but the room itself.
"""

import hmac
from collections.abc import Mapping
from typing import Any, Protocol, Self, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import OctKey, OKPKey

from waystation.core.identity import Bits
from waystation.waitingroom.visitor import new_id

SECRET_BYTES = 32


class SigningKey(Protocol):
    """One key; it alone decides about the algorithm."""

    id: str
    algorithms: tuple[str, ...]
    """What a header may call the algorithm, the name that we write first."""

    @classmethod
    def generate(cls, bits: Bits) -> Self:
        """Make a new one."""
        ...

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `written` gave."""
        ...

    def written(self, *, private: bool) -> dict[str, Any]:
        """The key as a JWK."""
        ...

    def sign(self, content: bytes) -> bytes:
        """Sign something."""
        ...

    def signed(self, content: bytes, signature: bytes) -> bool:
        """Whether this key signed that."""
        ...


class Pair:
    """An Ed25519 pair: whoever has the public half can check, and nothing else."""

    # The name of today and the one that most libraries still write; with our keys both are one.
    algorithms: tuple[str, ...] = ("Ed25519", "EdDSA")

    def __init__(self, key: OKPKey) -> None:
        self.id = str(key.as_dict()["kid"])
        self._key = key
        self._private = cast(Ed25519PrivateKey, key.private_key)
        self._public = self._private.public_key()

    @classmethod
    def generate(cls, bits: Bits) -> Self:
        """Make a new one."""
        return cls(OKPKey.generate_key("Ed25519", {"kid": new_id(bits)}, private=True))

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `written` gave."""
        return cls(OKPKey.import_key(dict(kept)))

    def written(self, *, private: bool) -> dict[str, Any]:
        """The key as a JWK, the half that signs only where asked for."""
        return cast("dict[str, Any]", self._key.as_dict(private=private))

    def sign(self, content: bytes) -> bytes:
        """Sign something."""
        return self._private.sign(content)

    def signed(self, content: bytes, signature: bytes) -> bool:
        """Whether this key signed that."""
        try:
            self._public.verify(signature, content)
        except InvalidSignature:
            return False
        return True


class Secret:
    """A secret of 256 bits: whoever can check can also sign, so it never leaves the room."""

    algorithms: tuple[str, ...] = ("HS256",)

    def __init__(self, key: OctKey) -> None:
        self.id = str(key.as_dict()["kid"])
        self._key = key
        self._secret = key.raw_value
        # Begun once and copied: setting a digest up costs more than the digest.
        self._begun = hmac.new(self._secret, digestmod="sha256")

    @classmethod
    def generate(cls, bits: Bits) -> Self:
        """Make a new one."""
        return cls(OctKey.generate_key(8 * SECRET_BYTES, {"kid": new_id(bits)}))

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Self:
        """Read what `written` gave."""
        key = cls(OctKey.import_key(dict(kept)))
        if len(key._secret) < SECRET_BYTES:
            raise ValueError(f"a secret must have {SECRET_BYTES} bytes, got {len(key._secret)}")
        return key

    def written(self, *, private: bool) -> dict[str, Any]:
        """The key as a JWK; there is no part of it that others may see."""
        if not private:
            raise ValueError("a secret has no public half")
        return cast("dict[str, Any]", self._key.as_dict(private=True))

    def sign(self, content: bytes) -> bytes:
        """Sign something."""
        digest = self._begun.copy()
        digest.update(content)
        return digest.digest()

    def signed(self, content: bytes, signature: bytes) -> bool:
        """Whether this key signed that."""
        return hmac.compare_digest(self.sign(content), signature)
