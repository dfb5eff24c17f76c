"""Changes of jobs that were found by what they are, each made only while that is still true.

Internal: the commands and the console use it.
"""

from typing import Literal, TypeAlias

from waystation.bullmq.queue import Queue
from waystation.bullmq.states import State
from waystation.core.errors import NotFound, WrongState

Change: TypeAlias = Literal["retry", "promote", "cancel", "remove"]

STATES_OF: dict[Change, tuple[State, ...]] = {
    "retry": ("failed",),
    "promote": ("delayed",),
    "cancel": ("waiting", "prioritized", "delayed", "waiting-children", "active"),
    "remove": ("waiting", "prioritized", "delayed", "waiting-children", "completed", "failed"),
}
"""The states of the jobs that a change may concern."""


async def change(
    queue: Queue, what: Change, id: str, state: State, *, reason: str = "", by: str = ""
) -> bool:
    """Change a job that was found in a state; False when it has left it, and is left alone.

    A job that is to be cancelled may have begun meanwhile; it must not have ended.
    """
    try:
        if what == "remove":
            return await queue.remove(id, by=by, state=state)
        job = await queue.get_job(id)
        if job is None:
            return False
        if what == "cancel":
            return await job.cancel(reason)
        await (job.retry() if what == "retry" else job.promote())
    except (NotFound, WrongState):
        return False
    return True
