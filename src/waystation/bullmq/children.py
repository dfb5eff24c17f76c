"""What a job waits for, and who waits for it."""

from typing import Any, Literal, NamedTuple, TypeAlias, cast

from waystation.bullmq.redis import job_scripts
from waystation.bullmq.redis.commands import ask, ask_all
from waystation.bullmq.redis.keys import JobKeys, QueueKeys
from waystation.bullmq.redis.refusals import refusal
from waystation.bullmq.whole_job import WholeJob
from waystation.core import codec
from waystation.core.errors import LeaseLost, Malformed
from waystation.core.store.script import Client

ChildKind: TypeAlias = Literal["processed", "unprocessed", "ignored", "failed"]
"""Completed; not finished; failed without failing the parent; failed, and the parent with it."""


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
    """Where the next page begins; 0 behind the last."""


class JobPlace(NamedTuple):
    """Where a job is."""

    queue: QueueKeys
    id: str


class Dependencies:
    """The part of a job that is about its children and its parent."""

    __slots__ = ()

    async def get_dependencies(
        self: WholeJob, kind: ChildKind, *, cursor: int = 0, count: int = 100
    ) -> DependencyPage:
        """Some of its children; a page has about `count` of them, and no child is left out."""
        return await page(self.queue.client, self.keys, kind, cursor=cursor, count=count)

    async def dependency_counts(self: WholeJob) -> DependencyCounts:
        """How many children it has of each kind."""
        return await counts(self.queue.client, self.keys)

    async def children_values(self: WholeJob) -> dict[str, Any]:
        """What its completed children returned, by their keys."""
        return await values(self.queue.client, self.keys)

    async def ignored_children_failures(self: WholeJob) -> dict[str, str]:
        """Why children failed that did not make it fail, by their keys."""
        return await ignored_failures(self.queue.client, self.keys)

    async def failed_children(self: WholeJob) -> list[str]:
        """The keys of the children whose failure makes it fail, in that order."""
        return await failed_keys(self.queue.client, self.keys)

    async def remove_child_dependency(self: WholeJob) -> bool:
        """Let its parent wait for it no longer; False when it did not."""
        return await detach(self.queue.client, self.queue.keys, self.id)

    async def remove_unprocessed_children(self: WholeJob) -> int:
        """Remove the children that nobody has begun, with their own; how many jobs that were."""
        return await remove_unprocessed(self.queue.client, self.queue.keys, self.id)

    async def move_to_waiting_children(self: WholeJob, *, child: str | None = None) -> bool:
        """Leave it to wait for its children, or for the one with this key; the handler then
        raises `JobWaitingForChildren`. False when there is nothing to wait for."""
        if self.token is None:
            raise LeaseLost(f"job {self.id} is not held by a worker here")
        queue = self.queue
        return await wait_for_children(queue.client, queue.keys, self.id, self.token, child=child)


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
        return DependencyPage({each.decode(): None for each in found}, following)
    return DependencyPage(
        {child.decode(): _told(kind, value) for child, value in fields_of(found).items()}, following
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
    """What the completed children returned, by their keys."""
    found = await hash_at(client, keys.processed)
    return {child.decode(): _told("processed", value) for child, value in found.items()}


async def ignored_failures(client: Client, keys: JobKeys) -> dict[str, str]:
    """Why children failed whose failure counts as done."""
    found = await hash_at(client, keys.ignored)
    return {child.decode(): _told("ignored", reason) for child, reason in found.items()}


async def failed_keys(client: Client, keys: JobKeys) -> list[str]:
    """The children whose failure fails the parent."""
    found: list[bytes] = await ask(client, "ZRANGE", keys.unsuccessful, 0, -1)
    return [child.decode() for child in found]


async def detach(client: Client, keys: QueueKeys, job_id: str) -> bool:
    """Let the parent of a job wait for it no longer."""
    code = await job_scripts.remove_child_dependency(client, keys.of(job_id), base=keys.base)
    if code < 0:
        raise refusal(code, job_id)
    return code == 1


async def remove_unprocessed(client: Client, keys: QueueKeys, job_id: str) -> int:
    """Remove the children of a job that nobody has begun."""
    removed, cursor = 0, 0
    while True:
        cursor, gone = await job_scripts.remove_unprocessed_children(
            client, keys.of(job_id), base=keys.base, cursor=cursor
        )
        removed += gone
        if cursor == 0:
            return removed


async def wait_for_children(
    client: Client, keys: QueueKeys, job_id: str, token: str, *, child: str | None = None
) -> bool:
    """Leave a job to wait for its children; False when there is nothing to wait for."""
    code = await job_scripts.move_to_waiting_children(
        client, keys, base=keys.base, id=job_id, token=token, child=child or ""
    )
    if code < 0:
        raise refusal(code, job_id)
    return code == 0


def parent_place(parent_key: str | None, parent: str | None) -> JobPlace | None:
    """Where the parent of a job is, from what the job's hash says about it."""
    if parent_key is None:
        return None
    try:
        known: Any = codec.decode(parent or "")
    except Malformed:
        known = None
    if isinstance(known, dict):
        told = cast(dict[str, Any], known)
        if "id" in told and "queueKey" in told:
            return JobPlace(QueueKeys.at(str(told["queueKey"])), str(told["id"]))
    return place_of(parent_key)


def place_of(job_key: str, near: QueueKeys | None = None) -> JobPlace:
    """Where the job with this key is; `near` is a queue that may share its prefix."""
    if near and job_key.startswith(f"{near.prefix}:"):
        name, _, job_id = job_key.removeprefix(f"{near.prefix}:").partition(":")
        return JobPlace(QueueKeys(name, prefix=near.prefix), job_id)
    qualified, _, job_id = job_key.rpartition(":")
    return JobPlace(QueueKeys.at(qualified), job_id)


async def hash_at(client: Client, key: str) -> dict[bytes, bytes]:
    """All fields of a hash; none when there is no such key."""
    return fields_of(await ask(client, "HGETALL", key))


def fields_of(answer: Any) -> dict[bytes, Any]:
    """Fields and values, or members and scores, in whichever of its forms the client has them."""
    if isinstance(answer, dict):
        return cast(dict[bytes, Any], answer)
    found = cast(list[Any], answer)
    if found and isinstance(found[0], tuple):
        return dict(cast(list[tuple[bytes, Any]], found))
    return dict(zip(found[::2], found[1::2], strict=True))


def _told(kind: ChildKind, value: Any) -> Any:
    if kind == "failed":
        return int(float(value))
    if kind == "ignored":
        return value.decode("utf-8", "replace")
    return codec.decode_or_text(value)
