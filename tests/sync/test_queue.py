"""The queue for code that waits."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, cast

import pytest
from redis import Redis as BlockingRedis

from tests.support.patience import LIMIT_S
from tests.sync.conftest import Serve
from waystation.bullmq import Job, JobOptions, NotAdded, Parent, Schedule
from waystation.errors import (
    InvalidInput,
    InvalidOption,
    JobFailed,
    NotFound,
    StoreUnreachable,
    WrongState,
)
from waystation.sync import FlowNode, FlowProducer, Queue, QueueEvents, StoreOptions, open_store


async def double(job: Job) -> Any:
    if job.data.get("fail"):
        raise ValueError("no")
    return 2 * job.data["n"]


def test_a_job_is_added_as_the_loop_would_add_it(queue: Queue) -> None:
    job = queue.add("send", {"to": "ada"}, attempts=5, delay=timedelta(hours=1))

    assert (job.id, job.name, job.data, job.options.attempts) == ("1", "send", {"to": "ada"}, 5)
    assert job.state() == queue.state("1") == "delayed"
    assert queue.counts("delayed") == {"delayed": 1}
    assert (queue.version() or "").startswith("bullmq:")
    job.promote()
    assert [each.id for each in queue.get_jobs("waiting")] == ["1"]


def test_many_jobs_are_added_in_order(queue: Queue) -> None:
    jobs = queue.add_many([("send", {"n": n}) for n in range(1000)])

    assert [job.id for job in jobs] == [str(n) for n in range(1, 1001)]
    assert queue.count() == 1000
    found = queue.get_job("17")
    assert found is not None
    assert found.data == {"n": 16}


def test_what_cannot_be_added_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidInput, match="attemps"):
        queue.add("send", {}, attemps=3)  # pyright: ignore[reportCallIssue]
    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        queue.add("send", object())
    with pytest.raises(NotFound, match="the parent of 'send' does not exist"):
        queue.add("send", {}, parent=Parent("9", "bull:mail"))
    orphan = ("send", None, JobOptions(parent=Parent("9", "bull:mail")))
    with pytest.raises(NotAdded) as refused:
        queue.add_many([("send", {}), orphan])
    assert list(refused.value.refused) == [1]
    assert queue.count() == 1


def test_results_are_waited_for(queue: Queue, serve: Serve) -> None:
    with serve(double):
        job = queue.add("double", {"n": 21})
        assert queue.wait(job.id, LIMIT_S) == 42
        assert job.wait(LIMIT_S) == 42
        failed = queue.add("double", {"fail": True}, attempts=1)
        with pytest.raises(JobFailed, match="no"):
            queue.wait(failed.id, LIMIT_S)


async def dictate(job: Job) -> str:
    for word in job.data["words"]:
        await job.emit(word)
    return (await job.wait_for("signed"))["by"]


def test_a_signal_is_sent_and_output_is_read(queue: Queue, serve: Serve) -> None:
    job = queue.add("dictate", {"words": ["dear", "ada"]})
    with serve(dictate):
        parts = queue.stream(job.id)
        first, second = next(parts), next(parts)
        assert (first.data, second.data) == ("dear", "ada")
        assert queue.signal(job.id, "signed", {"by": "bob"})
        assert list(parts) == []
        assert queue.wait(job.id, LIMIT_S) == "bob"
        assert [each.data for each in queue.stream(job.id, after=first.id)] == ["ada"]
        assert not queue.signal(job.id, "signed")
    with pytest.raises(NotFound, match="no job 99"):
        queue.signal("99", "signed")
    with pytest.raises(InvalidOption, match="a place is the id of a part"):
        queue.stream(job.id, "here")


def test_a_reader_learns_that_the_job_failed(queue: Queue, serve: Serve) -> None:
    job = queue.add("dictate", {}, attempts=1)
    with serve(dictate), pytest.raises(JobFailed, match="words"):
        list(queue.stream(job.id))


def test_the_end_of_a_job_that_is_removed_at_once_is_not_missed(
    queue: Queue, serve: Serve, redis_url: str
) -> None:
    job = queue.add("double", {"n": 21}, remove_on_complete=True)
    with ThreadPoolExecutor() as threads, BlockingRedis.from_url(redis_url) as client:
        waiting = threads.submit(queue.wait, job.id, LIMIT_S)
        while not any(each["cmd"] == "xread" for each in cast(Any, client.client_list())):
            assert not waiting.done()
            time.sleep(0.01)
        with serve(double):
            assert waiting.result() == 42
    assert job.state() == "unknown"


def test_waiting_ends_with_the_time_or_without_a_job(queue: Queue) -> None:
    job = queue.add("send")
    with pytest.raises(TimeoutError, match=r"job 1 has not finished within 0\.05 s"):
        queue.wait(job.id, 0.05)
    with pytest.raises(NotFound, match="there is no job 9"):
        queue.wait("9", LIMIT_S)


def test_events_are_heard_in_order(queue: Queue, redis_url: str) -> None:
    with QueueEvents("mail", redis_url) as events:
        stream = events.listen()
        queue.add("send", {"n": 1})
        queue.pause()
        names = [next(stream).name for _ in range(3)]
        again = queue.events(after="0")
        assert [next(again).name for _ in range(3)] == names
        with pytest.raises(InvalidOption, match="a position is"):
            events.listen("yesterday")
    assert names == ["added", "waiting", "paused"]


def test_a_job_can_be_changed_and_removed(queue: Queue) -> None:
    job = queue.add("send", {"n": 1})
    job.update_data({"n": 2})
    job.update_progress(50)
    job.log("hello")
    job.refresh()

    assert (job.data, job.progress, job.logs().lines) == ({"n": 2}, 50, ["hello"])
    assert queue.logs(job.id).total == 1
    job.remove()
    assert queue.get_job(job.id) is None
    with pytest.raises(WrongState):
        queue.add("send", job_id="one").retry()


def test_the_parts_of_a_queue_work(queue: Queue, serve: Serve) -> None:
    queue.schedulers.upsert("daily", Schedule(every=3600), name="send", data={"n": 1})
    assert [each.id for each in queue.schedulers.list()] == ["daily"]
    assert queue.schedulers.count() == 1
    assert queue.schedulers.get("nightly") is None
    assert queue.schedulers.remove("daily")

    queue.limits.set_concurrency(3)
    queue.limits.set_rate_limit(5, 60)
    assert queue.limits.get_concurrency() == 3
    assert not queue.limits.is_maxed()
    assert queue.limits.get_rate_limit() is not None
    queue.limits.remove_rate_limit()
    queue.limits.remove_concurrency()
    queue.limits.rate_limit(60)
    assert queue.limits.rate_limit_ttl() > timedelta(0)
    assert queue.limits.reset_rate_limit()

    with serve(double):
        failed = queue.add("double", {"fail": True}, attempts=1)
        with pytest.raises(JobFailed):
            failed.wait(LIMIT_S)
    assert [each.id for each in queue.dead_letters.list()] == [failed.id]
    assert queue.dead_letters.retry(failed.id) == 1
    assert queue.dead_letters.count() == queue.dead_letters.retry_all() == 0
    assert queue.dead_letters.purge() == 0


def test_a_queue_is_administered(queue: Queue) -> None:
    queue.add_many([("a", {}), ("b", {}, JobOptions(priority=2)), ("c", {}, JobOptions(delay=60))])

    assert queue.counts_per_priority([2]) == {2: 1}
    assert queue.promote_all() == 1
    queue.pause()
    assert queue.is_paused()
    queue.resume()
    assert queue.workers() == []
    assert queue.metrics("completed").total == 0
    assert "bullmq_job_count" in queue.prometheus_text()
    assert queue.forecast() is not None
    assert queue.remove_orphans() == []
    assert queue.retry_all() == queue.retry("1") == 0
    assert queue.cancel("1") == 1
    assert queue.clean(0, 0, "failed") == ["1"]
    assert queue.drain() == 2
    assert queue.get_deduplication_job_id("x") is None
    assert not queue.remove_deduplication_key("x")
    assert queue.trim_events(0) >= 0
    queue.obliterate(force=True)
    assert queue.meta() == {}


def test_flows_run_children_first(redis_url: str, queue: Queue, serve: Serve) -> None:
    async def total(job: Job) -> Any:
        return job.data.get("n") or sum((await job.children_values()).values())

    with FlowProducer(redis_url) as flows, serve(total):
        part = [FlowNode(name="part", queue="mail", data={"n": n}) for n in (1, 2)]
        tree = flows.add(FlowNode(name="total", queue="mail", children=part))
        assert tree.job.wait(LIMIT_S) == 3
        assert [each.job.wait(LIMIT_S) for each in tree.children] == [1, 2]
        found = flows.get_flow("mail", tree.job.id)
    assert found is not None
    assert len(found.children) == 2


def test_threads_share_a_queue(queue: Queue) -> None:
    begin = threading.Barrier(8)

    def add(n: int) -> str:
        if n < 8:
            begin.wait()
        queue.counts()
        return queue.add("send", {"n": n}).id

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(add, range(200)))
    assert len(set(ids)) == queue.count() == 200


async def test_code_on_a_loop_may_call_what_waits(queue: Queue) -> None:
    assert asyncio.get_running_loop()
    job = queue.add("send", {"n": 1})
    assert queue.count() == 1
    assert job.state() == "waiting"
    with pytest.raises(NotFound):
        queue.wait("9")


def test_a_closed_queue_and_a_store_that_is_away_say_so(redis_url: str) -> None:
    queue = Queue("mail", redis_url)
    queue.add("send")
    queue.close()
    with pytest.raises(StoreUnreachable, match="this Queue has been closed"):
        queue.add("send")
    with pytest.raises(StoreUnreachable, match="no store answers at redis://127"):
        Queue("mail", "redis://127.0.0.1:1").add("send")
    with pytest.raises(InvalidOption, match="given by its URL"):
        Queue("mail", 7)  # type: ignore[arg-type] # pyright: ignore


def test_many_queues_share_the_connections_of_one_store(redis_url: str) -> None:
    with open_store(redis_url, StoreOptions(client_name="shared")) as store:
        queues = [Queue(f"tenant-{n}", store) for n in range(50)]
        for queue in queues:
            queue.add("send", {"to": "ada"})
        queues[0].close()
        assert queues[1].counts("waiting") == {"waiting": 1}
        with BlockingRedis.from_url(redis_url, decode_responses=True) as other:
            clients = [each for each in other.client_list() if each["name"] == "shared"]
        assert len(clients) == 1
