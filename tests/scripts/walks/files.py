"""A line of files with its retries, dead letters, handover and producers."""

import json
from collections.abc import Sequence
from typing import Any

from tests.files.hands import Hands, hands_on
from waystation.core.outcome import Done, Failed, Outcome, Returned
from waystation.core.runtime.claim import Settled
from waystation.files.claims import FileSource
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile
from waystation.files.fetch.unmatched import read
from waystation.files.queue import Queue
from waystation.files.reasons import Reason
from waystation.files.redis import scripts
from waystation.files.upkeep.reaper import promote_due


async def walk(url: str) -> None:
    """Take the paths of every script of files."""
    for part in (add, settle, hand_over, reap, tend):
        async with hands_on(url) as hands:
            await hands.redis.flushdb()
            await part(hands)


def fails() -> Failed:
    return Failed(RuntimeError("no"))


async def end(source: FileSource, *outcomes: Outcome, want: int = 0) -> None:
    """Claim a job for each of the outcomes, settle them in one call and claim more."""
    claims = (await source.settle([], claim=len(outcomes))).claims
    settled = [Settled(each, outcome) for each, outcome in zip(claims, outcomes, strict=False)]
    await source.settle(settled, claim=want)


async def add(hands: Hands) -> None:
    def found(*numbers: int, priority: str = "low") -> Sequence[Any]:
        files = [ScannedFile(f"/{n}", n, 1) for n in numbers]
        return [entry(hands.keys, file, priority=priority, now_ns=0) for file in files]

    intake = Queue(hands.store).intake
    await intake.put(found(1, 1))
    await intake.put([*found(2), *found(3, priority="high")])
    await intake.put(found(1, 4))
    for number in (5, 6):
        await intake.put(found(number, number + 10), rate=1)
    await hands.redis.delete(hands.keys.rate_limit)
    await hands.redis.set(hands.keys.rate_limit, 7)
    await intake.put(found(20), rate=1)
    await intake.known([ScannedFile("/1", 1, 1), ScannedFile("/99", 1, 1)])
    # What was seen is old enough to be turned over, and what was seen before that is asked for.
    await hands.redis.pexpire(hands.keys.seen, 1000)
    await intake.known([ScannedFile("/1", 1, 1)])
    await hands.redis.pexpire(hands.keys.seen, 1000)
    await intake.put(found(1, 2))
    for _ in range(2):
        await intake.still_holds("mark")
    await hands.redis.pexpire(hands.keys.seen, 1000)
    await intake.still_holds("mark")


async def settle(hands: Hands) -> None:
    source = hands.source(worker="w1")
    await source.settle([], claim=1)
    for _ in range(4):
        await hands.add()
        await hands.add(priority="high")
    await end(source, Done(), fails(), Returned(), want=0)
    await end(source, Done(), want=1)
    hands.set(backoff=0.5)
    later = hands.source(worker="w2")
    await end(later, fails(), fails(), want=0)
    await later.settle([], claim=20)
    await hands.clock.advance(1)
    await later.settle([], claim=2)
    hands.set(max_retries=0, completed_max_len=1)
    last = hands.source(worker="w3")
    for _ in range(4):
        await hands.add(priority="high")
    await end(last, Done(), Done(), fails(), want=5)
    await hands.redis.lpush(hands.keys.queues[0], b"poison")
    await last.settle([], claim=1)
    await last.settle([], claim=1)
    async with last.keeper() as extend:
        await extend([])
    await scripts.leave(hands.redis, hands.keys.of("w3"), worker="w3")
    await scripts.leave(hands.redis, hands.keys.of("w9"), worker="w9")


async def hand_over(hands: Hands) -> None:
    texts = hands.source(worker="w1", ending=".txt")
    images = hands.source(worker="w2", ending=".png")
    for path in ("/a.png", "/b.txt", "/c.png", "/d.doc"):
        await hands.add(path)
    for _ in range(3):
        await texts.settle([], claim=4)
        await images.settle([], claim=1)
    left = await read(hands.redis, hands.keys)
    assert left
    letter = [left[0].id, "d", left[0].lane, 1, left[0].raw, Reason.NO_HANDLER.value, "nobody"]
    for _ in range(2):
        await scripts.dead_letter_unmatched(
            hands.redis,
            hands.keys,
            now=hands.clock.now_ms(),
            worker="w1",
            events_cap=100,
            entries=letter,
        )


async def reap(hands: Hands) -> None:
    hands.set(max_retries=1)
    for retries in (0, 1):
        raw = json.dumps({"id": f"{retries}", "filepath": "/a", "retries": retries}).encode()
        await hands.redis.lpush(hands.keys.queues[1], raw)
    await hands.redis.lpush(hands.keys.queues[1], b"poison")
    source = hands.source(worker="w1")
    await source.settle([], claim=3)
    await hands.reaper().reap()
    await hands.silence()
    await hands.reaper().reap()
    # A list whose worker nobody has registered.
    await hands.redis.lpush(hands.keys.of("w7").processing, b"orphan")
    await scripts.register(hands.redis, hands.keys.of("w7"), worker="w7")
    await scripts.register(hands.redis, hands.keys.of("w8"), worker="w8")


async def tend(hands: Hands) -> None:
    hands.set(backoff=0.5)
    await hands.add()
    await hands.add(priority="high")
    await end(hands.source(), fails(), fails())
    await hands.clock.advance(1)
    await promote_due(hands.redis, hands.keys, now_ms=hands.clock.now_ms())
    hands.set(max_retries=0)
    await end(hands.source(), fails(), fails())
    queue = Queue(hands.store)
    await queue.pause("high")
    await hands.source().settle([], claim=1)
    await queue.resume("high")
    await queue.dead_letters.remove(*[each.id for each in await queue.dead_letters.list(1)])
    await hands.source(ending=".csv").settle([], claim=1)
    for path in ("/a.csv", "/b.png"):
        await hands.add(path)
    csv = hands.source(ending=".csv")
    for _ in range(2):
        await csv.settle([], claim=1)
    await queue.cancel(*[each.id for each in await queue.get_jobs()])
    hands.set(max_retries=1)
    await hands.add()
    await end(hands.source(), fails())
    await queue.cancel(*[each.id for each in await queue.get_jobs("delayed", "waiting")])
    hands.set(max_retries=0)
    await queue.dead_letters.retry_all(1)
    await end(hands.source(), fails())
    await queue.dead_letters.purge()
