"""Children and parents: the jobs that a job waits for, and the one that waits for it. Internal."""

from typing import Any, Literal, NamedTuple, TypeAlias, cast

from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.commands import hash_at, refusal
from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.core import codec
from waystation.core.errors import Malformed
from waystation.core.store.commands import ask, ask_all, fields_of
from waystation.core.store.script import Client

ChildKind: TypeAlias = Literal["processed", "unprocessed", "ignored", "failed"]
"""Completed; not finished; failed without failing the parent; failed, and so does the parent."""


class DependencyCounts(NamedTuple):
    """How many children there are of each kind."""

    processed: int
    unprocessed: int
    ignored: int
    failed: int


class DependencyPage(NamedTuple):
    """Some of the children of one kind."""

    children: dict[str, Any]
    """By key: results of the processed, reasons of the ignored, instants of the failed."""
    cursor: int
    """The start of the next page; 0 after the last."""


class ChildResult(NamedTuple):
    """What came of a child."""

    id: str
    queue: str
    name: str | None
    """None when the child has been removed."""
    result: Any
    """None when it failed."""
    failed_reason: str | None
    """None when it was completed."""


class JobPlace(NamedTuple):
    """A job's queue and id."""

    queue: QueueKeys
    id: str


async def page(
    client: Client, keys: JobKeys, kind: ChildKind, *, cursor: int = 0, count: int = 100
) -> DependencyPage:
    """Some of the children of one kind."""
    command, key = {
        "processed": ("HSCAN", keys.processed),
        "unprocessed": ("SSCAN", keys.dependencies),
        "ignored": ("HSCAN", keys.ignored),
        "failed": ("ZSCAN", keys.unsuccessful),
    }[kind]
    answer: Any = await ask(client, command, key, cursor, "COUNT", count)
    following, found = int(answer[0]), answer[1]
    if kind == "unprocessed":
        return DependencyPage({codec.as_text(each): None for each in found}, following)
    return DependencyPage(
        {codec.as_text(child): _decoded(kind, value) for child, value in fields_of(found).items()},
        following,
    )


async def counts(client: Client, keys: JobKeys) -> DependencyCounts:
    """How many children there are of each kind."""
    return DependencyCounts(
        *await ask_all(
            client,
            ("HLEN", keys.processed),
            ("SCARD", keys.dependencies),
            ("HLEN", keys.ignored),
            ("ZCARD", keys.unsuccessful),
        )
    )


async def values(client: Client, keys: JobKeys) -> dict[str, Any]:
    """Results of the completed children, by their keys."""
    found = await hash_at(client, keys.processed)
    return {codec.as_text(child): _decoded("processed", value) for child, value in found.items()}


async def results(client: Client, keys: QueueKeys, job_id: str) -> list[ChildResult]:
    """The children that have finished, in the order in which they were given."""
    done = await hash_at(client, keys.of(job_id).processed)
    failed = await hash_at(client, keys.of(job_id).ignored)
    places = {key: place_of(codec.as_text(key), keys) for key in (*done, *failed)}
    ordered = sorted(places, key=lambda key: places[key].id)
    names = await ask_all(client, *(("HGET", codec.as_text(key), "name") for key in ordered))
    return [
        ChildResult(
            places[key].id,
            places[key].queue.name,
            name.decode("utf-8", "replace") if name else None,
            _decoded("processed", done[key]) if key in done else None,
            _decoded("ignored", failed[key]) if key in failed else None,
        )
        for key, name in zip(ordered, names, strict=True)
    ]


async def ignored_failures(client: Client, keys: JobKeys) -> dict[str, str]:
    """Reasons of failed children whose failure counts as done, by their keys."""
    found = await hash_at(client, keys.ignored)
    return {codec.as_text(child): _decoded("ignored", reason) for child, reason in found.items()}


async def failed_keys(client: Client, keys: JobKeys) -> list[str]:
    """The children whose failure fails the parent."""
    found: list[bytes] = await ask(client, "ZRANGE", keys.unsuccessful, 0, -1)
    return [codec.as_text(child) for child in found]


async def detach(client: Client, keys: QueueKeys, job_id: str) -> bool:
    """Release the parent of a job from waiting for it."""
    code = await scripts.remove_child_dependency(client, keys.of(job_id))
    if code < 0:
        raise refusal(code, job_id)
    return code == 1


async def remove_unprocessed(client: Client, keys: QueueKeys, job_id: str) -> int:
    """Remove the children of a job that no worker has started."""
    removed, cursor = 0, 0
    while True:
        cursor, gone = await scripts.remove_unprocessed_children(
            client, keys.of(job_id), cursor=cursor
        )
        removed += gone
        if cursor == 0:
            return removed


async def wait_for_children(
    client: Client,
    keys: QueueKeys,
    job_id: str,
    token: str,
    *,
    child: str | None = None,
    deadline_ms: int | None = None,
) -> bool:
    """Move a job to `waiting-children`; False when there is nothing to wait for."""
    code = await scripts.move_to_waiting_children(
        client,
        keys,
        id=job_id,
        token=token,
        child=child or "",
        deadline_ms="" if deadline_ms is None else deadline_ms,
    )
    if code < 0:
        raise refusal(code, job_id)
    return code == 0


def parent_place(parent_key: str | None, parent: str | None) -> JobPlace | None:
    """The queue and id of a job's parent, from the job's hash."""
    if parent_key is None:
        return None
    try:
        known: Any = codec.decode(parent or "")
    except Malformed:
        known = None
    if isinstance(known, dict):
        known_parent = cast(dict[str, Any], known)
        if "id" in known_parent and "queueKey" in known_parent:
            return JobPlace(QueueKeys.at(str(known_parent["queueKey"])), str(known_parent["id"]))
    return place_of(parent_key)


def place_of(job_key: str, near: QueueKeys | None = None) -> JobPlace:
    """The queue and id of the job with this key; `near` is a queue that may share its prefix."""
    if near and job_key.startswith(f"{near.prefix}:"):
        name, _, job_id = job_key.removeprefix(f"{near.prefix}:").partition(":")
        return JobPlace(QueueKeys(name, prefix=near.prefix), job_id)
    qualified, _, job_id = job_key.rpartition(":")
    return JobPlace(QueueKeys.at(qualified), job_id)


def _decoded(kind: ChildKind, value: Any) -> Any:
    if kind == "failed":
        return int(float(value))
    if kind == "ignored":
        return value.decode("utf-8", "replace")
    return codec.decode_or_text(value)
