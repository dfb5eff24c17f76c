"""Sealing: payloads encrypted, or kept outside the store, behind an envelope. Internal.

What is no envelope is taken as it is, so jobs that waited before sealing was turned on, and those
of other producers, go on.
"""

import asyncio
import base64
import binascii
import hashlib
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from msgspec import UNSET

from waystation.bullmq.fields import (
    OPENED_RESULT,
    JobFields,
    keep_fetched,
    known,
    remember,
    sealed_fields,
)
from waystation.bullmq.options import JobOptions
from waystation.bullmq.payloads.blobs import DirectoryBlobs
from waystation.bullmq.payloads.envelope import (
    BEGINNING,
    Envelope,
    Sealed,
    envelope_of,
    is_envelope,
)
from waystation.bullmq.payloads.options import PayloadOptions
from waystation.bullmq.redis.packing import JobLike, NewJob, as_new_job, as_unique, wire_name
from waystation.core import codec
from waystation.core.errors import (
    InvalidInput,
    InvalidOption,
    KeyMissing,
    Malformed,
    NotFound,
    UnreadableData,
)
from waystation.core.key_ring import KeyRing

T = TypeVar("T")


class SealedResult(NamedTuple):
    """What a handler returned, and how it is stored."""

    plain: Any
    stored: Sealed


class Sealing:
    """Seals and opens the payloads of jobs; without options it only opens.

    `here` is for code that blocks: nothing is handed to a thread.
    """

    def __init__(self, options: PayloadOptions | None = None, *, here: bool = False) -> None:
        self._ring = KeyRing(options and options.keys)
        given = options and options.blobs
        self.blobs = DirectoryBlobs(given) if isinstance(given, str | Path) else given
        self.seals = bool(self._ring) or self.blobs is not None
        """Whether anything is sealed."""
        self._above = options.above if options else 0
        self._here = here

    # Sealing

    def sealed(self, queue: str, value: Any) -> Any:
        """A value as it is stored; what is small and need not be encrypted is stored as it is."""
        if not self.seals or type(value) is Sealed:
            return value
        stored = self._seal(queue, codec.encode_data(value))
        return value if stored is None else stored

    async def sealed_soon(self, queue: str, value: Any) -> Any:
        """As `sealed`, without holding up the loop."""
        return await self.aside(lambda: self.sealed(queue, value))

    async def sealed_json(self, queue: str, raw: bytes) -> bytes:
        """JSON as it is stored, of a step or a signal."""
        if not self.seals and not raw.startswith(BEGINNING):
            return raw
        stored = await self.aside(lambda: self._seal(queue, raw))
        return raw if stored is None else codec.encode_as_node(stored)

    async def opened_json(self, raw: bytes) -> Any:
        """A value from the JSON that is stored of it, or why it cannot be had."""
        stored = codec.decode(raw)
        return await self.opened_soon(stored) if raw.startswith(BEGINNING) else stored

    async def jobs(self, queue: str, jobs: Iterable[JobLike], defaults: JobOptions) -> list[NewJob]:
        """New jobs with their data as it is stored."""
        # What the caller gives may be a generator that belongs to its own thread.
        given = [as_new_job(each) for each in jobs]
        return await self.aside(lambda: [self._job(queue, each, defaults) for each in given])

    async def result(self, queue: str, job: JobFields, value: Any) -> Any:
        """What a handler returned, as it is to be settled."""
        raw = codec.encode_result(value, sys.maxsize)
        stored = await self.aside(lambda: self._seal(queue, raw))
        if stored is None:
            return value
        if not raw.startswith(BEGINNING):
            # Whoever hears of the job's end sees what its handler has returned.
            remember(job, {OPENED_RESULT: raw})
        return SealedResult(value, stored)

    def unique(self, options: JobOptions, name: str, data: Any) -> JobOptions:
        """The options of a job that may be the only one with its data for a while.

        Equal data is equal before it is encrypted, and never after.
        """
        if options.unique_for is None or not self.seals:
            return options
        # While keys are changed, some processes have the new one in front and some have not.
        key = bytes.fromhex(self._ring.steady_digest(b"unique")) if self._ring else b""
        return as_unique(options, wire_name(name), codec.encode_as_node(data), key=key)

    # Opening

    def opened(self, stored: Any, fetched: Mapping[str, Any] | None = None) -> Any:
        """A value from what is stored of it, or why it cannot be had."""
        envelope = envelope_of(stored)
        if envelope is None:
            return stored
        if fetched and envelope.blob is not None and envelope.blob in fetched:
            if isinstance(found := fetched[envelope.blob], Exception):
                raise found
            return found
        return _decoded(self._raw(envelope))

    async def fetch(self, job: JobFields) -> None:
        """Have what of a job is kept outside the store here when somebody looks at it.

        That is done by properties, which would hold up the loop for a file or an object store.
        """
        if self.blobs is not None and not self._here and (sealed := sealed_fields(job)):
            stored = [codec.decode_or_text(raw) for raw in sealed]
            keep_fetched(job, await self.aside(lambda: dict(self._blobs_in(stored))))

    async def opened_soon(self, stored: Any) -> Any:
        """As `opened`, without holding up the loop."""
        if not is_envelope(stored):
            return stored
        return await self.aside(lambda: self.opened(stored))

    async def open_data(self, job: JobFields) -> None:
        """Open the data of a job that a handler is to get, or raise why it cannot be had."""
        raw = known(job, b"data")
        if raw is None or not raw.startswith(BEGINNING):
            return
        envelope = envelope_of(codec.decode_or_text(raw))
        if envelope is None:
            return
        plain = await self.aside(lambda: self._raw(envelope))
        if not plain.startswith(BEGINNING):
            # Else it is opened when it is looked at, so that it is opened once.
            remember(job, {b"data": plain})

    # Helpers

    async def aside(self, step: Callable[[], T]) -> T:
        """Run a step in a thread if it may have to wait for a file or an object store."""
        if self._here or self.blobs is None:
            return step()
        return await asyncio.to_thread(step)

    def _job(self, queue: str, job: NewJob, defaults: JobOptions) -> NewJob:
        data: Any = {} if job.data is UNSET else job.data
        options = job.options or defaults
        if not isinstance(options, JobOptions):  # pyright: ignore[reportUnnecessaryIsInstance]
            return job  # it is refused where all jobs are checked
        options = self.unique(options, job.name, data)
        return NewJob(job.name, self.sealed(queue, data), options)

    def _seal(self, queue: str, raw: bytes) -> Sealed | None:
        """The envelope of a payload; None when it is stored as it is."""
        outside = self.blobs is not None and len(raw) > self._above
        # A payload that looks like an envelope would be opened as one.
        if not self._ring and not outside and not raw.startswith(BEGINNING):
            return None
        envelope = Envelope()
        if self._ring:
            envelope.key, raw = self._ring.first, self._ring.encrypt(raw)
        if self.blobs is not None and outside:
            envelope.blob = f"{queue}/{uuid.uuid4().hex}"
            envelope.sha256 = hashlib.sha256(raw).hexdigest()
            self.blobs.write(envelope.blob, raw)
        else:
            envelope.sealed = base64.b64encode(raw).decode()
        return envelope.stored()

    def _blobs_in(self, stored: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """The blobs of these envelopes by name, or why one cannot be had."""
        for each in stored:
            try:
                envelope = envelope_of(each)
            except UnreadableData:
                continue
            if envelope is not None and envelope.blob is not None:
                try:
                    yield envelope.blob, _decoded(self._raw(envelope))
                except Exception as error:
                    yield envelope.blob, error

    def _raw(self, envelope: Envelope) -> bytes:
        raw = self._kept(envelope)
        if envelope.key is None:
            return raw
        if self._ring and envelope.key not in self._ring:
            raise KeyMissing(f"the payload needs the key {envelope.key!r}, which is not in keys")
        try:
            return self._ring.decrypt(envelope.key, raw)
        except InvalidInput as error:
            raise UnreadableData(f"the payload cannot be read: {error}") from None

    def _kept(self, envelope: Envelope) -> bytes:
        if envelope.sealed is not None:
            try:
                return base64.b64decode(envelope.sealed, validate=True)
            except (binascii.Error, ValueError):
                raise UnreadableData("the payload cannot be read: it is no base64") from None
        if envelope.blob is None:
            raise UnreadableData("the payload cannot be read: its envelope is empty")
        if self.blobs is None:
            raise UnreadableData(
                f"the payload is the blob {envelope.blob}, but no place for blobs was given"
            )
        try:
            raw = self.blobs.read(envelope.blob)
        except (NotFound, InvalidOption) as error:
            raise UnreadableData(f"the payload cannot be read: {error}") from None
        if envelope.sha256 not in (None, hashlib.sha256(raw).hexdigest()):
            raise UnreadableData(f"the payload {envelope.blob} was changed since it was written")
        return raw


def _decoded(raw: bytes) -> Any:
    try:
        return codec.decode(raw)
    except Malformed as error:
        raise UnreadableData(f"the payload cannot be read: {error}") from None
