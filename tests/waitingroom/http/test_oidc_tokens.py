"""What an identity provider says is believed only if it says it to us, now, and signs it."""

import hmac
import itertools
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from waystation.core.operators import oidc
from waystation.core.operators.oidc import SignInRefused
from waystation.core.operators.oidc_settings import Grant, OidcOptions, is_safe
from waystation.core.operators.operators import Operator
from waystation.core.operators.roles import Role

NOW = 1_900_000_000
ISSUER, CLIENT = "https://login.example", "room"
RSA = RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig"})
CURVE = ECKey.generate_key("P-256", {"kid": "curve"})
STRANGER = RSAKey.generate_key(2048, {"kid": "rsa"})
JWKS = {
    "keys": [
        RSA.as_dict(private=False),
        CURVE.as_dict(private=False),
        {"kty": "RSA", "kid": "locked", "use": "enc", "n": "AQAB", "e": "AQAB"},
        {"kty": "later", "kid": "unknown"},
    ]
}
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": CLIENT, "sub": "alice", "nonce": "n",
    "iat": NOW - 5, "exp": NOW + 300,
}  # fmt: skip


def _signed(header: dict[str, Any] | None = None, *, key: Any = RSA, **claims: Any) -> str:
    said = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    head = {"alg": "RS256", "kid": "rsa", **(header or {})}
    return jwt.encode(head, said, key, algorithms=[head["alg"]])


def _forged(algorithm: str, sign: Callable[[bytes], bytes]) -> str:
    parts = ({"alg": algorithm, "kid": "rsa"}, CLAIMS)
    content = b".".join(_text(json.dumps(each).encode()) for each in parts)
    return (content + b"." + _text(sign(content))).decode()


def _with_the_public_key(content: bytes) -> bytes:
    return hmac.digest(RSA.as_pem(private=False), content, "sha256")


def _text(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")


def _read(token: str) -> dict[str, Any]:
    return oidc.read(token, JWKS, issuer=ISSUER, client_id=CLIENT, nonce="n", now_s=NOW)


@pytest.mark.parametrize(
    "token",
    [
        _signed(),
        _signed({"alg": "PS256"}),
        _signed({"alg": "ES256", "kid": "curve"}, key=CURVE),
        _signed(aud=[CLIENT]),
        _signed(aud=[CLIENT, "another"], azp=CLIENT),
        _signed(exp=NOW - oidc.LEEWAY_S + 1),
    ],
)
def test_what_the_provider_signed_for_us_is_believed(token: str) -> None:
    assert _read(token)["sub"] == "alice"


REFUSED = {
    "signed by nobody": _forged("none", lambda content: b""),
    "signed with the public key as a secret": _forged("HS256", _with_the_public_key),
    "signed with a key of the same name": _signed(key=STRANGER),
    "signed with a key that it brings along": _signed(
        {"jwk": STRANGER.as_dict(private=False)}, key=STRANGER
    ),
    "a key that nobody knows": _signed({"kid": "another"}),
    "no name of a key": _signed({"kid": ""}),
    "a key for something else": _signed({"kid": "locked"}),
    "meant for another site": _signed(aud="another"),
    "meant for several, asked for by another": _signed(aud=[CLIENT, "another"], azp="another"),
    "meant for several, asked for by nobody": _signed(aud=[CLIENT, "another"]),
    "asked for by another": _signed(azp="another"),
    "from another provider": _signed(iss="https://login.example.evil"),
    "for another sign-in": _signed(nonce="m"),
    "for no sign-in": _signed(nonce=None),
    "over": _signed(exp=NOW - oidc.LEEWAY_S - 1),
    "without an end": _signed(exp=None),
    "from the future": _signed(iat=NOW + 600),
    "about nobody": _signed(sub=None),
    "cut short": _signed()[:-8],
    "too long": _signed(more="x" * oidc.LONGEST),
    "no token": "hello",
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED.keys())
def test_52_nothing_else_is(token: str) -> None:
    with pytest.raises(SignInRefused):
        _read(token)


@pytest.mark.parametrize("jwks", [{}, {"keys": []}, {"keys": [{"kty": "oct", "k": "AAAA"}]}])
def test_without_keys_nothing_is_believed(jwks: dict[str, Any]) -> None:
    with pytest.raises(SignInRefused):
        oidc.read(_signed(), jwks, issuer=ISSUER, client_id=CLIENT, nonce="n", now_s=NOW)


def _options(**grants: Grant) -> OidcOptions:
    return OidcOptions(
        issuer=ISSUER, client_id=CLIENT, client_secret="s", public_url="https://wait.example",
        grants=grants,
    )  # fmt: skip


def test_groups_of_one_role_count_in_all_their_rooms() -> None:
    options = _options(
        a=Grant(role=Role.OPERATOR, queues=("shop",)),
        b=Grant(role=Role.OPERATOR, queues=("sale",)),
        c=Grant(role=Role.OPERATOR),
        d=Grant(role=Role.VIEWER),
    )
    both = Grant(role=Role.OPERATOR, queues=("sale", "shop"))
    assert options.granted(["d", "b", "a"]) == [both, Grant(role=Role.VIEWER)]
    assert options.granted(["a", "c"]) == [Grant(role=Role.OPERATOR)]
    assert options.granted(["d", "nothing"]) == [Grant(role=Role.VIEWER)]
    assert options.granted(["nothing"]) == []


def test_another_group_takes_no_right_away() -> None:
    """Somebody of the night shift who is made admin of one room keeps all others."""
    shift, admin = Grant(role=Role.OPERATOR), Grant(role=Role.ADMIN, queues=("sale",))
    for groups in itertools.permutations(["shift", "admin"]):
        most, *more = _options(shift=shift, admin=admin).granted(groups)
        who = Operator(name="x", role=most.role, queues=list(most.queues), more=more)
        assert who.may("admin", "sale")
        assert who.may("operator", "shop")
        assert who.may("viewer", None)
        assert not who.may("admin", "shop")
        assert not who.may("connector", "shop")


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://login.example/realms/a", True), ("http://localhost:9000", True),
        ("http://127.0.0.1:9000", True), ("http://[::1]:9000", True),
        ("http://login.example", False), ("https://user@login.example", False),
        ("http://localhost.evil.example", False), ("ftp://localhost", False),
        ("https://login.example:port", False), ("https://login.example/a b", False), ("", False),
    ],
)  # fmt: skip
def test_a_provider_is_asked_where_nobody_listens_in(url: str, safe: bool) -> None:
    assert is_safe(url) is safe
