"""A file is left to a worker that has a handler for it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.files.hands import Hands
from tests.support.deaf import made_deaf
from tests.support.patience import LIMIT_S
from waystation.core.breaker import BreakerOptions
from waystation.core.errors import InvalidOption, StoreError, StoreUnreachable
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Claim, Settled
from waystation.files.claims import FileSource
from waystation.files.fetch import unmatched
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


async def handed_over(hands: Hands) -> list[str]:
    entries = await unmatched.read(hands.redis, hands.keys)
    return [entry.job.filepath for entry in entries if entry.job]


# --- workers with handlers of their own ----------------------------------------------------------


@pytest.fixture
async def fleet(hands: Hands) -> AsyncIterator[Any]:
    """Workers that are started one by one, each for some endings."""
    async with AsyncExitStack() as running:
        done: Counter[tuple[str, str]] = Counter()

        async def start(*endings: str, **work: Any) -> Worker:
            handlers = Handlers()

            @handlers.handler(*endings)
            async def note(job: Job) -> None:
                done[endings[0], job.path.suffix] += 1

            options = WorkerOptions(poll=0.05, reaper=ReaperOptions(interval=0.05), **work)
            worker = Worker(handlers, hands.store, options=options)
            return await running.enter_async_context(worker)

        start.done = done  # type: ignore[attr-defined]
        yield start


async def ended(hands: Hands, count: int) -> dict[str, int]:
    queue = Queue(hands.store)
    async with asyncio.timeout(LIMIT_S):
        while True:
            counts = await queue.lengths()
            ends = {name: counts[name] for name in (hands.keys.completed, hands.keys.dead_letter)}
            if sum(ends.values()) >= count:
                return ends
            await asyncio.sleep(0.01)


async def test_workers_with_different_handlers_lose_none_of_each_others_files(
    hands: Hands, fleet: Any
) -> None:
    await fleet(".aa")
    await fleet(".bb")
    for number in range(10):
        await hands.add(f"/{number}.aa")
        await hands.add(f"/{number}.bb", priority="high")
    assert await ended(hands, 20) == {"jobqueue:completed": 20, "jobqueue:dead_letter": 0}
    assert fleet.done == {(".aa", ".aa"): 10, (".bb", ".bb"): 10}
    assert await hands.redis.exists(hands.keys.unmatched) == 0


async def test_a_file_waits_for_a_worker_that_comes_later(hands: Hands, fleet: Any) -> None:
    await fleet(".aa")
    await hands.add("/early.bb")
    await hands.add("/late.aa")
    await ended(hands, 1)
    async with asyncio.timeout(LIMIT_S):
        while await handed_over(hands) != ["/early.bb"]:
            await asyncio.sleep(0.01)
    await fleet(".bb")
    assert await ended(hands, 2) == {"jobqueue:completed": 2, "jobqueue:dead_letter": 0}


async def test_a_file_nobody_has_a_handler_for_is_set_aside_and_names_what_there_is(
    hands: Hands, fleet: Any
) -> None:
    await fleet(".aa", no_handler_after=0)
    await fleet(".bb", "in/**/*", no_handler_after=0)
    await hands.add("/scans/1.cc")
    assert await ended(hands, 1) == {"jobqueue:completed": 0, "jobqueue:dead_letter": 1}
    (letter,) = await Queue(hands.store).dead_letters.list()
    assert letter.reason == "NO_HANDLER"
    assert letter.error == (
        "NoHandler: no live worker has a handler for '.cc'; "
        "there are some for **/*.aa, **/*.bb, in/**/*"
    )
    assert json.loads(letter.payload)["retries"] == 0


# --- step by step --------------------------------------------------------------------------------


async def test_what_is_handed_over_is_untouched_and_costs_no_attempt(hands: Hands) -> None:
    id = await hands.add("/1.bb")
    (raw,) = await hands.redis.lrange(hands.keys.queues[1], 0, -1)
    first, second = hands.source(ending=".aa"), hands.source(ending=".bb")
    assert await paths(first) == []
    (entry,) = await unmatched.read(hands.redis, hands.keys)
    assert entry.raw == raw
    assert await hands.redis.llen(hands.keys.of(first.worker).processing) == 0
    (claim,) = [claim for _ in range(3) for claim in (await second.settle([], claim=1)).claims]
    assert (claim.id, claim.work.attempt) == (id, 1)
    await second.settle([Settled(claim, Done())], claim=0)
    assert await hands.where(id) == ["completed"]
    told = [(event["event"], event["worker"]) for event in await hands.events()]
    assert told == [
        ("waiting", ""), ("active", first.worker), ("returned", first.worker),
        ("active", second.worker), ("completed", second.worker),
    ]  # fmt: skip


async def test_a_worker_reads_unmatched_files_once_and_then_sleeps(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in commands: neither what it skipped itself nor what others did is read again."""
    monkeypatch.setattr("waystation.core.line.wake_up.LONGEST_BLOCK_S", 600.0)
    hands.set(poll=600)

    async def reads() -> int:
        return (await hands.redis.info("commandstats")).get("cmdstat_xrange", {"calls": 0})["calls"]

    for number in range(250):
        await hands.add(f"/{number}.bb")
    first, second = hands.source(ending=".aa"), hands.source(ending=".aa")
    before = await reads()
    assert await paths(first, 20) == []
    assert await reads() == before
    assert len(await unmatched.read(hands.redis, hands.keys)) == unmatched.PAGE
    before = await reads()
    assert await paths(second, 20) == []
    assert await reads() == before + 3
    for source in (first, second):
        await hands.redis.delete(hands.keys.wake)
        waiting = asyncio.create_task(source.wait(600))
        _, asleep = await asyncio.wait([waiting], timeout=0.1)
        assert asleep
        waiting.cancel()


async def test_what_was_handed_over_comes_first_in_its_priority_and_not_before_a_higher_one(
    hands: Hands,
) -> None:
    await hands.add("/1.bb")
    await hands.add("/2.bb")
    await paths(hands.source(ending=".aa"))
    await hands.add("/3.bb")
    await hands.add("/4.bb", priority="high")
    second = hands.source(ending=".bb")
    await second.settle([], claim=0)
    got = [
        claim.work.filepath for _ in range(6) for claim in (await second.settle([], claim=1)).claims
    ]
    assert got == ["/4.bb", "/1.bb", "/2.bb", "/3.bb"]


async def test_a_paused_priority_does_not_hide_the_files_of_the_others(hands: Hands) -> None:
    """Also when it has more than a worker remembers; they come when it is resumed."""
    urgent = {f"/{number}.bb" for number in range(3 * unmatched.PAGE)}
    for path in urgent:
        await hands.add(path, priority="high")
    await hands.add("/last.bb")
    await paths(hands.source(ending=".aa"))
    queue = Queue(hands.store)
    await queue.pause("high")
    source = hands.source(ending=".bb")
    assert await paths(source, 20) == ["/last.bb"]
    await queue.resume("high")
    assert {*await paths(source, 20), *await paths(source, 20)} == urgent


async def test_several_workers_share_what_is_handed_over(hands: Hands) -> None:
    """Also when each has two calls under way, and there is more than a page."""
    wanted = {f"/{number}.bb" for number in range(250)}
    for path in wanted:
        await hands.add(path)
    await paths(hands.source(ending=".aa"))
    assert await hands.redis.xlen(hands.keys.unmatched) == 250
    several = [hands.source(ending=".bb") for _ in range(3)]
    taken: Counter[str] = Counter()
    for _ in range(20):
        replies = await asyncio.gather(*(source.settle([], claim=20) for source in several * 2))
        taken.update(claim.work.filepath for reply in replies for claim in reply.claims)
    assert taken == Counter(wanted)


async def test_what_a_lost_answer_took_or_moved_is_there_once(hands: Hands) -> None:
    for number in range(3):
        await hands.add(f"/{number}.bb")
    first, second = hands.source(ending=".aa"), hands.source(ending=".bb")
    await first.settle([], claim=3)
    made_deaf(first).lose_next()
    with pytest.raises(StoreUnreachable):
        await first.settle([], claim=1)
    assert await paths(first) == []
    assert sorted(await handed_over(hands)) == ["/0.bb", "/1.bb", "/2.bb"]
    await second.settle([], claim=0)
    made_deaf(second).lose_next()
    with pytest.raises(StoreUnreachable):
        await second.settle([], claim=2)
    assert sorted(await paths(second)) == ["/0.bb", "/1.bb", "/2.bb"]
    assert await handed_over(hands) == []


async def test_a_worker_that_leaves_hands_over_what_it_has_just_fetched(hands: Hands) -> None:
    await hands.add("/1.bb")
    source = hands.source(ending=".aa")
    await source.settle([], claim=1)
    await source.close()
    assert await handed_over(hands) == ["/1.bb"]
    assert await hands.redis.scard(hands.keys.workers) == 0


async def test_an_unmatched_file_comes_back_from_a_dead_worker(
    hands: Hands,
) -> None:
    id = await hands.add("/1.bb")
    await paths(hands.source(ending=".aa"))
    assert await paths(hands.source(ending=".bb")) == ["/1.bb"]
    await hands.lapse()
    assert await hands.where(id) == ["waiting"]


async def test_an_open_breaker_keeps_what_is_handed_over_and_nobody_asks_in_vain(
    hands: Hands,
) -> None:
    hands.set(poll=600, max_retries=0)
    for number in range(4):
        await hands.add(f"/{number}.bb")
    breaker = BreakerOptions(failure_threshold=0.5, min_samples=2, window_s=60, cooldown_s=30)
    source = hands.source(ending=".bb", breaker=breaker)
    claims: list[Claim[Job]] = list((await source.settle([], claim=2)).claims)
    await paths(hands.source(ending=".aa"))
    away = Failed(OSError(5, "input/output error"))
    await source.settle([Settled(claim, away) for claim in claims], claim=0)
    assert await paths(source) == []
    assert len(await handed_over(hands)) == 2
    await hands.redis.delete(hands.keys.wake)
    waiting = asyncio.create_task(source.wait(600))
    _, asleep = await asyncio.wait([waiting], timeout=0.1)
    assert asleep
    waiting.cancel()
    await hands.clock.advance(31)
    assert await paths(source, 1) == ["/2.bb"]


async def test_a_worker_reads_all_of_it_again_now_and_then(hands: Hands) -> None:
    """A server whose clock was set back gives new entries ids that a worker has passed."""
    time = 0.0
    known = unmatched.UnmatchedFiles(hands.keys, lambda job: True, timer=lambda: time)
    source = hands.source(ending=".aa")
    await hands.add("/1.bb")
    await paths(source)
    (entry,) = await unmatched.read(hands.redis, hands.keys)

    def reply(cursor: str) -> Settlement:
        return Settlement([], [], 0, [], entry.id, cursor)

    known.cursor = "99999999999999-0"
    known.settled(reply(known.cursor))
    assert not known.has_new
    time = unmatched.REREAD_S
    known.settled(reply(known.cursor))
    await known.look(hands.redis)
    assert known.reserve(1).text == f"2,{entry.id}"


async def test_a_wrong_type_in_its_place_moves_nothing(hands: Hands) -> None:
    id = await hands.add("/1.bb")
    source = hands.source(ending=".aa")
    await hands.redis.set(hands.keys.unmatched, "mine")
    with pytest.raises(StoreError):
        await source.settle([], claim=1)
    await hands.redis.delete(hands.keys.unmatched)
    assert await hands.where(id) == ["waiting"]


async def test_a_heartbeat_keeps_its_handlers_when_a_call_renews_it(hands: Hands) -> None:
    source = hands.source(ending=".bb", worker="w1")
    await source.open()
    key = hands.keys.of("w1").heartbeat
    await hands.redis.pexpire(key, 10_000)
    await hands.clock.advance(1)
    await source.settle([], claim=1)
    assert await hands.redis.pttl(key) > 15_000
    assert json.loads(await hands.redis.get(key)) == {
        "ts": hands.clock.now_ms(), "handlers": ["**/*.bb"],
    }  # fmt: skip


async def test_unmatched_files_are_counted_and_listed(hands: Hands) -> None:
    await hands.add("/1.bb")
    await paths(hands.source(ending=".aa"))
    queue = Queue(hands.store)
    assert (await queue.lengths())[hands.keys.unmatched] == 1
    assert (await queue.counts("unmatched")) == {"unmatched": 1}
    (job,) = await queue.get_jobs("unmatched")
    assert job.filepath == "/1.bb"


def test_how_long_to_wait_is_no_negative_number() -> None:
    with pytest.raises(
        InvalidOption, match="no_handler_after must be a timedelta or seconds, at least 0, got -1"
    ):
        WorkerOptions(no_handler_after=-1)
