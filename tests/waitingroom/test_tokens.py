"""What a token has to survive before it counts."""

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import OctKey, OKPKey

from waystation.core.errors import InvalidInput, InvalidToken
from waystation.waitingroom.signing import (
    EnqueueTicket,
    Keyring,
    Kind,
    QueueTicket,
    SessionToken,
)
from waystation.waitingroom.visitor import Lane

NOW_S = 1_700_000_000
RING = Keyring.generate(random.SystemRandom())
SESSION = SessionToken(
    iss="room", aud="shop", iat=NOW_S, nbf=NOW_S, exp=NOW_S + 120, jti="j", sub="s", owner="o"
)
TOKEN = RING.sign(SESSION)


def verify(token: str, ring: Keyring = RING, **more: Any) -> SessionToken:
    settings: dict[str, Any] = {"audience": "shop", "issuer": "room", "now_ms": NOW_S * 1000} | more
    return ring.verify(token, SessionToken, **settings)


def packed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def with_header(**changes: Any) -> str:
    head, payload, signature = TOKEN.split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "=="))
    return ".".join((packed({**header, **changes}), payload, signature))


def test_a_token_says_what_was_signed() -> None:
    assert verify(TOKEN) == SESSION


def test_another_process_with_the_same_keys_reads_it() -> None:
    """F31: the origin makes a key per process, so that a restart throws everybody out."""
    other = Keyring.from_json(RING.to_json())
    assert verify(TOKEN, other) == SESSION
    with pytest.raises(InvalidToken, match="key"):
        verify(TOKEN, Keyring.generate(random.SystemRandom()))


def test_a_token_without_a_signature_is_refused() -> None:
    """Attack 1: alg=none."""
    head, payload, _ = TOKEN.split(".")
    none = packed({"alg": "none", "typ": Kind.SESSION.value, "kid": "x"})
    for forged in (f"{none}.{payload}.", f"{head}.{payload}.", f"{none}.{payload}.{'A' * 86}"):
        with pytest.raises(InvalidToken):
            verify(forged)


def test_a_public_key_is_no_shared_secret() -> None:
    """Attack 2: HS256 with the public key as its secret."""
    public = RING.jwks()["keys"][1]
    secret = OctKey.import_key(public["x"].encode() + b"-" * 32)
    header = {"alg": "HS256", "kid": public["kid"], "typ": Kind.SESSION.value}
    forged = jws.serialize_compact(header, b"{}", secret, algorithms=["HS256"])
    with pytest.raises(InvalidToken):
        verify(forged)


def test_a_place_in_line_is_no_session_and_the_other_way_round() -> None:
    """Attack 3, F24: each kind has its own type and its own keys."""
    place = RING.sign(
        QueueTicket(iss="room", aud="shop", iat=NOW_S, exp=NOW_S + 99, jti="p", owner="o")
    )
    with pytest.raises(InvalidToken, match="not a wr-session"):
        verify(place)
    with pytest.raises(InvalidToken, match="not a wr-queue"):
        RING.verify(TOKEN, QueueTicket, audience="shop", issuer="room", now_ms=NOW_S * 1000)
    head, rest = place.split(".", 1)
    header = json.loads(base64.urlsafe_b64decode(head + "=="))
    with pytest.raises(InvalidToken, match="key"):
        verify(packed({**header, "typ": Kind.SESSION.value}) + "." + rest)


def test_a_session_of_another_room_or_issuer_is_refused() -> None:
    """Attack 4."""
    for name in ("audience", "issuer"):
        with pytest.raises(InvalidToken, match="another room"):
            verify(TOKEN, RING, **{name: "other"})


@pytest.mark.parametrize(
    ("at_s", "fits"), [(-31, False), (-30, True), (0, True), (149, True), (150, False)]
)
def test_a_token_counts_in_its_time_give_or_take_half_a_minute(at_s: int, fits: bool) -> None:
    """Attack 5: expired, not yet, and the edges of the leeway."""
    if fits:
        verify(TOKEN, now_ms=(NOW_S + at_s) * 1000)
    else:
        with pytest.raises(InvalidToken, match=r"expired|yet"):
            verify(TOKEN, now_ms=(NOW_S + at_s) * 1000)


@pytest.mark.parametrize("kid", ["", "unknown", "../../etc/passwd", "x" * 3000, "' OR 1=1"])
def test_a_key_nobody_knows_is_not_looked_for(kid: str) -> None:
    """Attack 6: paths, queries and long names are only names that nobody knows."""
    with pytest.raises(InvalidToken):
        verify(with_header(kid=kid))


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c", "crit", "b64", "zip"])
def test_a_header_cannot_bring_its_own_key(name: str) -> None:
    """Attack 6: jwk, jku and x5u are refused, not ignored."""
    with pytest.raises(InvalidToken, match="header"):
        verify(with_header(**{name: "https://evil.example"}))


def test_tokens_of_an_earlier_epoch_no_longer_count() -> None:
    """Attack 7, F24: one write revokes everything that was given so far."""
    with pytest.raises(InvalidToken, match="revoked"):
        verify(TOKEN, epoch=2)


def test_keys_change_without_anybody_being_thrown_out() -> None:
    """Attack 8, F31: announced, used, kept for a while, then retired."""
    ring = Keyring.from_json(RING.to_json())
    announced = {key["kid"] for key in ring.jwks()["keys"]}
    ring.rotate(Kind.SESSION, random.SystemRandom())
    fresh = ring.sign(SESSION)
    assert json.loads(base64.urlsafe_b64decode(fresh.split(".")[0] + "=="))["kid"] in announced
    assert verify(TOKEN, ring) == SESSION
    assert verify(fresh, ring) == SESSION
    ring.retire(Kind.SESSION)
    with pytest.raises(InvalidToken, match="key"):
        verify(TOKEN, ring)


def test_the_published_keys_hold_no_secret() -> None:
    """F31: only what it takes to check."""
    keys = RING.jwks()["keys"]
    assert len(keys) == 2
    assert all(set(key) == {"kty", "crv", "x", "kid", "use", "alg"} for key in keys)


@pytest.mark.parametrize(
    "spoilt",
    [
        TOKEN + "=",
        TOKEN.replace(".", ".."),
        TOKEN + ".x",
        " " + TOKEN,
        TOKEN + "\n",
        TOKEN[:-1],
        TOKEN[:-1] + ("B" if TOKEN[-1] != "B" else "C"),
        TOKEN.replace(".", "\uff0e", 1),
        "",
        "a.b.c",
        "x" * 9000,
    ],
)
def test_a_token_is_written_in_one_way_only(spoilt: str) -> None:
    """Attacks 9, 10 and 11: padding, look-alikes, cut signatures, eight kilobytes."""
    with pytest.raises(InvalidToken):
        verify(spoilt)


def test_a_claim_said_twice_is_refused() -> None:
    """Attack 9: one reader takes the first, another the last."""
    keys = json.loads(RING.to_json())[Kind.SESSION.value]
    key = OKPKey.import_key(keys["current"])
    header = {"alg": "Ed25519", "kid": keys["current"]["kid"], "typ": Kind.SESSION.value}
    body = json.dumps({"sub": "s", "iss": "room", "aud": "other"})[:-1] + ', "aud": "shop"}'
    forged = jws.serialize_compact(header, body.encode(), key, algorithms=["Ed25519"])
    with pytest.raises(InvalidToken):
        verify(forged)


def test_what_a_ticket_says_cannot_be_edited() -> None:
    """Attacks 13, 14 and 15, F29: lane and place are signed."""
    ticket = RING.sign(
        EnqueueTicket(
            iss="room",
            aud="shop",
            iat=NOW_S,
            exp=NOW_S + 60,
            jti="i",
            key="user-7",
            lane=Lane.NORMAL,
        )
    )
    head, payload, signature = ticket.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    forged = ".".join((head, packed({**claims, "lane": 3}), signature))
    with pytest.raises(InvalidToken, match="signature"):
        RING.verify(forged, EnqueueTicket, audience="shop", issuer="room", now_ms=NOW_S * 1000)


@given(st.integers(0, len(TOKEN) - 1), st.characters())
def test_no_single_change_survives(place: int, char: str) -> None:
    changed = TOKEN[:place] + char + TOKEN[place + 1 :]
    if changed == TOKEN:
        return
    with pytest.raises(InvalidToken):
        verify(changed)


def test_a_place_in_line_is_read_with_the_secret_that_signed_it_and_no_other() -> None:
    """Only the room reads it, so it is signed with a secret that is never published."""
    ticket = QueueTicket(iss="room", aud="shop", iat=NOW_S, exp=NOW_S + 99, jti="p", owner="o")
    settings: dict[str, Any] = {"audience": "shop", "issuer": "room", "now_ms": NOW_S * 1000}
    token = RING.sign(ticket)
    assert RING.verify(token, QueueTicket, **settings) == ticket
    head, payload, _ = token.split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "=="))
    guessed = OctKey.import_key(b"-" * 32)
    forged = jws.serialize_compact(header, b"{}", guessed, algorithms=["HS256"])
    for wrong in (forged, f"{head}.{payload}.{'A' * 43}", f"{head}.{payload}.{'A' * 86}"):
        with pytest.raises(InvalidToken, match="signature"):
            RING.verify(wrong, QueueTicket, **settings)
    assert header["kid"] not in {key["kid"] for key in RING.jwks()["keys"]}


def test_a_header_that_names_another_algorithm_than_its_key_is_refused() -> None:
    with pytest.raises(InvalidToken, match="algorithm"):
        verify(with_header(alg="HS256"))


def test_a_short_secret_is_refused() -> None:
    kept = json.loads(RING.to_json())
    kept[Kind.QUEUE.value]["current"]["k"] = "a" * 28
    with pytest.raises(InvalidInput, match="32 bytes"):
        Keyring.from_json(json.dumps(kept))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"wr-session+jwt": {"current": {}}}'])
def test_keys_that_are_none_are_refused(text: str) -> None:
    """F31: better not to start than to start with a default secret."""
    with pytest.raises(InvalidInput, match="keys of a waiting room"):
        Keyring.from_json(text)
