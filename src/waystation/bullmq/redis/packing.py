"""How a job is made ready to be added: checked and written out before anything is sent."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET

from waystation.bullmq.job import Job, QueueRef
from waystation.bullmq.options import JobOptions, options_as_stored, stored_options, wire_options
from waystation.bullmq.redis.scripts import Existing
from waystation.bullmq.redis.wants import wire_wants
from waystation.core import codec
from waystation.core.errors import (
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    WaystationError,
    WrongState,
)
from waystation.core.telemetry import traces

MOST_JOBS = 250
"""Jobs that are sent in one go; with more the server would keep others waiting."""
MOST_BYTES = 2**20


class NewJob(NamedTuple):
    """A job to be added."""

    name: str
    data: Any = UNSET
    """Any JSON value; an empty object when there is none."""
    options: JobOptions | None = None


JobLike: TypeAlias = NewJob | tuple[str, Any] | tuple[str, Any, JobOptions | None]

Packed: TypeAlias = tuple[bytes, bytes, bytes, bytes]
"""Name, data, options and wishes, as the script takes them."""


class Packer:
    """Makes jobs ready for one queue."""

    def __init__(self, defaults: JobOptions, size_limit: int) -> None:
        self._size_limit = size_limit
        self._defaults = defaults

    def pack(self, jobs: Iterable[JobLike]) -> list[Packed]:
        """Check and write out all jobs; one that cannot be added stops them all."""
        encode, defaults, trace = codec.encode_as_node, self._defaults, current_trace()
        packed: list[Packed] = []
        # Many jobs in a row share their name and options, and to look these up costs as much as
        # to write the data.
        last_name = last_options = UNSET
        named = opts = wants = b""
        most = 0
        for job in jobs:
            name, data, options = job if len(job) == 3 else _padded(job)
            options = options or defaults
            if options is not last_options:
                last_options, opts, wants = options, _written(options, trace), wire_wants(options)
                most = _room(options, self._size_limit, opts)
            if name is not last_name:
                last_name, named = name, wire_name(name)
            raw = b"{}" if data is UNSET else encode(data)
            if len(raw) > most:
                _refuse_size(len(raw), len(opts), options, self._size_limit)
            packed.append((named, raw, opts, wants))
        return packed


def chunks(packed: list[Packed]) -> Iterator[list[Packed]]:
    """The jobs in the lots in which they are sent: not too many, and not too large."""
    start = size = 0
    for place, (_, data, opts, _) in enumerate(packed):
        size += len(data) + len(opts)
        if place > start and (place - start == MOST_JOBS or size > MOST_BYTES):
            yield packed[start:place]
            start, size = place, len(data) + len(opts)
    if start < len(packed):
        yield packed[start:]


def refusal(name: str, code: int) -> WaystationError:
    """Why the script did not add a job."""
    if code == -5:
        return NotFound(f"the parent of {name!r} does not exist")
    if code == -7:
        return WrongState(f"{name!r} already has another parent")
    return WrongState(f"{name!r} was refused with {code}")


def merged(
    options: JobOptions | None, given: Mapping[str, Any], defaults: JobOptions
) -> JobOptions:
    """The options of one job: what was given over what the queue does by default."""
    base = defaults if options is None else options
    if not given:
        return base
    try:
        return msgspec.structs.replace(base, **given)
    except TypeError as error:
        known = ", ".join(JobOptions.__struct_fields__)
        raise InvalidInput(f"{error}; a job takes {known}") from None


def as_added(id: str, packed: Packed, queue: QueueRef, now_ms: bytes) -> Job:
    """The job as it is stored.

    One that is new is as it was sent; when it was made is the server's business, and near enough.
    """
    if isinstance(id, Existing) and id.fields:
        return Job(str(id), id.fields, queue)
    name, data, opts, wants = packed
    fields = {b"name": name, b"data": data, b"opts": opts, b"timestamp": now_ms}
    if wants:
        asked = stored_options(opts).raw
        for field in ("timestamp", "delay", "priority"):
            if field in asked:
                fields[field.encode()] = b"%d" % asked[field]
        if deduplication := asked.get("de"):
            fields[b"deid"] = deduplication["id"].encode()
    return Job(str(id), fields, queue)


def _padded(job: Any) -> tuple[Any, Any, None]:
    if not isinstance(job, tuple | list) or len(cast(list[Any], job)) != 2:
        raise InvalidInput(f"a job to add is a name, its data and perhaps options, got {job!r}")
    name, data = cast(list[Any], job)
    return name, data, None


def wire_name(name: Any) -> bytes:
    """A job's name as it is sent."""
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"a job's name must be text, got {name!r}")
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"a job's name must be valid Unicode, got {name!r}") from None


def _written(options: JobOptions, trace: str | None) -> bytes:
    if not isinstance(options, JobOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"options must be a JobOptions, got {options!r}")
    if trace is None:
        return wire_options(options)
    return codec.encode({**options_as_stored(options), "tm": trace})


def current_trace() -> str | None:
    """The trace that new jobs belong to, as the wire has it."""
    if traces.current_ids() is None:
        return None
    return codec.encode(traces.current_carrier()).decode()


def _room(options: JobOptions, limit: int, opts: bytes) -> int:
    room = limit - len(opts)
    return room if options.size_limit is None else min(room, options.size_limit)


def _refuse_size(size: int, more: int, options: JobOptions, limit: int) -> None:
    codec.check_size(size + more, limit)
    raise PayloadTooLarge(f"the data takes {size} bytes, but size_limit is {options.size_limit}")
