"""The atomic steps of one job outside its worker's round, one function each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.core import codec
from waystation.core.errors import JobFailed
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store.script import Client, raw, script


@script(reply=raw)
async def update_data(redis: Client, keys: JobKeys, *, data: bytes) -> int:
    """Give a job other data."""
    ...


@script(reply=raw)
async def update_progress(
    redis: Client, keys: QueueKeys, *, base: str, id: str, progress: bytes
) -> int:
    """Store a job's progress and emit `progress`."""
    ...


@script(reply=raw)
async def add_log(redis: Client, keys: JobKeys, *, line: bytes, keep: str | int) -> int:
    """Write a line into a job's log, which keeps the newest ones; the reply is their number."""
    ...


@script(reply=raw)
async def promote(redis: Client, keys: QueueKeys, *, base: str, id: str) -> int:
    """Make a delayed job ready to run now."""
    ...


@script(reply=raw)
async def change_delay(
    redis: Client, keys: QueueKeys, *, base: str, now: str | int = SERVER_TIME, id: str, delay: int
) -> int:
    """Delay a delayed job anew, by milliseconds from now."""
    ...


@script(reply=raw)
async def change_priority(
    redis: Client, keys: QueueKeys, *, base: str, id: str, priority: int, lifo: int
) -> int:
    """Give a job another priority, and its new place if it waits."""
    ...


@script(reply=raw)
async def retry_job(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    id: str,
    state: str,
    lifo: int,
    forget: Sequence[str],
) -> int:
    """Run a finished job again."""
    ...


@script(reply=raw)
async def remove_job(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    id: str,
    with_children: int,
    by: str,
    state: str,
    most: int,
    is_next: int,
) -> int:
    """Remove a job with all that is kept about it: 1, or 0 when it is held, -3 when it is not in
    `state`, or -8 when it keeps its scheduler going; 2 when there are more children to remove.
    """
    ...


@script(reply=raw)
async def cancel(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    id: str,
    reason: str,
    keep: str,
) -> int:
    """Make a job fail that has not ended, whether it waits or runs."""
    ...


@script(reply=raw)
async def move_to_delayed(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    id: str,
    token: str,
    due: int,
) -> int:
    """Delay the job that a worker holds until `due`."""
    ...


@script(reply=raw)
async def move_to_wait(redis: Client, keys: QueueKeys, *, base: str, id: str, token: str) -> int:
    """Put the job that a worker holds back at the head of its queue."""
    ...


@script(reply=bool)
async def remove_deduplication(
    redis: Client, keys: QueueKeys, *, base: str, id: str, deduplication: str
) -> bool:
    """Free the deduplication id of a job, if it owns it."""
    ...


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


def _end(raw: Any) -> End:
    state, value = raw
    return End(state.decode(), value)


@script(reply=_end)
async def end_of(redis: Client, keys: QueueKeys, *, base: str, id: str) -> End:
    """How a job has ended."""
    ...


def _cursor(answer: Any) -> tuple[int, int]:
    cursor, removed = answer
    return int(cursor), removed


@script(reply=raw)
async def move_to_waiting_children(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    id: str,
    token: str,
    child: str = "",
    deadline_ms: str | int = "",
    now: str | int = SERVER_TIME,
) -> int:
    """Leave a job that its worker holds to wait for one of its children, or for all."""
    ...


@script(reply=raw)
async def remove_child_dependency(
    redis: Client, keys: JobKeys, *, base: str, now: str | int = SERVER_TIME
) -> int:
    """Release a parent from waiting for a child."""
    ...


@script(reply=_cursor)
async def remove_unprocessed_children(
    redis: Client, keys: JobKeys, *, base: str, cursor: int, now: str | int = SERVER_TIME
) -> tuple[int, int]:
    """Remove children that no worker holds and that have not failed, with their own."""
    ...
