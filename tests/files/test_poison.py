"""What is no job ends with a reason, and the list moves on."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests.files.hands import Hands
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
from waystation.files.worker import Worker

POISON = b'{"id": 7, "filepath": '


async def test_a_poison_payload_ends_as_a_dead_letter_and_others_go_on(hands: Hands) -> None:
    await hands.redis.lpush(hands.keys.queues[1], POISON)
    id = await hands.add()
    metrics = Metrics()
    source = hands.source(meter=Meter(metrics, hands.keys.queues))
    (claim,) = (await source.settle([], claim=5)).claims
    assert claim.id == id
    await source.settle([Settled(claim, Done())], claim=5)

    assert await hands.redis.lrange(hands.keys.dead_letter, 0, -1) == [POISON]
    meta = json.loads(await hands.redis.hget(hands.keys.dead_letter_meta, jobs.poison_id(POISON)))
    assert meta["reason"] == "MALFORMED"
    assert await hands.redis.llen(hands.keys.of(source.worker).processing) == 0
    assert 'reason="MALFORMED"} 1.0' in metrics.expose().decode()


async def test_a_queue_of_nothing_but_poison_does_not_make_the_worker_wait(hands: Hands) -> None:
    hands.set(poll=30.0)
    await hands.redis.lpush(hands.keys.queues[1], *[POISON + b"%d" % n for n in range(5)])
    source = hands.source()
    for _ in range(6):
        assert not (await source.settle([], claim=1)).claims
        await source.wait(30)
        if await hands.redis.llen(hands.keys.dead_letter) == 5:
            break
    assert await hands.redis.llen(hands.keys.dead_letter) == 5


async def test_poison_left_by_a_dead_worker_ends_as_a_dead_letter(hands: Hands) -> None:
    await hands.redis.sadd(hands.keys.workers, "w1")
    await hands.redis.lpush(hands.keys.of("w1").processing, POISON)
    assert await hands.reaper().reap() == 1
    assert await hands.redis.lrange(hands.keys.dead_letter, 0, -1) == [POISON]


async def test_poison_is_filed_when_the_worker_leaves_right_after(hands: Hands) -> None:
    await hands.redis.lpush(hands.keys.queues[1], POISON)
    source = hands.source()
    await source.settle([], claim=5)
    await source.close()
    assert await hands.redis.llen(hands.keys.dead_letter) == 1


@pytest.mark.parametrize(
    "path", ["/inbox/two\nlines.pdf", "/inbox/\udce9.pdf", '/inbox/"id":"x".pdf', "/inbox/ü😀"]
)
async def test_odd_names_go_all_the_way(hands: Hands, path: str) -> None:
    lane = hands.keys.queues[1]
    id, raw = jobs.write(path, 0, priority="low", queue=lane, now_ns=0)
    await hands.redis.lpush(lane, raw)
    source = hands.source()
    (claim,) = (await source.settle([], claim=1)).claims
    assert str(claim.work.path) == path
    assert not (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert {event["subject"] for event in await hands.events()} == {id}


async def test_a_directory_full_of_trouble_is_worked_off_to_the_last_file(
    hands: Hands, tmp_path: Path
) -> None:
    """Odd names and sizes end well, what cannot be read ends with a reason, no list is stuck."""
    odd = [b"two\nlines", b"caf\xe9", b"nothing inside", b"huge"]
    for name in (*odd, b"soon gone", b"soon a folder"):
        (tmp_path / os.fsdecode(name)).touch()
    os.truncate(tmp_path / "huge", 10 * 2**30)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    scan = ScanOptions(scan_dir=str(tmp_path), settle=0)
    metrics, queue = Metrics(), Queue(hands.store)
    tally = await Producer(queue, ProducerOptions(scan=scan), metrics=metrics).scan()
    assert (tally.enqueued, tally.skipped) == (6, {Skip.VANISHED: 1})
    await hands.redis.lpush(hands.keys.queues[1], POISON)
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
        Worker(handlers, hands.store, options=options, metrics=metrics),
    ):
        while (
            sum(
                [
                    await hands.redis.llen(key)
                    for key in (hands.keys.completed, hands.keys.dead_letter)
                ]
            )
            < 7
        ):
            await asyncio.sleep(0.01)

    assert sizes == {**dict.fromkeys(odd, 0), b"huge": 10 * 2**30}
    reasons = sorted(letter.reason for letter in await queue.dead_letters.list())
    assert reasons == ["MALFORMED", "UNREADABLE", "VANISHED"]
    counts = await queue.lengths()
    assert counts.pop(hands.keys.completed) == 4
    assert counts.pop(hands.keys.dead_letter) == 3
    assert set(counts.values()) == {0}
    page = metrics.expose().decode()
    for reason in reasons:
        assert f'jobs_failed_total{{queue="jobqueue:low_priority",reason="{reason}"}}' in page
