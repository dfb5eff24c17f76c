"""The bridge from Celery and RQ: every message becomes one job, or stays and is reported."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from time import sleep
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID

import pytest
import rq
from celery import Celery, chain  # pyright: ignore[reportMissingTypeStubs]
from redis import Redis
from rq.serializers import JSONSerializer
from waystation_bring import Bridge, Brought, CeleryQueue, RqQueue, TaskMap

from tests.support.patience import LIMIT_S
from tests.support.project import ROOT
from waystation.cli import root
from waystation.core.store import embedded
from waystation.errors import InvalidOption, StoreUnreachable
from waystation.sync import Queue
from waystation.tasks import Tasks
from waystation.tasks.dispatch import arguments_of

ELSEWHERE = 7
"""A database of the same server, which counts as another store."""


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as opened:
        yield opened


@pytest.fixture
def elsewhere(redis_url: str) -> Iterator[str]:
    url = urlsplit(redis_url)._replace(path=f"/{ELSEWHERE}").geturl()
    with Redis.from_url(url) as opened:
        opened.flushdb()
        yield url
        opened.flushdb()


@pytest.fixture
def celery(redis_url: str) -> Iterator[Any]:
    yield from celery_at(redis_url)


def celery_at(url: str) -> Iterator[Any]:
    app: Any = Celery("shop", broker=url)
    app.conf.broker_transport_options = {"queue_order_strategy": "priority"}
    yield app
    app.close()


def brought(source: Any, url: str, **options: Any) -> Brought:
    steps = {name: options.pop(name) for name in ("dry_run", "limit") if name in options}
    with Bridge(source, url, **options) as bridge:
        return bridge.bring(**steps)


def shop() -> Tasks:
    tasks = Tasks()

    @tasks.task(queue="mail", retries=4)
    async def send(to: str, copies: int = 1) -> None: ...

    return tasks


class TestCelery:
    def test_messages_become_jobs_in_their_order(self, celery: Any, redis_url: str) -> None:
        sent = [celery.send_task("shop.send", ["ada", n], {"n": n}) for n in range(250)]

        found = brought(CeleryQueue(), redis_url)

        with Queue("celery", redis_url) as queue:
            jobs = queue.get_jobs("waiting", limit=500)
        assert found == ({"celery/send": 250}, [], "", None)
        assert [job.id for job in jobs] == [each.id for each in sent]
        assert jobs[7].data == {"args": ["ada", 7], "kwargs": {"n": 7}}

    def test_what_a_message_asks_for_is_asked_for_here(self, celery: Any, redis_url: str) -> None:
        later = datetime.now(UTC) + timedelta(hours=1)
        delayed = celery.send_task("shop.send", ["ada"], eta=later, expires=7200, time_limit=30)
        first = celery.send_task("shop.send", ["bob"], priority=0)
        last = celery.send_task("shop.send", ["eve"], priority=9, retries=2)

        found = brought(CeleryQueue(), redis_url, mapping=TaskMap(queue="mail"))

        assert found.jobs == {"mail/send": 3}
        with Queue("mail", redis_url) as queue:
            job = cast(Any, queue.get_job(delayed.id))
            assert queue.state(delayed.id) == "delayed"
            assert abs(job.created_at + job.delay - later) < timedelta(minutes=5)
            terms = job.options.raw["terms"]
            assert terms["timeout"] == 30_000
            assert terms["expiresAt"] > later.timestamp() * 1000
            assert cast(Any, queue.get_job(first.id)).priority == 0
            job = cast(Any, queue.get_job(last.id))
            assert (job.priority, job.options.attempts) == (9, 1)

    def test_tasks_get_their_arguments_by_name(self, celery: Any, redis_url: str) -> None:
        sent = celery.send_task("shop.tasks.send", ["ada"], {"copies": 2}, retries=1)
        odd = celery.send_task("shop.tasks.send", ["ada"], {"copies": "many"})
        other = celery.send_task("shop.tasks.resize", [1])

        found = brought(CeleryQueue(), redis_url, mapping=TaskMap(tasks=shop()))

        with Queue("mail", redis_url) as queue:
            job = cast(Any, queue.get_job(sent.id))
        assert (job.name, job.data, job.options.attempts) == ("send", {"to": "ada", "copies": 2}, 4)
        assert [each.id for each in found.left] == [odd.id, other.id]
        assert "does not fit" in found.left[0].reason
        assert found.left[1].reason == "there is no task resize"

    def test_arguments_are_what_celerys_workers_would_get(
        self, celery: Any, client: Redis, redis_url: str
    ) -> None:
        class Odd:
            def __json__(self) -> Any:
                return {"__type__": "complex", "__value__": "1j"}

        tasks = Tasks()

        @tasks.task(queue="mail")
        def typed(a: datetime, b: date, c: time, d: Decimal, e: UUID, f: bytes) -> None: ...

        values = [
            datetime(2026, 1, 1, 8, tzinfo=UTC),
            date(2026, 1, 2),
            time(8, 30),
            Decimal("1.50"),
            UUID(int=7),
            b"\xff\x00",
        ]
        sent = celery.send_task("shop.typed", values)
        odd = celery.send_task("shop.typed", [Odd()])

        found = brought(CeleryQueue(), redis_url, mapping=TaskMap(tasks=tasks))

        assert [(each.id, each.task, each.reason) for each in found.left] == [
            (odd.id, "shop.typed", "its arguments hold a 'complex' that cannot be read here")
        ]
        with Queue("mail", redis_url) as queue:
            job = cast(Any, queue.get_job(sent.id))
        assert list(arguments_of(typed, job.data).values()) == values

    def test_what_cannot_be_read_stays_and_is_reported(
        self, celery: Any, client: Redis, redis_url: str
    ) -> None:
        send: Any = celery.signature("shop.send", ["ada"])
        chain(send, send).apply_async()
        celery.send_task("shop.send", [1], link=send)
        celery.send_task("shop.send", [1], serializer="pickle")
        client.lpush("celery", b"\xff no JSON", b"[]", b'{"headers": {}}', b'{"body": 1}')
        before = client.lrange("celery", 0, -1)
        good = celery.send_task("shop.send", ["bob"])

        found = brought(CeleryQueue(), redis_url)

        assert client.lrange("celery", 0, -1) == before
        assert [each.reason for each in found.left] == [
            "it has a chain: let Celery's workers finish it",
            "it has a callback: let Celery's workers finish it",
            "its arguments are application/x-python-serialize, not application/json",
            "it is not JSON",
            "it is no message of Celery",
            "it is no message of Celery's protocol 2",
            "it is no message of Celery's protocol 2",
        ]
        assert [bool(each.task) for each in found.left] == [True] * 3 + [False] * 4
        with Queue("celery", redis_url) as queue:
            assert [job.id for job in queue.get_jobs()] == [good.id]

    def test_what_workers_held_comes_when_it_is_asked_for(
        self, celery: Any, client: Redis, redis_url: str
    ) -> None:
        sent = celery.send_task("shop.send", ["ada"])
        with celery.connection() as connection:
            # Taken, and never acknowledged: what a worker leaves behind that is killed.
            connection.SimpleQueue("celery").get(timeout=LIMIT_S)
            assert "1 held by Celery's workers" in brought(CeleryQueue(), redis_url).held
            found = brought(CeleryQueue(unacked=True), redis_url)
            assert found == ({"celery/send": 1}, [], "", None)
            assert client.exists("unacked", "unacked_index") == 0
        with Queue("celery", redis_url) as queue:
            assert [job.id for job in queue.get_jobs()] == [sent.id]
        assert client.llen("celery") == 0

    def test_another_prefix_and_another_name(self, redis_url: str, client: Redis) -> None:
        for app in celery_at(redis_url):
            app.conf.broker_transport_options = {"global_keyprefix": "shop:"}
            app.send_task("shop.send", ["ada"], queue="letters")

        mapping = TaskMap(names={"shop.send": "mail/deliver"})
        source = CeleryQueue("letters", key_prefix="shop:")
        assert brought(source, redis_url, mapping=mapping).jobs == {"mail/deliver": 1}
        assert client.exists("shop:letters") == 0


class TestRq:
    def test_jobs_become_jobs_in_their_order(self, client: Redis, redis_url: str) -> None:
        theirs = rq.Queue("default", connection=client)
        sent = [theirs.enqueue("shop.send", "ada", n, n=n) for n in range(250)]

        found = brought(RqQueue(), redis_url)

        with Queue("default", redis_url) as queue:
            jobs = queue.get_jobs("waiting", limit=500)
        assert found == ({"default/send": 250}, [], "", None)
        assert [job.id for job in jobs] == [each.id for each in sent]
        assert jobs[7].data == {"args": ["ada", 7], "kwargs": {"n": 7}}
        assert client.keys("rq:job:*") == []

    def test_what_a_job_asks_for_is_asked_for_here(self, client: Redis, redis_url: str) -> None:
        theirs = rq.Queue("default", connection=client, serializer=JSONSerializer)
        retry = rq.Retry(max=3, interval=[10, 60])
        later = datetime.now(UTC) + timedelta(hours=1)
        sent = theirs.enqueue("shop.send", "ada", retry=retry, job_timeout=30, ttl=7200)
        numbered = theirs.enqueue("shop.send", "bob", job_id="17")
        scheduled = theirs.enqueue_at(later, "shop.send", when=str(later))

        assert brought(RqQueue(), redis_url, mapping=TaskMap(queue="mail")).jobs.total() == 3

        with Queue("mail", redis_url) as queue:
            job = cast(Any, queue.get_job(sent.id))
            assert (job.options.attempts, job.options.backoff.delay) == (4, 10)
            terms = job.options.raw["terms"]
            assert terms["timeout"] == 30_000
            assert terms["expiresAt"] > later.timestamp() * 1000
            job = cast(Any, queue.get_job("RQ-17"))
            assert (job.options.attempts, numbered.id) == (1, "17")
            job = cast(Any, queue.get_job(scheduled.id))
            assert queue.state(job.id) == "delayed"
            assert abs(job.created_at + job.delay - later) < timedelta(minutes=5)

    def test_a_pickle_may_hold_plain_values_and_nothing_that_runs_code(
        self, client: Redis, redis_url: str
    ) -> None:
        theirs = rq.Queue("default", connection=client)
        day = datetime(2026, 11, 16, tzinfo=UTC)
        theirs.enqueue("shop.send", day, {"a": (1, 2)})
        theirs.enqueue("shop.send", Path("somewhere"))
        theirs.enqueue("os.system", "true")

        found = brought(RqQueue(), redis_url)

        assert found.jobs == {"default/send": 1, "default/system": 1}
        assert [each.reason for each in found.left] == [
            "its arguments hold a pickled pathlib.PosixPath"
        ]
        with Queue("default", redis_url) as queue:
            (job, _) = queue.get_jobs("waiting")
            assert job.data["args"] == ["2026-11-16T00:00:00Z", {"a": [1, 2]}]

    def test_what_cannot_be_read_stays_and_is_reported(self, client: Redis, redis_url: str) -> None:
        theirs = rq.Queue("default", connection=client)
        first = theirs.enqueue("shop.send")
        theirs.enqueue("shop.send", depends_on=first)
        theirs.enqueue("shop.send", on_success=rq.Callback("shop.done"))
        theirs.enqueue("shop.send", repeat=rq.Repeat(times=2))
        client.rpush("rq:queue:default", "gone")
        spoilt = theirs.enqueue("shop.send")
        client.hset(f"rq:job:{spoilt.id}", "data", b"\x80 no pickle")
        before = client.lrange("rq:queue:default", 0, -1)

        found = brought(RqQueue(), redis_url)

        assert client.lrange("rq:queue:default", 0, -1) == before
        assert [each.reason.partition(":")[0] for each in found.left] == [
            "other jobs depend on it",
            "it has callbacks",
            "it repeats",
            "its job is gone, or expired",
            "its arguments cannot be read",
        ]
        assert found.held == "1 that wait for other jobs"

    def test_a_number_beyond_all_times_keeps_no_other_job_back(
        self, client: Redis, redis_url: str
    ) -> None:
        theirs = rq.Queue("default", connection=client)
        odd, last, late, never = [theirs.enqueue("shop.send") for _ in range(4)]
        client.hset(f"rq:job:{odd.id}", "retry_intervals", f"[1{'0' * 400}]")
        for each, score in ((late, "1e12"), (never, "inf")):
            client.lrem("rq:queue:default", 1, each.id)
            client.zadd("rq:scheduled:default", {each.id: score})

        found = brought(RqQueue(), redis_url)

        with Queue("default", redis_url) as queue:
            assert [job.id for job in queue.get_jobs("waiting")] == [odd.id, last.id]
        assert [each.reason for each in found.left] == [
            "its time is no instant: 1000000000000.0",
            "its time is no instant: inf",
        ]

    def test_a_worker_of_theirs_and_the_bridge_share_the_queue(
        self, client: Redis, redis_url: str
    ) -> None:
        theirs = rq.Queue("default", connection=client)
        sent = [theirs.enqueue("builtins.len", "ada") for _ in range(60)]
        counts: list[int] = []
        bridge = threading.Thread(
            target=lambda: counts.append(brought(RqQueue(), redis_url).jobs.total())
        )
        before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        bridge.start()
        rq.SimpleWorker([theirs], connection=client).work(burst=True)
        bridge.join()
        for number, handler in before.items():
            signal.signal(number, handler)

        ran = {
            each.decode()
            for each in cast("list[bytes]", client.zrange("rq:finished:default", 0, -1))
        }
        with Queue("default", redis_url) as queue:
            ours = {job.id for job in queue.get_jobs("waiting", limit=100)}
        assert counts == [len(ours)]
        assert not ran & ours
        assert ran | ours == {each.id for each in sent}


class TestBothWays:
    """One store, and two."""

    def test_a_dry_run_moves_nothing(self, client: Redis, redis_url: str) -> None:
        theirs = rq.Queue("default", connection=client)
        for _ in range(3):
            theirs.enqueue("shop.send", "ada")
        before = sorted(cast("list[bytes]", client.keys("*")))

        assert brought(RqQueue(), redis_url, dry_run=True).jobs == {"default/send": 3}
        assert sorted(cast("list[bytes]", client.keys("*"))) == before

    def test_only_as_many_as_asked_for_are_moved(self, client: Redis, redis_url: str) -> None:
        theirs = rq.Queue("default", connection=client)
        for _ in range(5):
            theirs.enqueue("shop.send", "ada")
        assert brought(RqQueue(), redis_url, limit=2).jobs == {"default/send": 2}
        assert theirs.count == 3
        with pytest.raises(InvalidOption, match="limit must be at least 1"):
            brought(RqQueue(), redis_url, limit=0)

    @pytest.mark.parametrize("apart", [False, True])
    def test_an_id_that_is_taken_by_another_job_stays(
        self, redis_url: str, elsewhere: str, apart: bool
    ) -> None:
        place = elsewhere if apart else redis_url
        with Redis.from_url(place) as client, Queue("default", redis_url) as queue:
            rq.Queue("default", connection=client).enqueue("shop.send", job_id="report")
            queue.add("other", job_id="report")
            found = brought(RqQueue(), redis_url, from_url=place)
            assert [each.reason for each in found.left] == [
                "default has a job with the id report already"
            ]
            assert client.llen("rq:queue:default") == 1

    def test_what_was_added_and_not_taken_is_only_taken(
        self, redis_url: str, elsewhere: str
    ) -> None:
        with Redis.from_url(elsewhere) as client:
            theirs = rq.Queue("default", connection=client)
            sent = theirs.enqueue("shop.send", "ada")
            dump = {key: client.dump(key) for key in cast("list[bytes]", client.keys("rq:*"))}
            assert brought(RqQueue(), redis_url, from_url=elsewhere).jobs.total() == 1
            assert client.keys("rq:job:*") == []
            # As if it had died before it took the message, and before the store forgot it.
            with Queue("default", redis_url) as queue, Redis.from_url(redis_url) as ours:
                job = cast(Any, queue.get_job(sent.id))
                mark = cast(bytes, ours.hget(f"bull:default:{sent.id}", "deid"))
                ours.set(f"bull:default:de:{mark.decode()}", job.id)
                for key, value in dump.items():
                    client.restore(key, 0, cast(bytes, value), replace=True)
                assert brought(RqQueue(), redis_url, from_url=elsewhere).jobs.total() == 1
                assert [each.id for each in queue.get_jobs()] == [sent.id]
            assert client.keys("rq:job:*") == []

    def test_a_cluster_takes_what_another_server_had(self, client: Redis, redis_url: str) -> None:
        rq.Queue("default", connection=client).enqueue("shop.send", "ada")
        with embedded.cluster_node() as node:
            with Redis.from_url(node.url) as ours:
                ours.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                while b"cluster_state:ok" not in cast(
                    bytes, ours.execute_command("CLUSTER", "INFO")
                ):
                    sleep(0.01)
            url = node.url.replace("redis:", "redis+cluster:")
            found = brought(RqQueue(), url, from_url=redis_url, prefix="{bull}")
            assert found.jobs == {"default/send": 1}

    def test_a_store_that_is_away_leaves_everything(self, redis_url: str, client: Redis) -> None:
        theirs = rq.Queue("default", connection=client)
        theirs.enqueue("shop.send", "ada")
        with pytest.raises(StoreUnreachable):
            brought(RqQueue(), "redis://127.0.0.1:1", from_url=redis_url)
        assert theirs.count == 1


class TestCommand:
    """`waystation bring`, as a shell runs it."""

    SHOP = """
from waystation.tasks import Tasks

tasks = Tasks()

@tasks.task(queue="mail")
def send(to: str) -> None: ...
"""

    @pytest.fixture
    def called(
        self, tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Callable[..., int]]:
        (tmp_path / "bringing_shop.py").write_text(self.SHOP)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)

        def call(*words: str) -> int:
            with pytest.raises(SystemExit) as ended:
                root.run(["bring", *words])
            return int(ended.value.code or 0)

        yield call
        sys.modules.pop("bringing_shop", None)

    def test_it_says_what_it_did_and_what_stays(
        self,
        called: Callable[..., int],
        client: Redis,
        redis_url: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        theirs = rq.Queue("letters", connection=client)
        theirs.enqueue("shop.send", "ada")
        theirs.enqueue("shop.send", 7)
        theirs.enqueue("shop.post", "bob")
        words = ("rq", "letters", "--tasks", "bringing_shop:tasks", "--name", "shop.post=mail/send")

        assert called(*words, "--dry-run") == 1
        assert capsys.readouterr().out.startswith("letters: 2 would be brought, 1 stay\n")
        assert called(*words) == 1
        out = capsys.readouterr().out
        assert "2  mail/send" in out
        assert "shop.send: it does not fit the task" in out
        with Queue("mail", redis_url) as queue:
            assert [job.data for job in queue.get_jobs()] == [{"to": "ada"}, {"to": "bob"}]

    def test_celery_from_another_place(
        self, called: Callable[..., int], elsewhere: str, redis_url: str
    ) -> None:
        for app in celery_at(elsewhere):
            app.send_task("shop.send", ["ada"])
        assert called("celery", "--from", elsewhere, "--to", "mail") == 0
        with Queue("mail", redis_url) as queue:
            assert [job.name for job in queue.get_jobs()] == ["send"]

    @pytest.mark.parametrize("system", ["celery", "rq"])
    def test_a_queue_that_is_not_there_is_no_success(
        self,
        system: str,
        called: Callable[..., int],
        celery: Any,
        client: Redis,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        # Celery declares a queue once in a process, so it is another one for each test.
        name = f"known-{system}"
        if system == "celery":
            celery.send_task("shop.send", ["ada"], queue=name)
        else:
            rq.Queue(name, connection=client).enqueue("shop.send")

        assert called(system, "knwon") == 1
        assert f"has no queue knwon there; it has: {name}" in capsys.readouterr().err
        # One that is empty now is there.
        assert called(system, name) == 0
        assert called(system, name) == 0

    def test_jobs_of_tasks_go_where_their_workers_look(self, redis_url: str, client: Redis) -> None:
        tasks = Tasks(prefix="shop")

        @tasks.task(queue="mail")
        async def send(to: str) -> None: ...

        rq.Queue("letters", connection=client).enqueue("shop.send", "ada")
        brought(RqQueue("letters"), redis_url, mapping=TaskMap(tasks=tasks))

        with Queue("mail", redis_url, prefix="shop") as queue:
            assert [job.data for job in queue.get_jobs()] == [{"to": "ada"}]

    def test_wrong_words_are_refused(
        self, called: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert called("rq", "--name", "shop.send") == 2
        assert "task=name, got 'shop.send'" in capsys.readouterr().err


KILLED_CELERY = """
import sys
from celery import Celery
from redis import Redis
from waystation_bring import Bridge, CeleryQueue

client = Redis.from_url(sys.argv[3])

ROWS = 1

def rows(n):
    with Celery("shop", broker=sys.argv[3]) as app:
        for i in range(n):
            app.send_task("shop.send", [i], queue="mail")

def move():
    with Bridge(CeleryQueue("mail"), sys.argv[2], from_url=sys.argv[3]) as bridge:
        bridge.bring()

def left():
    return client.llen("mail")
"""
KILLED_RQ = """
import sys
import rq
from redis import Redis
from waystation_bring import Bridge, RqQueue

client = Redis.from_url(sys.argv[3])
theirs = rq.Queue("mail", connection=client)

ROWS = 1

def rows(n):
    for i in range(n):
        theirs.enqueue("shop.send", i)
    client.close()

def move():
    with Bridge(RqQueue("mail"), sys.argv[2], from_url=sys.argv[3]) as bridge:
        bridge.bring()

def left():
    return theirs.count
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("site", "apart"),
    [
        pytest.param(KILLED_CELERY, False, id="celery, one store", marks=pytest.mark.long),
        pytest.param(KILLED_CELERY, True, id="celery, two stores", marks=pytest.mark.long),
        pytest.param(KILLED_RQ, False, id="rq, one store", marks=pytest.mark.long),
        pytest.param(KILLED_RQ, True, id="rq, two stores", marks=pytest.mark.long),
        # Every third line, where everything is run.
        pytest.param(KILLED_RQ + "STEP = 3", True, id="rq, two stores, some lines"),
    ],
)
def test_there_are_as_many_jobs_as_messages_wherever_the_bridge_is_killed(
    site: str, apart: bool, tmp_path: Path, redis_url: str, elsewhere: str
) -> None:
    (tmp_path / "site_module.py").write_text(site)
    place = elsewhere if apart else redis_url
    ran = subprocess.run(
        [sys.executable, ROOT / "tests/integrations/kills.py", "site_module", redis_url, place],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * LIMIT_S,
    )
    assert ran.returncode == 0, ran.stderr
    _, messages = map(int, ran.stdout.split())
    with Redis.from_url(redis_url) as client:
        events = cast("list[Any]", client.xrange("bull:mail:events"))
        added = [fields[b"jobId"] for _, fields in events if fields[b"event"] == b"added"]
    assert len(added) == len(set(added)) == messages
