"""Ending jobs from outside, and running them again. Internal."""

from waystation.bullmq.redis import job_scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.errors import InvalidOption, WrongState
from waystation.core.store.script import Client

_ANOTHER_STATE = -3


async def remove_job(
    client: Client,
    keys: QueueKeys,
    id: str,
    *,
    remove_children: bool,
    by: str = "",
    state: str | None = None,
) -> bool:
    """Remove a job; False when a worker holds it or one of its children, or in another state."""
    code = await job_scripts.remove_job(
        client,
        keys,
        base=keys.base,
        id=id,
        with_children=int(remove_children),
        by=by,
        state=state or "",
    )
    if code == _ANOTHER_STATE:
        return False
    if code < 0:
        raise WrongState(f"job {id} is the next of its scheduler: remove the scheduler instead")
    return code == 1


async def cancel_job(
    client: Client, keys: QueueKeys, id: str, keep: str | None, reason: str
) -> bool:
    """Make a job fail that has not ended; False when it has."""
    code = await job_scripts.cancel(
        client,
        keys,
        base=keys.base,
        id=id,
        reason=reason or f"job {id} was cancelled",
        keep=keep or "",
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
    return await job_scripts.retry_job(
        client, keys, base=keys.base, id=id, state=state, lifo=int(lifo), forget=forget or []
    )
