from datetime import timedelta
from typing import Any

from tests.bullmq.hands import Hands
from waystation.bullmq.options import Deduplication, JobOptions, Parent
from waystation.bullmq.queue import Queue
from waystation.core.durations import Duration

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def stored(hands: Hands, key: str) -> str | None:
    found = await hands.call("GET", f"{hands.keys.base}{key}")
    return None if found is None else found.decode()


async def ttl(hands: Hands, key: str) -> int:
    return await hands.call("PTTL", f"{hands.keys.base}{key}")


async def add(hands: Hands, data: Any = None, *, delay: Duration = 0, **rule: Any) -> str:
    return await hands.add(data, delay=delay, deduplication=Deduplication("same", **rule))


async def test_while_a_job_is_there_others_like_it_are_turned_away(hands: Hands) -> None:
    first = await add(hands)
    second = await add(hands)

    assert second == first == "1"
    assert await hands.ids("wait") == ["1"]
    assert await stored(hands, "de:same") == "1"
    assert await hands.events("deduplicated") == [
        {
            "event": "deduplicated",
            "jobId": "1",
            "deduplicationId": "same",
            "deduplicatedJobId": "2",
        }
    ]


async def test_a_finished_job_lets_others_like_it_in_again(hands: Hands) -> None:
    await add(hands)
    await hands.complete(await hands.claim_one())

    assert await stored(hands, "de:same") is None
    assert await add(hands) == "2"


async def test_a_failed_job_lets_others_in_only_when_it_has_failed_for_good(hands: Hands) -> None:
    await hands.add(attempts=2, backoff=None, deduplication=Deduplication("same"))
    await hands.fail(await hands.claim_one())
    assert await add(hands) == "1"

    await hands.fail(await hands.claim_one())
    assert await add(hands) == "3"


async def test_a_throttled_job_keeps_others_out_until_its_time_is_over(hands: Hands) -> None:
    await add(hands, ttl=AN_HOUR)
    await hands.complete(await hands.claim_one())

    assert await add(hands, ttl=AN_HOUR) == "1"
    assert 0 < await ttl(hands, "de:same") <= HOUR
    await hands.call("DEL", f"{hands.keys.base}de:same")
    assert await add(hands, ttl=AN_HOUR) == "3"


async def test_an_extended_time_starts_anew_with_each_one_turned_away(hands: Hands) -> None:
    await add(hands, ttl=AN_HOUR, extend=True)
    await add(hands, ttl=3 * AN_HOUR, extend=True)

    assert await ttl(hands, "de:same") > 2 * HOUR
    assert len(await hands.events("deduplicated")) == 1


async def test_a_debounced_job_is_replaced_while_it_is_delayed(hands: Hands) -> None:
    await add(hands, {"n": 1}, delay=AN_HOUR, replace=True)
    second = await add(hands, {"n": 2}, delay=AN_HOUR, replace=True)

    assert second == "2"
    assert await hands.ids("delayed") == ["2"]
    assert await hands.hash("1") == {}
    assert await stored(hands, "de:same") == "2"
    told = [
        event for event in await hands.events() if event["event"] in ("removed", "deduplicated")
    ]
    assert told == [
        {"event": "removed", "jobId": "1", "prev": "delayed"},
        {
            "event": "deduplicated",
            "jobId": "2",
            "deduplicationId": "same",
            "deduplicatedJobId": "1",
        },
    ]


async def test_replacing_keeps_the_time_left_unless_it_is_extended(hands: Hands) -> None:
    await add(hands, delay=AN_HOUR, ttl=AN_HOUR, replace=True)
    await add(hands, delay=AN_HOUR, ttl=9 * AN_HOUR, replace=True)
    assert await ttl(hands, "de:same") <= HOUR

    await add(hands, delay=AN_HOUR, ttl=9 * AN_HOUR, replace=True, extend=True)
    assert await ttl(hands, "de:same") > 8 * HOUR


async def test_a_job_that_is_no_longer_delayed_is_not_replaced(hands: Hands) -> None:
    await add(hands, {"n": 1}, replace=True)

    assert await add(hands, {"n": 2}, replace=True) == "1"
    assert (await hands.hash("1"))["data"] == '{"n":1}'
    assert await hands.events("deduplicated") == []


async def test_replacing_a_child_lets_its_parent_go(hands: Hands) -> None:
    parent = await hands.add()
    reference = Parent(parent, hands.keys.qualified)
    child = await hands.add(delay=AN_HOUR, parent=reference)
    await hands.call("SET", f"{hands.keys.base}de:same", child)

    await add(hands, delay=AN_HOUR, replace=True)

    assert await hands.call("EXISTS", hands.keys.of(parent).dependencies) == 0


async def test_a_rescheduled_job_moves_instead_of_being_replaced(hands: Hands) -> None:
    await add(hands, {"n": 1}, delay=AN_HOUR, reschedule=True)
    due = hands.clock.now_ms() + 2 * HOUR
    assert await add(hands, {"n": 2}, delay=2 * AN_HOUR, reschedule=True) == "1"

    assert (await hands.hash("1"))["delay"] == str(2 * HOUR)
    assert await hands.call("ZSCORE", hands.keys.delayed, "1") == str(due * 4096).encode()
    assert [event["delay"] for event in await hands.events("delayed")][-1] == str(due)


async def test_the_last_one_is_kept_and_runs_when_its_owner_has_finished(hands: Hands) -> None:
    await add(hands, {"n": 1}, keep_last_if_active=True)
    owner = await hands.claim_one()
    await add(hands, {"n": 2}, keep_last_if_active=True)
    await add(hands, {"n": 3}, keep_last_if_active=True)
    assert await hands.ids("wait") == []

    await hands.complete(owner)

    assert await hands.ids("wait") == ["3"]
    assert (await hands.hash("3"))["data"] == '{"n":3}'
    assert (await hands.hash("3"))["deid"] == "same"
    assert await stored(hands, "de:same") == "3"
    assert await hands.call("EXISTS", f"{hands.keys.base}dn:same") == 0
    told = [(event["event"], event["jobId"]) for event in await hands.events()][-3:]
    assert told == [("added", "3"), ("waiting", "3"), ("completed", "1")]


async def test_the_kept_one_runs_after_a_failure_and_keeps_its_own_delay(hands: Hands) -> None:
    await hands.add(attempts=1, deduplication=Deduplication("same", keep_last_if_active=True))
    owner = await hands.claim_one()
    await add(hands, delay=AN_HOUR, keep_last_if_active=True)

    await hands.fail(owner)

    assert await hands.ids("failed") == ["1"]
    assert await hands.ids("delayed") == ["2"]


async def test_without_an_active_owner_nothing_is_kept(hands: Hands) -> None:
    await add(hands, keep_last_if_active=True)
    await add(hands, keep_last_if_active=True)
    await hands.complete(await hands.claim_one())

    assert await hands.claim() == []


async def test_a_key_whose_job_is_gone_is_taken_over(hands: Hands) -> None:
    await add(hands, keep_last_if_active=True)
    await hands.claim_one()
    await add(hands, keep_last_if_active=True)
    await hands.call("DEL", hands.keys.of("1").job)

    assert await add(hands) == "3"
    assert await stored(hands, "de:same") == "3"
    assert await hands.call("EXISTS", f"{hands.keys.base}dn:same") == 0


async def test_a_kept_job_does_not_overwrite_one_of_the_same_id(hands: Hands) -> None:
    rule = Deduplication("same", keep_last_if_active=True)
    await hands.add(deduplication=rule)
    owner = await hands.claim_one()
    await hands.add({"kept": True}, job_id="mine", deduplication=rule)
    await hands.add({"other": True}, job_id="mine")

    await hands.complete(owner)

    assert (await hands.hash("mine"))["data"] == '{"other":true}'
    (kept,) = [id for id in await hands.ids("wait") if id != "mine"]
    assert (await hands.hash(kept))["data"] == '{"kept":true}'


async def test_the_owner_can_be_asked_for_and_let_go(hands: Hands, queue: Queue) -> None:
    await add(hands)
    assert await queue.get_deduplication_job_id("same") == "1"

    assert await queue.remove_deduplication_key("same")

    assert await queue.get_deduplication_job_id("same") is None
    assert await add(hands) == "2"


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
