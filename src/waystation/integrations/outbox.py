"""Transactional outbox: jobs written to a database, and moved to their queues exactly once.

A row is written in the transaction of what it belongs to, so that there is a job for every change
that was committed and for none that was not. Whoever moves rows adds the jobs first and deletes the
rows second. If it dies between the two, the next one adds them again, and the store refuses what it
has seen: each job carries the key of its row, which the store remembers also when the job is done
and gone. Only a job that somebody removes by hand in that moment comes again.
"""

import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from waystation.bullmq import Deduplication, JobKeywords, JobOptions, NewJob
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.packing import Packer, chunks, merged
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.errors import InvalidOption, WrongState
from waystation.core.line.server_time import SERVER_TIME
from waystation.core.store import faults
from waystation.sync.client import BlockingClient
from waystation.tasks import Call

REMEMBERED = timedelta(days=30)
"""How long the store refuses a row that it has seen, if nobody could delete the row since."""
MOST_ROWS = 500
"""Rows that are moved in one transaction."""


class OutboxRow(NamedTuple):
    """A job on its way to a queue, checked and encoded."""

    key: str
    queue: str
    name: str
    data: str
    options: str
    terms: str
    """What the store has to know when it takes the job."""

    @property
    def job_id(self) -> str:
        """The id that the job will have."""
        return msgspec.json.decode(self.terms)["id"]


def row_of(
    queue: str,
    name: str,
    data: Any = UNSET,
    options: JobOptions | None = None,
    given: JobKeywords | None = None,
) -> OutboxRow:
    """The row of a job that is to be added once its transaction is committed."""
    chosen = merged(options, given or {}, JobOptions())
    if chosen.deduplication is not None or chosen.parent is not None:
        raise InvalidOption("a job of an outbox has neither a deduplication nor a parent")
    key = f"outbox-{uuid.uuid4()}"
    QueueKeys(queue)
    stamped = msgspec.structs.replace(
        chosen,
        job_id=chosen.job_id or key,
        created_at=chosen.created_at or datetime.now(UTC),
        deduplication=Deduplication(key, ttl=REMEMBERED),
    )
    [packed] = Packer(stamped, PAYLOAD_LIMIT).pack([NewJob(name, data, stamped)])
    return OutboxRow(key, queue, *(part.decode() for part in packed))


def row_of_call(call: Call[Any]) -> OutboxRow:
    """The row of a call of a task, which `bind` makes."""
    job = call.new_job()
    return row_of(call.task.queue, job.name, job.data, job.options)


class Relay(BlockingClient):
    """Adds the jobs of rows to their queues."""

    def __init__(self, url: str | None = None, *, prefix: str = PREFIX) -> None:
        super().__init__(url)
        self._prefix = prefix

    def add(self, rows: Iterable[OutboxRow]) -> None:
        """Add the job of each row, unless the store has seen the row before."""
        client = self._store().durable_client
        for queue, some in groupby(rows, key=lambda row: row.queue):
            keys = QueueKeys(queue, prefix=self._prefix)
            packed = [
                (row.name.encode(), row.data.encode(), row.options.encode(), row.terms.encode())
                for row in some
            ]
            for batch in chunks(packed):
                added = scripts.add.call_sync(
                    client,
                    keys,
                    base=keys.base,
                    now=SERVER_TIME,
                    jobs=[part for job in batch for part in job],
                )
                if refused := [each for each in added if isinstance(each, int)]:
                    raise WrongState(f"{len(refused)} jobs of an outbox were refused by {queue}")

    def forget(self, rows: Sequence[OutboxRow]) -> None:
        """Let the store forget rows that are deleted, and so cannot come again."""
        for queue, some in groupby(rows, key=lambda row: row.queue):
            base = QueueKeys(queue, prefix=self._prefix).base
            names = [f"{base}de:{row.key}" for row in some]
            with faults.translated():
                self._store().client.execute_command("DEL", *names)
