"""Transactional outbox: jobs written to a database, and moved to their queues exactly once.

A row is written in the transaction of what it belongs to, so that there is a job for every change
that was committed and for none that was not. Whoever moves rows adds the jobs first and deletes the
rows second. If it dies between the two, the next one adds them again, and the store refuses what it
has seen: each job carries the key of its row, which the store remembers also when the job is done
and gone, and for a while after its row is deleted, because another mover may have read the row
before. Only a job that somebody removes by hand in that time comes again.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from waystation.bullmq import Deduplication, JobKeywords, JobOptions, NewJob
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.bullmq.redis.packing import Packer, chunks, merged
from waystation.core.clock import SERVER_TIME
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.errors import (
    InvalidOption,
    NotReplicated,
    StoreBusy,
    StoreUnreachable,
    WaystationError,
    WrongState,
)
from waystation.core.store import faults
from waystation.core.store.client import place_of
from waystation.core.store.connection.address import parse
from waystation.core.telemetry.logs import describe, get_logger
from waystation.sync.client import BlockingClient
from waystation.tasks import Call
from waystation.tasks.task import tasks_of

_log = get_logger(__name__)

REMEMBERED = timedelta(days=30)
"""How long the store refuses a row that it has seen, if nobody could delete the row since."""
DELETED = timedelta(hours=1)
"""How long it refuses a row that is deleted, for movers that have read it and stand still."""
MOST_ROWS = 500
"""Rows that are moved in one transaction."""
_PASSED_OVER_S = 10.0
"""How long no look takes the rows of a queue that has refused one."""
_ENOUGH = 10
"""Refused rows after which no more of the same queue are tried."""


class OutboxRow(NamedTuple):
    """A job on its way to a queue, checked and encoded."""

    key: str
    queue: str
    """With its prefix, `shop:mail`, where that is another than the outbox's own."""
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
    if chosen.deduplication or chosen.parent or chosen.unique_for is not None:
        raise InvalidOption(
            "a job of an outbox has neither a deduplication nor unique_for nor a parent, because "
            "the store knows it by the key of its row"
        )
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


def row_of_call(call: Call[Any], relay: "Relay | None" = None) -> OutboxRow:
    """The row of a call of a task, which `bind` makes, and which goes where its tasks are."""
    tasks, job = tasks_of(call.task), call.new_job()
    if relay is not None and tasks.url is not None and not relay.leads_to(tasks.url):
        raise InvalidOption(
            f"{call.task.name} belongs to tasks of another store than the one that this outbox "
            "moves to: give both the same url"
        )
    row = row_of(call.task.queue, job.name, job.data, job.options)
    return row._replace(queue=QueueKeys(row.queue, prefix=tasks.prefix).qualified)


class Relay(BlockingClient):
    """Adds the jobs of rows to their queues."""

    def __init__(self, url: str | None = None, *, prefix: str = PREFIX) -> None:
        super().__init__(url)
        self._prefix = prefix
        self._refused_until: dict[str, float] = {}

    @property
    def passed_over(self) -> list[str]:
        """The queues that have refused a row just now, so that no look takes rows of theirs."""
        now = time.monotonic()
        # Of other threads, too, so nothing is removed from the table that is read.
        self._refused_until = {
            queue: until for queue, until in self._refused_until.copy().items() if until > now
        }
        return list(self._refused_until)

    def add(self, rows: Iterable[OutboxRow]) -> list[OutboxRow]:
        """Add the job of each row, unless the store has seen the row before; returns those rows.

        A queue that refuses some is passed over for a while; rows of others go. Nothing goes when
        the store cannot be reached or is busy.
        """
        by_queue = dict[str, list[OutboxRow]]()
        for row in rows:
            by_queue.setdefault(row.queue, []).append(row)
        # Who cannot connect at all learns it; a queue may still be one that nobody lets us into.
        self._store()
        gone: list[OutboxRow] = []
        for queue, some in by_queue.items():
            went, refused = self._added(queue, some)
            gone += went
            if refused:
                self._refused_until[queue] = time.monotonic() + _PASSED_OVER_S
                left = len(some) - len(went)
                _log.warning("outbox_refused", queue=queue, count=left, **describe(refused[0]))
        return gone

    def _added(
        self, queue: str, rows: Sequence[OutboxRow]
    ) -> tuple[list[OutboxRow], list[WaystationError]]:
        """The rows of a queue that went, and why others did not."""
        gone: list[OutboxRow] = []
        refused: list[WaystationError] = []
        waiting = deque([rows])
        while waiting and len(refused) < _ENOUGH:
            some = waiting.popleft()
            try:
                self._add_together(queue, some)
            except (StoreUnreachable, StoreBusy, NotReplicated):
                raise
            except WaystationError as error:
                # One row may be what is refused: the halves are tried until it is alone.
                half = len(some) // 2
                if half:
                    waiting.extendleft([some[half:], some[:half]])
                else:
                    refused.append(error)
            else:
                gone += some
        return gone, refused

    def _add_together(self, queue: str, rows: Sequence[OutboxRow]) -> None:
        client, keys = self._store().durable_client, self._keys(queue)
        packed = [
            (row.name.encode(), row.data.encode(), row.options.encode(), row.terms.encode())
            for row in rows
        ]
        for batch in chunks(packed):
            added = scripts.add.call_sync(
                client, keys, now=SERVER_TIME, jobs=[part for job in batch for part in job]
            )
            if refused := [each for each in added if isinstance(each, int)]:
                raise WrongState(f"{len(refused)} jobs of an outbox were refused by {queue}")

    def move(self, look: Callable[[list[str]], tuple[int, int]]) -> int:
        """Look until rows have gone or there are none; returns how many went.

        A look is given the queues that it passes over, and says how many rows it found and moved.
        """
        while True:
            found, moved = look(self.passed_over)
            # What was found may all be of queues that refuse, with rows of others behind it.
            if moved or not found:
                return moved

    def forget(self, rows: Sequence[OutboxRow]) -> None:
        """Let the store forget rows that are deleted, once no mover can have them any more."""
        with faults.translated(), self._store().client.pipeline(transaction=False) as pipeline:
            for row in rows:
                pipeline.pexpire(f"{self._keys(row.queue).base}de:{row.key}", DELETED)
            pipeline.execute()

    def leads_to(self, url: str) -> bool:
        """Whether jobs are added to the store at this URL."""
        ours, _ = place_of(self._url)
        return ours is not None and str(parse(ours)) == str(parse(url))

    def _keys(self, queue: str) -> QueueKeys:
        return QueueKeys.at(queue) if ":" in queue else QueueKeys(queue, prefix=self._prefix)
