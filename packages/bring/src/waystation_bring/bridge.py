"""A bridge that moves what waits in a queue of another system to queues of ours.

Where both share a server, one script takes the message and adds the job. Between two servers the
job is added first and the message is taken second; a bridge that dies between the two adds the
message again, and the store refuses what it has seen. Bridges that meet at one message add one job:
whoever comes second finds that a bridge has taken it, and leaves the job alone.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast

import msgspec
from redis import Redis

from waystation.bullmq import Deduplication, JobOptions, NewJob
from waystation.bullmq.redis import replies, scripts
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.packing import Packer
from waystation.core.clock import SERVER_TIME
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.errors import InvalidOption, WaystationError
from waystation.core.store import faults
from waystation.core.store.connection.address import Kind
from waystation.core.store.connection.blocking import BlockingStore
from waystation.sync import Queue
from waystation.sync.client import BlockingClient
from waystation.tasks import Task, Tasks
from waystation_bring.message import Message, Place, Source, Unreadable, ask

REMEMBERED = timedelta(days=30)
"""How long the store refuses a message that it has seen, if nobody could take it since."""
TAKEN = timedelta(hours=1)
"""How long both stores remember a message that was taken, for bridges that have read it before."""
_TAKEN_MS = int(TAKEN.total_seconds() * 1000)
_PAGE = 100


class Left(NamedTuple):
    """A message that stayed where it was."""

    id: str
    """Its id, or the beginning of its text when it cannot be read."""
    task: str
    reason: str


class Brought(NamedTuple):
    """What a bridge has moved, or would move."""

    jobs: Counter[str]
    """How many jobs, by queue and name."""
    left: list[Left]
    held: str
    """A sentence on messages that are out of reach."""
    others: list[str] | None = None
    """The queues of the other system, when it has none of this name."""


class TaskMap(msgspec.Struct, frozen=True, kw_only=True):
    """Which job a task becomes.

    With `tasks` the job has the task's queue, options and arguments by name, and what does not fit
    its annotations stays. Without them its data is `{"args": […], "kwargs": {…}}`. A task of
    another system is known by the last part of its name, unless `names` has another.
    """

    tasks: Tasks | None = None
    queue: str | None = None
    """The queue of all jobs; else the name of the queue that they come from."""
    names: dict[str, str] = {}
    """Names of jobs, or `queue/name`, by the full name of the task."""

    def job_of(self, message: Message, source: Source) -> tuple[str, NewJob]:
        """The queue and the job that a message becomes; raises `Unreadable`."""
        chosen = self.names.get(message.task, message.task.rpartition(".")[2])
        queue, _, name = chosen.rpartition("/")
        if self.tasks is None:
            data = {"args": list(message.args), "kwargs": message.kwargs}
            return queue or self.queue or source.name, NewJob(name, data, JobOptions())
        task = self._task(queue or self.queue, name)
        try:
            call = task.bind(*message.args, **message.kwargs)
        except (WaystationError, TypeError) as error:
            raise Unreadable(f"it does not fit the task: {error}") from None
        return task.queue, call.new_job()

    def _task(self, queue: str | None, name: str) -> Task[..., Any]:
        found = [
            each
            for each in self.tasks or ()
            if each.name == name and (queue is None or each.queue == queue)
        ]
        if not found:
            raise Unreadable(f"there is no task {name}")
        if len(found) > 1:
            raise Unreadable(f"several queues have a task {name}: name one as queue/{name}")
        return found[0]


class Bridge(BlockingClient):
    """Moves messages of another system to queues of ours.

    `from_url` is where the other system keeps them; without it, the store itself.
    """

    def __init__(
        self,
        source: Source,
        url: str | None = None,
        *,
        from_url: str | None = None,
        mapping: TaskMap | None = None,
        prefix: str = PREFIX,
    ) -> None:
        tasks = mapping and mapping.tasks
        super().__init__(url or (tasks.url if tasks else None))
        # Calls go where the workers of their tasks look for them.
        self._prefix_of_jobs = tasks.prefix if tasks else prefix
        self._source = source
        self._mapping = mapping or TaskMap()
        self._from = BlockingClient(from_url) if from_url else None
        self._is_shared: bool | None = None

    def bring(self, *, dry_run: bool = False, limit: int | None = None) -> Brought:
        """Move what there is, the oldest first, or only say what would be moved."""
        if limit is not None and limit < 1:
            raise InvalidOption(f"limit must be at least 1, got {limit}")
        jobs: Counter[str] = Counter()
        left: dict[tuple[str, bytes], Left] = {}
        with faults.translated():
            for place in self._source.places(self._theirs):
                # Workers that take from the same end shift what we count by: look until a whole
                # pass has found nothing.
                while True:
                    before = jobs.total()
                    for member in self._members(place, left, dry_run=dry_run):
                        if limit is not None and jobs.total() >= limit:
                            break
                        try:
                            added = self._move(place, member, dry_run=dry_run)
                        except _Stays as stays:
                            left[place.key, member] = stays.left
                        else:
                            if added:
                                jobs[added] += 1
                    if dry_run or jobs.total() == before:
                        break
            held = self._source.held(self._theirs)
            found = jobs or left
            others = None if found else self._source.others(self._theirs)
        return Brought(jobs, list(left.values()), held, others)

    def close(self) -> None:
        """Close the connections for good."""
        super().close()
        if self._from is not None:
            self._from.close()

    def _members(
        self, place: Place, left: dict[tuple[str, bytes], Left], *, dry_run: bool
    ) -> Iterator[bytes]:
        """What a place holds, oldest first; what has stayed before is passed over."""
        seen = 0
        while page := _page(self._theirs, place, seen):
            for member in page:
                if (place.key, member) in left:
                    seen += 1
                    continue
                yield member
                seen += dry_run or (place.key, member) in left

    def _move(self, place: Place, member: bytes, *, dry_run: bool) -> str:
        """Move one message; returns its queue and name, or nothing when it is gone already."""
        message: Message | None = None
        try:
            message = self._source.read(self._theirs, place, member)
            if message is None:
                return ""
            queue, job = self._mapping.job_of(message, self._source)
            keys = QueueKeys(queue, prefix=self._prefix_of_jobs)
            options = _options(job.options or JobOptions(), message, self._source)
            moving = _Moving(place, message, keys, NewJob(job.name, job.data, options))
            moving.packed()
            if dry_run or (self._in_one(moving) if self._shared() else self._in_two(moving)):
                return f"{queue}/{job.name}"
        except (Unreadable, InvalidOption) as error:
            raise _Stays(_left(message, member, error)) from None
        except WaystationError as error:
            if error.code in _REFUSED:
                raise _Stays(_left(message, member, error)) from None
            raise
        return ""

    def _in_one(self, moving: "_Moving") -> bool:
        """Take and add in one script."""
        name, data, opts, wants = moving.packed()
        answer = scripts.bring.call_sync(
            self._store().durable_client,
            moving.keys,
            now=SERVER_TIME,
            holder=moving.place.holder,
            message=moving.message.member,
            name=name,
            data=data,
            opts=opts,
            wants=wants,
            theirs=moving.theirs,
        )
        if answer == -1:
            raise Unreadable(f"{moving.keys.name} has a job with the id {moving.job_id} already")
        return answer != 0

    def _in_two(self, moving: "_Moving") -> bool:
        """Add, then take; what was added before, and not taken, is only taken."""
        name, data, opts, wants = moving.packed(remembered=True)
        (added,) = scripts.add.call_sync(
            self._store().durable_client,
            moving.keys,
            now=SERVER_TIME,
            jobs=[name, data, opts, wants],
        )
        if isinstance(added, int):
            raise Unreadable(f"{moving.keys.name} has refused it")
        if isinstance(added, replies.Existing) and not moving.is_known_by(added):
            raise Unreadable(f"{moving.keys.name} has a job with the id {moving.job_id} already")
        taken = scripts.take.call_sync(
            self._theirs,
            holder=moving.place.holder,
            message=moving.message.member,
            taken=f"waystation:{moving.key}",
            keep_ms=_TAKEN_MS,
            theirs=moving.theirs,
        )
        if not taken:
            self._give_up(moving)
        ask(self._store().client, "PEXPIRE", moving.remembered_at, _TAKEN_MS)
        return taken == 1

    def _give_up(self, moving: "_Moving") -> None:
        """A worker of theirs was quicker: unless ours has begun, too, leave it the message."""
        with Queue(moving.keys.name, self._store(), prefix=moving.keys.prefix) as queue:
            # The key goes with the job when another bridge removes it, and stays when it has run.
            removed = queue.remove(moving.job_id)
            if not removed and ask(self._store().client, "EXISTS", moving.remembered_at):
                raise Unreadable(
                    f"a worker of {self._source.system} has taken it while it was brought, and it "
                    "runs here, too: stop those workers first"
                )

    @property
    def _theirs(self) -> Redis:
        return self._there.client

    @property
    def _there(self) -> BlockingStore:
        return self._store() if self._from is None else self._from._store()  # pyright: ignore[reportPrivateUsage]

    def _shared(self) -> bool:
        """Whether theirs and ours are one database of one server."""
        if self._is_shared is None:
            ours, theirs = self._store(), self._there
            self._is_shared = ours is theirs or _database(ours) == _database(theirs)
        return self._is_shared


class _Stays(Exception):
    def __init__(self, left: Left) -> None:
        super().__init__(left.reason)
        self.left = left


class _Moving(NamedTuple):
    """A message on its way."""

    place: Place
    message: Message
    keys: QueueKeys
    job: NewJob

    @property
    def job_id(self) -> str:
        return cast(str, cast(JobOptions, self.job.options).job_id)

    @property
    def key(self) -> str:
        """What the store remembers the message by."""
        text = self.place.key.encode() + b"\0" + self.message.mark
        return f"brought-{hashlib.blake2b(text, digest_size=16).hexdigest()}"

    @property
    def remembered_at(self) -> str:
        return f"{self.keys.base}de:{self.key}"

    @property
    def theirs(self) -> list[str]:
        index = [self.place.indexed_by] if self.place.indexed_by else []
        return [self.place.key, *index, *self.message.owned]

    def packed(self, *, remembered: bool = False) -> tuple[bytes, bytes, bytes, bytes]:
        """The job as the scripts take it."""
        options = cast(JobOptions, self.job.options)
        if remembered:
            rule = Deduplication(self.key, ttl=REMEMBERED)
            options = msgspec.structs.replace(options, deduplication=rule)
        job = NewJob(self.job.name, self.job.data, options)
        (packed,) = Packer(options, PAYLOAD_LIMIT).pack([job])
        return packed

    def is_known_by(self, existing: replies.Existing) -> bool:
        """Whether a job that is there was made of this message."""
        return not existing.fields or existing.fields.get(b"deid") == self.key.encode()


_REFUSED = {
    "INVALID_INPUT",
    "INVALID_OPTION",
    "PAYLOAD_TOO_LARGE",
    "MALFORMED",
    "WRONG_TYPE",
    "SCRIPT_FAILED",
}
"""Errors about one message or the queue it goes to, so that others go; the rest are the store's."""


def _options(options: JobOptions, message: Message, source: Source) -> JobOptions:
    """What the task asks for, with what the message itself says."""
    attempts = message.attempts or max(1, options.attempts - message.attempts_made)
    changed: dict[str, Any] = {
        "job_id": message.id if not message.id.isdigit() else f"{source.system}-{message.id}",
        "attempts": attempts,
    }
    if message.due is not None:
        left = (message.due - datetime.now(UTC)).total_seconds()
        changed["delay"] = max(0.0, left)
    if message.priority:
        changed["priority"] = message.priority
    if message.backoff is not None:
        changed["backoff"] = message.backoff
    if message.timeout is not None:
        changed["timeout"] = message.timeout
    if message.expires is not None:
        changed["expires"] = message.expires
    return msgspec.structs.replace(options, **changed)


def _left(message: Message | None, member: bytes, error: Exception) -> Left:
    if message is not None:
        return Left(message.id, message.task, str(error))
    known = error if isinstance(error, Unreadable) else Unreadable("")
    text = member[:60].decode(errors="replace")
    return Left(known.id or text, known.task, str(error))


def _page(client: Redis, place: Place, seen: int) -> list[bytes]:
    """The next messages, the oldest first."""
    first, last = seen, seen + _PAGE - 1
    if place.holder == "list":
        return ask(client, "LRANGE", place.key, first, last)
    if place.holder == "stack":
        return ask(client, "LRANGE", place.key, -last - 1, -first - 1)[::-1]
    # A hash has an index of its fields, by when they were held.
    key = place.indexed_by or place.key
    return ask(client, "ZRANGE", key, first, last)


def _database(store: BlockingStore) -> tuple[str, int]:
    """What tells one database from every other, by whatever address it is reached."""
    if store.address.kind is Kind.CLUSTER:
        return str(store.address), 0
    info = cast("Any", store.client.info("server"))
    pool = store.client.connection_pool.connection_kwargs
    return str(info.get("run_id") or store.address), int(pool.get("db") or 0)
