"""Packing: jobs checked and encoded for the scripts that add them, and sent with others."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET

from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.options import (
    FLAGS,
    Deduplication,
    Group,
    JobOptions,
    Parent,
    created_ms,
    group_of,
    options_as_stored,
    priority_of,
    wire_deduplication,
    wire_options,
)
from waystation.bullmq.payloads.envelope import refuse_imitation
from waystation.core import codec
from waystation.core.durations import milliseconds
from waystation.core.errors import (
    InvalidInput,
    NotReplicated,
    PayloadTooLarge,
    ScriptFailed,
    StoreError,
    WrongType,
)
from waystation.core.options import with_keywords
from waystation.core.store.connection import Store
from waystation.core.telemetry import traces

MOST_JOBS = 250
"""Jobs in one call; more would block the server for too long."""
MOST_BYTES = 2**20


class NewJob(NamedTuple):
    """A job to be added."""

    name: str
    data: Any = UNSET
    """Any JSON value; an empty object when there is none."""
    options: JobOptions | None = None


JobLike: TypeAlias = NewJob | tuple[str, Any] | tuple[str, Any, JobOptions | None]

Packed: TypeAlias = tuple[bytes, bytes, bytes, bytes]
"""Name, data, options and `AddOptions`, as the script takes them."""


_ROWS = (tuple, list, dict)


class Packer:
    """Packs jobs for one queue."""

    def __init__(self, defaults: JobOptions, size_limit: int) -> None:
        self._size_limit = size_limit
        self._defaults = defaults

    def pack(self, jobs: Iterable[JobLike]) -> list[Packed]:
        """Check and encode all jobs; one that cannot be added stops them all."""
        encode, defaults, trace = codec.encode_data, self._defaults, current_trace()
        packed: list[Packed] = []
        # Jobs in a row often share name and options; looking these up costs as much as encoding
        # the data.
        last_name = last_options = UNSET
        named = opts = wanted = b""
        most = 0
        for job in jobs:
            rows: Any = job if isinstance(job, _ROWS) and len(job) == 3 else _padded(job)  # pyright: ignore[reportUnnecessaryIsInstance]
            name, data, options = rows
            options = options or defaults
            if options is not last_options:
                last_options, opts = options, _written(options, trace)
                wanted = wire_add_options(options)
                most = _room(options, self._size_limit, opts)
            if name is not last_name:
                last_name, named = name, wire_name(name)
            raw = b"{}" if data is UNSET else encode(data)
            if raw[:2] == b'{"':
                refuse_imitation(raw)
            if len(raw) > most:
                _refuse_size(len(raw), len(opts), options, self._size_limit)
            if options.unique_for is None:
                packed.append((named, raw, opts, wanted))
            else:
                unique = as_unique(options, named, raw)
                packed.append((named, raw, _written(unique, trace), wire_add_options(unique)))
        return packed


def as_unique(options: JobOptions, name: bytes, data: bytes, *, key: bytes = b"") -> JobOptions:
    """The options of a job that is the only one with its name and data for a while.

    With a key, nobody without it can find out the data by trying.
    """
    mark = hashlib.blake2b(name + b"\0" + data, digest_size=16, key=key).hexdigest()
    rule = Deduplication(f"unique-{mark}", ttl=options.unique_for)
    return msgspec.structs.replace(options, unique_for=None, deduplication=rule)


def chunks(packed: list[Packed]) -> Iterator[list[Packed]]:
    """The jobs in batches for one call each: not too many, and not too large."""
    start = size = 0
    for place, (_, data, opts, _) in enumerate(packed):
        size += len(data) + len(opts)
        if place > start and (place - start == MOST_JOBS or size > MOST_BYTES):
            yield packed[start:place]
            start, size = place, len(data) + len(opts)
    if start < len(packed):
        yield packed[start:]


_ELSEWHERE = {
    "countdown": "delay",
    "eta": "delay",
    "delay_until": "delay",
    "retries": "attempts, which counts the first one, too",
    "retry": "attempts",
    "max_retries": "attempts, which counts the first one, too",
    "task_id": "job_id",
    "id": "job_id",
    "ttl": "expires",
    "max_age": "expires",
    "time_limit": "timeout",
    "soft_time_limit": "timeout",
    "job_timeout": "timeout",
    "result_ttl": "remove_on_complete",
    "dedupe": "deduplication",
    "min_backoff": "backoff",
    "retry_backoff": "backoff",
}
"""What other queues call these options."""


def merged(
    options: JobOptions | None,
    given: JobKeywords,
    defaults: JobOptions,
    *,
    of: str = "a job",
    others: Sequence[str] = (),
) -> JobOptions:
    """The options of one job: keywords over `options` or the queue's defaults.

    An option that nobody knows is refused with the nearest one, which may be among `others`.
    """
    base = defaults if options is None else options
    return with_keywords(base, given, of=of, others=others, elsewhere=_ELSEWHERE)


def as_new_job(job: JobLike) -> NewJob:
    """A job to be added, from however it was given."""
    return NewJob(*(job if len(job) == 3 else _padded(job)))


def _padded(job: Any) -> tuple[Any, Any, None]:
    if not isinstance(job, tuple | list) or len(cast(list[Any], job)) != 2:
        raise InvalidInput(f"a job to add is a name, its data and perhaps options, got {job!r}")
    name, data = cast(list[Any], job)
    return name, data, None


def wire_name(name: Any) -> bytes:
    """A job's name, checked and encoded."""
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
    """The current trace, which new jobs belong to, as the wire has it."""
    if traces.current_ids() is None:
        return None
    return codec.encode(traces.current_carrier()).decode()


def _room(options: JobOptions, limit: int, opts: bytes) -> int:
    room = limit - len(opts)
    return room if options.size_limit is None else min(room, options.size_limit)


def _refuse_size(size: int, more: int, options: JobOptions, limit: int) -> None:
    codec.check_size(size + more, limit)
    raise PayloadTooLarge(f"the data takes {size} bytes, but size_limit is {options.size_limit}")


class AddOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options that the adding script itself reads, by the names it knows them by."""

    id: str | None = None
    timestamp: int | None = None
    delay: int = 0
    priority: int = 0
    lifo: bool = False
    parent_key: str | None = None
    parent: str | None = None
    """The parent as the job's hash names it."""
    deduplication: dict[str, Any] | None = None
    group: Group | None = None
    has_children: bool = False
    """The job waits for children that come with it."""
    is_new: bool = False
    """The id was made for this job."""


_NOTHING = AddOptions()


@lru_cache(4096)
def wire_add_options(options: JobOptions) -> bytes:
    """The options that the script reads; empty for a job that simply waits."""
    wanted = add_options(options, parent=options.parent)
    return b"" if wanted == _NOTHING else codec.encode(wanted)


def add_options(
    options: JobOptions,
    *,
    parent: Parent | None,
    id: str | None = None,
    has_children: bool = False,
) -> AddOptions:
    """The options that the script reads, for a child of this parent."""
    return AddOptions(
        id=id or options.job_id,
        timestamp=created_ms(options),
        delay=milliseconds(options.delay) if options.delay else 0,
        priority=priority_of(options),
        group=group_of(options.group) if options.group else None,
        lifo=options.lifo,
        parent_key=parent and f"{parent.queue}:{parent.id}",
        parent=parent and codec.encode(_reference(options, parent)).decode(),
        deduplication=options.deduplication and wire_deduplication(options.deduplication),
        has_children=has_children,
        is_new=id is not None and id != options.job_id and options.deduplication is None,
    )


def _reference(options: JobOptions, parent: Parent) -> dict[str, str | bool]:
    flags = {short: True for flag, short in FLAGS.items() if getattr(options, flag)}
    return {"id": parent.id, "queueKey": parent.queue, **flags}


Send: TypeAlias = Callable[[Store, list[Packed]], Awaitable[list[Any]]]
"""Adds packed jobs in one call; the reply has an id or a code for each, in order."""

_Waiting: TypeAlias = tuple[Packed, "asyncio.Future[Any]"]


class Adding:
    """Adds the jobs of many callers, each of whom gets the answer to their own.

    A lone job leaves at once. While others are under way, those of one turn of the loop leave
    together at its end, so that the busier it gets, the less each one costs; nobody waits for a
    reply that is not their own.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[_Waiting] = []
        self._under_way = 0
        self._sending: set[asyncio.Task[None]] = set()

    async def add(self, store: Store, job: Packed) -> Any:
        """Add one job; its id or its code."""
        if self._under_way or self._waiting:
            return await self._with_others(store, job)
        self._under_way += 1
        try:
            [added] = await self._send(store, [job])
        finally:
            self._under_way -= 1
        return added

    def _with_others(self, store: Store, job: Packed) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._leave, store)
        self._waiting.append((job, answer))
        return answer

    def _leave(self, store: Store) -> None:
        # Whoever has given up meanwhile does not want the job any more.
        waiting = [each for each in self._waiting if not each[1].done()]
        self._waiting = []
        first = 0
        for batch in chunks([job for job, _ in waiting]):
            answers = [answer for _, answer in waiting[first : first + len(batch)]]
            first += len(batch)
            self._under_way += 1
            task = asyncio.create_task(self._add_all(store, batch, answers))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _add_all(
        self, store: Store, jobs: list[Packed], answers: Sequence["asyncio.Future[Any]"]
    ) -> None:
        try:
            added = await self._send(store, jobs)
        except (ScriptFailed, WrongType) as error:
            if len(jobs) == 1:
                _fail(answers[0], error)
            else:
                await self._add_apart(store, jobs, answers)
        except NotReplicated as error:
            for answer, id in zip(answers, error.stored, strict=True):
                _fail(answer, NotReplicated(error.args[0], [id]))
        except Exception as error:
            for answer in answers:
                _fail(answer, _own(error))
        else:
            for answer, id in zip(answers, added, strict=True):
                # Whoever was cancelled has gone, but the job was theirs.
                if not answer.done():
                    answer.set_result(id)
        finally:
            for answer in answers:
                # Left only when the loop itself ends; a future that is done takes no notice.
                answer.cancel()
            if len(jobs) == 1:
                self._arrived()
            else:
                # Those who have their answer now may add the next one, and do so together.
                asyncio.get_running_loop().call_soon(self._arrived)

    async def _add_apart(
        self, store: Store, jobs: list[Packed], answers: Sequence["asyncio.Future[Any]"]
    ) -> None:
        # A script that fails has added nothing, and the fault may be that of a single job.
        for job, answer in zip(jobs, answers, strict=True):
            if not answer.done():
                self._under_way += 1
                await self._add_all(store, [job], [answer])

    def _arrived(self) -> None:
        self._under_way -= 1


def _fail(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _own(error: Exception) -> Exception:
    """The error as one caller's own: each adds notes and a traceback to theirs."""
    if not isinstance(error, StoreError):
        return error
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
