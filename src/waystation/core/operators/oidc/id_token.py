"""Verification of ID tokens."""

from collections.abc import Mapping
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from waystation.core.operators.oidc.errors import SignInRefused

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
