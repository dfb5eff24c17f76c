"""Groups of failures: jobs that failed for good with the same error."""

import hashlib
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import msgspec

from waystation.console.products.queue import ConsoleQueue, alone
from waystation.console.products.views import Failure, short
from waystation.core import fingerprints

PER_QUEUE = 1000
"""Failures of one queue that are grouped, from the newest back."""
IN_ALL = 5000
"""Failures of all queues that are grouped at once."""
PAGE = 250
FRESH_S = 3.0
BUCKETS = 24
"""Parts that the trend of a group has."""
SPAN = timedelta(hours=1)
"""The time that the trend covers."""
EXAMPLES = 5
_NEVER = datetime.min.replace(tzinfo=UTC)


class Group(msgspec.Struct, kw_only=True):
    """Jobs of one name that failed with the same error."""

    id: str
    product: str
    queue: str
    name: str
    """The name of the jobs."""
    error: str
    """The class of the error, where it is known."""
    signature: str
    """What it says, with ids, numbers and paths masked."""
    fingerprint: str
    """What the history calls such failures, whatever the name of the job."""
    message: str
    """What it said the last time."""
    count: int
    is_complete: bool
    """False when its queue has more failures than were looked at: then there are at least `count`,
    and the first of them may have come before `first_at`."""
    first_at: datetime | None
    last_at: datetime | None
    trend: list[int]
    """How many failed in each part of the last hour, the oldest first."""
    examples: list[str]
    """Ids of the latest jobs."""


class Groups(msgspec.Struct, kw_only=True):
    """All groups."""

    groups: list[Group]
    looked_at: int
    complete: bool
    """False when there are more failures than were looked at."""


def group_id(failure: Failure) -> str:
    """What failures with the same error have in common."""
    parts = (failure.name, _error(failure), fingerprints.signature(failure.reason))
    return hashlib.sha256("\n".join(parts).encode(errors="replace")).hexdigest()[:16]


class FailureGroups:
    """Finds the groups of one queue or of all; what was found serves for some seconds."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], tuple[float, Groups]] = {}

    async def of(self, queues: Sequence[ConsoleQueue]) -> Groups:
        """The groups of these queues, the largest first."""
        key = tuple(f"{queue.product}/{queue.name}" for queue in queues)
        kept = self._kept.get(key)
        if kept and time.monotonic() - kept[0] < FRESH_S:
            return kept[1]
        found = await _groups(queues)
        if len(self._kept) > 64:
            self._kept.clear()
        self._kept[key] = time.monotonic(), found
        return found

    def forget(self) -> None:
        """Look again the next time."""
        self._kept.clear()


async def _groups(queues: Sequence[ConsoleQueue]) -> Groups:
    found: list[Group] = []
    looked_at, complete = 0, True
    for queue in queues:
        is_whole = False
        with alone(queue.product, queue.name) if len(queues) > 1 else nullcontext():
            failed = (await queue.levels()).counts.get(queue.failed, 0)
            most = min(PER_QUEUE, IN_ALL - looked_at)
            members: dict[str, list[Failure]] = {}
            async for failure in failures_of(queue, most=min(failed, most)):
                looked_at += 1
                members.setdefault(group_id(failure), []).append(failure)
            is_whole = failed <= most
            found += [_group(queue, id, each, is_whole) for id, each in members.items()]
        complete = complete and is_whole
    # Of two that are equally large the newer kind comes first, which no further failure changes.
    found.sort(key=lambda group: group.first_at or _NEVER, reverse=True)
    found.sort(key=lambda group: group.count, reverse=True)
    return Groups(groups=found, looked_at=looked_at, complete=complete)


async def failures_of(queue: ConsoleQueue, *, most: int) -> AsyncGenerator[Failure]:
    """The failures of a queue, page by page, each once."""
    seen = set[str]()
    for offset in range(0, most, PAGE):
        page = await queue.failures(offset=offset, limit=min(PAGE, most - offset))
        if not page:
            return
        # Where an id has no job, a page is shorter than asked for or reaches into the next one.
        for failure in page:
            if failure.job.id not in seen:
                seen.add(failure.job.id)
                yield failure


def _group(queue: ConsoleQueue, id: str, members: Sequence[Failure], is_complete: bool) -> Group:
    instants = sorted(each.job.finished_at for each in members if each.job.finished_at)
    latest = max(members, key=lambda each: each.job.finished_at or _NEVER)
    return Group(
        id=id,
        product=queue.product,
        queue=queue.name,
        name=latest.name,
        error=_error(latest),
        signature=fingerprints.signature(latest.reason),
        fingerprint=fingerprints.fingerprint(latest.reason),
        message=short(latest.reason, 500),
        count=len(members),
        is_complete=is_complete,
        first_at=instants[0] if instants else None,
        last_at=instants[-1] if instants else None,
        trend=_trend(instants),
        examples=[each.job.id for each in members[:EXAMPLES]],
    )


def _trend(instants: Iterable[datetime]) -> list[int]:
    now, part = datetime.now(UTC), SPAN / BUCKETS
    counts = [0] * BUCKETS
    for at in instants:
        place = BUCKETS - 1 - int((now - at) / part)
        if 0 <= place < BUCKETS:
            counts[place] += 1
    return counts


def _error(failure: Failure) -> str:
    text = failure.trace if fingerprints.TRACEBACK in failure.trace else failure.reason
    return fingerprints.error_class(text) or fingerprints.error_class(failure.reason) or ""
