"""Jobs of a Django site: added after the commit, or by way of the outbox."""

# Django has no types.
# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportMissingImports=false

from functools import cache
from typing import Any, Unpack

from django.db import connections, transaction
from msgspec import UNSET

from waystation.bullmq import JobKeywords, JobOptions
from waystation.bullmq.payloads.sealing import Sealing
from waystation.integrations.django import site
from waystation.integrations.django.models import Outbox
from waystation.integrations.outbox import MOST_ROWS, OutboxRow, Relay, row_of, row_of_call
from waystation.sync import Queue
from waystation.tasks import Call


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
    # Checked now, where the mistake is, and not after the commit.
    row_of(queue, name, data, options, given)
    transaction.on_commit(lambda: queue_of(queue).add(name, data, options, **given), using=using)


def enqueue_call(call: Call[Any], *, using: str | None = None) -> None:
    """Add a call of a task, which `bind` makes, once the current transaction is committed."""
    job = call.new_job()
    transaction.on_commit(
        # Tasks of our own have payload options of their own.
        lambda: _plain_queue_of(call.task.queue).add(job.name, job.data, job.options),
        using=using,
    )


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
    return _write(row_of_call(call), using)


def move_outbox(*, limit: int = MOST_ROWS, using: str | None = None) -> int:
    """Add the jobs of up to `limit` committed rows, and delete the rows; returns how many."""
    alias = using or "default"
    relay = _relay()
    with transaction.atomic(using=alias):
        wanted = Outbox.objects.using(alias).order_by("id")
        if connections[alias].features.has_select_for_update_skip_locked:
            wanted = wanted.select_for_update(skip_locked=True)
        rows = [OutboxRow(*row) for row in wanted.values_list(*OutboxRow._fields)[:limit]]
        if rows:
            relay.add(rows)
            moved = [row.key for row in rows]
            Outbox.objects.using(alias).filter(key__in=moved).delete()
    if rows:
        relay.forget(rows)
    return len(rows)


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
def _plain_queue_of(name: str) -> Queue:
    return Queue(name, site.url())
