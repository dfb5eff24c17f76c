"""Files that nobody has a handler for."""

import json
from typing import Any

from tests.files.hands import Hands
from waystation.core.telemetry.metrics import Metrics
from waystation.files.fetch import unmatched
from waystation.files.queue import Queue
from waystation.files.upkeep.unmatched import UnmatchedSweep


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def entry(hands: Hands, path: str, id: str) -> None:
    """Add an unmatched file as if it had been there since 1970."""
    raw = b'{"id":"%s","filepath":"%s"}' % (id.encode(), path.encode())
    await hands.redis.xadd(hands.keys.unmatched, {"job": raw, "lane": 2}, id=id)


def unhandled(hands: Hands, watch: Watch, **options: Any) -> UnmatchedSweep:
    hands.set(no_handler_after=60)
    return UnmatchedSweep(hands.redis, hands.keys, hands.options, timer=watch, **options)


async def test_a_file_is_given_up_when_nobody_has_had_a_handler_for_long(hands: Hands) -> None:
    watch, metrics = Watch(), Metrics()
    duty = unhandled(hands, watch, metrics=metrics)
    assert await duty.sweep() == 0
    await entry(hands, "/1.bb", "1-0")
    assert await duty.sweep() == 0
    watch.now = 59
    assert await duty.sweep() == 0
    watch.now = 60
    assert await duty.sweep() == 1
    meta = json.loads(await hands.redis.hget(hands.keys.dead_letter_meta, "1-0"))
    assert meta["error"].endswith("there are some for nothing")
    assert await hands.redis.exists(hands.keys.unmatched) == 0
    assert (await hands.events())[-1]["reason"] == "NO_HANDLER"
    page = metrics.expose().decode()
    assert 'jobs_failed_total{queue="jobqueue:low_priority",reason="NO_HANDLER"} 1.0' in page


async def test_a_file_that_has_just_come_is_left_to_others(hands: Hands) -> None:
    watch = Watch()
    duty = unhandled(hands, watch)
    await entry(hands, "/old.bb", "1-0")
    await duty.sweep()
    watch.now = 3600
    await hands.add("/new.bb")
    source = hands.source(ending=".aa")
    for _ in range(2):
        await source.settle([], claim=1)
    assert await duty.sweep() == 1
    (left,) = await unmatched.read(hands.redis, hands.keys)
    assert left.job
    assert left.job.filepath == "/new.bb"


async def test_a_worker_that_restarts_keeps_its_files_in_line(hands: Hands) -> None:
    watch = Watch()
    duty = unhandled(hands, watch)
    worker = hands.source(ending=".bb", worker="w1")
    await worker.open()
    await entry(hands, "/1.bb", "1-0")
    for watch.now in (0, 100, 1000):
        assert await duty.sweep() == 0
    await hands.silence()
    for watch.now in (1005, 1064):
        assert await duty.sweep() == 0
    watch.now = 1066
    assert await duty.sweep() == 1


async def test_what_is_given_up_is_found_behind_what_waits_for_a_busy_worker(hands: Hands) -> None:
    watch = Watch()
    duty = unhandled(hands, watch)
    await hands.source(ending=".bb").open()
    for number in range(1, 251):
        await entry(hands, f"/{number}.bb", f"{number}-0")
    await entry(hands, "/lost.cc", "251-0")
    await hands.redis.xadd(hands.keys.unmatched, {"job": b"no job", "lane": 9}, id="252-0")
    passes = [await duty.sweep() for watch.now in (0, 60, 61, 62, 63)]
    assert passes == [0, 0, 0, 2, 0]
    assert {letter.reason for letter in await Queue(hands.store).dead_letters.list()} == {
        "NO_HANDLER", "MALFORMED",
    }  # fmt: skip


async def test_a_heartbeat_that_makes_no_sense_is_no_handler(hands: Hands) -> None:
    watch = Watch()
    duty = unhandled(hands, watch)
    beats = [b"12345", b"{", b'{"handlers":7}', b'{"handlers":["", "{a,b,c,d}{a,b,c,d}{a,b,c,d}"]}']
    for number, beat in enumerate(beats):
        await hands.redis.sadd(hands.keys.workers, f"w{number}")
        await hands.redis.set(hands.keys.of(f"w{number}").heartbeat, beat, ex=600)
    await entry(hands, "/1.bb", "1-0")
    await duty.sweep()
    watch.now = 60
    assert await duty.sweep() == 1
