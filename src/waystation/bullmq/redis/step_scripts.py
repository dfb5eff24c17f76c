"""The scripts behind a job's steps: what they returned, waits, signals and output."""

from typing import Any, NamedTuple

from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store.script import Client, raw, script


class Stepped(NamedTuple):
    """What came of a step: a code, below 0 for an error, and a value if there is one."""

    code: int
    value: bytes = b""


def _stepped(answer: Any) -> Stepped:
    return Stepped(*answer)


@script(reply=_stepped)
async def save_step(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    id: str,
    token: str,
    step: str,
    by: str,
    value: bytes,
) -> Stepped:
    """Remember what a step of a job returned, and which function it was."""
    ...


@script(reply=_stepped)
async def pause_step(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    id: str,
    token: str,
    wait: str,
    signal: str,
    due_ms: str | int,
    wait_ms: int,
    endless: int,
    deadline_ms: str | int,
) -> Stepped:
    """Let a job that a worker holds wait until it is due or signalled."""
    ...


@script(reply=raw)
async def signal_job(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int = SERVER_TIME,
    id: str,
    signal: str,
    call: str,
    data: bytes,
) -> int:
    """Send a signal to a job, which waits for it or will."""
    ...


@script(reply=raw)
async def wake_overdue(
    redis: Client, keys: QueueKeys, *, base: str, now: str | int = SERVER_TIME, most: int
) -> int:
    """Make jobs ready to run that wait for a child and have passed their deadlines."""
    ...


@script(reply=raw)
async def emit_part(
    redis: Client, keys: JobKeys, *, token: str, number: int, data: bytes, keep_ms: int
) -> int:
    """Append a part to the output of a job, unless an earlier attempt has."""
    ...


@script(reply=_stepped)
async def mark_failing(
    redis: Client, keys: JobKeys, *, token: str, reason: str, stacktrace: bytes, undos: int
) -> Stepped:
    """Let a job that a worker holds only be undone from now on."""
    ...


@script(reply=raw)
async def note_undos(redis: Client, keys: JobKeys, *, token: str, undos: int) -> int:
    """Remember how many functions an attempt of a job that a worker holds has given to undo it."""
    ...
