"""Envelopes: what is stored in the place of a payload that is encrypted or kept elsewhere.

An envelope is an ordinary JSON object, `{"$payload": {…}}`: a dashboard shows it, and Node can
carry it. What is no envelope is a payload as it is.
"""

from typing import Any, cast

import msgspec

from waystation.core import codec
from waystation.core.errors import InvalidInput, UnreadableData, WaystationError

FIELD = "$payload"
"""The one field of an envelope."""
BEGINNING = b'{"$payload":'
"""The bytes that every envelope of ours begins with."""


class Envelope(msgspec.Struct, omit_defaults=True):
    """What is stored in the place of a payload."""

    key: str | None = None
    """The name of the key that it is encrypted with."""
    sealed: str | None = None
    """The payload, encrypted or not, in base64."""
    blob: str | None = None
    """The name of the blob that it is kept in."""
    sha256: str | None = None
    """The hash of that blob."""

    def stored(self) -> "Sealed":
        """The envelope as JSON has it."""
        return Sealed({FIELD: msgspec.to_builtins(self)})


class Sealed(dict[str, Any]):
    """An envelope on its way into the store, which is not sealed again."""


def is_envelope(stored: Any) -> bool:
    """Whether this is an envelope, or looks like one."""
    return isinstance(stored, dict) and cast("dict[str, Any]", stored).keys() == {FIELD}


def refuse_imitation(
    raw: bytes, what: str = "data", refusal: type[WaystationError] = InvalidInput
) -> None:
    """Refuse what would be taken for an envelope by its reader, who could not open it."""
    if not raw.startswith(BEGINNING):
        return
    stored = codec.decode(raw)
    try:
        envelope = envelope_of(stored)
    except UnreadableData:
        envelope = Envelope()
    if envelope is not None and envelope.sealed is None and envelope.blob is None:
        raise refusal(
            f"{what} of one field {FIELD!r} would be taken for an encrypted payload: "
            "rename the field"
        )


def envelope_of(stored: Any) -> Envelope | None:
    """The envelope that was stored; None when it is a payload as it is."""
    if not is_envelope(stored):
        return None
    try:
        return msgspec.convert(stored[FIELD], Envelope)
    except msgspec.ValidationError as error:
        raise UnreadableData(f"the payload cannot be read: {error}") from None
