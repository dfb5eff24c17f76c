"""What a job's hash says."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from waystation.bullmq.options import StoredOptions, stored_options
from waystation.core import codec
from waystation.core.errors import Malformed, UnreadableData

COUNTED = b"counted"
"""Stands beside the fields of a held job that were read after its pickup had been counted."""


class Changed(NamedTuple):
    """Fields of a job that a step has changed."""

    fields: dict[bytes, bytes]
    is_all: bool
    """Whether there are no others."""


class JobFields:
    """A job as it was when it was read."""

    # Fields are decoded when asked for: most handlers look at the data and nothing else.
    __slots__ = ("_data", "_fields", "id", "token")

    def __init__(self, id: str, fields: dict[bytes, bytes], token: str | None = None) -> None:
        self.id = id
        self.token = token
        """The lease, while a worker holds the job."""
        self._fields = fields
        self._data: Any = _UNREAD

    @property
    def name(self) -> str:
        """What kind of job it is."""
        return self._text(b"name") or ""

    @property
    def data(self) -> Any:
        """What the producer sent along."""
        if self._data is _UNREAD:
            try:
                self._data = codec.decode(self._fields.get(b"data", b"{}"))
            except Malformed as error:
                raise UnreadableData(f"the data of job {self.id}: {error}") from None
        return self._data

    @property
    def data_text(self) -> str:
        """The data as it is stored, for when it is no JSON."""
        return self._text(b"data") or "{}"

    @property
    def opts(self) -> StoredOptions:
        """The options the producer chose."""
        return stored_options(self._fields.get(b"opts", b"{}"))

    @property
    def timestamp(self) -> int:
        """When it was made, in milliseconds."""
        return self._number(b"timestamp") or 0

    @property
    def delay(self) -> int:
        """Milliseconds it had or has to wait."""
        return self._number(b"delay") or 0

    @property
    def priority(self) -> int:
        """0 runs first, then 1, 2, …"""
        return self._number(b"priority") or 0

    @property
    def attempts_made(self) -> int:
        """Attempts that have ended."""
        # BullMQ before version 4 wrote the long name.
        return self._number(b"attemptsMade") or self._number(b"atm") or 0

    @property
    def attempts_started(self) -> int:
        """Times it was picked up, the one that gave it to its handler included."""
        started = self._number(b"ats") or 0
        # A worker is given the job as it was when it was picked up, before that was counted.
        return started if self.token is None or COUNTED in self._fields else started + 1

    @property
    def stalled_count(self) -> int:
        """Times its worker fell silent."""
        return self._number(b"stc") or 0

    @property
    def processed_on(self) -> int | None:
        """When it was last picked up, in milliseconds."""
        return self._number(b"processedOn")

    @property
    def finished_on(self) -> int | None:
        """When it ended, in milliseconds."""
        return self._number(b"finishedOn")

    @property
    def processed_by(self) -> str | None:
        """The worker that last picked it up."""
        return self._text(b"pb")

    @property
    def progress(self) -> Any:
        """What the handler last told about how far it is."""
        return self._json(b"progress", 0)

    @property
    def return_value(self) -> Any:
        """What the handler returned."""
        return self._json(b"returnvalue", None)

    @property
    def failed_reason(self) -> str | None:
        """Why the last failed attempt failed."""
        return self._text(b"failedReason")

    @property
    def stacktrace(self) -> list[str]:
        """The tracebacks of failed attempts, the oldest first."""
        found = self._json(b"stacktrace", [])
        return [str(each) for each in found] if isinstance(found, list) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    @property
    def deferred_failure(self) -> str | None:
        """Why it must fail without being run."""
        return self._text(b"defa")

    @property
    def parent_key(self) -> str | None:
        """The key of the job that waits for this one."""
        return self._text(b"parentKey")

    @property
    def deduplication_id(self) -> str | None:
        """What it shares with jobs it stands for."""
        return self._text(b"deid")

    @property
    def scheduler_id(self) -> str | None:
        """The scheduler that made it."""
        return self._text(b"rjk")

    @property
    def is_plain(self) -> bool:
        """Whether its handler can run without more ado."""
        return b"rjk" not in self._fields and b"defa" not in self._fields

    @property
    def discarded(self) -> bool:
        """Whether its handler has said that a failure is final; known to this attempt alone."""
        return b"discarded" in self._fields

    def _text(self, field: bytes) -> str | None:
        raw = self._fields.get(field)
        return None if raw is None else raw.decode("utf-8", "replace")

    def _number(self, field: bytes) -> int | None:
        raw = self._fields.get(field)
        if raw is None:
            return None
        try:
            return int(float(raw)) if b"." in raw or b"e" in raw else int(raw)
        except (ValueError, OverflowError):
            return None

    def _json(self, field: bytes, otherwise: Any) -> Any:
        raw = self._fields.get(field)
        return otherwise if raw is None else codec.decode_or_text(raw)

    def remember(self, fields: Mapping[bytes, bytes]) -> None:
        """Keep what has just been written to the store."""
        self._fields.update(fields)
        if b"data" in fields:
            self._data = _UNREAD

    def completed_with(self, result: bytes, now: bytes) -> None:
        """Keep what was stored when the job was completed; done for nearly every job."""
        fields = self._fields
        is_first = b"atm" not in fields and b"attemptsMade" not in fields
        fields[b"atm"] = b"1" if is_first else b"%d" % (self.attempts_made + 1)
        fields[b"returnvalue"] = result
        fields[b"finishedOn"] = now

    def replace(self, fields: dict[bytes, bytes]) -> None:
        """Keep what has just been read from the store, and nothing else."""
        self._fields = fields
        self._data = _UNREAD


_UNREAD = object()
