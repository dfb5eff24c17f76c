"""The scripts with hostile input: odd bytes, odd keys, the same call twice."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.files.harness import Harness
from waystation.core.errors import ScriptFailed
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Settled
from waystation.core.telemetry.metrics import Metrics
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile
from waystation.files.queue import Queue
from waystation.files.redis import replies
from waystation.files.upkeep import promote_due

TWIN = b'{"id":"7","filepath":"/a","filesize":0,"priority":"low","retries":0}'


def rows(harness: Harness, *numbers: int) -> list[Any]:
    keys = harness.keys
    return [entry(keys, ScannedFile(f"/{n}", n, 1), priority="low", now_ns=0) for n in numbers]


async def test_nothing_completed_is_kept_when_none_is_wanted(harness: Harness) -> None:
    harness.set(completed_max_len=0)
    await harness.add()
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    assert not (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert await harness.redis.llen(harness.keys.completed) == 0


async def test_the_same_bytes_put_in_line_twice_are_two_jobs_to_the_end(harness: Harness) -> None:
    """F-T14: twins cannot be told apart, and neither takes the other's place."""
    harness.set(backoff=1)
    await harness.redis.lpush(harness.keys.queues[1], TWIN, TWIN)
    source = harness.source()
    twins = (await source.settle([], claim=2)).claims
    async with source.keeper() as extend:
        assert list(await extend(twins)) == []
    await source.settle([Settled(twin, Failed(RuntimeError())) for twin in twins], claim=0)
    await harness.clock.advance(1)
    await promote_due(harness.redis, harness.keys, now_ms=harness.clock.now_ms())
    again = (await source.settle([], claim=2)).claims
    assert [twin.work.retries for twin in again] == [1, 1]
    assert not (await source.settle([Settled(twin, Done()) for twin in again], claim=0)).refused
    assert await harness.redis.llen(harness.keys.completed) == 2


@pytest.mark.parametrize(
    ("raw", "subject", "attempt"),
    [
        (b'{"id":"7","filepath":"/a","filesize":0,"priority":"low","retries":2}', "7", "3"),
        (b'{"filepath":"/a","retries":1,"id":"last"}', "last", "2"),
        (b'{"meta":{"id":"inner","retries":9},"id":"outer","filepath":"/a"}', "outer", "1"),
        (b'{"id":"a\\"b","filepath":"/a"}', 'a"b', "1"),
        (b'{"filepath":"\\",\\"filesize\\":1,\\"id\\":\\"x","id":"7"}', "7", "1"),
    ],
)
async def test_events_name_a_job_as_it_names_itself(
    harness: Harness, raw: bytes, subject: str, attempt: str
) -> None:
    """Whoever wrote it, and in whatever order."""
    await harness.redis.lpush(harness.keys.queues[1], raw)
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Done())], claim=0)
    events = [(e["event"], e["subject"], e["attempt"]) for e in await harness.events()]
    assert events == [("active", subject, attempt), ("completed", subject, attempt)]


@pytest.mark.parametrize(
    "raw", [b"\xff", b'{"id":7}', b'{"id":"","filepath":"/a"}', b"[" * 5_000, b'{"id":"x"}']
)
async def test_what_is_no_job_has_one_name_in_every_event(harness: Harness, raw: bytes) -> None:
    await harness.redis.lpush(harness.keys.queues[1], raw)
    source = harness.source()
    await source.settle([], claim=1)
    await source.settle([], claim=1)
    assert len({event["subject"] for event in await harness.events()}) == 1
    assert await Queue(harness.store).dead_letters.purge() == 1
    assert not await harness.redis.exists(harness.keys.dead_letter_meta)


async def test_the_counter_of_another_kind_of_producer_does_not_stop_ours(harness: Harness) -> None:
    """F-T15: a counter that was left behind for ever is one more reason to begin anew."""
    await harness.redis.set(harness.keys.rate_limit, 1_000_000)
    added = await Queue(harness.store).intake.put(rows(harness, 1), rate=100)
    assert added.codes == [replies.NEW]
    assert await harness.redis.pttl(harness.keys.rate_limit) != -1


async def test_a_file_twice_in_one_call_is_put_in_line_once(harness: Harness) -> None:
    added = await Queue(harness.store).intake.put(rows(harness, 1, 1))
    assert added.codes == [replies.NEW, replies.KNOWN]
    assert await harness.redis.llen(harness.keys.queues[1]) == 1


async def test_what_could_not_be_put_in_line_is_not_remembered_as_if_it_were(
    harness: Harness,
) -> None:
    queue = Queue(harness.store)
    await harness.redis.set(harness.keys.queues[1], "no list")
    with pytest.raises(ScriptFailed):
        await queue.intake.put(rows(harness, 1))
    await harness.redis.delete(harness.keys.queues[1])
    assert (await queue.intake.put(rows(harness, 1))).codes == [replies.NEW]


async def test_what_a_failed_step_had_fetched_is_found(harness: Harness) -> None:
    """F-T4: the first queue gave a job before the second turned out to be no list."""
    id = await harness.add(priority="high")
    await harness.redis.set(harness.keys.queues[1], "no list")
    source = harness.source()
    with pytest.raises(ScriptFailed):
        await source.settle([], claim=2)
    await harness.redis.delete(harness.keys.queues[1])
    assert [claim.id for claim in (await source.settle([], claim=2)).claims] == [id]


async def test_poison_that_waits_to_be_filed_is_not_found_a_second_time(harness: Harness) -> None:
    await harness.redis.lpush(harness.keys.queues[1], b"poison")
    source = harness.source()
    await source.settle([], claim=1)
    source._in_doubt = True  # pyright: ignore[reportPrivateUsage]
    await source.settle([], claim=1)
    await source.settle([], claim=1)
    assert Counter(event["event"] for event in await harness.events()) == {"active": 1, "dead": 1}


async def test_a_reaper_that_comes_second_counts_only_what_it_took(harness: Harness) -> None:
    """T-33: of three jobs the other reaper has taken the two that are tried again."""
    harness.set(max_retries=1)
    source = harness.source(worker="w1")
    for retries in (0, 0, 1):
        raw = json.dumps({"id": f"{retries}", "filepath": "/a", "retries": retries}).encode()
        await harness.redis.lpush(harness.keys.queues[1], raw)
    await source.settle([], claim=3)
    await harness.silence()
    metrics, redis = Metrics(), harness.redis
    processing = harness.keys.of("w1").processing

    class OvertakenOnce:
        async def execute_command(self, *args: object) -> object:
            answer = await redis.execute_command(*args)
            if args[0] == "LRANGE":
                await redis.lrem(processing, 2, b'{"id": "0", "filepath": "/a", "retries": 0}')
            return answer

    reaper = harness.reaper(metrics=metrics, client=OvertakenOnce())
    assert await reaper.reap() == 1
    queue = {"queue": harness.keys.queues[1]}
    assert metrics.registry.get_sample_value("jobs_dead_letter_total", queue) == 1
    assert metrics.registry.get_sample_value("jobs_retried_total", queue) is None


async def test_retries_come_due_while_every_hand_is_full(harness: Harness) -> None:
    """F-T7: a fetch that found enough leaves them to the duty, which adds them."""
    harness.set(backoff=1)
    first = await harness.add(priority="high")
    source = harness.source()
    (claim,) = (await source.settle([], claim=1)).claims
    await source.settle([Settled(claim, Failed(RuntimeError()))], claim=0)
    await harness.clock.advance(1)
    for _ in range(3):
        await harness.add()
    await promote_due(harness.redis, harness.keys, now_ms=harness.clock.now_ms())
    assert [claim.id for claim in (await source.settle([], claim=1)).claims] == [first]
