"""Verification of tokens with the room's public keys."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

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
