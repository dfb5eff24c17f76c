import contextlib
from datetime import timedelta
from typing import Any

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq.options import Deduplication, JobOptions, Parent
from waystation.bullmq.queue import Queue
from waystation.core.durations import Duration
from waystation.core.errors import JobDelayed, JobWaitingForChildren

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def stored(harness: Harness, key: str) -> str | None:
    found = await harness.call("GET", f"{harness.keys.base}{key}")
    return None if found is None else found.decode()


async def ttl(harness: Harness, key: str) -> int:
    return await harness.call("PTTL", f"{harness.keys.base}{key}")


async def add(harness: Harness, data: Any = None, *, delay: Duration = 0, **rule: Any) -> str:
    return await harness.add(data, delay=delay, deduplication=Deduplication("same", **rule))


async def test_while_a_job_is_there_others_like_it_are_turned_away(harness: Harness) -> None:
    first = await add(harness)
    second = await add(harness)

    assert second == first == "1"
    assert await harness.ids("wait") == ["1"]
    assert await stored(harness, "de:same") == "1"
    assert await harness.events("deduplicated") == [
        {
            "event": "deduplicated",
            "jobId": "1",
            "deduplicationId": "same",
            "deduplicatedJobId": "2",
        }
    ]


async def test_a_finished_job_lets_others_like_it_in_again(harness: Harness) -> None:
    await add(harness)
    await harness.complete(await harness.claim_one())

    assert await stored(harness, "de:same") is None
    assert await add(harness) == "2"


async def test_a_failed_job_lets_others_in_only_when_it_has_failed_for_good(
    harness: Harness,
) -> None:
    await harness.add(attempts=2, backoff=None, deduplication=Deduplication("same"))
    await harness.fail(await harness.claim_one())
    assert await add(harness) == "1"

    await harness.fail(await harness.claim_one())
    assert await add(harness) == "3"


async def test_a_throttled_job_keeps_others_out_until_its_time_is_over(harness: Harness) -> None:
    await add(harness, ttl=AN_HOUR)
    await harness.complete(await harness.claim_one())

    assert await add(harness, ttl=AN_HOUR) == "1"
    assert 0 < await ttl(harness, "de:same") <= HOUR
    await harness.call("DEL", f"{harness.keys.base}de:same")
    assert await add(harness, ttl=AN_HOUR) == "3"


async def test_an_extended_time_starts_anew_with_each_one_turned_away(harness: Harness) -> None:
    await add(harness, ttl=AN_HOUR, extend=True)
    await add(harness, ttl=3 * AN_HOUR, extend=True)

    assert await ttl(harness, "de:same") > 2 * HOUR
    assert len(await harness.events("deduplicated")) == 1


async def test_a_debounced_job_is_replaced_while_it_is_delayed(harness: Harness) -> None:
    await add(harness, {"n": 1}, delay=AN_HOUR, replace=True)
    second = await add(harness, {"n": 2}, delay=AN_HOUR, replace=True)

    assert second == "2"
    assert await harness.ids("delayed") == ["2"]
    assert await harness.hash("1") == {}
    assert await stored(harness, "de:same") == "2"
    events = [
        event for event in await harness.events() if event["event"] in ("removed", "deduplicated")
    ]
    assert events == [
        {"event": "removed", "jobId": "1", "prev": "delayed"},
        {
            "event": "deduplicated",
            "jobId": "2",
            "deduplicationId": "same",
            "deduplicatedJobId": "1",
        },
    ]


async def test_replacing_keeps_the_time_left_unless_it_is_extended(harness: Harness) -> None:
    await add(harness, delay=AN_HOUR, ttl=AN_HOUR, replace=True)
    await add(harness, delay=AN_HOUR, ttl=9 * AN_HOUR, replace=True)
    assert await ttl(harness, "de:same") <= HOUR

    await add(harness, delay=AN_HOUR, ttl=9 * AN_HOUR, replace=True, extend=True)
    assert await ttl(harness, "de:same") > 8 * HOUR


async def test_a_job_that_is_no_longer_delayed_is_not_replaced(harness: Harness) -> None:
    await add(harness, {"n": 1}, replace=True)

    assert await add(harness, {"n": 2}, replace=True) == "1"
    assert (await harness.hash("1"))["data"] == '{"n":1}'
    assert await harness.events("deduplicated") == []


async def test_replacing_a_child_lets_its_parent_go(harness: Harness) -> None:
    parent = await harness.add()
    reference = Parent(parent, harness.keys.qualified)
    child = await harness.add(delay=AN_HOUR, parent=reference)
    await harness.call("SET", f"{harness.keys.base}de:same", child)

    await add(harness, delay=AN_HOUR, replace=True)

    assert await harness.call("EXISTS", harness.keys.of(parent).dependencies) == 0


async def test_a_rescheduled_job_moves_instead_of_being_replaced(harness: Harness) -> None:
    await add(harness, {"n": 1}, delay=AN_HOUR, reschedule=True)
    due = harness.clock.now_ms() + 2 * HOUR
    assert await add(harness, {"n": 2}, delay=2 * AN_HOUR, reschedule=True) == "1"

    assert (await harness.hash("1"))["delay"] == str(2 * HOUR)
    assert await harness.call("ZSCORE", harness.keys.delayed, "1") == str(due * 4096).encode()
    assert [event["delay"] for event in await harness.events("delayed")][-1] == str(due)


async def test_the_last_one_is_kept_and_runs_when_its_owner_has_finished(harness: Harness) -> None:
    await add(harness, {"n": 1}, keep_last_if_active=True)
    owner = await harness.claim_one()
    await add(harness, {"n": 2}, keep_last_if_active=True)
    await add(harness, {"n": 3}, keep_last_if_active=True)
    assert await harness.ids("wait") == []

    await harness.complete(owner)

    assert await harness.ids("wait") == ["3"]
    assert (await harness.hash("3"))["data"] == '{"n":3}'
    assert (await harness.hash("3"))["deid"] == "same"
    assert await stored(harness, "de:same") == "3"
    assert await harness.call("EXISTS", f"{harness.keys.base}dn:same") == 0
    events = [(event["event"], event["jobId"]) for event in await harness.events()][-3:]
    assert events == [("added", "3"), ("waiting", "3"), ("completed", "1")]


async def test_the_kept_one_runs_after_a_failure_and_keeps_its_own_delay(harness: Harness) -> None:
    await harness.add(attempts=1, deduplication=Deduplication("same", keep_last_if_active=True))
    owner = await harness.claim_one()
    await add(harness, delay=AN_HOUR, keep_last_if_active=True)

    await harness.fail(owner)

    assert await harness.ids("failed") == ["1"]
    assert await harness.ids("delayed") == ["2"]


async def test_without_an_active_owner_nothing_is_kept(harness: Harness) -> None:
    await add(harness, keep_last_if_active=True)
    await add(harness, keep_last_if_active=True)
    await harness.complete(await harness.claim_one())

    assert await harness.claim() == []


async def test_a_key_whose_job_is_gone_is_taken_over(harness: Harness) -> None:
    await add(harness, keep_last_if_active=True)
    await harness.claim_one()
    await add(harness, keep_last_if_active=True)
    await harness.call("DEL", harness.keys.of("1").job)

    assert await add(harness) == "3"
    assert await stored(harness, "de:same") == "3"
    assert await harness.call("EXISTS", f"{harness.keys.base}dn:same") == 0


async def rest_midway(harness: Harness, rests: str) -> str:
    """Let a job do a step, and rest for an hour; returns where it is."""
    claim = await harness.claim_one()
    await claim.work.step("charge", int)
    with contextlib.suppress(JobDelayed, JobWaitingForChildren):
        match rests:
            case "sleep":
                await claim.work.sleep(AN_HOUR)
            case "wait":
                await claim.work.wait_for("approve", AN_HOUR)
            case "child":
                await claim.work.run_child("kid", queue="other")
            case _:
                await harness.fail(claim)
    return await claim.work.state()


@pytest.mark.parametrize("rests", ["sleep", "wait", "child", "retry"])
async def test_a_job_that_rests_midway_is_left_alone(
    harness: Harness, queue: Queue, rests: str
) -> None:
    rules: list[dict[str, Any]] = [{"replace": True}, {"reschedule": True}]
    for rule in (*rules, {"keep_last_if_active": True}):
        await harness.redis.flushdb()
        one = Deduplication("same", **rule)
        first = await harness.add({"n": 1}, backoff=3600, deduplication=one)
        state = await rest_midway(harness, rests)
        known, places = await harness.hash(first), await harness.ids("delayed")
        due = await harness.call("ZSCORE", harness.keys.delayed, first)

        for n in (2, 3):
            assert await add(harness, {"n": n}, delay=0.001 * n, **rule) == first

        assert (await queue.state(first), await harness.hash(first)) == (state, known)
        assert await harness.call("ZSCORE", harness.keys.delayed, first) == due
        assert await harness.ids("delayed") == places
        if rests == "wait":
            assert await queue.signal(first, "approve", "yes")
            assert await queue.state(first) == "waiting"
            claim = await harness.claim_one()
            assert await claim.work.wait_for("approve") == "yes"
            await harness.complete(claim)
            kept = "keep_last_if_active" in rule
            assert [(await harness.hash(id))["data"] for id in await harness.ids("delayed")] == (
                ['{"n":3}'] if kept else []
            )


async def test_a_job_that_is_tried_again_without_steps_is_replaced(harness: Harness) -> None:
    one = Deduplication("same", replace=True)
    await harness.add(backoff=3600, deduplication=one)
    await harness.fail(await harness.claim_one())
    assert await harness.ids("delayed") == ["1"]
    assert await add(harness, replace=True) == "2"
    assert await harness.hash("1") == {}


async def test_nothing_is_kept_for_a_job_with_steps_that_has_ended(harness: Harness) -> None:
    await add(harness, ttl=AN_HOUR)
    claim = await harness.claim_one()
    await claim.work.step("charge", int)
    await harness.complete(claim)
    assert await add(harness, keep_last_if_active=True) == "1"
    assert await harness.call("EXISTS", f"{harness.keys.base}dn:same") == 0
    assert await ttl(harness, "de:same") > 0


async def test_a_kept_job_does_not_overwrite_one_of_the_same_id(harness: Harness) -> None:
    rule = Deduplication("same", keep_last_if_active=True)
    await harness.add(deduplication=rule)
    owner = await harness.claim_one()
    await harness.add({"kept": True}, job_id="mine", deduplication=rule)
    await harness.add({"other": True}, job_id="mine")

    await harness.complete(owner)

    assert (await harness.hash("mine"))["data"] == '{"other":true}'
    (kept,) = [id for id in await harness.ids("wait") if id != "mine"]
    assert (await harness.hash(kept))["data"] == '{"kept":true}'


async def test_the_owner_can_be_asked_for_and_let_go(harness: Harness, queue: Queue) -> None:
    await add(harness)
    assert await queue.get_deduplication_job_id("same") == "1"

    assert await queue.remove_deduplication_key("same")

    assert await queue.get_deduplication_job_id("same") is None
    assert await add(harness) == "2"


async def test_many_jobs_at_once_stay_in_order_whatever_they_ask_for(queue: Queue) -> None:
    rule = Deduplication("same")
    jobs = await queue.add_many(
        [
            ("a", {}),
            ("b", {}, JobOptions(job_id="named")),
            ("c", {}),
            ("d", {}, JobOptions(deduplication=rule)),
            ("e", {}, JobOptions(deduplication=rule)),
            ("f", {}),
        ]
    )

    assert [job.id for job in jobs] == ["1", "named", "3", "4", "4", "6"]
    waiting = await queue.get_jobs("waiting")
    assert [job.name for job in waiting] == ["a", "b", "c", "d", "f"]
