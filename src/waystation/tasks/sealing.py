"""Sealing: payloads of tasks encrypted, or kept outside the store, behind an envelope.

What is stored is an ordinary JSON object, `{"$payload": {…}}`: a dashboard shows it, and Node can
carry it. What is no envelope is taken as it is, so jobs that waited before sealing was turned on,
and those of other producers, go on.
"""

import asyncio
import base64
import binascii
import hashlib
import uuid
from pathlib import Path
from typing import Any, cast

import msgspec

from waystation.bullmq import JobOptions
from waystation.bullmq.redis.packing import as_unique, wire_name
from waystation.core import codec
from waystation.core.errors import InvalidInput, InvalidOption, Malformed, NotFound, UnreadableData
from waystation.core.key_ring import KeyRing
from waystation.core.options import at_least
from waystation.core.settings.secrets import Secret
from waystation.tasks.blobs import Blobs, DirectoryBlobs

ENVELOPE = "$payload"
"""The one field of an envelope."""


class PayloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the arguments and results of tasks before they are stored."""

    keys: str | None = None
    """Key ring that encrypts them: `name=base64`, separated by commas; the first one encrypts, the
    others still decrypt."""
    blobs: Blobs | str | Path | None = None
    """Directory, or object store of your own, for those above a size."""
    above: int = 65_536
    """Bytes of JSON above which a payload is kept there."""

    def __post_init__(self) -> None:
        at_least("above", self.above, 0)
        KeyRing(self.keys)
        if self.keys is not None:
            # So that no log and no traceback shows it.
            msgspec.structs.force_setattr(self, "keys", Secret(self.keys))
        if not isinstance(self.blobs, Blobs | str | Path | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"blobs must be a directory or a Blobs, got {self.blobs!r}")
        if not self.keys and self.blobs is None:
            raise InvalidOption("payloads need keys, blobs or both")


class Envelope(msgspec.Struct, omit_defaults=True):
    """What is stored in the place of a payload."""

    key: str | None = None
    """The name of the key that it is encrypted with."""
    sealed: str | None = None
    """The encrypted payload, in base64."""
    blob: str | None = None
    """The name of the blob that it is kept in."""
    sha256: str | None = None
    """The hash of that blob."""


class Sealing:
    """Seals and opens the payloads of tasks; without options it seals nothing. Internal."""

    def __init__(self, options: PayloadOptions | None = None) -> None:
        self._ring = KeyRing(options and options.keys)
        given = options and options.blobs
        self.blobs = DirectoryBlobs(given) if isinstance(given, str | Path) else given
        self._above = options.above if options else 0

    def sealed(self, queue: str, value: Any) -> Any:
        """A value as it is stored; what is small and need not be encrypted is stored as it is."""
        if not self._ring and self.blobs is None:
            return value
        raw = codec.encode_as_node(value)
        outside = self.blobs is not None and len(raw) > self._above
        if not self._ring and not outside:
            return value
        envelope = Envelope()
        if self._ring:
            envelope.key, raw = self._ring.first, self._ring.encrypt(raw)
        if self.blobs is not None and outside:
            envelope.blob = f"{queue}/{uuid.uuid4().hex}"
            envelope.sha256 = hashlib.sha256(raw).hexdigest()
            self.blobs.write(envelope.blob, raw)
        else:
            envelope.sealed = base64.b64encode(raw).decode()
        return {ENVELOPE: msgspec.to_builtins(envelope)}

    async def sealed_soon(self, queue: str, value: Any) -> Any:
        """As `sealed`, without holding up the loop."""
        if self.blobs is None:
            return self.sealed(queue, value)
        return await asyncio.to_thread(self.sealed, queue, value)

    def opened(self, stored: Any) -> Any:
        """A value from what is stored of it, or why it cannot be had."""
        envelope = _envelope_of(stored)
        return stored if envelope is None else self._open(envelope)

    async def opened_soon(self, stored: Any) -> Any:
        """As `opened`, without holding up the loop."""
        envelope = _envelope_of(stored)
        if envelope is None:
            return stored
        if envelope.blob is None:
            return self._open(envelope)
        return await asyncio.to_thread(self._open, envelope)

    def unique(self, options: JobOptions, name: str, data: Any) -> JobOptions:
        """The options of a call that may be the only one with its data for a while.

        Equal calls are equal before they are encrypted, and never after.
        """
        if options.unique_for is None or not (self._ring or self.blobs):
            return options
        key = bytes.fromhex(self._ring.digest(b"unique")) if self._ring else b""
        return as_unique(options, wire_name(name), codec.encode_as_node(data), key=key)

    def _open(self, envelope: Envelope) -> Any:
        raw = self._raw(envelope)
        if envelope.key is not None:
            try:
                raw = self._ring.decrypt(envelope.key, raw)
            except InvalidInput as error:
                raise UnreadableData(f"the payload cannot be read: {error}") from None
        try:
            return codec.decode(raw)
        except Malformed as error:
            raise UnreadableData(f"the payload cannot be read: {error}") from None

    def _raw(self, envelope: Envelope) -> bytes:
        if envelope.sealed is not None:
            try:
                return base64.b64decode(envelope.sealed, validate=True)
            except (binascii.Error, ValueError):
                raise UnreadableData("the payload cannot be read: it is no base64") from None
        if envelope.blob is None:
            raise UnreadableData("the payload cannot be read: its envelope is empty")
        if self.blobs is None:
            raise UnreadableData(
                f"the payload is the blob {envelope.blob}, but these tasks have none"
            )
        try:
            raw = self.blobs.read(envelope.blob)
        except (NotFound, InvalidOption) as error:
            raise UnreadableData(f"the payload cannot be read: {error}") from None
        if envelope.sha256 not in (None, hashlib.sha256(raw).hexdigest()):
            raise UnreadableData(f"the payload {envelope.blob} was changed since it was written")
        return raw


def _envelope_of(stored: Any) -> Envelope | None:
    """The envelope that was stored; None when it is a payload as it is."""
    if not isinstance(stored, dict) or stored.keys() != {ENVELOPE}:
        return None
    try:
        return msgspec.convert(cast("dict[str, Any]", stored)[ENVELOPE], Envelope)
    except msgspec.ValidationError as error:
        raise UnreadableData(f"the payload cannot be read: {error}") from None
