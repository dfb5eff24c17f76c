"""A line of files with its retries, dead letters, handover and producers."""

import json
from collections.abc import Sequence
from typing import Any

from tests.files.harness import Harness, harness_on
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Settled
from waystation.files.claims import FileSource
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile
from waystation.files.fetch import read_unmatched
from waystation.files.queue import Queue
from waystation.files.reasons import Reason
from waystation.files.redis import scripts
from waystation.files.upkeep import promote_due


async def walk(url: str) -> None:
    """Take the paths of every script of files."""
    for part in (add, settle, hand_over, reap, tend):
        async with harness_on(url) as harness:
            await harness.redis.flushdb()
            await part(harness)


def fails() -> Failed:
    return Failed(RuntimeError("no"))


async def end(source: FileSource, *outcomes: Outcome, want: int = 0) -> None:
    """Claim a job for each of the outcomes, settle them in one call and claim more."""
    claims = (await source.settle([], claim=len(outcomes))).claims
    settled = [Settled(each, outcome) for each, outcome in zip(claims, outcomes, strict=False)]
    await source.settle(settled, claim=want)


async def add(harness: Harness) -> None:
    def found(*numbers: int, priority: str = "low") -> Sequence[Any]:
        files = [ScannedFile(f"/{n}", n, 1) for n in numbers]
        return [entry(harness.keys, file, priority=priority, now_ns=0) for file in files]

    intake = Queue(harness.store).intake
    await intake.put(found(1, 1))
    await intake.put([*found(2), *found(3, priority="high")])
    await intake.put(found(1, 4))
    for number in (5, 6):
        await intake.put(found(number, number + 10), rate=1)
    await harness.redis.delete(harness.keys.rate_limit)
    await harness.redis.set(harness.keys.rate_limit, 7)
    await intake.put(found(20), rate=1)
    await intake.known([ScannedFile("/1", 1, 1), ScannedFile("/99", 1, 1)])
    # What was seen is old enough to be turned over, and what was seen before that is asked for.
    await harness.redis.pexpire(harness.keys.seen, 1000)
    await intake.known([ScannedFile("/1", 1, 1)])
    await harness.redis.pexpire(harness.keys.seen, 1000)
    await intake.put(found(1, 2))
    for _ in range(2):
        await intake.still_holds("mark")
    await harness.redis.pexpire(harness.keys.seen, 1000)
    await intake.still_holds("mark")


async def settle(harness: Harness) -> None:
    source = harness.source(worker="w1")
    await source.settle([], claim=1)
    for _ in range(4):
        await harness.add()
        await harness.add(priority="high")
    await end(source, Done(), fails(), Returned(), want=0)
    await end(source, Done(), want=1)
    harness.set(backoff=0.5)
    later = harness.source(worker="w2")
    await end(later, fails(), fails(), want=0)
    await later.settle([], claim=20)
    await harness.clock.advance(1)
    await later.settle([], claim=2)
    harness.set(max_retries=0, completed_max_len=1)
    last = harness.source(worker="w3")
    for _ in range(4):
        await harness.add(priority="high")
    await end(last, Done(), Done(), fails(), want=5)
    await harness.redis.lpush(harness.keys.queues[0], b"poison")
    await last.settle([], claim=1)
    await last.settle([], claim=1)
    async with last.keeper() as extend:
        await extend([])
    await scripts.leave(harness.redis, harness.keys.of("w3"), worker="w3")
    await scripts.leave(harness.redis, harness.keys.of("w9"), worker="w9")


async def hand_over(harness: Harness) -> None:
    texts = harness.source(worker="w1", ending=".txt")
    images = harness.source(worker="w2", ending=".png")
    for path in ("/a.png", "/b.txt", "/c.png", "/d.doc"):
        await harness.add(path)
    for _ in range(3):
        await texts.settle([], claim=4)
        await images.settle([], claim=1)
    left = await read_unmatched(harness.redis, harness.keys)
    assert left
    letter = [left[0].id, "d", left[0].lane, 1, left[0].raw, Reason.NO_HANDLER.value, "nobody"]
    for _ in range(2):
        await scripts.dead_letter_unmatched(
            harness.redis,
            harness.keys,
            now=harness.clock.now_ms(),
            worker="w1",
            events_cap=100,
            entries=letter,
        )


async def reap(harness: Harness) -> None:
    harness.set(max_retries=1)
    for retries in (0, 1):
        raw = json.dumps({"id": f"{retries}", "filepath": "/a", "retries": retries}).encode()
        await harness.redis.lpush(harness.keys.queues[1], raw)
    await harness.redis.lpush(harness.keys.queues[1], b"poison")
    source = harness.source(worker="w1")
    await source.settle([], claim=3)
    await harness.reaper().reap()
    await harness.silence()
    await harness.reaper().reap()
    # A list whose worker nobody has registered.
    await harness.redis.lpush(harness.keys.of("w7").processing, b"orphan")
    await scripts.register(harness.redis, harness.keys.of("w7"), worker="w7")
    await scripts.register(harness.redis, harness.keys.of("w8"), worker="w8")


async def tend(harness: Harness) -> None:
    harness.set(backoff=0.5)
    await harness.add()
    await harness.add(priority="high")
    await end(harness.source(), fails(), fails())
    await harness.clock.advance(1)
    await promote_due(harness.redis, harness.keys, now_ms=harness.clock.now_ms())
    harness.set(max_retries=0)
    await end(harness.source(), fails(), fails())
    queue = Queue(harness.store)
    await queue.pause("high")
    await harness.source().settle([], claim=1)
    await queue.resume("high")
    await queue.dead_letters.remove(*[each.id for each in await queue.dead_letters.list(1)])
    await harness.source(ending=".csv").settle([], claim=1)
    for path in ("/a.csv", "/b.png"):
        await harness.add(path)
    csv = harness.source(ending=".csv")
    for _ in range(2):
        await csv.settle([], claim=1)
    await queue.cancel(*[each.id for each in await queue.get_jobs()])
    harness.set(max_retries=1)
    await harness.add()
    await end(harness.source(), fails())
    await queue.cancel(*[each.id for each in await queue.get_jobs("delayed", "waiting")])
    harness.set(max_retries=0)
    await queue.dead_letters.retry_all(1)
    await end(harness.source(), fails())
    await queue.dead_letters.purge()
