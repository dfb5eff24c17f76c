"""Signing: keys, the file that holds them, and the tokens that they sign.

A signature of a pair costs as much as a whole request and checking it three times that; a place in
line is signed for everybody who joins, shown at every look, and read by nobody but the room itself.

Each kind has keys of its own and a type of its own, so that none passes for another. A token names
its key, never its algorithm: what the header says about that only has to agree with the key.

A key is announced for as long as connectors may keep what they know before it signs anything, and
counts after it was replaced for as long as a token that it signed may live.
"""

import fcntl
import hmac
import json
import os
import random
import re
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Container, Generator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, Self, TypeAlias, TypeVar, cast

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.errors import JoseError
from joserfc.jwk import OctKey, OKPKey

from waystation.core.errors import InvalidInput, InvalidToken, WrongState
from waystation.core.identity import Bits
from waystation.waitingroom.visitor import Lane, new_id

SECRET_BYTES = 32


class Pair:
    """An Ed25519 pair: whoever has the public half can check, and nothing else."""

    algorithms: tuple[str, ...] = ("Ed25519", "EdDSA")
    """What a header may call the algorithm, the name that we write first.

    That of today and the one that most libraries still write; with our keys both are one.
    """

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


SigningKey: TypeAlias = Pair | Secret
"""One key; it alone decides about the algorithm."""
LONGEST_TOKEN = 4096
LEEWAY_S = 30
CONFIG = "wr-config+jwt"
"""The `typ` of the answers that connectors get; no check of a token accepts it."""
_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class Kind(StrEnum):
    """What a token is for; the `typ` of its header."""

    ENQUEUE = "wr-enqueue+jwt"
    QUEUE = "wr-queue+jwt"
    SESSION = "wr-session+jwt"


class Claims(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every token says."""

    iss: str
    aud: str
    """The room."""
    iat: int
    exp: int
    jti: str
    nbf: int = 0
    epoch: int = 0


class EnqueueTicket(Claims, frozen=True, kw_only=True):
    """An invitation: whoever shows it joins under this key, in this lane."""

    key: str
    lane: Lane = Lane.NORMAL
    ip: str = ""
    """The only network it may be used from; empty for any."""


class QueueTicket(Claims, frozen=True, kw_only=True):
    """A place in line; `jti` is its id."""

    owner: str
    lane: Lane = Lane.NORMAL


class SessionToken(Claims, frozen=True, kw_only=True):
    """A seat inside, for two minutes at a time."""

    sub: str
    """The session's id."""
    owner: str
    host: str = ""
    net: str = ""


T = TypeVar("T", bound=Claims)

KINDS: Mapping[Kind, type[Claims]] = {
    Kind.ENQUEUE: EnqueueTicket,
    Kind.QUEUE: QueueTicket,
    Kind.SESSION: SessionToken,
}
_KIND_OF: Mapping[type[Claims], Kind] = {struct: kind for kind, struct in KINDS.items()}
SIGNED_WITH: Mapping[Kind, type[SigningKey]] = {
    Kind.ENQUEUE: Pair,
    Kind.QUEUE: Secret,
    Kind.SESSION: Pair,
}
"""Invitations and sessions are checked by sites and proxies, places in line by the room alone."""


class Ring:
    """The keys of one kind: the one in use, the one to come and those before, the last first."""

    def __init__(self, next: SigningKey, current: SigningKey, *previous: SigningKey) -> None:
        self.next = next
        self.current = current
        self.previous = previous
        self.by_id = {key.id: key for key in (next, current, *previous)}
        self._heads: dict[Kind, bytes] = {}

    def head(self, kind: Kind) -> bytes:
        """The header of a token signed now, as it is written."""
        if kind not in self._heads:
            key = self.current
            said = {"alg": key.algorithms[0], "kid": key.id, "typ": kind.value}
            self._heads[kind] = _text(msgspec.json.encode(said))
        return self._heads[kind]

    def rotated(self, bits: Bits) -> "Ring":
        """The next key in use, and a new one announced."""
        return Ring(type(self.next).generate(bits), self.next, self.current, *self.previous)

    def retired(self, ids: Container[str] | None = None) -> "Ring":
        """The same without these keys before; without all of them when none are named."""
        kept = () if ids is None else tuple(k for k in self.previous if k.id not in ids)
        return Ring(self.next, self.current, *kept)

    def written(self) -> dict[str, Any]:
        """All keys, private ones included."""
        return {
            "next": self.next.written(private=True),
            "current": self.current.written(private=True),
            "previous": [key.written(private=True) for key in self.previous],
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any], made: type[SigningKey]) -> Self:
        """Read what `written` gave; one key before may stand there alone."""
        before: Any = kept.get("previous", [])
        previous = cast("list[Any]", before if isinstance(before, list) else [before])
        return cls(*(made.read(key) for key in (kept["next"], kept["current"], *previous)))


class Keyring:
    """All keys of an installation; every process must have the same."""

    def __init__(self, rings: Mapping[Kind, Ring]) -> None:
        self._rings = dict(rings)

    @classmethod
    def generate(cls, bits: Bits) -> Self:
        """Make new keys."""
        return cls(
            {
                kind: Ring(made.generate(bits), made.generate(bits))
                for kind, made in SIGNED_WITH.items()
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read what `to_json` wrote."""
        try:
            kept = cast("dict[str, dict[str, Any]]", json.loads(text))
            rings = {kind: Ring.read(kept[kind], made) for kind, made in SIGNED_WITH.items()}
        except (ValueError, KeyError, TypeError, AttributeError, JoseError) as error:
            raise InvalidInput(f"these are not the keys of a waiting room: {error}") from None
        return cls(rings)

    def to_json(self) -> str:
        """Everything, private keys included: for a secret store, never for a log."""
        return json.dumps({kind.value: ring.written() for kind, ring in self._rings.items()})

    def rotate(self, kind: Kind, bits: Bits) -> None:
        """Use the key announced last; tokens signed with the one in use so far go on counting."""
        self._rings[kind] = self._rings[kind].rotated(bits)

    def retire(self, kind: Kind, ids: Container[str] | None = None) -> None:
        """Let tokens of these keys before count no longer; of all of them when none are named."""
        self._rings[kind] = self._rings[kind].retired(ids)

    def ids(self, kind: Kind) -> tuple[str, ...]:
        """The ids of the next, the current and the previous keys of one kind."""
        ring = self._rings[kind]
        return ring.next.id, ring.current.id, *(key.id for key in ring.previous)

    def jwks(self) -> dict[str, list[dict[str, Any]]]:
        """The public keys that connectors check sessions with, the one to come among them."""
        ring = self._rings[Kind.SESSION]
        return {
            "keys": [
                {**key.written(private=False), "use": "sig", "alg": key.algorithms[0]}
                for key in ring.by_id.values()
            ]
        }

    def sign(self, claims: Claims) -> str:
        """Write a token."""
        kind = _KIND_OF[type(claims)]
        ring = self._rings[kind]
        content = ring.head(kind) + b"." + _text(msgspec.json.encode(claims))
        return (content + b"." + _text(ring.current.sign(content))).decode()

    def sign_config(self, config: bytes) -> str:
        """Sign the configuration of connectors, with the key that they check sessions with."""
        key = self._rings[Kind.SESSION].current
        said = {"alg": key.algorithms[0], "kid": key.id, "typ": CONFIG}
        text = _text(msgspec.json.encode(said)) + b"." + _text(config)
        return (text + b"." + _text(key.sign(text))).decode()

    def verify(
        self,
        token: str,
        want: type[T],
        *,
        audience: str,
        issuer: str,
        now_ms: int,
        epoch: int = 0,
        leeway_s: int = LEEWAY_S,
    ) -> T:
        """Read a token that counts here and now; InvalidToken says why another does not."""
        kind = _KIND_OF[want]
        payload = self._payload(token, kind)
        try:
            claims = msgspec.convert(_object(payload), want)
        except (ValueError, msgspec.ValidationError):
            _refuse(f"it does not say what a {kind} says")
        now_s = now_ms / 1000
        if claims.aud != audience or claims.iss != issuer:
            _refuse("it is meant for another room")
        if claims.exp + leeway_s <= now_s:
            _refuse("it has expired")
        if max(claims.nbf, claims.iat) - leeway_s > now_s:
            _refuse("its time has not come yet")
        if claims.epoch < epoch:
            _refuse("every token of its time was revoked")
        return claims

    def _payload(self, token: str, kind: Kind) -> bytes:
        """What a token says, if one of our keys signed it."""
        if len(token) > LONGEST_TOKEN or not _COMPACT.fullmatch(token):
            _refuse("it is not a token")
        head, payload, written = token.split(".")
        try:
            header = _object(_bytes(head))
        except (ValueError, RecursionError):
            _refuse("its header cannot be read")
        if header.keys() != {"alg", "kid", "typ"}:
            _refuse("its header says more or less than it should")
        if header["typ"] != kind.value:
            _refuse(f"it is not a {kind}")
        key = self._rings[kind].by_id.get(str(header["kid"]))
        if key is None:
            _refuse("nobody here knows its key")
        if header["alg"] not in key.algorithms:
            _refuse("its header says another algorithm than its key")
        signature = _bytes(written)
        if _text(signature).decode() != written:
            _refuse("its signature is not written as it should be")
        if not key.signed(f"{head}.{payload}".encode(), signature):
            _refuse("its signature is not ours")
        return _bytes(payload)


def _text(raw: bytes) -> bytes:
    return urlsafe_b64encode(raw).rstrip(b"=")


def _bytes(text: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        _refuse("it is not written as it should be")


def _object(raw: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name twice")
        return found

    found = json.loads(raw.decode("utf-8"), object_pairs_hook=once)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return cast("dict[str, Any]", found)


def _refuse(why: str) -> NoReturn:
    raise InvalidToken(f"the token is not valid: {why}")


ANNOUNCED_S = 600
"""How long a key is shown to connectors before it may be used; they look every five minutes."""
LIFE_S = {Kind.ENQUEUE: 366 * 86_400, Kind.QUEUE: 86_400, Kind.SESSION: 86_400}
"""How long a token of each kind may count."""
_WHEN, _REPLACED = "rotated_at", "replaced_at"


class KeyFile:
    """A keyring on a disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None

    def read(self) -> Keyring:
        """The keys; new ones when there are none."""
        if not self.path.exists():
            self._write_first(Keyring.generate(random.SystemRandom()).to_json())
        self._seen = self._mark()
        return Keyring.from_json(self.path.read_bytes())

    def changed(self) -> Keyring | None:
        """The keys if another process has changed them since they were read."""
        return self.read() if self._mark() != self._seen else None

    def rotated_at(self) -> dict[Kind, int]:
        """When each kind was last given another key, in seconds; 0 for never."""
        kept = json.loads(self.path.read_bytes()).get(_WHEN, {})
        return {kind: int(kept.get(kind.value, 0)) for kind in Kind}

    def rotate(self, kind: Kind, *, now_s: int, emergency: bool = False) -> Keyring:
        """Sign with the key that was announced; each before counts as long as its tokens live."""

        def rotated(keys: Keyring, kept: dict[str, Any]) -> None:
            _, current, *before = keys.ids(kind)
            known: dict[str, int] = kept.get(_REPLACED, {})
            replaced = {**{id: known.get(id, now_s) for id in before}, current: now_s}
            over = {id for id in before if now_s - replaced[id] >= LIFE_S[kind] + LEEWAY_S}
            keys.rotate(kind, random.SystemRandom())
            keys.retire(kind, over)
            others = {**known, **replaced}
            kept[_REPLACED] = {id: at for id, at in others.items() if id not in over}
            kept[_WHEN] = {**kept.get(_WHEN, {}), kind.value: now_s}

        least_s = 0 if emergency else ANNOUNCED_S
        return self._change(kind, rotated, now_s=now_s, least_s=least_s)

    def retire(self, kind: Kind, *, now_s: int, emergency: bool = False) -> Keyring:
        """Let what the keys before have signed count no longer."""

        def retired(keys: Keyring, _: dict[str, Any]) -> None:
            keys.retire(kind)

        least_s = 0 if emergency else LIFE_S[kind]
        return self._change(kind, retired, now_s=now_s, least_s=least_s)

    def _change(
        self,
        kind: Kind,
        step: Callable[[Keyring, dict[str, Any]], None],
        *,
        now_s: int,
        least_s: int,
    ) -> Keyring:
        with self._locked():
            kept: dict[str, Any] = json.loads(self.path.read_bytes())
            when: dict[str, int] = kept.get(_WHEN, {})
            age = now_s - when.get(kind.value, 0)
            if age < least_s:
                raise WrongState(
                    f"the last change was {age} s ago; the next may be {least_s} s after it"
                )
            keys = Keyring.from_json(json.dumps(kept))
            step(keys, kept)
            text = json.dumps({**kept, **json.loads(keys.to_json())})
            self._aside(text).replace(self.path)
        return self.read()

    @contextmanager
    def _locked(self) -> Generator[None]:
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write_first(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._aside(text)
        try:
            # Whoever comes first wins; the others read what is there then.
            os.link(aside, self.path)
        except FileExistsError:
            pass
        finally:
            aside.unlink()

    def _aside(self, text: str) -> Path:
        # Named by chance: in containers on one volume every process has the same number.
        made, name = tempfile.mkstemp(dir=self.path.parent, prefix=f"{self.path.stem}.")
        aside = Path(name)
        try:
            with os.fdopen(made, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            aside.unlink()
            raise
        return aside

    def _mark(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_mtime_ns, found.st_ino
