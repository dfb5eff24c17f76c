"""Outbox for SQLAlchemy: jobs in the transaction of what they belong to."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import UNSET

from waystation.bullmq import JobKeywords, JobOptions
from waystation.bullmq.redis.keys import PREFIX
from waystation.core.durations import Duration, seconds
from waystation.core.errors import StoreError
from waystation.core.telemetry.logs import describe, get_logger
from waystation.integrations.outbox import MOST_ROWS, OutboxRow, Relay, row_of, row_of_call
from waystation.tasks import Call

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Insert, MetaData, Table
    from sqlalchemy.orm import Session

_log = get_logger(__name__)
_MYSQL = ("mysql", "mariadb")


class Outbox:
    """A table of jobs that are added to their queues once their transaction is committed.

    `metadata` gets the table, so that `create_all` or your migrations make it. `move` adds the jobs
    of what was committed, each exactly once; call it after each commit, from a loop, or both.
    """

    def __init__(
        self,
        metadata: "MetaData",
        url: str | None = None,
        *,
        prefix: str = PREFIX,
        table: str = "waystation_outbox",
    ) -> None:
        self.table = _table(table, metadata)
        """The table, for migrations and queries."""
        self._relay = Relay(url, prefix=prefix)

    def add(
        self,
        session: "Session | Connection",
        queue: str,
        name: str,
        data: Any = UNSET,
        options: JobOptions | None = None,
        **given: Unpack[JobKeywords],
    ) -> str:
        """Write a job in the session's transaction; returns the id that it will have."""
        row = row_of(queue, name, data, options, given)
        session.execute(self._insert(row))
        return row.job_id

    def add_call(self, session: "Session | Connection", call: Call[Any]) -> str:
        """Write a call of a task, which `bind` makes; returns the id that its job will have."""
        row = row_of_call(call, self._relay)
        session.execute(self._insert(row))
        return row.job_id

    def statement(self, call: Call[Any]) -> "Insert":
        """The statement that writes a call, for `await session.execute(…)`."""
        return self._insert(row_of_call(call, self._relay))

    def move(self, engine: "Engine", *, limit: int = MOST_ROWS) -> int:
        """Add the jobs of up to `limit` committed rows, and delete the rows; returns how many.

        Rows that their queue refuses stay, and are tried again after a while.
        """
        return self._relay.move(lambda passed_over: self._look(engine, limit, passed_over))

    def _look(self, engine: "Engine", limit: int, passed_over: list[str]) -> tuple[int, int]:
        from sqlalchemy import delete, select

        columns = self.table.c
        wanted = select(*(columns[name] for name in OutboxRow._fields)).order_by(columns.id)
        if passed_over:
            wanted = wanted.where(columns.queue.not_in(passed_over))
        if engine.dialect.name in _MYSQL:
            # Else the gap behind the last row is locked, and nobody adds one until this has ended.
            engine = engine.execution_options(isolation_level="READ COMMITTED")
        with engine.begin() as connection:
            # Others that move at the same time take other rows, where the database can.
            found = connection.execute(wanted.limit(limit).with_for_update(skip_locked=True))
            rows = [OutboxRow(*row) for row in found]
            gone = self._relay.add(rows) if rows else []
            if gone:
                moved = [row.key for row in gone]
                connection.execute(delete(self.table).where(columns.key.in_(moved)))
        if gone:
            self._relay.forget(gone)
        return len(rows), len(gone)

    def run(
        self, engine: "Engine", *, every: Duration = 1.0, stop: threading.Event | None = None
    ) -> None:
        """Move rows until `stop` is set, and look again after a pause when there are none."""
        stop, pause = stop or threading.Event(), seconds(every, "every", above=0)
        while not stop.is_set():
            if not _moved(lambda: self.move(engine)):
                stop.wait(pause)

    def close(self) -> None:
        """Close the connections to the store."""
        self._relay.close()

    def _insert(self, row: OutboxRow) -> "Insert":
        return self.table.insert().values(**row._asdict())


def _moved(move: Callable[[], int]) -> int:
    from sqlalchemy.exc import InterfaceError, OperationalError

    try:
        return move()
    except (StoreError, OperationalError, InterfaceError) as error:
        # The rows stay; they are moved when the store, or the database, is back.
        _log.warning("outbox_not_moved", **describe(error))
        return 0


def _table(name: str, metadata: "MetaData") -> "Table":
    from sqlalchemy import BigInteger, Column, Integer, String, Table, Text
    from sqlalchemy.dialects.mysql import LONGTEXT

    # MySQL's TEXT has 64 KB.
    text = Text().with_variant(LONGTEXT(), *_MYSQL)
    return Table(
        name,
        metadata,
        Column(
            "id",
            # SQLite counts only by a plain integer.
            BigInteger().with_variant(Integer, "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        Column("key", String(64), nullable=False, unique=True),
        Column("queue", String(255), nullable=False),
        Column("name", text, nullable=False),
        Column("data", text, nullable=False),
        Column("options", text, nullable=False),
        Column("terms", text, nullable=False),
    )
