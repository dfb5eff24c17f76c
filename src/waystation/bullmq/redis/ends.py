"""Ending jobs from outside, and running them again. Internal."""

from collections.abc import AsyncGenerator
from typing import Any

from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.replies import Sweep
from waystation.bullmq.states import SET_ASIDE, known_states
from waystation.core.codec import as_text
from waystation.core.errors import InvalidOption, WrongState
from waystation.core.options import at_least
from waystation.core.store.commands import ask
from waystation.core.store.script import Client

SWEPT_AT_ONCE = 500
"""Jobs that one script call looks at; more would block the server for too long."""
_ANOTHER_STATE, _MORE, _LARGE = -3, 2, 3
_ALWAYS, _IF_ANY = "always", "if any"
"""When `cleaned` is emitted: once for a call, and for each further page that removes jobs."""


async def remove_job(
    client: Client,
    keys: QueueKeys,
    id: str,
    *,
    remove_children: bool,
    by: str = "",
    state: str | None = None,
) -> bool:
    """Remove a job; False when a worker holds it or one of its children, or in another state.

    Of a large tree the children go first, some at a time; one that a worker claims meanwhile stays,
    and so do those above it.
    """
    code, is_next = _MORE, 0
    while code == _MORE:
        code = await scripts.remove_job(
            client,
            keys,
            id=id,
            with_children=int(remove_children),
            by=by,
            state=state or "",
            most=SWEPT_AT_ONCE,
            is_next=is_next,
        )
        if code == _LARGE:
            if await _is_held(client, keys, id):
                return False
            code, is_next = _MORE, 1
    if code == _ANOTHER_STATE:
        return False
    if code < 0:
        raise WrongState(f"job {id} is the next of its scheduler: remove the scheduler instead")
    return code == 1


async def _is_held(client: Client, keys: QueueKeys, id: str) -> bool:
    """True when a worker holds a job or one of its children, asked some at a time."""
    unseen = [keys.of(id).job]
    while unseen:
        some, unseen = unseen[:SWEPT_AT_ONCE], unseen[SWEPT_AT_ONCE:]
        if await ask(client, "EXISTS", *(f"{job}:lock" for job in some)):
            return True
        children = [f"{job}:dependencies" for job in some]
        if await ask(client, "EXISTS", *children):
            for each in children:
                unseen += [job async for job in _members(client, each)]
    return False


async def _members(client: Client, key: str) -> AsyncGenerator[str]:
    cursor: Any = None
    while cursor != b"0":
        cursor, found = await ask(client, "SSCAN", key, cursor or 0, "COUNT", SWEPT_AT_ONCE)
        for each in found:
            yield as_text(each)


async def cancel_job(
    client: Client, keys: QueueKeys, id: str, keep: str | None, reason: str
) -> bool:
    """Make a job fail that has not ended; False when it has."""
    code = await scripts.cancel(
        client, keys, id=id, reason=reason or f"job {id} was cancelled", keep=keep or ""
    )
    if code < 0:
        raise WrongState(f"job {id} is the next of its scheduler: remove the scheduler instead")
    return code == 1


async def retry_finished(
    client: Client,
    keys: QueueKeys,
    id: str,
    state: str,
    *,
    lifo: bool = False,
    forget: list[str] | None = None,
) -> int:
    """Run a finished job again; returns a code below 0 when it is not in this state."""
    if state not in ("failed", "completed"):
        raise InvalidOption(f"only failed and completed jobs can be retried, got {state!r}")
    return await scripts.retry_job(
        client, keys, id=id, state=state, lifo=int(lifo), forget=forget or []
    )


async def clean(
    client: Client, keys: QueueKeys, state: str, *, grace: int, limit: int
) -> list[str]:
    """Remove jobs of a state that are older than `grace` milliseconds; returns their ids."""
    removed: list[str] = []
    for name in (names := _swept(state)):
        left = limit and limit - len(removed)
        emit = _ALWAYS if name == names[-1] else _IF_ANY
        async for swept in _sweeps(client, keys, name, grace=grace, limit=left, emit=emit):
            removed += swept.removed
        if limit and len(removed) >= limit:
            break
    return removed


async def empty(client: Client, keys: QueueKeys, state: str) -> int:
    """Remove all jobs of a state that no worker holds; returns how many."""
    removed = 0
    while True:
        # While workers claim jobs, places shift; the last pass finds nothing to remove.
        passed = 0
        async for swept in _sweeps(client, keys, state):
            passed += len(swept.removed)
        if not passed:
            return removed
        removed += passed


async def wait_again(
    client: Client, keys: QueueKeys, state: str, until: int | str, limit: int | None
) -> int:
    """Make jobs wait again that got into a state no later than that; returns how many."""
    if limit is not None:
        at_least("limit", limit, 1)
    moved = 0
    while limit is None or moved < limit:
        most = SWEPT_AT_ONCE if limit is None else min(SWEPT_AT_ONCE, limit - moved)
        found = await scripts.retry_jobs(client, keys, state=state, until_ms=until, most=most)
        moved += found
        if found < most:
            break
    return moved


async def _sweeps(
    client: Client,
    keys: QueueKeys,
    state: str,
    *,
    grace: int | str = "",
    limit: int = 0,
    emit: str = "",
) -> AsyncGenerator[Sweep]:
    removed = skip = 0
    while True:
        most = min(SWEPT_AT_ONCE, limit - removed) if limit else SWEPT_AT_ONCE
        swept = await scripts.sweep(
            client, keys, state=state, grace=grace, most=most, skip=skip, emit=emit
        )
        yield swept
        emit = emit and _IF_ANY
        removed, skip = removed + len(swept.removed), skip + swept.spared
        if swept.seen < most or (limit and removed >= limit):
            return


def _swept(state: str) -> list[str]:
    [known] = known_states(state)
    if known == "waiting-children":
        raise InvalidOption("jobs that wait for their children cannot be cleaned")
    # Jobs that BullMQ 5 moved to `paused` are older than those that came since.
    return [SET_ASIDE, "wait", "grouped"] if known == "waiting" else [known]
