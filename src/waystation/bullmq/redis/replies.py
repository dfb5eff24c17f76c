"""What the scripts of a queue reply, read."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.core import codec
from waystation.core.durations import whole_number
from waystation.core.errors import JobFailed
from waystation.core.store.script import texts


class Settlement(NamedTuple):
    """What came of settling and claiming."""

    codes: Sequence[int]
    """0 for each outcome that counts, else why it does not."""
    claims: Sequence[Any]
    """An id and a flat list of fields for each job claimed, in turn."""
    limited_ms: int
    """How long the rate limit lets nothing through; 0 when it does not bind."""
    due_in_ms: int
    """How long until the next delayed job is due; asked for only when there was nothing to claim,
    0 when there is none."""
    now: int
    """The instant of the call, in milliseconds."""


def settlement(answer: Any) -> Settlement:
    """What came of settling and claiming."""
    return Settlement(*answer)


class Existing(str):
    """The id of a job that was there before, and what is stored of it."""

    __slots__ = ("fields",)
    fields: dict[bytes, bytes]
    """None when the job has gone since, and only its deduplication is left."""


def ids_or_codes(answer: Any) -> list[str | int]:
    """The ids of added jobs; a number stands for one that was refused."""
    return [_id_or_job(each) for each in answer]


def _id_or_job(added: Any) -> str | int:
    if isinstance(added, bytes):
        return added.decode()
    if isinstance(added, int):
        return added
    id, fields = added
    existing = Existing(id.decode())
    existing.fields = dict(zip(fields[::2], fields[1::2], strict=True))
    return existing


def id_or_code(answer: Any) -> str | int:
    """The id of an added job, or a number that says why there is none."""
    return answer.decode() if isinstance(answer, bytes) else int(answer)


class End(NamedTuple):
    """How a job stands: `completed`, `failed`, `open` or `missing`, with result or reason."""

    state: str
    value: bytes

    @property
    def finished(self) -> bool:
        """Whether it has ended, and how is known."""
        return self.state in ("completed", "failed")

    def result(self) -> Any:
        """What the job returned; raises JobFailed if it failed."""
        if self.state == "failed":
            raise JobFailed(self.value.decode("utf-8", "replace"))
        return codec.decode_or_text(self.value)


def end(raw: Any) -> End:
    """How a job stands."""
    state, value = raw
    return End(state.decode(), value)


def pair(answer: Any) -> tuple[int, int]:
    """Where to go on, and how many were removed."""
    cursor, removed = answer
    return int(cursor), removed


class Sweep(NamedTuple):
    """What came of one pass over a state."""

    removed: list[str]
    spared: int

    @property
    def seen(self) -> int:
        """How many jobs were looked at."""
        return len(self.removed) + self.spared


def sweep(answer: Any) -> Sweep:
    """What came of one pass over a state."""
    removed, spared = answer
    return Sweep(texts(removed), spared)


def word(answer: Any) -> str:
    """A reply that is one word."""
    return answer.decode()


def hashes(answer: Any) -> list[dict[bytes, bytes]]:
    """The fields of each job that is there."""
    return [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in answer]


class GroupTurn(NamedTuple):
    """When a group takes its turn among those that are in the same one, or in the queue itself."""

    path: str
    before: int
    """How many take a turn before it; -1 when it takes none now."""
    among: int
    """How many take turns, itself included."""
    is_served: bool
    """Whether it has had more than others that wait for theirs."""
    window_ms: int
    """How long what it has spent counts for its rate limit."""


class Standing(NamedTuple):
    """Where one job stands, and what its queue allows."""

    now_ms: int
    state: str
    ahead: int
    """Jobs that come before it, in its group if it has one; -1 when it does not wait."""
    fields: dict[bytes, bytes]
    lock: str | None
    lock_ms: int
    due_ms: int | None
    paused: bool
    concurrency: int | None
    """The most that may be active at once."""
    limit: int | None
    """The most that may start in a window, if that is set for the whole queue."""
    started: int | None
    """Jobs that the rate limit has counted in this window."""
    window_ms: int
    """What is left of the window."""
    active: int
    waiting: int
    turns: tuple[GroupTurn, ...] = ()
    """Of the group that it waits in, and of the one that this is in."""


def standing(answer: Any) -> Standing:
    """Where one job stands."""
    now, state, ahead, fields, lock, lock_ms, due, rules, started, window_ms, *counts, turns = (
        answer
    )
    active, waiting = counts
    paused, concurrency, limit = rules
    return Standing(
        now_ms=int(now),
        state=state.decode(),
        ahead=ahead,
        fields=dict(zip(fields[::2], fields[1::2], strict=True)),
        lock=None if lock is None else lock.decode("utf-8", "replace"),
        lock_ms=lock_ms,
        due_ms=None if due is None else int(due),
        paused=paused is not None,
        concurrency=whole_number(concurrency),
        limit=whole_number(limit),
        started=whole_number(started),
        window_ms=window_ms,
        active=active,
        waiting=waiting,
        turns=tuple(
            GroupTurn(codec.as_text(path), before, among, bool(served), left)
            for path, before, among, served, left in turns
        ),
    )


class StoredGroup(NamedTuple):
    """How a group stands."""

    waiting: int
    active: int
    held_ms: float | None
    """For how long it is held; None when it is not."""
    spent: float
    spent_today: float
    every: bytes
    """What is set for all groups, as JSON."""
    own: bytes
    """What is set for it."""


def groups(answer: Any) -> list[StoredGroup]:
    """How each of some groups stands."""
    return [
        StoredGroup(waiting, active, _held(held), float(spent), float(today), every, own)
        for waiting, active, held, spent, today, every, own in answer
    ]


def _held(ms: int | bytes) -> float | None:
    if isinstance(ms, bytes):
        return None
    return math.inf if ms < 0 else float(ms)


class GroupCount(NamedTuple):
    """The jobs of one group."""

    path: str
    waiting: int
    active: int


class GroupCounts(NamedTuple):
    """The jobs of all groups."""

    groups: int
    """Groups of which jobs wait, those in another one included."""
    held: int
    """Those of them that are paused or at a limit."""
    waiting: int
    active: int
    largest: list[GroupCount]
    """The groups with the most that wait; a parent stands for the groups in it."""


def group_counts(answer: Any) -> GroupCounts:
    """The jobs of all groups."""
    groups, held, waiting, active, largest = answer
    counts = [GroupCount(codec.as_text(each[0]), *each[1:]) for each in largest]
    return GroupCounts(groups, held, waiting, active, counts)


class Extent(NamedTuple):
    """How much of a stream there was and is."""

    added: int | None
    """Entries since it began; None where the server does not count them."""
    length: int
    first: str
    last: str
    behind: int | None
    """Entries behind the place that was asked about."""

    @property
    def gone(self) -> int | None:
        """Entries that are kept no longer."""
        return None if self.added is None else self.added - self.length


def extent(raw: Any) -> Extent:
    """How much of a stream there is."""
    added, length, first, last, behind = raw
    return Extent(_known(added), length, first.decode(), last.decode(), _known(behind))


def _known(number: int) -> int | None:
    return None if number < 0 else number


def schedulers(answer: Any) -> list[tuple[bytes, bytes | None, dict[bytes, bytes]]]:
    """Score, mark of a paused one, and fields of each scheduler."""
    return [
        (score, mark, dict(zip(flat[::2], flat[1::2], strict=True))) for score, mark, flat in answer
    ]


class Stepped(NamedTuple):
    """What came of a step: a code, below 0 for an error, and a value if there is one."""

    code: int
    value: bytes = b""


def stepped(answer: Any) -> Stepped:
    """What came of a step."""
    return Stepped(*answer)
