"""Notes on payloads that nobody can read here, for people who look at a job. Internal."""

from waystation.bullmq.fields import JobFields, known
from waystation.bullmq.payloads.envelope import BEGINNING, envelope_of
from waystation.core import codec
from waystation.core.errors import UnreadableData


def note_on(job: JobFields) -> str | None:
    """A sentence on the data and the result of a job as they are stored; None when both are plain.

    Such as `the data is encrypted with the key k1`.
    """
    notes = {"data": note_on_data(job), "result": _note(known(job, b"returnvalue"))}
    return "; ".join(f"the {what} is {note}" for what, note in notes.items() if note) or None


def note_on_data(job: JobFields) -> str | None:
    """How the data of a job is sealed; None when it is plain."""
    return _note(known(job, b"data"))


def _note(raw: bytes | None) -> str | None:
    if raw is None or not raw.startswith(BEGINNING):
        return None
    try:
        envelope = envelope_of(codec.decode_or_text(raw))
    except UnreadableData:
        return "sealed in a way that cannot be read"
    if envelope is None:
        return None
    told: list[str] = []
    if envelope.key is not None:
        told.append(f"encrypted with the key {envelope.key}")
    if envelope.blob is not None:
        told.append(f"kept outside the store as {envelope.blob}")
    return " and ".join(told) or "wrapped, but not encrypted"
