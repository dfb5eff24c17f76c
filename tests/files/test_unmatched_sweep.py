"""Files that nobody has a handler for."""

import json
from typing import Any

from tests.files.harness import Harness
from waystation.core.telemetry.metrics import Metrics
from waystation.files import fetch
from waystation.files.queue import Queue
from waystation.files.upkeep import UnmatchedSweep


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def entry(harness: Harness, path: str, id: str) -> None:
    """Add an unmatched file as if it had been there since 1970."""
    raw = b'{"id":"%s","filepath":"%s"}' % (id.encode(), path.encode())
    await harness.redis.xadd(harness.keys.unmatched, {"job": raw, "lane": 2}, id=id)


def unhandled(harness: Harness, watch: Watch, **options: Any) -> UnmatchedSweep:
    harness.set(no_handler_after=60)
    return UnmatchedSweep(harness.redis, harness.keys, harness.options, timer=watch, **options)


async def test_a_file_is_given_up_when_nobody_has_had_a_handler_for_long(harness: Harness) -> None:
    watch, metrics = Watch(), Metrics()
    duty = unhandled(harness, watch, metrics=metrics)
    assert await duty.sweep() == 0
    await entry(harness, "/1.bb", "1-0")
    assert await duty.sweep() == 0
    watch.now = 59
    assert await duty.sweep() == 0
    watch.now = 60
    assert await duty.sweep() == 1
    meta = json.loads(await harness.redis.hget(harness.keys.dead_letter_meta, "1-0"))
    assert meta["error"].endswith("there are some for nothing")
    assert await harness.redis.exists(harness.keys.unmatched) == 0
    assert (await harness.events())[-1]["reason"] == "NO_HANDLER"
    page = metrics.expose().decode()
    assert 'jobs_failed_total{queue="jobqueue:low_priority",reason="NO_HANDLER"} 1.0' in page


async def test_a_file_that_has_just_come_is_left_to_others(harness: Harness) -> None:
    watch = Watch()
    duty = unhandled(harness, watch)
    await entry(harness, "/old.bb", "1-0")
    await duty.sweep()
    watch.now = 3600
    await harness.add("/new.bb")
    source = harness.source(ending=".aa")
    for _ in range(2):
        await source.settle([], claim=1)
    assert await duty.sweep() == 1
    (left,) = await fetch.read_unmatched(harness.redis, harness.keys)
    assert left.job
    assert left.job.filepath == "/new.bb"


async def test_a_worker_that_restarts_keeps_its_files_in_line(harness: Harness) -> None:
    watch = Watch()
    duty = unhandled(harness, watch)
    worker = harness.source(ending=".bb", worker="w1")
    await worker.open()
    await entry(harness, "/1.bb", "1-0")
    for watch.now in (0, 100, 1000):
        assert await duty.sweep() == 0
    await harness.silence()
    for watch.now in (1005, 1064):
        assert await duty.sweep() == 0
    watch.now = 1066
    assert await duty.sweep() == 1


async def test_what_is_given_up_is_found_behind_what_waits_for_a_busy_worker(
    harness: Harness,
) -> None:
    watch = Watch()
    duty = unhandled(harness, watch)
    await harness.source(ending=".bb").open()
    for number in range(1, 251):
        await entry(harness, f"/{number}.bb", f"{number}-0")
    await entry(harness, "/lost.cc", "251-0")
    await harness.redis.xadd(harness.keys.unmatched, {"job": b"no job", "lane": 9}, id="252-0")
    passes = [await duty.sweep() for watch.now in (0, 60, 61, 62, 63)]
    assert passes == [0, 0, 0, 2, 0]
    assert {letter.reason for letter in await Queue(harness.store).dead_letters.list()} == {
        "NO_HANDLER", "MALFORMED",
    }  # fmt: skip


async def test_a_heartbeat_that_makes_no_sense_is_no_handler(harness: Harness) -> None:
    watch = Watch()
    duty = unhandled(harness, watch)
    beats = [b"12345", b"{", b'{"handlers":7}', b'{"handlers":["", "{a,b,c,d}{a,b,c,d}{a,b,c,d}"]}']
    for number, beat in enumerate(beats):
        await harness.redis.sadd(harness.keys.workers, f"w{number}")
        await harness.redis.set(harness.keys.of(f"w{number}").heartbeat, beat, ex=600)
    await entry(harness, "/1.bb", "1-0")
    await duty.sweep()
    watch.now = 60
    assert await duty.sweep() == 1
