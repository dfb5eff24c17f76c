"""The key ring: what one key encrypts, no other reads."""

import base64

import pytest

from waystation.core.key_ring import KeyRing
from waystation.errors import InvalidInput, InvalidOption


def key(name: str, byte: bytes = b"1", size: int = 32) -> str:
    return f"{name}={base64.b64encode(byte * size).decode()}"


@pytest.mark.parametrize("size", [16, 24, 32])
def test_the_first_key_encrypts_and_all_decrypt(size: int) -> None:
    old = KeyRing(key("old", size=size))
    ring = KeyRing(f"{key('new', b'2')}, {key('old', size=size)}")

    assert ring.decrypt("old", old.encrypt(b"secret")) == b"secret"
    assert ring.first == "new"
    assert ring.encrypt(b"secret") != ring.encrypt(b"secret")
    assert ring.decrypt("new", ring.encrypt(b"")) == b""


def test_a_key_that_is_missing_or_wrong_is_named() -> None:
    sealed = KeyRing(key("a")).encrypt(b"secret")
    with pytest.raises(InvalidInput, match="the key 'a', which is not in keys"):
        KeyRing(key("b")).decrypt("a", sealed)
    for wrong in (sealed[:-1], sealed[1:], b"", b"x" * 11):
        with pytest.raises(InvalidInput, match="cannot be decrypted with the key 'a'"):
            KeyRing(key("a")).decrypt("a", wrong)
    with pytest.raises(InvalidInput, match="cannot be decrypted with the key 'a'"):
        KeyRing(key("a", b"2")).decrypt("a", sealed)


@pytest.mark.parametrize("text", ["a", "a=", "=AAAA", "a=AAAA", "A" + key("a"), "a=é"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="name=base64"):
        KeyRing(text)


def test_a_name_stands_for_one_key_and_no_key_is_ever_shown() -> None:
    with pytest.raises(InvalidOption, match="'a' twice"):
        KeyRing(f"{key('a')},{key('a', b'2')}")
    assert repr(KeyRing(f"{key('a')},{key('b')}")) == "KeyRing(a, b)"
    assert not KeyRing(None)
    assert not KeyRing(" , ")
    with pytest.raises(InvalidInput, match="no key to encrypt with"):
        KeyRing("").encrypt(b"")
