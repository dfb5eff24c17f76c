"""What is no job ends with a reason, and the list moves on."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.files.harness import Harness
from tests.laws.any_json import json_of
from tests.support.patience import LIMIT_S
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.core.telemetry.metrics import Metrics
from waystation.files import job as jobs
from waystation.files.directory.scan import ScanOptions, Skip
from waystation.files.handlers import Handlers
from waystation.files.metrics import Meter
from waystation.files.options import WorkerOptions
from waystation.files.producer import Producer, ProducerOptions
from waystation.files.queue import Queue
from waystation.files.redis import scripts
from waystation.files.upkeep import UnmatchedSweep
from waystation.files.worker import Worker

POISON = b'{"id": 7, "filepath": '


async def test_a_poison_payload_ends_as_a_dead_letter_and_others_go_on(harness: Harness) -> None:
    await harness.redis.lpush(harness.keys.queues[1], POISON)
    id = await harness.add()
    metrics = Metrics()
    source = harness.source(meter=Meter(metrics, harness.keys.queues))
    (claim,) = (await source.settle([], claim=5)).claims
    assert claim.id == id
    await source.settle([Settled(claim, Done())], claim=5)

    assert await harness.redis.lrange(harness.keys.dead_letter, 0, -1) == [POISON]
    meta = json.loads(
        await harness.redis.hget(harness.keys.dead_letter_meta, jobs.poison_id(POISON))
    )
    assert meta["reason"] == "MALFORMED"
    assert await harness.redis.llen(harness.keys.of(source.worker).processing) == 0
    assert 'reason="MALFORMED"} 1.0' in metrics.expose().decode()


async def test_a_queue_of_nothing_but_poison_does_not_make_the_worker_wait(
    harness: Harness,
) -> None:
    harness.set(poll=30.0)
    await harness.redis.lpush(harness.keys.queues[1], *[POISON + b"%d" % n for n in range(5)])
    source = harness.source()
    for _ in range(6):
        assert not (await source.settle([], claim=1)).claims
        await source.wait(30)
        if await harness.redis.llen(harness.keys.dead_letter) == 5:
            break
    assert await harness.redis.llen(harness.keys.dead_letter) == 5


async def test_poison_left_by_a_dead_worker_ends_as_a_dead_letter(harness: Harness) -> None:
    await harness.redis.sadd(harness.keys.workers, "w1")
    await harness.redis.lpush(harness.keys.of("w1").processing, POISON)
    assert await harness.reaper().reap() == 1
    assert await harness.redis.lrange(harness.keys.dead_letter, 0, -1) == [POISON]


async def test_poison_is_filed_when_the_worker_leaves_right_after(harness: Harness) -> None:
    await harness.redis.lpush(harness.keys.queues[1], POISON)
    source = harness.source()
    await source.settle([], claim=5)
    await source.close()
    assert await harness.redis.llen(harness.keys.dead_letter) == 1


@pytest.mark.parametrize(
    "path", ["/inbox/two\nlines.pdf", "/inbox/\udce9.pdf", '/inbox/"id":"x".pdf', "/inbox/ü😀"]
)
async def test_odd_names_go_all_the_way(harness: Harness, path: str) -> None:
    lane = harness.keys.queues[1]
    id, raw = jobs.write(path, 0, priority="low", queue=lane, now_ns=0)
    await harness.redis.lpush(lane, raw)
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    assert str(claim.work.path) == path
    assert not (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert {event["subject"] for event in await harness.events()} == {id}


async def test_a_directory_full_of_trouble_is_worked_off_to_the_last_file(
    harness: Harness, tmp_path: Path
) -> None:
    """Odd names and sizes end well, what cannot be read ends with a reason, no list is stuck."""
    odd = [b"two\nlines", b"caf\xe9", b"nothing inside", b"huge"]
    for name in (*odd, b"soon gone", b"soon a folder"):
        (tmp_path / os.fsdecode(name)).touch()
    os.truncate(tmp_path / "huge", 10 * 2**30)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    scan = ScanOptions(scan_dir=str(tmp_path), settle=0)
    metrics, queue = Metrics(), Queue(harness.store)
    tally = await Producer(queue, ProducerOptions(scan=scan), metrics=metrics).scan()
    assert (tally.enqueued, tally.skipped) == (6, {Skip.VANISHED: 1})
    await harness.redis.lpush(harness.keys.queues[1], POISON)
    for name in ("soon gone", "soon a folder"):
        (tmp_path / name).unlink()
    (tmp_path / "soon a folder").mkdir()
    sizes: dict[bytes, int] = {}
    handlers = Handlers()

    @handlers.handler("**/*")
    def measure(job: jobs.Job) -> None:
        with job.path.open("rb") as file:
            sizes[os.fsencode(job.path.name)] = file.seek(0, os.SEEK_END)

    options = WorkerOptions(max_retries=1, backoff=0, poll=0.05)
    async with (
        asyncio.timeout(LIMIT_S),
        Worker(handlers, harness.store, options=options, metrics=metrics),
    ):
        while (
            sum(
                [
                    await harness.redis.llen(key)
                    for key in (harness.keys.completed, harness.keys.dead_letter)
                ]
            )
            < 7
        ):
            await asyncio.sleep(0.01)

    assert sizes == {**dict.fromkeys(odd, 0), b"huge": 10 * 2**30}
    reasons = sorted(letter.reason for letter in await queue.dead_letters.list())
    assert reasons == ["MALFORMED", "UNREADABLE", "VANISHED"]
    counts = await queue.lengths()
    assert counts.pop(harness.keys.completed) == 4
    assert counts.pop(harness.keys.dead_letter) == 3
    assert set(counts.values()) == {0}
    page = metrics.expose().decode()
    for reason in reasons:
        assert f'jobs_failed_total{{queue="jobqueue:low_priority",reason="{reason}"}}' in page


UNWRITABLE = b'{"id":"unwritable","filepath":"/inbox/u.pdf","\xff":1}'
ODD_JOBS = [
    UNWRITABLE,
    b'{"id":"infinite","filepath":"/inbox/i.pdf","score":1e999}',
    b'{"id":"bytes","filepath":"/inbox/b.pdf","tag":"\xff\xfe"}',
    b'{"id":"two","filepath":"/inbox/t.pdf","filepath_bytes":"!!!"}',
    b'{"id":"many","filepath":"/inbox/m.pdf","retries":99999999999999999999}',
    b'{"id":"nothing","filepath":"/inbox/n.pdf","retries":null,"trace_id":null}',
    b'{"id":"nan","filepath":"/inbox/n.pdf","retries":NaN}',
    b'{"id":"zero","filepath":"/inbox/\\u0000.pdf"}',
    b'{"id":"deep","filepath":"/inbox/d.pdf","x":' + b"[" * 5000 + b"]" * 5000 + b"}",
]
MEMBERS = {
    **{"filepath": '"/inbox/f.pdf"', "size": "1", "priority": '"low"', "retries": "0"},
    **{"creation_time": '""', "trace_id": '""', "origin_queue": '""', "filepath_bytes": "null"},
}


def foreign_jobs() -> Iterator[bytes]:
    """The JSON of jobs with one odd member each."""
    for at, text in enumerate(json_of(MEMBERS)):
        yield text.replace("{", f'{{"id":"f{at}",', 1).encode()


async def test_a_worker_survives_every_odd_job_and_runs_the_next(harness: Harness) -> None:
    odd = [*ODD_JOBS, *foreign_jobs()]
    await harness.redis.lpush(harness.keys.queues[1], *odd)
    await harness.add(id="good")
    ran: list[str] = []

    def fail(job: jobs.Job) -> None:
        ran.append(job.id)
        if job.id != "good":
            raise ValueError("no")

    queue = Queue(harness.store)
    options = WorkerOptions(max_retries=1, backoff=0, poll=0.05)
    async with asyncio.timeout(LIMIT_S), Worker(fail, harness.store, options=options) as worker:
        while await queue.dead_letters.count() < len(odd) or "good" not in ran:
            assert worker.is_running
            await asyncio.sleep(0.01)

    letters = {letter.id: letter.reason for letter in await queue.dead_letters.list(limit=len(odd))}
    assert letters["unwritable"] == "MALFORMED"
    assert letters["infinite"] == letters["bytes"] == "HANDLER_ERROR"
    assert ran.count("infinite") == ran.count("nothing") == 2
    assert {await queue.state("good"), await queue.state("bytes")} == {"completed", "failed"}
    assert len([each async for each in _kept_events(queue)]) > len(ODD_JOBS)


async def _kept_events(queue: Queue) -> AsyncGenerator[str]:
    async with aclosing(queue.events(after="0-0")) as events:
        async for event in events:
            yield event.name
            if event.name == "completed":
                return


async def test_the_jobs_of_every_dead_worker_are_taken_back_whatever_one_holds(
    harness: Harness,
) -> None:
    await harness.redis.sadd(harness.keys.workers, "w1", "w2", "w3")
    await harness.redis.lpush(harness.keys.of("w1").processing, *ODD_JOBS)
    await harness.redis.set(harness.keys.of("w2").processing, "no list")
    id = await harness.add()
    await harness.redis.rename(harness.keys.queues[1], harness.keys.of("w3").processing)

    for _ in range(3):
        await harness.reaper().reap()
    await harness.redis.delete(harness.keys.of("w2").processing)

    assert await harness.where(id) == ["waiting"]
    assert await harness.redis.llen(harness.keys.of("w1").processing) == 0


async def test_unmatched_files_become_dead_letters_whatever_one_is(harness: Harness) -> None:
    for raw in ODD_JOBS:
        await harness.redis.xadd(harness.keys.unmatched, {"job": raw, "lane": "first"})
    await harness.redis.xadd(harness.keys.unmatched, {"other": b"member"})
    source = harness.source(ending=".csv")
    for _ in range(3):
        assert (await source.settle([], claim=1)).claims == []
    harness.set(no_handler_after=0)
    sweep = UnmatchedSweep(harness.redis, harness.keys, harness.options)
    assert await sweep.sweep() == len(ODD_JOBS) + 1


async def test_retrying_everything_moves_what_can_run_and_each_letter_once(
    harness: Harness,
) -> None:
    queue = Queue(harness.store)
    good = [await harness.add(id=f"g{number}") for number in range(120)]
    raws = await harness.redis.lrange(harness.keys.queues[1], 0, -1)
    await harness.redis.delete(harness.keys.queues[1])
    await harness.redis.lpush(harness.keys.dead_letter, *raws, *ODD_JOBS)
    before = await queue.dead_letters.count()
    moved: list[bytes] = []

    async def fail_at_once(*given: Any, **rest: Any) -> int:
        # A quick fleet: whatever is put back fails again before the next page is read.
        count = await requeue(*given, **rest)
        back = await harness.redis.lrange(harness.keys.queues[1], 0, -1)
        await harness.redis.delete(harness.keys.queues[1])
        moved.extend(back)
        if back:
            await harness.redis.lpush(harness.keys.dead_letter, *back)
        return count

    requeue = scripts.requeue
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "requeue", fail_at_once)
        count = await queue.dead_letters.retry_all()

    ids = [jobs.read(raw).id for raw in moved]
    assert count == len(ids) == len(set(ids)) <= before
    assert set(good) < set(ids)
    assert "unwritable" not in ids
    assert await queue.dead_letters.retry("unwritable", "g1") == 1


async def test_a_purge_leaves_what_fails_meanwhile(harness: Harness) -> None:
    queue = Queue(harness.store)
    await harness.redis.lpush(harness.keys.dead_letter, *[b"%d" % number for number in range(150)])

    async def one_more(*given: Any, **rest: Any) -> int:
        count = await purge(*given, **rest)
        await harness.redis.lpush(harness.keys.dead_letter, b"new")
        return count

    purge = scripts.purge
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "purge", one_more)
        assert await queue.dead_letters.purge() == 150
    assert await queue.dead_letters.count() == 2
