"""What waits: one file, as the JSON that every worker of the line reads."""

import base64
import hashlib
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from waystation.core import codec
from waystation.core.errors import Malformed


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file that is to be worked on."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    filepath: Annotated[str, msgspec.Meta(min_length=1)]
    """As text; where the name is no text, the bytes that are none are written `\\xff`."""
    filesize: Annotated[int, msgspec.Meta(ge=0)] = 0
    priority: str = ""
    retries: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Failed tries so far."""
    creation_time: str = ""
    """RFC 3339 with nanoseconds."""
    trace_id: str = ""
    span_id: str = ""
    origin_queue: str | None = None
    """The queue it was put into, and comes back to."""
    filepath_bytes: str | None = None
    """The name in base64 where `filepath` cannot say it."""

    @property
    def path(self) -> Path:
        """The file, whatever its name is made of."""
        if self.filepath_bytes is None:
            return Path(self.filepath)
        return Path(os.fsdecode(base64.b64decode(self.filepath_bytes)))

    @property
    def attempt(self) -> int:
        """The number of this try, the first being 1."""
        return self.retries + 1


class _Wire(Job, frozen=True, kw_only=True, omit_defaults=False):
    """The same with every field of the spec written out, whatever its value."""

    origin_queue: str | msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]
    filepath_bytes: str | msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Job).decode


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
    """A new job's id and its JSON."""
    text, exact = readable(path)
    job = _Wire(
        id=id or uuid.uuid4().hex,
        filepath=text,
        filesize=size,
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
    """Read what lies in a queue; what is no job is Malformed."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Malformed(f"this is no job: {error}") from None


def tried_again(raw: bytes, retries: int, queue: str) -> bytes:
    """The same job after one more failure; whatever else it says stays as it is."""
    fields = codec.decode(raw, dict[str, Any])
    return _encode(
        {**fields, "retries": retries, "origin_queue": fields.get("origin_queue", queue)}
    )


def name_of(raw: bytes) -> str:
    """What to call bytes that are no job."""
    return f"poison-{hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:16]}"


def readable(path: str) -> tuple[str, str | None]:
    """A name as text, and in base64 besides when text cannot say it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        exact = os.fsencode(path)
        return exact.decode(errors="backslashreplace"), base64.b64encode(exact).decode()
    return path, None


def rfc3339(now_ns: int) -> str:
    """An instant as the spec writes it, to the nanosecond."""
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"


def digest(path: str, size: int, mtime_ns: int) -> bytes:
    """What tells one state of a file from every other."""
    text = b"%s\0%d\0%d" % (os.fsencode(path), size, mtime_ns)
    return hashlib.blake2b(text, digest_size=16).digest()
