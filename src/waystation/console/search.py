"""Search among live jobs, by id, name, state, error, or a field of their data.

Nothing in the store is indexed by these, so the newest jobs of each state are read until time is
up; the answer says how many were looked at and whether those were all.
"""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime

import msgspec

from waystation.console.actions.failures import failures_of, group_id
from waystation.console.products.queue import ConsoleQueue, alone
from waystation.console.products.views import JobView, short
from waystation.console.query import Query, fits
from waystation.core import codec

PAGE = 200
LONGEST_DATA = 20_000
"""Characters of a job's data that are looked through."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How far a search goes."""

    limit: int
    """Jobs that it finds, at most."""
    counts_on: bool = False
    """Whether it counts on when it has found so many."""
    per_state: int = 2000
    """Jobs of one state of one queue that are looked at."""
    budget_s: float = 1.5
    """How long it may read."""
    states: Callable[[ConsoleQueue], Sequence[str]] | None = None
    """The states of a queue that it looks into; all by default."""
    until: datetime | None = None
    """Jobs that were added or ended later are left out."""


class Hit(msgspec.Struct, kw_only=True):
    """A job that was found."""

    product: str
    queue: str
    job: JobView


class SearchResult(msgspec.Struct, kw_only=True):
    """What a search found."""

    hits: list[Hit]
    total: int
    """Jobs that fit, among those that were looked at; `hits` are the first of them."""
    looked_at: int
    complete: bool
    """False when there are jobs that were not looked at."""
    took_ms: float


class Search:
    """Looks through the jobs of some queues."""

    async def run(self, queues: Sequence[ConsoleQueue], query: Query, reach: Reach) -> SearchResult:
        """The jobs that fit, as far as they can be found in time."""
        began = time.monotonic()
        chosen = asked_of(queues, query)
        hits: dict[tuple[str, str, str], Hit | None] = {}
        looked_at, complete = 0, True
        async for queue, job in self._candidates(chosen, query, reach):
            is_full = len(hits) >= reach.limit
            if time.monotonic() - began > reach.budget_s or (is_full and not reach.counts_on):
                complete = False
                break
            if job is None:
                complete = False
                continue
            looked_at += 1
            if fits(query, job) and _is_in_time(job, reach.until):
                job.data = short(job.data)
                # One that moved while its queue was read has been seen twice.
                key = queue.product, queue.name, job.id
                is_shown = not is_full or hits.get(key) is not None
                hit = Hit(product=queue.product, queue=queue.name, job=job)
                hits[key] = hit if is_shown else None
        return SearchResult(
            hits=[hit for hit in hits.values() if hit],
            total=len(hits),
            looked_at=looked_at,
            complete=complete,
            took_ms=round((time.monotonic() - began) * 1000, 1),
        )

    async def _candidates(
        self, queues: Sequence[ConsoleQueue], query: Query, reach: Reach
    ) -> AsyncGenerator[tuple[ConsoleQueue, JobView | None]]:
        """Jobs that may fit; None for those that are beyond the limit."""
        until = time.monotonic() + reach.budget_s
        if id := query.get("id") or _only_word(query):
            for queue in queues:
                if time.monotonic() > until:
                    yield queue, None
                    return
                with alone(queue.product, queue.name):
                    detail = await queue.job(id)
                    if detail and (not reach.states or detail.job.state in reach.states(queue)):
                        detail.job.data = codec.encode_shown(detail.data).decode()
                        yield queue, detail.job
            if query.get("id"):
                return
        for queue in queues:
            # Also where nothing is found to look at: asking each of many queues takes long.
            if time.monotonic() > until:
                yield queue, None
                return
            is_whole = False
            with alone(queue.product, queue.name):
                counts = (await queue.levels()).counts
                for state in reach.states(queue) if reach.states else queue.states:
                    if query.get("state") and query.get("state").lower() != state:
                        continue
                    count = counts.get(state, 0)
                    by_failure = bool(query.get("failure"))
                    if by_failure and state != queue.failed:
                        continue
                    some = _failed if by_failure else _some
                    async for job in some(queue, state, count, reach.per_state):
                        if job is None or not id or job.id != id:
                            yield queue, job
                is_whole = True
            if not is_whole:
                yield queue, None


async def _some(
    queue: ConsoleQueue, state: str, count: int, most: int
) -> AsyncGenerator[JobView | None]:
    # To its end, which may be further back by now than what was counted.
    for offset in range(0, most if count else 0, PAGE):
        page = await queue.jobs(
            state, offset=offset, limit=PAGE, newest_first=True, most=LONGEST_DATA
        )
        for job in page:
            yield job
            if len(job.data) >= LONGEST_DATA:
                yield None
        if not page:
            return
    if count > most:
        yield None


async def _failed(
    queue: ConsoleQueue, state: str, count: int, most: int
) -> AsyncGenerator[JobView | None]:
    """The jobs that failed for good, with their groups."""
    async for failure in failures_of(queue, most=min(count, most)):
        failure.job.failure = group_id(failure)
        yield failure.job
    if count > most:
        yield None


def asked_of(queues: Sequence[ConsoleQueue], query: Query) -> list[ConsoleQueue]:
    """The queues that are searched."""
    name, product = query.get("queue"), query.get("product")
    return [
        queue for queue in queues if name in ("", queue.name) and product in ("", queue.product)
    ]


def _is_in_time(job: JobView, until: datetime | None) -> bool:
    if until is None:
        return True
    instants = (at for at in (job.created_at, job.finished_at) if at)
    # Jobs of other programs may have instants without a zone, which are UTC then.
    return all((at if at.tzinfo else at.replace(tzinfo=UTC)) <= until for at in instants)


def _only_word(query: Query) -> str:
    is_one = len(query.words) == 1 and not query.fields
    return query.words[0] if is_one else ""
