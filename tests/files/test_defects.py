"""Each flaw of the spec's literal algorithm: shown to be there, and shown to be gone in ours."""

import asyncio
import json
from pathlib import Path

from tests.files.hands import Hands, hands_on
from tests.files.literal.breaker import LiteralBreaker
from tests.files.literal.producer import KEY, literal_allow, literal_scan
from tests.files.literal.worker import COMPLETED, LiteralWorker, literal_reap
from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.files.directory.scan import ScanOptions
from waystation.files.options import Layout
from waystation.files.producer import Producer, ProducerOptions
from waystation.files.queue import Queue

RAW = b'{"id":"7","filepath":"/a","retries":0,"priority":"low"}'


async def put(hands: Hands, raw: bytes = RAW) -> None:
    await hands.redis.lpush(hands.keys.queues[1], raw)


async def test_a_job_longer_than_the_heartbeat_is_not_run_twice(hands: Hands) -> None:
    """F-T1: a static heartbeat lapses under a running job, and both copies are completed."""
    await put(hands)
    first, second = LiteralWorker(hands.redis, "w1"), LiteralWorker(hands.redis, "w2")
    one = await first.fetch()
    await hands.redis.delete(first.heartbeat)  # its TTL is over, the job is not
    await literal_reap(hands.redis)
    two = await second.fetch()
    assert one
    assert two
    await first.complete(one)
    await second.complete(two)
    assert await hands.redis.llen(COMPLETED) == 2

    await hands.redis.flushdb()
    hands.set(lease=1.5)
    await put(hands)
    source = hands.source()
    (claim,) = (await source.settle([], claim=1)).claims
    async with source.keeper():
        for _ in range(20):
            await asyncio.sleep(0.1)
            assert await hands.reaper().reap() == 0
    assert not (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert await hands.redis.llen(COMPLETED) == 1


async def test_nothing_is_stolen_between_fetch_and_heartbeat(hands: Hands) -> None:
    """F-T2: the move comes before the heartbeat, and a reaper in between takes the job."""
    await put(hands)
    worker = LiteralWorker(hands.redis, "w1")
    await worker.move()
    assert await literal_reap(hands.redis) == 1

    await hands.redis.flushdb()
    await put(hands)
    await hands.source().settle([], claim=1)
    assert await hands.reaper().reap() == 0


async def test_a_crash_in_the_middle_of_a_completion_leaves_one_result(hands: Hands) -> None:
    """F-T3: three commands; a crash after the first completes the job and runs it again."""
    await put(hands)
    worker = LiteralWorker(hands.redis, "w1")
    payload = await worker.fetch()
    await hands.redis.lpush(COMPLETED, payload)  # and here it dies
    await hands.redis.delete(worker.heartbeat)
    assert await literal_reap(hands.redis) == 1
    assert await hands.redis.llen(COMPLETED) == 1

    await hands.redis.flushdb()
    await put(hands)
    source = hands.source()
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Done())], claim=0)  # one script: there is no middle
    assert await hands.lapse() == 0
    assert await hands.redis.llen(COMPLETED) == 1


async def test_a_fetch_whose_answer_was_lost_is_not_stuck(hands: Hands) -> None:
    """F-T4: see also test_jobs_fetched_by_a_call_whose_answer_was_lost_are_found."""
    await put(hands)
    await put(hands, RAW.replace(b"7", b"8"))
    worker = LiteralWorker(hands.redis, "w1")
    await worker.move()  # the answer is lost
    held = await worker.fetch()
    assert held
    assert await literal_reap(hands.redis) == 0
    assert await hands.redis.llen(worker.processing) == 2  # one of them nobody works on


def test_a_probe_that_finds_nothing_does_not_block_for_ever() -> None:
    """F-T5: the flag of the probe stays set when no job came."""
    time = [0.0]
    breaker = LiteralBreaker(threshold=0.5, samples=2, cooldown=1, now=lambda: time[0])
    breaker.record(False)
    breaker.record(False)
    time[0] = 2
    assert breaker.allow()  # and the queue is empty, so nothing is recorded
    time[0] = 1_000_000
    assert not breaker.allow()
    # Ours: test_breaker.test_an_empty_queue_in_half_open_does_not_block_for_ever.


def test_old_failures_and_bad_files_flap_the_literal_breaker() -> None:
    """F-T6: the window outlives the closing, and whatever failed counts."""
    time = [0.0]
    breaker = LiteralBreaker(threshold=0.5, samples=4, cooldown=1, now=lambda: time[0])
    for _ in range(4):
        breaker.record(False)  # four files that were never there
    assert breaker.state == "open"
    time[0] = 2
    assert breaker.allow()
    breaker.record(True)
    breaker.record(True)
    assert breaker.state == "open"
    # Ours: test_breaker.test_old_failures_do_not_open_it_again and test_bad_files_do_not_open_it.


async def test_the_origin_queue_is_kept_in_the_job(hands: Hands, redis_url: str) -> None:
    """F-T8: without it the reaper cannot tell where a job came from."""
    layout = Layout(priorities=("rush", "slow"), queues={"rush": "a:rush", "slow": "a:slow"})
    async with hands_on(redis_url, layout) as other:
        await other.add(priority="rush")
        await other.source().settle([], claim=1)
        assert await other.lapse() == 1
        assert await hands.redis.llen("a:rush") == 1
    assert json.loads((await hands.redis.lrange("a:rush", 0, -1))[0])["origin_queue"] == "a:rush"
    await hands.redis.delete("a:rush")


async def test_the_names_come_from_the_settings(hands: Hands, redis_url: str) -> None:
    """F-T9: one heartbeat name, one list name, both from the patterns."""
    layout = Layout(
        processing_list_pattern="jobqueue:worker:x-%s:processing",
        heartbeat_key_pattern="jobqueue:processing:worker:x-%s",
    )
    async with hands_on(redis_url, layout) as other:
        await other.add()
        await other.source(worker="w").settle([], claim=1)
        assert await hands.redis.exists("jobqueue:worker:x-w:processing")
        assert await hands.redis.exists("jobqueue:processing:worker:x-w")
        assert await other.lapse() == 1


async def test_a_scan_cut_short_reaches_the_late_keys_too(hands: Hands) -> None:
    """F-T10: without a kept cursor a pass that is cut begins at the same place for ever."""
    for number in range(400):
        await hands.redis.lpush(f"jobqueue:worker:w{number}:processing", RAW)
        if number % 4:
            await hands.redis.set(f"jobqueue:processing:worker:w{number}", "alive", ex=60)
    moved = 0
    for _ in range(20):
        moved += await literal_reap(hands.redis, pages=2, count=1)
    assert moved < 100  # of the hundred silent ones most are never looked at
    # Ours: test_reaper.test_every_worker_is_reached_though_a_pass_is_cut_short.


async def test_a_file_that_kills_its_worker_ends(hands: Hands) -> None:
    """F-T11: a literal reaper leaves the retries as they are, so it goes round for ever."""
    await put(hands)
    for _ in range(20):
        worker = LiteralWorker(hands.redis, "w1")
        assert await worker.move() == RAW
        await literal_reap(hands.redis)
    # Ours: test_reaper.test_what_was_abandoned_too_often_ends_as_a_dead_letter.


async def test_bytes_that_were_written_anew_are_still_removed(hands: Hands) -> None:
    """F-T14: the literal failure removes the text it has just made, which is not in the list."""
    await put(hands)
    worker = LiteralWorker(hands.redis, "w1")
    payload = await worker.fetch()
    assert payload
    await worker.fail(payload)
    assert await hands.redis.llen(worker.processing) == 1  # left behind, and run again later
    # Ours: test_settle.test_a_failure_waits_longer_each_time_and_ends_as_a_dead_letter.


async def test_a_crash_of_the_limiter_does_not_throttle_for_ever(hands: Hands) -> None:
    """F-T15: INCR without EXPIRE leaves a counter that never ends."""
    await literal_allow(hands.redis, 1, crash=True)
    assert await hands.redis.ttl(KEY) == -1
    assert not await literal_allow(hands.redis, 1)
    await hands.redis.delete(KEY)
    # Ours: test_queue.test_a_used_up_rate_refuses_and_says_when_to_come_back.


async def test_a_restart_finds_what_it_put_in_line(hands: Hands, tmp_path: Path) -> None:
    """F-T16: the literal walk gives everything again."""
    (tmp_path / "a").touch()
    assert list(literal_scan(str(tmp_path))) == list(literal_scan(str(tmp_path)))
    scan = ScanOptions(scan_dir=str(tmp_path), settle=0)
    enqueued = [
        (await Producer(Queue(hands.store), ProducerOptions(scan=scan)).scan()).enqueued
        for _ in range(2)
    ]
    assert enqueued == [1, 0]


async def test_any_priorities_and_a_hash_tag_will_do(hands: Hands, redis_url: str) -> None:
    """F-T19: the priorities come from the settings, and all keys may share one slot."""
    layout = Layout(prefix="{jobqueue}", priorities=("now", "soon", "later"))
    async with hands_on(redis_url, layout) as other:
        ids = [await other.add(priority=name) for name in ("later", "soon", "now")]
        claims = (await other.source().settle([], claim=3)).claims
        assert [claim.id for claim in claims] == ids[::-1]
        keys = [key.decode() for key in await hands.redis.keys("*jobqueue*")]
        assert [key for key in keys if "{jobqueue}" not in key] == []
