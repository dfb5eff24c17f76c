"""Return addresses, sealed so that nobody can send visitors elsewhere."""

import hashlib
import hmac
import json
import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Self
from urllib.parse import unquote

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from waystation.core import codec
from waystation.core.errors import InvalidInput, Malformed
from waystation.waitingroom.signing.tokens import Keyring, Kind
from waystation.waitingroom.state import RoomState

LONGEST_PATH = 1024
_HOST = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?"
)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")


class Return(msgspec.Struct, frozen=True):
    """A place on a site."""

    host: str
    path: str
    queue: str
    exp: int


def is_host(text: str) -> bool:
    """Whether this is a host and nothing more."""
    return len(text) <= 255 and _HOST.fullmatch(text) is not None


def safe_path(text: str) -> str:
    """A path on the visitor's own site; anything that a browser could take elsewhere is refused."""
    if not text.startswith("/") or len(text) > LONGEST_PATH:
        raise InvalidInput(f"a target must be a path of at most {LONGEST_PATH} characters")
    read = text
    # Whoever unquotes it once more than we do must not find another host in it.
    for _ in range(3):
        if _FORBIDDEN.search(read) or read.startswith("//"):
            raise InvalidInput("a target must be a plain path, without // or \\ in front of it")
        read = unquote(read, errors="replace")
    if not text.isascii() or " " in text:
        raise InvalidInput("a target must be written in ASCII without spaces, the rest as %XX")
    return text


def split_target(text: str, hosts: Sequence[str]) -> tuple[str, str]:
    """The host, if one is named that may be gone back to, and the path on it."""
    scheme, colon, rest = text.partition("://")
    if not colon or scheme not in ("http", "https"):
        return "", text
    host, slash, path = rest.partition("/")
    if not is_host(host) or host not in hosts:
        raise InvalidInput("a target must be a path, or on one of the room's return_hosts")
    return host, slash + path or "/"


def return_hosts(state: RoomState) -> list[str]:
    """The hosts besides the room's own that its operator lets visitors go back to."""
    return [each for each in state.fields.get("return_hosts", "").split(",") if each]


class Seal:
    """Writes and reads sealed returns; every process with the same keys reads the others'."""

    def __init__(self, secrets: list[bytes]) -> None:
        self._stamps = [hashlib.sha256(b"stamp|" + each).digest() for each in secrets]
        self._boxes = [AESGCM(hashlib.sha256(b"return|" + each).digest()) for each in secrets]

    @classmethod
    def of(cls, keyring: Keyring) -> Self:
        """The seal that belongs to a keyring; it turns with the keys of the queue tickets."""
        ring = json.loads(keyring.to_json())[Kind.QUEUE]
        keys = (ring["current"], *ring["previous"], ring["next"])
        return cls([key["k"].encode() for key in keys])

    def stamp(self, text: str) -> str:
        """A mark that only this installation can make."""
        return _stamp(self._stamps[0], text)

    def stamped(self, text: str, mark: str) -> bool:
        """Whether a mark was made here, with a key that counts."""
        return any(
            hmac.compare_digest(mark.encode(), _stamp(key, text).encode()) for key in self._stamps
        )

    def close(self, back: Return) -> str:
        """The text for the query."""
        nonce = os.urandom(12)
        sealed = self._boxes[0].encrypt(nonce, codec.encode(back), back.queue.encode())
        return urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def open(self, text: str, *, queue: str, now_s: float) -> Return:
        """What was sealed for this room; InvalidInput when it was not, or too long ago."""
        if len(text) > 4 * LONGEST_PATH:
            raise InvalidInput("the return address is too long")
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            raise InvalidInput("the return address cannot be read") from None
        for box in self._boxes:
            try:
                back = codec.decode(box.decrypt(raw[:12], raw[12:], queue.encode()), Return)
            except (InvalidTag, ValueError, Malformed):
                continue
            if back.exp <= now_s:
                raise InvalidInput("the return address is too old")
            safe_path(back.path)
            return back
        raise InvalidInput("the return address was not sealed here for this room")


def _stamp(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]
