"""Movers that meet at one message or row: wherever one stands still, there is one job of it."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import rq
from redis import Redis
from redis.connection import AbstractConnection
from sqlalchemy import MetaData, NullPool, create_engine
from waystation_bring import Bridge, CeleryQueue, RqQueue, TaskMap

from tests.support.patience import LIMIT_S
from waystation import bullmq
from waystation.integrations.sqlalchemy import Outbox
from waystation.sync import Queue
from waystation.testing import run_until_empty

ELSEWHERE = 8
CELERY = (
    b'{"body": "W1tdLCB7fSwge31d", "content-type": "application/json", "headers": {"task": "send",'
    b' "id": "one"}, "properties": {"body_encoding": "base64"}}'
)


class Mover:
    """A move in a thread, which stands still before its nth call to a server."""

    def __init__(self, move: Callable[[], None], at: int) -> None:
        self._left = at
        self._move = move
        self.stands = threading.Event()
        self.goes_on = threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.mover = self  # pyright: ignore[reportAttributeAccessIssue]
        self.thread.start()
        assert self.stands.wait(LIMIT_S)

    def call(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.stands.set()
            assert self.goes_on.wait(LIMIT_S)

    def finish(self) -> bool:
        """Go on to the end; whether it stood still at all."""
        stood = self._left <= 0
        self.goes_on.set()
        self.thread.join(LIMIT_S)
        assert self.error is None, repr(self.error)
        return stood

    def _run(self) -> None:
        try:
            self._move()
        except BaseException as error:
            self.error = error
        self.stands.set()


@pytest.fixture(autouse=True)
def calls_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    send = cast(Any, AbstractConnection).send_packed_command

    def sent(self: Any, *args: Any, **given: Any) -> Any:
        mover = getattr(threading.current_thread(), "mover", None)
        if mover is not None:
            mover.call()
        return send(self, *args, **given)

    monkeypatch.setattr(AbstractConnection, "send_packed_command", sent)


class Place:
    """A message or a row, and how to move it."""

    def __init__(self, put: Callable[[], None], move: Callable[[], None]) -> None:
        self.put = put
        self.move = move


@contextmanager
def bridge(url: str, theirs: str, kind: str) -> Generator[Place]:
    with Redis.from_url(theirs) as client:

        def put() -> None:
            client.flushdb()
            if kind == "celery":
                client.lpush("mail", CELERY)
            else:
                rq.Queue("mail", connection=client).enqueue("shop.send", job_id="one")

        def move() -> None:
            source = CeleryQueue("mail") if kind == "celery" else RqQueue("mail")
            with Bridge(source, url, from_url=theirs) as opened:
                assert opened.bring().left == []

        yield Place(put, move)
        client.flushdb()


@contextmanager
def outbox(url: str, database: Path) -> Generator[Place]:
    # SQLite has no rows that others pass over, so all movers read the same.
    engine = create_engine(f"sqlite:///{database}", poolclass=NullPool)
    metadata = MetaData()
    made = Outbox(metadata, url)
    metadata.create_all(engine)

    def put() -> None:
        with engine.begin() as connection:
            made.add(connection, "mail", "send", job_id="one")

    def move() -> None:
        # One of its own, as another process has it.
        other = Outbox(MetaData(), url)
        other.move(engine)
        other.close()

    yield Place(put, move)
    made.close()


def finished(url: str) -> int:
    """Run and remove all jobs; how many there were."""
    ran: list[str] = []

    async def handle(job: bullmq.Job) -> None:
        ran.append(job.id)

    async def work() -> None:
        async with bullmq.Queue("mail", url) as queue:
            worker = bullmq.Worker("mail", handle, url, remove_on_complete=True)
            await run_until_empty(worker, queue, timeout=LIMIT_S)

    with Queue("mail", url) as queue:
        if queue.count():
            asyncio.run(work())
    return len(ran)


@pytest.mark.parametrize("kind", ["celery", "rq", "outbox"])
def test_movers_that_stand_still_anywhere_make_one_job(
    kind: str, redis_url: str, tmp_path: Path
) -> None:
    theirs = urlsplit(redis_url)._replace(path=f"/{ELSEWHERE}").geturl()
    opened = (
        outbox(redis_url, tmp_path / "shop.db")
        if kind == "outbox"
        else bridge(redis_url, theirs, kind)
    )
    with opened as place, Redis.from_url(redis_url) as ours:
        calls, at = 0, 1
        while True:
            ours.flushdb()
            place.put()
            first, second = Mover(place.move, at), Mover(place.move, max(1, at - 1))
            place.move()
            # What was moved is done and gone before the others go on, or only after.
            jobs = finished(redis_url) if at % 2 else 0
            stood = first.finish()
            second.finish()
            assert jobs + finished(redis_url) == 1, f"stood before call {at}"
            if not stood:
                break
            calls, at = calls + 1, at + 1
    assert calls > 3


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_queue_that_refuses_keeps_no_message_from_another(
    redis_url: str, is_shared: bool
) -> None:
    elsewhere = urlsplit(redis_url)._replace(path=f"/{ELSEWHERE}").geturl()
    theirs = redis_url if is_shared else elsewhere
    messages = [
        CELERY.replace(b'"send"', b'"%s"' % task).replace(b'"one"', b'"%d"' % n)
        for n, task in enumerate([b"shop.break", b"shop.send"] * 2)
    ]
    mapping = TaskMap(names={"shop.break": "broken/break"})
    with Redis.from_url(redis_url) as ours, Redis.from_url(theirs) as client:
        ours.set("bull:broken:wait", "no list")
        client.lpush("mail", *messages)
        source, given = CeleryQueue("mail"), None if is_shared else theirs
        with Bridge(source, redis_url, from_url=given, mapping=mapping) as bridge:
            found = bridge.bring()

        assert found.jobs == {"mail/send": 2}
        assert ["must hold a list" in each.reason for each in found.left] == [True, True]
        assert client.llen("mail") == 2
        client.flushdb()
