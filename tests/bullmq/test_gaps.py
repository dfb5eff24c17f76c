"""A listener that comes too late gets a gap with what it has missed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.support.listening import blocked_on, first
from tests.support.patience import LIMIT_S
from waystation.bullmq.events.gaps import Extent, Gap, Trail
from waystation.bullmq.events.stream import NOW, START, QueueEvents
from waystation.bullmq.queue import Queue
from waystation.bullmq.redis.keys import QueueKeys

KEYS = QueueKeys("mail")


@pytest.fixture
async def events(redis_url: str) -> AsyncIterator[QueueEvents]:
    async with QueueEvents("mail", redis_url) as opened:
        yield opened


async def write_events(redis: Redis, many: int, *, keep: int | None = None) -> list[str]:
    ids: list[Any] = []
    for number in range(many):
        ids.append(await redis.xadd(KEYS.events, {"event": "waiting", "jobId": str(number)}))
    if keep is not None:
        await redis.xtrim(KEYS.events, maxlen=keep, approximate=False)
    return [id.decode() for id in ids]


async def test_what_was_trimmed_before_it_was_read_is_told_as_a_gap(
    redis: Redis, events: QueueEvents
) -> None:
    async with contextlib.aclosing(events.listen(START)) as stream:
        before = await write_events(redis, 3)
        await first(stream, 3)
        after = await write_events(redis, 10, keep=4)

        gap, *rest = await first(stream, 5)

    assert isinstance(gap, Gap)
    assert (gap.name, gap.after, gap.before, gap.lost) == ("gap", before[-1], after[6], 6)
    assert [event.id for event in rest] == after[6:]


async def test_events_lost_since_the_listener_was_opened_are_counted(
    redis: Redis, events: QueueEvents
) -> None:
    await write_events(redis, 20, keep=5)
    gap, *rest = await first(aiter(events), 6)
    assert isinstance(gap, Gap)
    assert gap.lost == 15
    assert len(rest) == 5


async def test_every_event_is_told_or_counted_however_short_the_stream_is(
    redis: Redis, redis_url: str, events: QueueEvents
) -> None:
    """Nothing is silent: what was received and what was lost add up to what happened."""
    await redis.hset(KEYS.meta, "opts.maxLenEvents", "1")
    async with Queue("mail", redis_url) as queue:
        for _ in range(5):
            await queue.add_many(("send", number) for number in range(500))
    happened = (await redis.xinfo_stream(KEYS.events))["entries-added"]
    seen = 0
    async with asyncio.timeout(LIMIT_S):
        async for event in events:
            seen += (event.lost or 0) if isinstance(event, Gap) else 1
            if seen >= happened:
                break
    assert seen == happened
    assert happened >= 5000


async def test_trimming_behind_the_listener_is_no_gap(redis: Redis, events: QueueEvents) -> None:
    async with contextlib.aclosing(events.listen(START)) as stream:
        await write_events(redis, 5)
        await first(stream, 5)
        await redis.xtrim(KEYS.events, maxlen=0, approximate=False)
        ids = await write_events(redis, 2)
        assert [event.id for event in await first(stream, 2)] == ids


@pytest.mark.parametrize("position", [START, NOW])
async def test_what_was_gone_before_the_listening_began_is_no_gap(
    redis: Redis, events: QueueEvents, position: str
) -> None:
    kept = await write_events(redis, 9, keep=3)
    async with contextlib.aclosing(events.listen(position)) as stream:
        if position == NOW:
            waiting = asyncio.create_task(first(stream, 1))
            await blocked_on(redis)
            [kept] = [await write_events(redis, 1)]
            assert [event.id for event in await waiting] == kept
        else:
            assert [event.id for event in await first(stream, 3)] == kept[-3:]


async def test_a_remembered_place_inside_the_stream_counts_exactly(
    redis: Redis, events: QueueEvents
) -> None:
    ids = await write_events(redis, 10)
    async with contextlib.aclosing(events.listen(ids[3])) as stream:
        await first(stream, 6)
        await write_events(redis, 8, keep=3)
        [gap] = await first(stream, 1)
    assert isinstance(gap, Gap)
    assert gap.lost == 5


async def test_a_remembered_place_that_is_gone_is_a_gap_of_unknown_size(
    redis: Redis, events: QueueEvents
) -> None:
    ids = await write_events(redis, 10, keep=4)
    async with contextlib.aclosing(events.listen(ids[1])) as stream:
        gap, event = await first(stream, 2)
    assert isinstance(gap, Gap)
    assert (gap.after, gap.before, gap.lost) == (ids[1], ids[6], None)
    assert event.id == ids[6]
    async with contextlib.aclosing(events.listen(gap.id)) as stream:
        assert [event.id for event in await first(stream, 4)] == ids[6:]


async def test_a_stream_that_began_anew_is_a_gap_of_unknown_size(
    redis: Redis, events: QueueEvents
) -> None:
    async with contextlib.aclosing(events.listen(START)) as stream:
        await write_events(redis, 5)
        await first(stream, 5)
        await redis.delete(KEYS.events)
        ids = await write_events(redis, 2)
        gap, *rest = await first(stream, 3)
    assert isinstance(gap, Gap)
    assert gap.lost is None
    assert [event.id for event in rest] == ids


def test_a_server_that_does_not_count_tells_the_gap_without_its_size() -> None:
    trail = Trail.from_place("5-0", Extent(None, 3, "4-0", "6-0", None))
    assert trail.follow(["6-0"], Extent(None, 3, "4-0", "6-0", None)) is None
    gap = trail.follow(["9-0"], Extent(None, 1, "9-0", "9-0", None))
    assert gap is not None
    assert (gap.after, gap.before, gap.lost) == ("6-0", "9-0", None)


def test_what_is_trimmed_while_it_is_read_is_told_with_the_next_events() -> None:
    trail = Trail("1-0", 1)
    assert trail.follow(["2-0", "3-0"], Extent(9, 5, "5-0", "9-0", 0)) is None
    gap = trail.follow(["5-0"], Extent(9, 5, "5-0", "9-0", 0))
    assert gap is not None
    assert (gap.after, gap.before, gap.lost) == ("3-0", "5-0", 1)
