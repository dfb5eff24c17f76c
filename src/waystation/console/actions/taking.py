"""Taking actions, on one queue or on all jobs a search finds: checked, counted, taken, noted."""

from collections import Counter
from datetime import datetime
from typing import Annotated

import msgspec

from waystation.console.actions.kinds import ACTIONS, ALWAYS, MOST_IDS, Act, Acted
from waystation.console.actions.runs import Bulk, State
from waystation.console.context import Console
from waystation.console.products.queue import ConsoleQueue
from waystation.console.products.views import JobView
from waystation.console.query import LONGEST, Query, parse
from waystation.console.search import Hit, Reach, SearchResult, asked_of
from waystation.core.durations import instant
from waystation.core.errors import InvalidOption
from waystation.core.http.endpoints import stated
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.operators import Operator
from waystation.core.store.commands import server_ms


async def take(
    console: Console, who: Operator, queue: ConsoleQueue, name: str, asked: Act
) -> Acted:
    """Take an action on a queue, its jobs or its schedulers, or count what it would concern."""
    if name not in ACTIONS or name not in queue.actions:
        raise Problem(404, Code.NOT_FOUND, f"{queue.product} has no such action")
    _check(asked, name, queue)
    plan = await queue.plan(name, asked, by=who.name)
    if asked.dry_run:
        return Acted(action=name, affected=plan.affected, done=False)
    if asked.expected is not None and plan.affected > asked.expected:
        raise Problem(
            412,
            Code.CHANGED_MEANWHILE,
            f"{plan.affected} are concerned by now, not {asked.expected}; look again",
        )
    taken = await plan.take()
    affected = taken if type(taken) is int else plan.affected
    after = {"affected": affected, "reason": asked.reason, "ids": asked.ids[:20], **plan.note}
    await console.note(who, name, f"{queue.product}/{queue.name}", after=after)
    return Acted(action=name, affected=affected, done=True)


def _check(asked: Act, name: str, queue: ConsoleQueue) -> None:
    if len(asked.ids) > MOST_IDS:
        raise InvalidOption(f"ids may name {MOST_IDS} jobs, got {len(asked.ids)}")
    known = (*ALWAYS, *ACTIONS[name].takes)
    defaults = Act()
    for field in Act.__struct_fields__:
        if field not in known and getattr(asked, field) != getattr(defaults, field):
            raise InvalidOption(f"{name} takes no {field}")
    if ACTIONS[name].confirmed and not asked.dry_run and asked.confirm != queue.name:
        raise Problem(422, Code.NOT_CONFIRMED, "confirm must be the name of the queue")


CHANGES = ("retry", "promote", "cancel", "remove")
MOST_AT_ONCE = 1000
"""Jobs that one request changes."""
MOST_COUNTED = 20_000
"""Jobs that one request counts."""
PER_STATE = 100_000
COUNTING_S = 5.0
"""How long one request may look for jobs."""
BATCH = 100
EXAMPLES = 5


class ActOnMatches(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do to all jobs that a search finds."""

    q: Annotated[str, stated(minLength=1, maxLength=LONGEST)]
    """The search, such as `state:failed error:timeout queue:mail`."""
    dry_run: bool = False
    """Count and show the first few, and do nothing."""
    expected: Annotated[int | None, stated(minimum=0)] = None
    """What a dry run counted; needed to act, and when there are more now nothing is done."""
    until: datetime | None = None
    """As the dry run answered it: jobs that were added or ended later are left alone."""
    whole: bool = False
    """Go on in the background until all are done, and answer with the run."""
    beyond: bool = False
    """With `whole`: also those that the dry run could not count, when it said `more`."""
    reason: Annotated[str, stated(maxLength=500)] = ""
    """Goes into the audit log."""


class OfQueue(msgspec.Struct, kw_only=True):
    """How many jobs of one queue match."""

    product: str
    queue: str
    matched: int


class Matched(msgspec.Struct, kw_only=True):
    """What an action on all that match found and did."""

    action: str
    matched: int
    """Jobs that match, in a state in which this can be done to them; at most 1000 when it acts."""
    done: int = 0
    left_alone: int = 0
    """Jobs that had changed before their turn came, or that cannot be changed now."""
    more: bool
    """True when there may be others that were not looked at; ask again to go on."""
    looked_at: int
    until: datetime
    queues: list[OfQueue]
    examples: list[Hit]
    """The first few."""


async def act_on_matches(
    console: Console, who: Operator, action: str, asked: ActOnMatches
) -> Matched:
    """Retry, promote, cancel or remove all jobs that a search finds, or count them."""
    _require_counted(action, asked)
    until = asked.until or await _now(console)
    found = await _find(console, action, asked, until)
    result = _result_of(action, found, until)
    if asked.dry_run:
        if result.more and parse(asked.q).is_of_states:
            await _count_unread(console, parse(asked.q), result)
        return result
    if result.matched > (asked.expected or 0):
        raise Problem(
            412,
            Code.CHANGED_MEANWHILE,
            f"{result.matched} match by now, not {asked.expected}; look again",
        )
    try:
        await _change(console, who, result, found, asked.reason)
    finally:
        # Also when the store went away in the middle: what was done has been done.
        after = {
            "q": asked.q, "matched": result.matched, "done": result.done, "reason": asked.reason,
            "ids": [hit.job.id for hit in found.hits[:20]],
        }  # fmt: skip
        await console.note(who, action, "search", after=after)
    result.left_alone = result.matched - result.done
    return result


async def act_on_all(console: Console, who: Operator, action: str, asked: ActOnMatches) -> Bulk:
    """Do it to all that match, a request's worth at a time, whoever looks."""
    _require_counted(action, asked)
    until = asked.until or await _now(console)
    matched = asked.expected or 0
    bulk = Bulk(by=who.name, action=action, q=asked.q, matched=matched, beyond=asked.beyond)

    async def steps(bulk: Bulk) -> None:
        while bulk.state is State.RUNNING:
            expected = MOST_AT_ONCE if bulk.beyond else matched - bulk.done
            step = msgspec.structs.replace(asked, until=until, expected=expected)
            result = await act_on_matches(console, who, action, step)
            bulk.done += result.done
            # Those that cannot be changed are found again each time.
            if not result.done or not result.more:
                return

    return console.bulks.begin(bulk, steps)


async def _count_unread(console: Console, query: Query, result: Matched) -> None:
    """Count all that match by how many jobs each state has."""
    result.queues, result.more = [], False
    for queue in asked_of(console.directory.every(), query):
        counts = (await queue.levels()).counts
        states = _states_for(queue, result.action)
        wanted = [each for each in states if query.get("state").lower() in ("", each)]
        if matched := sum(counts.get(each, 0) for each in wanted):
            result.queues.append(OfQueue(product=queue.product, queue=queue.name, matched=matched))
    result.queues.sort(key=lambda each: each.matched, reverse=True)
    result.matched = sum(each.matched for each in result.queues)


def _states_for(queue: ConsoleQueue, action: str) -> tuple[str, ...]:
    return queue.states_of.get(action, ()) if action in queue.actions else ()


async def _find(
    console: Console, action: str, asked: ActOnMatches, until: datetime
) -> SearchResult:
    await console.sampler.overview()
    reach = Reach(
        limit=MOST_COUNTED if asked.dry_run else MOST_AT_ONCE,
        per_state=PER_STATE,
        budget_s=COUNTING_S,
        states=lambda queue: _states_for(queue, action),
        until=until,
    )
    return await console.search.run(console.directory.every(), parse(asked.q), reach)


async def _change(
    console: Console, who: Operator, result: Matched, found: SearchResult, reason: str
) -> None:
    for each in result.queues:
        queue = await console.directory.find(each.product, each.queue)
        jobs = [hit.job for hit in found.hits if (hit.product, hit.queue) == _place(each)]
        for first in range(0, len(jobs), BATCH):
            some: list[JobView] = jobs[first : first + BATCH]
            result.done += await queue.change(result.action, some, reason=reason, by=who.name)
    console.failures.forget()


def _require_counted(action: str, asked: ActOnMatches) -> None:
    if action not in CHANGES:
        raise Problem(404, Code.NOT_FOUND, f"there are only {', '.join(CHANGES)}")
    if not asked.dry_run and asked.expected is None:
        raise InvalidOption("count first: expected must be what a dry run counted")
    if asked.until and asked.until.tzinfo is None:
        raise InvalidOption("until needs a time zone, as 2026-11-16T12:00:00Z has it")
    parse(asked.q)


def _result_of(action: str, found: SearchResult, until: datetime) -> Matched:
    counts = Counter((hit.product, hit.queue) for hit in found.hits)
    return Matched(
        action=action,
        matched=len(found.hits),
        more=not found.complete,
        looked_at=found.looked_at,
        until=until,
        queues=[
            OfQueue(product=product, queue=queue, matched=many)
            for (product, queue), many in counts.most_common()
        ],
        examples=found.hits[:EXAMPLES],
    )


def _place(each: OfQueue) -> tuple[str, str]:
    return each.product, each.queue


async def _now(console: Console) -> datetime:
    """The store's clock, by which jobs are added and end."""
    return instant(await server_ms(console.store.hot))
