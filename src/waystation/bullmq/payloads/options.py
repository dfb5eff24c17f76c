"""Payload options: what becomes of data and results before they are stored."""

from pathlib import Path

import msgspec

from waystation.bullmq.payloads.blobs import Blobs
from waystation.core.errors import InvalidOption
from waystation.core.key_ring import KeyRing
from waystation.core.options import at_least, check_fields
from waystation.core.settings.section import Secret

ABOVE = 65_536


class PayloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the data and the results of jobs before they are stored."""

    keys: str | None = None
    """Key ring that encrypts them: `name=base64`, separated by commas; the first one encrypts, the
    others still decrypt."""
    blobs: Blobs | str | Path | None = None
    """Directory, or object store of your own, for those above a size."""
    above: int = ABOVE
    """Bytes of JSON above which a payload is kept there."""

    def __post_init__(self) -> None:
        check_fields(self)
        at_least("above", self.above, 0)
        KeyRing(self.keys)
        if self.keys is not None:
            # So that no log and no traceback shows it.
            msgspec.structs.force_setattr(self, "keys", Secret(self.keys))
        if not isinstance(self.blobs, Blobs | str | Path | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"blobs must be a directory or a Blobs, got {self.blobs!r}")
        if not self.keys and self.blobs is None:
            raise InvalidOption("payloads need keys, blobs or both")
