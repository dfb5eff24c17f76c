"""What a job asks of the script that adds it, beyond its turn in the line."""

from functools import lru_cache

import msgspec

from waystation.bullmq.options import FLAGS, Deduplication, JobOptions, Parent
from waystation.core import codec


class Wants(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The wishes by the names under which `add.lua` knows them."""

    id: str | None = None
    timestamp: int | None = None
    delay: int = 0
    priority: int = 0
    lifo: bool = False
    parent_key: str | None = None
    parent: str | None = None
    """The parent as the job's hash has it."""
    deduplication: Deduplication | None = None
    has_children: bool = False
    """The job waits for children that come with it."""


NOTHING = Wants()


@lru_cache(4096)
def wire_wants(options: JobOptions) -> bytes:
    """The wishes as the script reads them; empty for a job that asks for nothing but its turn."""
    wants = wants_of(options, parent=options.parent)
    return b"" if wants == NOTHING else codec.encode(wants)


def wants_of(
    options: JobOptions,
    *,
    parent: Parent | None,
    id: str | None = None,
    has_children: bool = False,
) -> Wants:
    """What a job with these options asks for, as the child of this parent."""
    return Wants(
        id=id or options.job_id,
        timestamp=options.timestamp,
        delay=options.delay,
        priority=options.priority,
        lifo=options.lifo,
        parent_key=parent and f"{parent.queue}:{parent.id}",
        parent=parent and codec.encode(_reference(options, parent)).decode(),
        deduplication=options.deduplication,
        has_children=has_children,
    )


def _reference(options: JobOptions, parent: Parent) -> dict[str, str | bool]:
    flags = {short: True for flag, short in FLAGS.items() if getattr(options, flag)}
    return {"id": parent.id, "queueKey": parent.queue, **flags}
