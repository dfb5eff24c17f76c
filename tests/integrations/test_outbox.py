"""The outbox: as many jobs as committed rows, whenever its mover dies."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis as BlockingRedis
from sqlalchemy import Engine, MetaData, create_engine, func, select
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateTable

from tests.support.patience import LIMIT_S
from tests.support.project import ROOT
from waystation.bullmq import Deduplication
from waystation.errors import InvalidInput, InvalidOption, StoreUnreachable
from waystation.integrations.sqlalchemy import Outbox
from waystation.sync import Queue
from waystation.tasks import Tasks

SQLALCHEMY = """
import sys
from sqlalchemy import MetaData, NullPool, create_engine, func, select
from waystation.integrations.sqlalchemy import Outbox

metadata = MetaData()
outbox = Outbox(metadata, sys.argv[2])
engine = create_engine("sqlite:///outbox.db", poolclass=NullPool)
metadata.create_all(engine)

def rows(n):
    with engine.begin() as connection:
        for i in range(n):
            outbox.add(connection, "mail", "send", {"i": i})

def move():
    outbox.move(engine)

def left():
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(outbox.table))
"""
DJANGO = """
import sys
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    INSTALLED_APPS=["waystation.integrations.django"],
    DATABASES={
        name: {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{name}.db"}
        for name in ("default", "other")
    },
    TASKS={
        "default": {
            "BACKEND": "waystation.integrations.django.backend.WaystationBackend",
            "OPTIONS": {"add": "outbox", "using": "other"},
        }
    },
    WAYSTATION_URL=sys.argv[2],
    USE_TZ=True,
)
django.setup()
for each in ("default", "other"):
    call_command("migrate", database=each, verbosity=0)
call_command("makemigrations", "waystation", check=True, dry_run=True, verbosity=0)

from django.db import connection, transaction
from waystation.integrations.django.jobs import (
    call_to_outbox, enqueue, enqueue_call, move_outbox, to_outbox
)
from waystation.integrations.django.models import Outbox
from waystation.sync import Queue

def rows(n):
    with transaction.atomic():
        for i in range(n):
            to_outbox("mail", "send", {"i": i})
    connection.close()

def move():
    move_outbox()
    connection.close()

def left():
    return Outbox.objects.count()
"""
ON_COMMIT = """
import sys
import pytest
import redis
import site_module as site
from django.core.management import call_command
from waystation.errors import InvalidInput
from waystation.tasks import Tasks

queue = Queue("mail", sys.argv[2])
with site.transaction.atomic():
    site.enqueue("mail", "send", {"n": 1}, priority=3)
    assert queue.count() == 0
assert queue.count() == 1
try:
    with site.transaction.atomic():
        site.enqueue("mail", "send", {"n": 2})
        site.to_outbox("mail", "send", {"n": 3})
        raise ValueError
except ValueError:
    pass
assert (queue.count(), site.left()) == (1, 0)
with pytest.raises(InvalidInput), site.transaction.atomic():
    site.enqueue("mail", "send", object())
# What is added is what was given, whatever becomes of it until the commit.
changed, changes = {}, Queue("changes", sys.argv[2])
with site.transaction.atomic():
    for n in range(3):
        changed["n"] = n
        site.enqueue("changes", "send", changed)
        site.to_outbox("changes", "send", changed)
site.move_outbox()
assert sorted(job.data["n"] for job in changes.get_jobs()) == [0, 0, 1, 1, 2, 2]
assert site.to_outbox("mail", "send", {"n": 4}, job_id="four") == "four"
call_command("waystation_outbox", once=True)
assert queue.get_job("four").data == {"n": 4}
assert (queue.count(), site.left()) == (2, 0)

tasks = Tasks()

@tasks.task(queue="mail", priority=2)
def send(to: str) -> None: ...

with site.transaction.atomic():
    site.enqueue_call(send.with_options(job_id="five").bind(to="ada"))
    six = site.call_to_outbox(send.bind(to="bob"))
    assert queue.count() == 2
assert (queue.count(), site.left()) == (3, 1)
assert site.move_outbox() == 1
five = queue.get_job("five")
assert (five.name, five.data, five.priority) == ("send", {"to": "ada"}, 2)
assert queue.get_job(six).data == {"to": "bob"}

# Calls go where the workers of their tasks look for them.
shop = Tasks(sys.argv[2], prefix="shop")

@shop.task(queue="mail")
def pack(n: int) -> None: ...

with site.transaction.atomic():
    site.enqueue_call(pack.bind(1))
    site.call_to_outbox(pack.bind(2))
call_command("waystation_outbox", once=True)
assert [job.data for job in shop.sync.queue("mail").get_jobs()] == [{"n": 1}, {"n": 2}]

# Rows of a queue that refuses stay; the others go, however many of those stand before them.
with redis.Redis.from_url(sys.argv[2]) as client:
    client.set("bull:broken:wait", "no list")
for queue in ("broken", "broken", "mail"):
    site.to_outbox(queue, "send", {}, job_id=f"last {queue}")
assert site.move_outbox(limit=1) == 1
assert Queue("mail", sys.argv[2]).get_job("last mail") is not None
assert (site.move_outbox(), site.left()) == (0, 2)
site.Outbox.objects.all().delete()

# Rows of another database are moved as well, if a backend of TASKS writes there.
def others():
    return site.Outbox.objects.using("other").count()

site.to_outbox("mail", "send", {}, using="other")
call_command("waystation_outbox", once=True)
assert others() == 0
site.to_outbox("mail", "send", {}, using="other")
call_command("waystation_outbox", once=True, database=["default"])
assert others() == 1
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path}/shop.db")
    yield made
    made.dispose()


@pytest.fixture
def outbox(engine: Engine, redis_url: str) -> Iterator[Outbox]:
    metadata = MetaData()
    made = Outbox(metadata, redis_url)
    metadata.create_all(engine)
    yield made
    made.close()


def left(outbox: Outbox, engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(outbox.table)) or 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "site",
    [
        pytest.param(SQLALCHEMY, id="sqlalchemy"),
        pytest.param(DJANGO, id="django", marks=pytest.mark.long),
    ],
)
def test_there_are_as_many_jobs_as_rows_wherever_the_mover_is_killed(
    site: str, tmp_path: Path, redis_url: str
) -> None:
    (tmp_path / "site_module.py").write_text(site)
    ran = subprocess.run(
        [sys.executable, ROOT / "tests/integrations/kills.py", "site_module", redis_url],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LIMIT_S,
    )
    assert ran.returncode == 0, ran.stderr
    lines, rows = map(int, ran.stdout.split())
    with BlockingRedis.from_url(redis_url) as client:
        events = cast("list[Any]", client.xrange("bull:mail:events"))
        added = [fields[b"jobId"] for _, fields in events if fields[b"event"] == b"added"]
        keys = cast("list[Any]", client.keys("bull:mail:de:*"))
        lives = [client.ttl(key) for key in keys]
    assert lines > 10
    assert len(added) == len(set(added)) == rows
    # Keys of rows that are deleted are kept a while, for movers that have read them.
    assert sum(life > 3600 for life in lives) < rows / 2


def test_django_adds_after_the_commit_and_never_without(tmp_path: Path, redis_url: str) -> None:
    (tmp_path / "site_module.py").write_text(DJANGO)
    program = "from waystation.sync import Queue\n" + ON_COMMIT
    ran = subprocess.run(
        [sys.executable, "-c", program, "site_module", redis_url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert ran.returncode == 0, ran.stderr


def test_a_job_is_added_when_its_transaction_is_committed(
    outbox: Outbox, engine: Engine, redis_url: str
) -> None:
    tasks = Tasks()

    @tasks.task(queue="mail", priority=2)
    async def send(to: str) -> None: ...

    with Session(engine) as session, session.begin():
        key = outbox.add(session, "mail", "send", {"to": "ada"}, attempts=7)
        outbox.add_call(session, send.bind(to="bob"))
        session.execute(outbox.statement(send.bind(to="eve")))
        assert outbox.add(session, "sms", "text", job_id="mine") == "mine"
        with_id = outbox.add_call(session, send.with_options(job_id="call").bind(to="joe"))
    with Session(engine) as session:
        outbox.add(session, "mail", "send", {"to": "nobody"})
        session.rollback()

    assert with_id == "call"
    assert outbox.move(engine) == 5
    assert outbox.move(engine) == left(outbox, engine) == 0
    with Queue("mail", redis_url) as mail, Queue("sms", redis_url) as sms:
        job = mail.get_job(key)
        assert job is not None
        assert (job.data, job.options.attempts) == ({"to": "ada"}, 7)
        assert [each.data["to"] for each in mail.get_jobs()] == [
            "ada",
            "bob",
            "eve",
            "joe",
        ]
        assert sms.get_job("mine") is not None


def test_what_cannot_become_a_job_is_refused_in_the_transaction(
    outbox: Outbox, engine: Engine
) -> None:
    with Session(engine) as session:
        with pytest.raises(InvalidInput):
            outbox.add(session, "mail", "send", object())
        for wish in ({"deduplication": Deduplication("x")}, {"unique_for": 60}):
            with pytest.raises(InvalidOption, match="neither a deduplication nor unique_for nor"):
                outbox.add(session, "mail", "send", {}, **cast(Any, wish))


@pytest.mark.parametrize("url", [False, True])
def test_a_call_goes_where_its_tasks_are_or_is_refused(
    url: bool, outbox: Outbox, engine: Engine, redis_url: str
) -> None:
    tasks = Tasks(redis_url if url else None, prefix="shop")
    away = Tasks("redis://127.0.0.1:1")

    @tasks.task(queue="mail")
    def send(to: str) -> None: ...

    @away.task(queue="mail")
    def lost() -> None: ...

    with engine.begin() as connection:
        outbox.add_call(connection, send.bind(to="ada"))
        connection.execute(outbox.statement(send.bind(to="bob")))
        with pytest.raises(InvalidOption, match="belongs to tasks of another store"):
            outbox.add_call(connection, lost.bind())
    outbox.move(engine)

    with Queue("mail", redis_url, prefix="shop") as queue:
        assert [job.data["to"] for job in queue.get_jobs()] == ["ada", "bob"]


def test_a_payload_of_any_size_fits_into_mysql() -> None:
    table = Outbox(MetaData(), "redis://127.0.0.1:1").table

    written = str(CreateTable(table).compile(dialect=mysql.dialect()))

    assert written.count("LONGTEXT") == 4
    assert " TEXT" not in written


def test_rows_stay_while_the_store_is_away(engine: Engine) -> None:
    metadata = MetaData()
    outbox = Outbox(metadata, "redis://127.0.0.1:1")
    metadata.create_all(engine)
    with engine.begin() as connection:
        outbox.add(connection, "mail", "send", {})

    with pytest.raises(StoreUnreachable):
        outbox.move(engine)
    assert left(outbox, engine) == 1


def test_rows_of_a_queue_that_refuses_stay_and_the_others_go(
    outbox: Outbox,
    engine: Engine,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = BlockingRedis.from_url(redis_url)
    client.set("bull:broken:wait", "no list")
    with engine.begin() as connection:
        for _ in range(30):
            outbox.add(connection, "broken", "send", {})
        for n in range(3):
            outbox.add(connection, "mail", "send", {"n": n})

    # Whether all of them are in one look or the first looks find none but refused ones.
    assert outbox.move(engine, limit=7) == 3
    assert outbox.move(engine) == 0
    assert left(outbox, engine) == 30
    assert "outbox_refused" in caplog.text
    assert "WRONG_TYPE" in caplog.text

    client.delete("bull:broken:wait")
    client.close()
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert outbox.move(engine) == 30
    with Queue("broken", redis_url) as queue:
        assert queue.count() == 30


def test_a_row_that_is_refused_holds_up_no_other_of_its_queue(
    outbox: Outbox, engine: Engine, redis_url: str
) -> None:
    with BlockingRedis.from_url(redis_url) as client:
        client.set("bull:mail:delayed", "no sorted set")
    with engine.begin() as connection:
        for _ in range(5):
            outbox.add(connection, "mail", "send", {})
        outbox.add(connection, "mail", "send", {}, delay=60)
        for n in range(5):
            outbox.add(connection, "mail", "send", {}, job_id=f"after {n}")

    assert outbox.move(engine) == 10
    assert left(outbox, engine) == 1


@contextlib.contextmanager
def moving(outbox: Outbox, engine: Engine) -> Generator[threading.Thread]:
    """A thread that moves rows until the block ends."""
    stop = threading.Event()
    mover = threading.Thread(target=lambda: outbox.run(engine, every=0.01, stop=stop))
    mover.start()
    try:
        yield mover
    finally:
        stop.set()
        mover.join()


def becomes_a_job(outbox: Outbox, engine: Engine, redis_url: str, mover: threading.Thread) -> None:
    """Add a row, and wait until the mover has made a job of it."""
    with engine.begin() as connection:
        key = outbox.add(connection, "mail", "send", {})
    with Queue("mail", redis_url) as queue:
        while queue.get_job(key) is None:
            assert mover.is_alive()


def test_a_loop_moves_until_it_is_stopped(outbox: Outbox, engine: Engine, redis_url: str) -> None:
    with moving(outbox, engine) as mover:
        becomes_a_job(outbox, engine, redis_url, mover)


def test_a_loop_goes_on_when_the_database_was_away(
    outbox: Outbox, engine: Engine, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    outbox.table.drop(engine)
    with moving(outbox, engine) as mover:
        while "outbox_not_moved" not in caplog.text:
            assert mover.is_alive()
        outbox.table.create(engine)
        becomes_a_job(outbox, engine, redis_url, mover)
