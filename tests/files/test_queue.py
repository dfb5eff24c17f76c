"""The queue as a program and an operator use it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.files.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.errors import InvalidOption, JobFailed, NotFound
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Settled
from waystation.core.store.commands import Entry
from waystation.files import job as jobs
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile
from waystation.files.events import Event
from waystation.files.options import Layout
from waystation.files.queue import Queue
from waystation.files.redis import replies


async def bury(harness: Harness, count: int) -> list[str]:
    harness.set(max_retries=0)
    ids = [await harness.add() for _ in range(count)]
    source = harness.source()
    claims = (await source.settle([], claim=count)).claims
    await source.settle([Settled(claim, Failed(ValueError("no"))) for claim in claims], claim=0)
    return ids


async def test_the_counts_say_how_much_is_where(harness: Harness) -> None:
    await harness.add()
    await harness.add(priority="high")
    await harness.add(priority="high")
    source = harness.source(worker="w1")
    (claim,) = (await source.settle([], claim=1)).claims
    counts = await Queue(harness.store).lengths()
    assert counts["jobqueue:low_priority"] == 1
    assert counts["jobqueue:high_priority"] == 1
    assert counts["jobqueue:worker:w1:processing"] == 1
    await source.settle([Settled(claim, Done())], claim=0)
    assert (await Queue(harness.store).lengths())["jobqueue:completed"] == 1


async def test_prometheus_reads_how_much_is_where_whoever_holds_it(harness: Harness) -> None:
    for _ in range(3):
        await harness.add()
    for worker in ("w1", "w2"):
        await harness.source(worker=worker).settle([], claim=1)

    families = text_string_to_metric_families(await Queue(harness.store).prometheus_text())

    assert {each.labels["place"]: each.value for family in families for each in family.samples} == {
        "jobqueue:high_priority": 0,
        "jobqueue:sched:jobqueue:high_priority": 0,
        "jobqueue:low_priority": 1,
        "jobqueue:sched:jobqueue:low_priority": 0,
        "jobqueue:unmatched": 0,
        "jobqueue:completed": 0,
        "jobqueue:dead_letter": 0,
        "processing": 2,
    }


async def test_a_look_at_a_list_shows_the_next_first_and_moves_nothing(harness: Harness) -> None:
    ids = [await harness.add() for _ in range(3)]
    await harness.redis.lpush(harness.keys.queues[1], b"poison")
    queue = Queue(harness.store)
    assert [job.id for job in await queue.get_jobs("waiting")] == ids
    assert (await queue.payloads("low", 10))[-1] == b"poison"
    assert await harness.redis.llen(harness.keys.queues[1]) == 4
    with pytest.raises(
        InvalidOption,
        match="a list must be one of high, low, completed, dead_letter, unmatched",
    ):
        await queue.payloads("elsewhere")


async def test_dead_letters_go_back_in_line_with_their_tries_forgotten(harness: Harness) -> None:
    ids = await bury(harness, 3)
    queue = Queue(harness.store)
    letters = await queue.dead_letters.list()
    assert [(letter.id, letter.reason) for letter in letters] == [
        (id, "HANDLER_ERROR") for id in ids
    ]
    assert await queue.dead_letters.retry_all(2) == 2
    raws = await harness.redis.lrange(harness.keys.queues[1], 0, -1)
    assert [(json.loads(raw)["id"], json.loads(raw)["retries"]) for raw in raws] == [
        (ids[1], 0),
        (ids[0], 0),
    ]
    assert await harness.redis.hkeys(harness.keys.dead_letter_meta) == [ids[2].encode()]
    assert await queue.dead_letters.retry_all() == 1
    assert await queue.dead_letters.retry_all() == 0


async def test_poison_stays_among_the_dead_letters(harness: Harness) -> None:
    ids = await bury(harness, 2)
    await harness.redis.rpush(harness.keys.dead_letter, b"poison")
    assert await Queue(harness.store).dead_letters.retry_all() == 2
    assert await harness.redis.lrange(harness.keys.dead_letter, 0, -1) == [b"poison"]
    assert await harness.redis.llen(harness.keys.queues[1]) == len(ids)


async def test_a_purge_leaves_no_letter_and_no_reason(harness: Harness) -> None:
    await bury(harness, 250)
    assert await Queue(harness.store).dead_letters.purge() == 250
    assert await harness.redis.exists(harness.keys.dead_letter, harness.keys.dead_letter_meta) == 0
    assert sum(event["event"] == "removed" for event in await harness.events()) == 250


async def test_a_bulk_load_of_the_same_rows_counts_once(harness: Harness) -> None:
    """A batch of a bulk load that is sent again adds nothing."""
    queue = Queue(harness.store)
    rows = [
        entry(queue.keys, ScannedFile(f"/lake/{n}", n, 1), priority="low", now_ns=0)
        for n in range(2_500)
    ]
    first = await queue.intake.put(rows)
    again = await queue.intake.put(rows)
    assert (sum(first.codes), sum(again.codes)) == (2_500, 0)
    assert await harness.redis.llen(harness.keys.queues[1]) == 2_500


async def test_what_has_no_digest_is_always_new(harness: Harness) -> None:
    await harness.add()
    await harness.add()
    assert await harness.redis.llen(harness.keys.queues[1]) == 2
    assert not await harness.redis.exists(harness.keys.seen)


async def test_a_used_up_rate_refuses_and_says_when_to_come_back(harness: Harness) -> None:
    """F-T15: one script, and a key that forgets itself."""
    queue = Queue(harness.store)
    rows = [
        entry(queue.keys, ScannedFile(f"/{n}", n, 1), priority="low", now_ns=0) for n in range(30)
    ]
    added = await queue.intake.put(rows, rate=100)
    assert added.codes.count(replies.NEW) == 5
    assert added.codes.count(replies.WAITS) == 25
    assert 0 < added.wait_ms <= 50
    assert await harness.redis.pttl(harness.keys.rate_limit) not in {-1, *range(51, 60_000)}


async def test_dead_letters_are_retried_by_id(harness: Harness) -> None:
    ids = await bury(harness, 3)
    queue = Queue(harness.store)
    (letter,) = await queue.dead_letters.list(offset=1, limit=1)
    assert letter.job is not None
    assert letter.failed_at is not None
    assert (letter.job.id, letter.failed_at.tzinfo) == (ids[1], UTC)
    assert await queue.retry(ids[1], "unknown") == 1
    assert await queue.dead_letters.count() == 2
    assert await queue.retry() == 0


async def test_jobs_are_counted_and_listed_by_state(harness: Harness) -> None:
    harness.set(max_retries=1, backoff=60)
    source = harness.source(worker="w1")
    failing = await harness.add()
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Failed(ValueError("no")))], claim=0)
    held = await harness.add()
    await source.settle([], claim=1)
    low = [await harness.add() for _ in range(3)]
    high = await harness.add(priority="high")
    queue = Queue(harness.store)

    assert await queue.counts() == {
        "delayed": 1, "waiting": 4, "unmatched": 0, "active": 1, "completed": 0, "failed": 0
    }  # fmt: skip
    assert await queue.counts("active") == {"active": 1}
    assert [job.id for job in await queue.get_jobs()] == [failing, high, *low, held]
    assert [job.id for job in await queue.get_jobs("waiting", offset=2, limit=1)] == low[1:2]
    newest = await queue.get_jobs("waiting", priority="low", newest_first=True)
    assert [job.id for job in newest] == low[::-1]
    assert [await queue.state(id) for id in (failing, high, held)] == [
        "delayed", "waiting", "active"
    ]  # fmt: skip
    job = await queue.get_job(failing)
    assert job is not None
    assert (job.attempt, job.created_at) == (2, datetime.fromtimestamp(0, UTC))
    assert (await queue.get_job("unknown"), await queue.state("unknown")) == (None, None)
    with pytest.raises(InvalidOption, match=r"a state must be one of delayed, .*, got 'dead'"):
        await queue.counts("dead")  # pyright: ignore[reportArgumentType]


async def test_wait_returns_when_a_job_is_completed_and_raises_when_it_fails(
    harness: Harness,
) -> None:
    queue, source = Queue(harness.store), harness.source()
    harness.set(max_retries=0)
    id = await harness.add()
    with pytest.raises(TimeoutError):
        await queue.wait(id, timeout=0.01)
    waiting = asyncio.create_task(queue.wait(id, timeout=timedelta(seconds=LIMIT_S)))
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Done())], claim=0)
    await waiting
    (failed,) = await bury(harness, 1)
    for _ in range(2):
        await queue.wait(id)
        with pytest.raises(JobFailed, match=f"job {failed} failed for good"):
            await queue.wait(failed)
        with pytest.raises(NotFound, match="there is no job unknown"):
            await queue.wait("unknown")
        # What happened long ago is no longer among the events, but the lists still have it.
        await harness.redis.delete(harness.keys.events)


async def test_a_wait_ends_although_the_event_was_trimmed_before_it_was_read(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waystation.files.queue._LOOK_S", 0.05)
    queue, source = Queue(harness.store), harness.source()
    id = await harness.add()
    (claim,) = (await source.settle([], claim=1)).claims
    real = queue._follow  # pyright: ignore[reportPrivateUsage]

    async def too_slow(*given: Any) -> AsyncGenerator[Sequence[Entry]]:
        # A reader that has fallen behind: the other jobs of a busy queue, and never ours.
        async with aclosing(real(*given)) as found:
            async for page in found:
                yield [each for each in page if Event.read(*each).job_id != id]

    monkeypatch.setattr(queue, "_follow", too_slow)
    waiting = asyncio.create_task(queue.wait(id, timeout=LIMIT_S))
    await asyncio.sleep(0)
    await source.settle([Settled(claim, Done())], claim=0)
    for _ in range(3):
        await harness.add()
    await harness.redis.xtrim(harness.keys.events, maxlen=1, approximate=False)
    await waiting


async def test_following_events_goes_on_after_the_store_was_away(harness: Harness) -> None:
    queue, seen = Queue(harness.store), list[str | None]()

    async def follow() -> None:
        async with aclosing(queue.events(after="0-0")) as found:
            async for event in found:
                seen.append(event.job_id)
                if len(seen) == 2:
                    return

    following = asyncio.create_task(follow())
    first = await harness.add()
    async with asyncio.timeout(LIMIT_S):
        while not seen:
            await asyncio.sleep(0.01)
        await harness.redis.client_kill_filter(_type="normal", skipme=True)
        second = await harness.add()
        await following
    assert seen == [first, second]


async def test_unmatched_files_are_read_in_bounded_pages_each_once(harness: Harness) -> None:
    async with harness.redis.pipeline(transaction=False) as pipe:
        for number in range(1200):
            raw = b'{"id":"u%d","filepath":"/inbox/a"}' % number
            pipe.xadd(harness.keys.unmatched, {"job": raw, "lane": 1})
        await pipe.execute()
    await harness.redis.config_resetstat()
    queue = Queue(harness.store)

    assert await queue.state("u1199") == "unmatched"
    stats = await harness.redis.info("commandstats")
    assert stats["cmdstat_xrange"]["calls"] == 3
    page = await queue.get_jobs("unmatched", offset=1100, limit=2)
    assert [job.id for job in page] == ["u1100", "u1101"]
    (newest,) = await queue.get_jobs("unmatched", limit=1, newest_first=True)
    assert newest.id == "u1199"


async def test_a_paused_priority_is_left_alone_until_it_is_resumed(harness: Harness) -> None:
    queue, source = Queue(harness.store), harness.source()
    low, high = await harness.add(), await harness.add(priority="high")
    assert await queue.pause("low")
    assert not await queue.pause("low")
    assert await queue.paused_priorities() == ["low"]
    assert [claim.id for claim in (await source.settle([], claim=5)).claims] == [high]
    # Nobody is woken for what nobody may take.
    assert (await source.settle([], claim=1)).claims == []
    await harness.redis.delete(harness.keys.wake)
    assert await queue.resume("low")
    # An idle worker has to be told that there is something to take.
    assert await harness.redis.llen(harness.keys.wake) == 1
    assert not await queue.resume("low")
    assert await queue.paused_priorities() == []
    assert [claim.id for claim in (await source.settle([], claim=5)).claims] == [low]
    with pytest.raises(InvalidOption, match="priority must be one of high, low"):
        await queue.pause("urgent")


async def test_a_job_that_has_not_ended_can_be_cancelled_wherever_it_is(harness: Harness) -> None:
    queue = Queue(harness.store)
    harness.set(backoff=60)
    delayed, active, done = [await harness.add() for _ in range(3)]
    source = harness.source()
    first, second, third = (await source.settle([], claim=3)).claims
    assert [first.id, second.id, third.id] == [delayed, active, done]
    ended = [Settled(first, Failed(ValueError("no"))), Settled(third, Done())]
    await source.settle(ended, claim=0)
    unmatched, waiting = await harness.add("/inbox/a.csv"), await harness.add("/inbox/b.csv")
    other = harness.source(ending=".txt")
    await other.settle([], claim=1)
    await other.settle([], claim=0)
    ids = [delayed, active, unmatched, waiting, done]
    states = [await queue.state(id) for id in ids]
    assert states == ["delayed", "active", "unmatched", "waiting", "completed"]

    assert await queue.cancel(*ids, "unknown") == 4

    assert [await queue.state(id) for id in ids] == [None, None, None, None, "completed"]
    (refused,) = (await source.settle([Settled(second, Done())], claim=0)).refused
    assert refused.claim is second
    for id in ids[:4]:
        with pytest.raises(NotFound):
            await queue.wait(id)


async def test_a_job_in_another_queue_than_that_of_its_priority_can_be_cancelled(
    harness: Harness,
) -> None:
    queue, keys = Queue(harness.store), harness.keys
    urgent, plain = keys.queues[0], keys.queues[-1]
    await harness.redis.lpush(plain, b'{"id":"urgent","filepath":"/a","priority":"high"}')
    await harness.redis.lpush(urgent, b'{"id":"plain","filepath":"/b"}')

    assert await queue.cancel("urgent", "plain") == 2

    assert await queue.state("urgent") is None
    assert await queue.state("plain") is None


async def test_dead_letters_are_chosen_by_their_error_as_in_routing(harness: Harness) -> None:
    queue = Queue(harness.store)
    ids = await bury(harness, 2)
    await harness.redis.lpush(harness.keys.dead_letter, b"poison")
    await harness.redis.hset(harness.keys.dead_letter_meta, jobs.poison_id(b"poison"), b"no json")
    letters = await queue.dead_letters.list()
    assert [letter.attempts for letter in letters] == [1, 1, 0]
    assert letters[0].error == "ValueError: no"
    assert (letters[0].error.name, letters[0].error.message) == ("ValueError", "no")
    assert (letters[2].error.name, letters[2].failed_at) == ("", None)
    assert letters[0].job
    assert letters[0].job.attempts == 1

    assert await queue.dead_letters.retry_all(1, error="ValueError") == 1
    assert await queue.dead_letters.retry_all(error="KeyError") == 0
    assert await queue.state(ids[0]) == "waiting"
    assert await queue.dead_letters.purge(error="ValueError") == 1
    assert await queue.dead_letters.remove(ids[1], jobs.poison_id(b"poison")) == 1
    assert await queue.dead_letters.count() == 0
    assert await harness.redis.exists(harness.keys.dead_letter_meta) == 0


async def test_events_come_as_they_happen_and_can_be_continued(harness: Harness) -> None:
    queue = Queue(harness.store)
    id = await harness.add()
    async with aclosing(queue.events("0-0")) as events, asyncio.timeout(LIMIT_S):
        first = await anext(events)
        assert (first.name, first.job_id, first.fields["path"]) == ("waiting", id, "/inbox/a.pdf")
        assert first.at == datetime.fromtimestamp(first.at_ms / 1000, UTC)
        later = await harness.add()
        assert (await anext(events)).job_id == later
    async with aclosing(queue.events(first.id)) as events, asyncio.timeout(LIMIT_S):
        assert (await anext(events)).job_id == later


async def test_workers_are_listed_with_their_heartbeat_and_patterns(harness: Harness) -> None:
    queue = Queue(harness.store)
    await harness.add("/1.aa")
    source = harness.source(worker="w1", ending=".aa")
    await source.open()
    await source.settle([], claim=1)
    (worker,) = await queue.workers()
    assert (worker.name, worker.alive, worker.active) == ("w1", True, 1)
    assert worker.patterns == ("**/*.aa",)
    assert worker.seen_at == datetime.fromtimestamp(harness.clock.now_ms() / 1000, UTC)
    await harness.silence()
    (worker,) = await queue.workers()
    assert (worker.alive, worker.seen_at) == (False, None)


async def test_a_prefix_keeps_queues_apart(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    async with Queue(harness.store, prefix="other") as queue:
        assert await queue.add(tmp_path / "a")
        assert await queue.counts("waiting") == {"waiting": 1}
    assert await Queue(harness.store).counts("waiting") == {"waiting": 0}
    with pytest.raises(InvalidOption, match="prefix and layout exclude each other"):
        Queue(harness.store, prefix="other", layout=Layout())
