"""Jobs of a Django site: added after the commit, or by way of the outbox."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

from functools import cache
from typing import Any, Unpack

from django.db import connections, transaction
from msgspec import UNSET

from waystation.bullmq import JobKeywords, JobOptions, NewJob
from waystation.bullmq.payloads.sealing import Sealing
from waystation.bullmq.redis.packing import Packer, merged
from waystation.core.codec import PAYLOAD_LIMIT, decode
from waystation.integrations.django import site
from waystation.integrations.django.models import Outbox
from waystation.integrations.outbox import MOST_ROWS, OutboxRow, Relay, row_of, row_of_call
from waystation.sync import Queue
from waystation.tasks import Call
from waystation.tasks.task import tasks_of


def enqueue(
    queue: str,
    name: str,
    data: Any = UNSET,
    options: JobOptions | None = None,
    *,
    using: str | None = None,
    **given: Unpack[JobKeywords],
) -> None:
    """Add a job once the current transaction is committed; at once when there is none.

    A process that dies between the commit and the addition loses the job; `to_outbox` does not.
    """
    chosen = merged(options, given, JobOptions())
    to = queue_of(queue)
    # Checked and written now, where the mistake is, and before anybody changes the data.
    [(_, written, *_)] = Packer(chosen, PAYLOAD_LIMIT).pack([NewJob(name, data, chosen)])
    copy = decode(written)
    transaction.on_commit(lambda: to.add(name, copy, chosen), using=using)


def enqueue_call(call: Call[Any], *, using: str | None = None) -> None:
    """Add a call of a task, which `bind` makes, once the current transaction is committed."""
    job, tasks = call.new_job(), tasks_of(call.task)
    # What a call carries has been sealed, if its tasks have payload options.
    to = _plain_queue_of(call.task.queue, tasks.url or site.url(), tasks.prefix)
    transaction.on_commit(lambda: to.add(job.name, job.data, job.options), using=using)


def to_outbox(
    queue: str,
    name: str,
    data: Any = UNSET,
    options: JobOptions | None = None,
    *,
    using: str | None = None,
    **given: Unpack[JobKeywords],
) -> str:
    """Write a job in the current transaction; returns the id that it will have."""
    if (payloads := site.payloads()) is not None:
        data = Sealing(payloads).sealed(queue, {} if data is UNSET else data)
    return _write(row_of(queue, name, data, options, given), using)


def call_to_outbox(call: Call[Any], *, using: str | None = None) -> str:
    """Write a call of a task, which `bind` makes; returns the id that its job will have."""
    return _write(row_of_call(call, _relay()), using)


def move_outbox(*, limit: int = MOST_ROWS, using: str | None = None) -> int:
    """Add the jobs of up to `limit` committed rows, and delete the rows; returns how many.

    Rows that their queue refuses stay, and are tried again after a while.
    """
    return _relay().move(lambda passed_over: _look(using or "default", limit, passed_over))


def _look(alias: str, limit: int, passed_over: list[str]) -> tuple[int, int]:
    relay = _relay()
    with transaction.atomic(using=alias):
        wanted = Outbox.objects.using(alias).exclude(queue__in=passed_over).order_by("id")
        if connections[alias].features.has_select_for_update_skip_locked:
            wanted = wanted.select_for_update(skip_locked=True)
        rows = [OutboxRow(*row) for row in wanted.values_list(*OutboxRow._fields)[:limit]]
        gone = relay.add(rows) if rows else []
        if gone:
            moved = [row.key for row in gone]
            Outbox.objects.using(alias).filter(key__in=moved).delete()
    if gone:
        relay.forget(gone)
    return len(rows), len(gone)


def _write(row: OutboxRow, using: str | None) -> str:
    Outbox.objects.using(using or "default").create(**row._asdict())
    return row.job_id


@cache
def _relay() -> Relay:
    return Relay(site.url())


@cache
def queue_of(name: str) -> Queue:
    """A queue of the site's store, whose connections all threads share. Internal."""
    return Queue(name, site.url(), payloads=site.payloads())


@cache
def _plain_queue_of(name: str, url: str | None, prefix: str) -> Queue:
    return Queue(name, url, prefix=prefix)
