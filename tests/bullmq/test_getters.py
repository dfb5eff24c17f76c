from datetime import timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.bullmq.harness import Harness
from waystation.bullmq.options import Group, JobOptions
from waystation.bullmq.queue import Queue
from waystation.bullmq.states import State
from waystation.bullmq.worker import Worker
from waystation.core.errors import InvalidOption

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def one_of_each(queue: Queue, harness: Harness) -> None:
    for state in ("completed", "failed", "active"):
        await queue.add(state, attempts=1)
        claim = await harness.claim_one()
        if state == "completed":
            await harness.complete(claim)
        elif state == "failed":
            await harness.fail(claim)
    await queue.add("delayed", delay=AN_HOUR)
    await queue.add("prioritized", priority=2)
    await queue.add("waiting")


async def test_a_job_is_found_by_its_id(queue: Queue) -> None:
    await queue.add("work", {"n": 1}, job_id="mine")

    found = await queue.get_job("mine")

    assert found
    assert (found.name, found.data) == ("work", {"n": 1})
    assert found.created_ms > 0
    assert await queue.get_job("another") is None


async def test_jobs_are_counted_and_listed_by_state(queue: Queue, harness: Harness) -> None:
    await one_of_each(queue, harness)

    assert await queue.counts() == {
        "waiting": 1,
        "active": 1,
        "prioritized": 1,
        "delayed": 1,
        "waiting-children": 0,
        "completed": 1,
        "failed": 1,
    }
    assert await queue.counts("failed", "waiting") == {"failed": 1, "waiting": 1}
    assert await queue.count() == 3
    for state in ("waiting", "active", "prioritized", "delayed", "completed", "failed"):
        assert [job.name for job in await queue.get_jobs(state)] == [state]
        [job] = await queue.get_jobs(state)
        assert await queue.state(job.id) == state
    assert len(await queue.get_jobs()) == 6


@pytest.mark.parametrize("options", [JobOptions(), JobOptions(delay=AN_HOUR)])
async def test_jobs_come_newest_first_or_oldest_first(queue: Queue, options: JobOptions) -> None:
    for n in range(5):
        await queue.add("work", n, options, delay=3600 + n if options.delay else 0)
    state = "delayed" if options.delay else "waiting"

    async def numbers(*, newest_first: bool = False, **page: Any) -> list[int]:
        return [job.data for job in await queue.get_jobs(state, newest_first=newest_first, **page)]

    assert await numbers(newest_first=True) == [4, 3, 2, 1, 0]
    assert await numbers(limit=2, newest_first=True) == [4, 3]
    assert await numbers(offset=1, limit=2) == [1, 2]
    assert await numbers(limit=None) == [0, 1, 2, 3, 4]


async def test_ids_whose_job_is_gone_are_left_out(queue: Queue, harness: Harness) -> None:
    await queue.add("gone")
    await queue.add("here")
    await harness.redis.delete(harness.keys.of("1").job)

    assert [job.name for job in await queue.get_jobs("waiting")] == ["here"]


async def test_what_bullmq_5_set_aside_counts_as_waiting(queue: Queue, harness: Harness) -> None:
    await queue.add_many([("old", n) for n in range(2)])
    await queue.pause()
    await harness.call("LPUSH", harness.keys.wait, "new")
    await harness.call("HSET", harness.keys.of("new").job, "name", "new", "data", "2")

    assert (await queue.counts("waiting"))["waiting"] == 3
    assert [job.data for job in await queue.get_jobs("waiting")] == [0, 1, 2]
    newest = await queue.get_jobs("waiting", newest_first=True)
    assert [job.data for job in newest] == [2, 1, 0]
    assert await queue.state("1") == "waiting"


@pytest.mark.parametrize("is_newest_first", [True, False])
async def test_pages_of_waiting_jobs_meet_while_some_are_set_aside(
    queue: Queue, harness: Harness, is_newest_first: bool
) -> None:
    await queue.add_many([("send", n) for n in range(9)])
    every = [f"{n}" for n in range(1, 10)]
    if is_newest_first:
        every.reverse()
    for aside in range(10):
        # The oldest are at the right end.
        for size in (1, 2, 4, None):
            found = list[str]()
            for offset in range(0, 10, size or 10):
                page = await queue.get_jobs(
                    "waiting", offset=offset, limit=size, newest_first=is_newest_first
                )
                assert size is None or len(page) <= size
                found += [job.id for job in page]
            assert found == every, (aside, size)
        await harness.call("LMOVE", harness.keys.wait, harness.keys.paused, "RIGHT", "LEFT")


async def test_many_jobs_are_read_in_several_lots(queue: Queue) -> None:
    await queue.add_many([("work", n) for n in range(600)])

    jobs = await queue.get_jobs("waiting", limit=None)

    assert [job.data for job in jobs] == list(range(600))


async def test_waiting_jobs_are_counted_by_priority(queue: Queue) -> None:
    for priority in (0, 0, 1, 3, 3, 2_097_151):
        await queue.add("work", priority=priority)

    assert await queue.counts_per_priority([0, 1, 2, 3, 2_097_151]) == {
        0: 2,
        1: 1,
        2: 0,
        3: 2,
        2_097_151: 1,
    }


async def test_an_unknown_state_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidOption, match=r"a state is one of waiting, active.* got 'asleep'"):
        await queue.counts("asleep")  # pyright: ignore[reportArgumentType]


async def test_workers_of_the_queue_are_seen(queue: Queue, redis_url: str) -> None:
    assert await queue.workers() == []
    async with (
        Worker("mail", print, redis_url, name="anna"),
        Worker("post", print, redis_url),
    ):
        [worker] = await queue.workers()

    assert (worker["name"], worker["rawname"]) == ("mail", "bull:bWFpbA==:w:anna")


async def test_what_workers_have_counted_can_be_read(queue: Queue, harness: Harness) -> None:
    source = harness.source(metrics_points=60)
    harness.worker = source
    for minute in range(3):
        await queue.add_many([("work", n) for n in range(minute + 1)])
        for claim in await harness.claim(9):
            await harness.complete(claim)
        await harness.clock.advance(60)

    found = await queue.metrics("completed")

    assert found.total == 6
    assert found.data == [2, 1]
    assert found.points == 2
    assert (await queue.metrics("completed", limit=1)).data == [2]
    assert (await queue.metrics("failed")).total == 0
    with pytest.raises(InvalidOption, match="got 'waiting'"):
        await queue.metrics("waiting")  # pyright: ignore[reportArgumentType]


async def test_prometheus_can_read_the_queue(harness: Harness) -> None:
    async with Queue('say"hi"', harness.store) as queue:
        await queue.add("work")
        text = await queue.prometheus_text()

    families = {family.name: family for family in text_string_to_metric_families(text)}
    counts = {
        sample.labels["state"]: sample.value for sample in families["bullmq_job_count"].samples
    }
    assert counts["waiting"] == 1
    assert counts["failed"] == 0
    assert {each.labels["queue"] for each in families["bullmq_job_count"].samples} == {'say"hi"'}
    # Nobody counts what ends there, which is not the same as that nothing ends.
    assert "bullmq_job_completed" not in families


async def samples_of(queue: Queue, name: str) -> dict[tuple[str, str], float]:
    text = await queue.prometheus_text()
    return {
        (each.labels.get("group", ""), each.labels.get("state", "")): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.name == name
    }


async def test_only_the_largest_groups_have_a_label_of_their_own(
    queue: Queue, harness: Harness
) -> None:
    # A parent of many keys takes one label, and a group of that name is no other than itself.
    many = {Group(f"key-{n}", parent="split"): 40 for n in range(30)}
    many |= {Group(f"g-{n}"): n + 2 for n in range(11)} | {Group("(other)"): 13}
    groups = [group for group, size in many.items() for _ in range(size)]
    await queue.add_many([("work", None, JobOptions(group=each)) for each in groups])
    await queue.add("plain")
    await queue.groups.pause("g-3")
    await harness.claim(13)

    jobs = await samples_of(queue, "waystation_group_jobs")

    waiting = {group: size for (group, state), size in jobs.items() if state == "waiting"}
    assert len(waiting) == 11
    assert (waiting["split"], waiting["g-3"]) == (1199, 5)
    assert sum(waiting.values()) == await queue.groups.count_jobs()
    # Each group but the one that is paused has had a turn, and so have the jobs without a group.
    active = {group: size for (group, state), size in jobs.items() if state == "active"}
    assert (active["split"], active["g-3"], sum(active.values())) == (1, 0, 12)
    assert (waiting["(other)"], active["(other)"]) == (1 + 2 + 3, 3)
    assert await samples_of(queue, "waystation_groups") == {("", ""): await queue.groups.count()}
    assert await samples_of(queue, "waystation_groups_held") == {("", ""): 1}


async def test_a_queue_without_groups_counts_none(queue: Queue) -> None:
    await queue.add("work")

    assert await samples_of(queue, "waystation_groups") == {("", ""): 0}
    assert await samples_of(queue, "waystation_group_jobs") == {}


@pytest.mark.parametrize("asc", [True, False])
@pytest.mark.parametrize("state", ["waiting", "prioritized", "delayed", "completed"])
async def test_a_page_is_filled_past_ids_without_a_job(
    queue: Queue, harness: Harness, state: State, asc: bool
) -> None:
    by_state: dict[str, Any] = {"prioritized": {"priority": 1}, "delayed": {"delay": AN_HOUR}}
    options = by_state.get(state, {})
    for n in range(1, 9):
        await queue.add("work", n, **options)
        if state == "completed":
            await harness.complete(await harness.claim_one())
    for gone in ("2", "5", "6"):
        await harness.call("DEL", harness.keys.of(gone).job)
    left = ["1", "3", "4", "7", "8"] if asc else ["8", "7", "4", "3", "1"]

    async def page(offset: int, limit: int | None) -> list[str]:
        jobs = await queue.get_jobs(state, offset=offset, limit=limit, newest_first=not asc)
        return [job.id for job in jobs]

    assert await page(0, 3) == left[:3]
    assert await page(0, 4) == left[:4]
    assert await page(0, 100) == left
    assert await page(0, None) == left
    assert await page(8, 3) == []
