"""The atomic steps of a queue, one function each."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store.script import Client, raw, script, texts


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


def _settlement(answer: Any) -> Settlement:
    return Settlement(*answer)


class Existing(str):
    """The id of a job that was there before, and what is stored of it."""

    __slots__ = ("fields",)
    fields: dict[bytes, bytes]
    """None when the job has gone since, and only its deduplication is left."""


def ids_or_codes(answer: Any) -> list[str | int]:
    """The ids of added jobs; a number stands for one that was refused."""
    return [_id_or_code(each) for each in answer]


def _id_or_code(added: Any) -> str | int:
    if isinstance(added, bytes):
        return added.decode()
    if isinstance(added, int):
        return added
    id, fields = added
    existing = Existing(id.decode())
    existing.fields = dict(zip(fields[::2], fields[1::2], strict=True))
    return existing


@script(reply=ids_or_codes)
async def add(
    redis: Client, keys: QueueKeys, *, base: str, now: str | int, jobs: Sequence[str | bytes]
) -> list[str | int]:
    """Add jobs."""
    ...


@script(reply=ids_or_codes)
async def add_flow(
    redis: Client, keys: QueueKeys, *, now: str | int = SERVER_TIME, jobs: Sequence[str | bytes]
) -> list[str | int]:
    """Add trees of jobs, all or nothing."""
    ...


def id_or_code(answer: Any) -> str | int:
    """The id of an added job, or a number that says why there is none."""
    return answer.decode() if isinstance(answer, bytes) else int(answer)


@script(reply=id_or_code)
async def bring(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int,
    holder: str,
    message: bytes,
    name: bytes,
    data: bytes,
    opts: bytes,
    wants: bytes,
    theirs: Sequence[str],
) -> str | int:
    """Take a message from a queue of another system and add the job that was made of it."""
    ...


@script(reply=raw)
async def take(
    redis: Client, *, holder: str, message: bytes, taken: str, keep_ms: int, theirs: Sequence[str]
) -> int:
    """Take a message from a queue of another system."""
    ...


@script(reply=_settlement)
async def settle(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int,
    token: str,
    lease_ms: int,
    want: int,
    worker: str,
    max: str | int,
    duration: str | int,
    metrics: str | int,
    outcomes: Sequence[str | bytes | int],
) -> Settlement:
    """File outcomes away and claim the next jobs, in one step."""
    ...


@script(reply=raw)
async def find_held(
    redis: Client, keys: QueueKeys, *, base: str, tokens: Sequence[str]
) -> list[Any]:
    """Find the jobs that were claimed under these tokens, for a worker whose answer was lost: id,
    token and fields of each, in turn.
    """
    ...


@script(reply=raw)
async def filed_before(
    redis: Client, keys: QueueKeys, *, base: str, outcomes: Sequence[str | int]
) -> list[bytes]:
    """Find which outcomes were stored by calls whose replies were lost."""
    ...


@script(reply=raw)
async def extend_locks(
    redis: Client, keys: QueueKeys, *, base: str, lease_ms: int, locks: Sequence[str]
) -> list[int]:
    """Renew locks by their ids and tokens; the reply has the places, from 1, of lost ones."""
    ...


@script(reply=texts)
async def recover_stalled(
    redis: Client,
    keys: QueueKeys,
    *,
    base: str,
    now: str | int,
    interval_ms: int,
    max_stalled: int,
    most: int,
) -> list[str]:
    """Put back jobs whose locks have lapsed since the last look, and suspect those active now."""
    ...


@script(reply=raw)
async def leave(redis: Client, keys: QueueKeys) -> int:
    """Put back what a worker that takes no more jobs may have taken from the others; 1 when there
    are any that wait.
    """
    ...
