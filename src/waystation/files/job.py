"""The job: one file, as the JSON that every worker of the queue reads."""

import base64
import hashlib
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from waystation.core.errors import Malformed


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file to process. It carries no data and leaves no result, so it is not generic."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    """Its id."""
    filepath: Annotated[str, msgspec.Meta(min_length=1)]
    """The path as text, for display; bytes that are no text are written `\\xff`."""
    size: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = msgspec.field(
        default=0, name="filesize"
    )
    """Bytes of the file when it was added."""
    priority: str = ""
    """The name of its priority; it decides which list it waits in."""
    retries: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0
    """Failed attempts so far."""
    creation_time: str = ""
    """When it was added, as the wire has it: RFC 3339 with nanoseconds."""
    trace_id: str = ""
    """The trace it belongs to; empty when it is not traced."""
    span_id: str = ""
    """The span that added it."""
    origin_queue: str | None = None
    """The key of the queue that it was added to, and returns to."""
    filepath_bytes: str | None = None
    """The path in base64, where `filepath` cannot represent it."""

    @property
    def path(self) -> Path:
        """The file; open this, not `filepath`."""
        if self.filepath_bytes is None:
            return Path(self.filepath)
        return Path(os.fsdecode(base64.b64decode(self.filepath_bytes)))

    @property
    def attempt(self) -> int:
        """The number of the current attempt, from 1."""
        return self.retries + 1

    @property
    def attempts(self) -> int:
        """Attempts that have failed so far."""
        return self.retries

    @property
    def created_at(self) -> datetime | None:
        """When it was added; None when another producer left it out or wrote it differently."""
        try:
            moment = datetime.fromisoformat(self.creation_time)
        except ValueError:
            return None
        return moment if moment.tzinfo else None


class _Wire(Job, frozen=True, kw_only=True, omit_defaults=False):
    """A job with every field of the spec written out, whatever its value."""

    origin_queue: str | msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]
    filepath_bytes: str | msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Job).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def write(
    path: str,
    size: int,
    *,
    priority: str,
    queue: str,
    now_ns: int,
    trace: tuple[str, str] = ("", ""),
    id: str | None = None,
) -> tuple[str, bytes]:
    """Make a new job; its id and its JSON."""
    text, exact = readable(path)
    job = _Wire(
        id=id or uuid.uuid4().hex,
        filepath=text,
        size=size,
        priority=priority,
        retries=0,
        creation_time=rfc3339(now_ns),
        trace_id=trace[0],
        span_id=trace[1],
        origin_queue=queue,
        filepath_bytes=exact or msgspec.UNSET,
    )
    return job.id, _encode(job)


def read(raw: bytes) -> Job:
    """Decode a job; Malformed when the bytes are none. A member that is null counts as left out."""
    try:
        job = _read(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Malformed(f"this is no job: {error}") from None
    if job.filepath_bytes is not None and _shown(job.filepath_bytes) != job.filepath:
        # Patterns, pages and logs use the text, and the handler opens the bytes.
        raise Malformed("this is no job: filepath and filepath_bytes name different files")
    return job


def _read(raw: bytes) -> Job:
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        if b"null" not in raw:
            raise
        given = {name: value for name, value in _members(raw).items() if bytes(value) != b"null"}
        return _decode(_encode(given))


def _shown(exact: str) -> str | None:
    try:
        return readable(os.fsdecode(base64.b64decode(exact, validate=True)))[0]
    except ValueError:
        return None


def with_retries(raw: bytes, retries: int, queue: str) -> bytes:
    """The job with another number of retries; all other members stay as they were written."""
    try:
        members: dict[str, Any] = _members(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Malformed(f"this job cannot be written again: {error}") from None
    return _encode(
        {**members, "retries": retries, "origin_queue": members.get("origin_queue", queue)}
    )


def poison_id(raw: bytes) -> str:
    """An id for bytes that are no job."""
    return f"poison-{hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:16]}"


def readable(path: str) -> tuple[str, str | None]:
    """A path as text, and in base64 when text cannot represent it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        exact = os.fsencode(path)
        return exact.decode(errors="backslashreplace"), base64.b64encode(exact).decode()
    return path, None


def rfc3339(now_ns: int) -> str:
    """An instant in the form of the spec, with nanoseconds."""
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"


def digest(path: str, size: int, mtime_ns: int) -> bytes:
    """A digest of path, size and time of change: it changes with the file."""
    text = b"%s\0%d\0%d" % (os.fsencode(path), size, mtime_ns)
    return hashlib.blake2b(text, digest_size=16).digest()
