"""A file is left to a worker that has a handler for it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.files.harness import Harness
from tests.support.lossy import make_lossy
from tests.support.patience import LIMIT_S
from waystation.core.breaker import BreakerOptions
from waystation.core.errors import InvalidOption, StoreUnreachable
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Settled
from waystation.files import fetch
from waystation.files.claims import FileSource
from waystation.files.handlers import Handlers
from waystation.files.job import Job
from waystation.files.options import ReaperOptions, WorkerOptions
from waystation.files.queue import Queue
from waystation.files.redis.replies import Settlement
from waystation.files.worker import Worker


async def paths(source: FileSource, count: int = 100) -> list[str]:
    """What a worker gets, after it has looked until nothing changes."""
    found: list[str] = []
    for _ in range(20):
        found += [claim.work.filepath for claim in (await source.settle([], claim=count)).claims]
    return found


async def handed_over(harness: Harness) -> list[str]:
    entries = await fetch.read_unmatched(harness.redis, harness.keys)
    return [entry.job.filepath for entry in entries if entry.job]


# --- workers with handlers of their own ----------------------------------------------------------


@pytest.fixture
async def fleet(harness: Harness) -> AsyncIterator[Any]:
    """Workers that are started one by one, each for some endings."""
    async with AsyncExitStack() as running:
        done: Counter[tuple[str, str]] = Counter()

        async def start(*endings: str, **work: Any) -> Worker:
            handlers = Handlers()

            @handlers.handler(*endings)
            async def note(job: Job) -> None:
                done[endings[0], job.path.suffix] += 1

            options = WorkerOptions(poll=0.05, reaper=ReaperOptions(interval=0.05), **work)
            worker = Worker(handlers, harness.store, options=options)
            return await running.enter_async_context(worker)

        start.done = done  # type: ignore[attr-defined]
        yield start


async def ended(harness: Harness, count: int) -> dict[str, int]:
    queue = Queue(harness.store)
    async with asyncio.timeout(LIMIT_S):
        while True:
            counts = await queue.lengths()
            ends = {
                name: counts[name] for name in (harness.keys.completed, harness.keys.dead_letter)
            }
            if sum(ends.values()) >= count:
                return ends
            await asyncio.sleep(0.01)


async def test_workers_with_different_handlers_lose_none_of_each_others_files(
    harness: Harness, fleet: Any
) -> None:
    await fleet(".aa")
    await fleet(".bb")
    for number in range(10):
        await harness.add(f"/{number}.aa")
        await harness.add(f"/{number}.bb", priority="high")
    assert await ended(harness, 20) == {"jobqueue:completed": 20, "jobqueue:dead_letter": 0}
    assert fleet.done == {(".aa", ".aa"): 10, (".bb", ".bb"): 10}
    assert await harness.redis.exists(harness.keys.unmatched) == 0


async def test_a_file_waits_for_a_worker_that_comes_later(harness: Harness, fleet: Any) -> None:
    await fleet(".aa")
    await harness.add("/early.bb")
    await harness.add("/late.aa")
    await ended(harness, 1)
    async with asyncio.timeout(LIMIT_S):
        while await handed_over(harness) != ["/early.bb"]:
            await asyncio.sleep(0.01)
    await fleet(".bb")
    assert await ended(harness, 2) == {"jobqueue:completed": 2, "jobqueue:dead_letter": 0}


async def test_a_file_nobody_has_a_handler_for_is_set_aside_and_names_what_there_is(
    harness: Harness, fleet: Any
) -> None:
    await fleet(".aa", no_handler_after=0)
    await fleet(".bb", "in/**/*", no_handler_after=0)
    await harness.add("/scans/1.cc")
    assert await ended(harness, 1) == {"jobqueue:completed": 0, "jobqueue:dead_letter": 1}
    (letter,) = await Queue(harness.store).dead_letters.list()
    assert letter.reason == "NO_HANDLER"
    assert letter.error == (
        "NoHandler: no live worker has a handler for '.cc'; "
        "there are some for **/*.aa, **/*.bb, in/**/*"
    )
    assert json.loads(letter.payload)["retries"] == 0


# --- step by step --------------------------------------------------------------------------------


async def test_what_is_handed_over_is_untouched_and_costs_no_attempt(harness: Harness) -> None:
    id = await harness.add("/1.bb")
    (raw,) = await harness.redis.lrange(harness.keys.queues[1], 0, -1)
    first, second = harness.source(ending=".aa"), harness.source(ending=".bb")
    assert await paths(first) == []
    (entry,) = await fetch.read_unmatched(harness.redis, harness.keys)
    assert entry.raw == raw
    assert await harness.redis.llen(harness.keys.of(first.worker).processing) == 0
    (claim,) = [claim for _ in range(3) for claim in (await second.settle([], claim=1)).claims]
    assert (claim.id, claim.work.attempt) == (id, 1)
    await second.settle([Settled(claim, Done())], claim=0)
    assert await harness.where(id) == ["completed"]
    events = [(event["event"], event["worker"]) for event in await harness.events()]
    assert events == [
        ("waiting", ""), ("active", first.worker), ("returned", first.worker),
        ("active", second.worker), ("completed", second.worker),
    ]  # fmt: skip


async def test_a_worker_reads_unmatched_files_once_and_then_sleeps(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in commands: neither what it skipped itself nor what others did is read again."""
    monkeypatch.setattr("waystation.core.line.wake_up.LONGEST_BLOCK_S", 600.0)
    harness.set(poll=600)

    async def reads() -> int:
        return (await harness.redis.info("commandstats")).get("cmdstat_xrange", {"calls": 0})[
            "calls"
        ]

    for number in range(250):
        await harness.add(f"/{number}.bb")
    first, second = harness.source(ending=".aa"), harness.source(ending=".aa")
    before = await reads()
    assert await paths(first, 20) == []
    assert await reads() == before
    assert len(await fetch.read_unmatched(harness.redis, harness.keys)) == fetch.PAGE
    before = await reads()
    assert await paths(second, 20) == []
    assert await reads() == before + 3
    for source in (first, second):
        await harness.redis.delete(harness.keys.wake)
        waiting = asyncio.create_task(source.wait(600))
        _, asleep = await asyncio.wait([waiting], timeout=0.1)
        assert asleep
        waiting.cancel()


async def test_what_was_handed_over_comes_first_in_its_priority_and_not_before_a_higher_one(
    harness: Harness,
) -> None:
    await harness.add("/1.bb")
    await harness.add("/2.bb")
    await paths(harness.source(ending=".aa"))
    await harness.add("/3.bb")
    await harness.add("/4.bb", priority="high")
    second = harness.source(ending=".bb")
    await second.settle([], claim=0)
    got = [
        claim.work.filepath for _ in range(6) for claim in (await second.settle([], claim=1)).claims
    ]
    assert got == ["/4.bb", "/1.bb", "/2.bb", "/3.bb"]


async def test_a_paused_priority_does_not_hide_the_files_of_the_others(harness: Harness) -> None:
    """Also when it has more than a worker remembers; they come when it is resumed."""
    urgent = {f"/{number}.bb" for number in range(3 * fetch.PAGE)}
    for path in urgent:
        await harness.add(path, priority="high")
    await harness.add("/last.bb")
    await paths(harness.source(ending=".aa"))
    queue = Queue(harness.store)
    await queue.pause("high")
    source = harness.source(ending=".bb")
    assert await paths(source, 20) == ["/last.bb"]
    await queue.resume("high")
    assert {*await paths(source, 20), *await paths(source, 20)} == urgent


async def test_several_workers_share_what_is_handed_over(harness: Harness) -> None:
    """Also when each has two calls under way, and there is more than a page."""
    wanted = {f"/{number}.bb" for number in range(250)}
    for path in wanted:
        await harness.add(path)
    await paths(harness.source(ending=".aa"))
    assert await harness.redis.xlen(harness.keys.unmatched) == 250
    several = [harness.source(ending=".bb") for _ in range(3)]
    taken: Counter[str] = Counter()
    for _ in range(20):
        replies = await asyncio.gather(*(source.settle([], claim=20) for source in several * 2))
        taken.update(claim.work.filepath for reply in replies for claim in reply.claims)
    assert taken == Counter(wanted)


async def test_what_a_lost_answer_took_or_moved_is_there_once(harness: Harness) -> None:
    for number in range(3):
        await harness.add(f"/{number}.bb")
    first, second = harness.source(ending=".aa"), harness.source(ending=".bb")
    await first.settle([], claim=3)
    make_lossy(first).lose_next()
    with pytest.raises(StoreUnreachable):
        await first.settle([], claim=1)
    assert await paths(first) == []
    assert sorted(await handed_over(harness)) == ["/0.bb", "/1.bb", "/2.bb"]
    await second.settle([], claim=0)
    make_lossy(second).lose_next()
    with pytest.raises(StoreUnreachable):
        await second.settle([], claim=2)
    assert sorted(await paths(second)) == ["/0.bb", "/1.bb", "/2.bb"]
    assert await handed_over(harness) == []


async def test_a_worker_that_leaves_hands_over_what_it_has_just_fetched(harness: Harness) -> None:
    await harness.add("/1.bb")
    source = harness.source(ending=".aa")
    await source.settle([], claim=1)
    await source.close()
    assert await handed_over(harness) == ["/1.bb"]
    assert await harness.redis.scard(harness.keys.workers) == 0


async def test_an_unmatched_file_comes_back_from_a_dead_worker(
    harness: Harness,
) -> None:
    id = await harness.add("/1.bb")
    await paths(harness.source(ending=".aa"))
    assert await paths(harness.source(ending=".bb")) == ["/1.bb"]
    await harness.lapse()
    assert await harness.where(id) == ["waiting"]


async def test_an_open_breaker_keeps_what_is_handed_over_and_nobody_asks_in_vain(
    harness: Harness,
) -> None:
    harness.set(poll=600, max_retries=0)
    for number in range(4):
        await harness.add(f"/{number}.bb")
    breaker = BreakerOptions(failure_threshold=0.5, min_samples=2, window_s=60, cooldown_s=30)
    source = harness.source(ending=".bb", breaker=breaker)
    claims: list[Claim[Job]] = list((await source.settle([], claim=2)).claims)
    await paths(harness.source(ending=".aa"))
    away = Failed(OSError(5, "input/output error"))
    await source.settle([Settled(claim, away) for claim in claims], claim=0)
    assert await paths(source) == []
    assert len(await handed_over(harness)) == 2
    await harness.redis.delete(harness.keys.wake)
    waiting = asyncio.create_task(source.wait(600))
    _, asleep = await asyncio.wait([waiting], timeout=0.1)
    assert asleep
    waiting.cancel()
    await harness.clock.advance(31)
    assert await paths(source, 1) == ["/2.bb"]


async def test_a_worker_reads_all_of_it_again_now_and_then(harness: Harness) -> None:
    """A server whose clock was set back gives new entries ids that a worker has passed."""
    time = 0.0
    known = fetch.UnmatchedFiles(harness.keys, lambda job: True, timer=lambda: time)
    source = harness.source(ending=".aa")
    await harness.add("/1.bb")
    await paths(source)
    (entry,) = await fetch.read_unmatched(harness.redis, harness.keys)

    def reply(cursor: str) -> Settlement:
        return Settlement([], [], 0, [], entry.id, cursor)

    known.cursor = "99999999999999-0"
    known.settled(reply(known.cursor))
    assert not known.has_new
    time = fetch.REREAD_S
    known.settled(reply(known.cursor))
    await known.look(harness.redis)
    assert known.reserve(1).text == f"2,{entry.id}"


async def test_a_heartbeat_keeps_its_handlers_when_a_call_renews_it(harness: Harness) -> None:
    source = harness.source(ending=".bb", worker="w1")
    await source.open()
    key = harness.keys.of("w1").heartbeat
    await harness.redis.pexpire(key, 10_000)
    await harness.clock.advance(1)
    await source.settle([], claim=1)
    assert await harness.redis.pttl(key) > 15_000
    assert json.loads(await harness.redis.get(key)) == {
        "ts": harness.clock.now_ms(), "handlers": ["**/*.bb"],
    }  # fmt: skip


async def test_unmatched_files_are_counted_and_listed(harness: Harness) -> None:
    await harness.add("/1.bb")
    await paths(harness.source(ending=".aa"))
    queue = Queue(harness.store)
    assert (await queue.lengths())[harness.keys.unmatched] == 1
    assert (await queue.counts("unmatched")) == {"unmatched": 1}
    (job,) = await queue.get_jobs("unmatched")
    assert job.filepath == "/1.bb"


def test_how_long_to_wait_is_no_negative_number() -> None:
    with pytest.raises(
        InvalidOption, match="no_handler_after must be a timedelta or seconds, at least 0, got -1"
    ):
        WorkerOptions(no_handler_after=-1)
