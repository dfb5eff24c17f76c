"""How people look after what is there."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.files.hands import Hands
from waystation.core.errors import InvalidOption
from waystation.core.outcome import Done, Failed
from waystation.core.runtime.claim import Settled
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import Found
from waystation.files.job import Job
from waystation.files.queue import Queue
from waystation.files.redis import scripts


async def bury(hands: Hands, count: int) -> list[str]:
    hands.set(max_retries=0)
    ids = [await hands.add() for _ in range(count)]
    source = hands.source()
    claims = (await source.settle([], claim=count)).claims
    await source.settle([Settled(claim, Failed(ValueError("no"))) for claim in claims], claim=0)
    return ids


async def test_the_counts_say_how_much_is_where(hands: Hands) -> None:
    await hands.add()
    await hands.add(priority="high")
    await hands.add(priority="high")
    source = hands.source(worker="w1")
    (claim,) = (await source.settle([], claim=1)).claims
    counts = await Queue(hands.store).stats()
    assert counts["jobqueue:low_priority"] == 1
    assert counts["jobqueue:high_priority"] == 1
    assert counts["jobqueue:worker:w1:processing"] == 1
    await source.settle([Settled(claim, Done())], claim=0)
    assert (await Queue(hands.store).stats())["jobqueue:completed"] == 1


async def test_prometheus_reads_how_much_is_where_whoever_holds_it(hands: Hands) -> None:
    for _ in range(3):
        await hands.add()
    for worker in ("w1", "w2"):
        await hands.source(worker=worker).settle([], claim=1)

    families = text_string_to_metric_families(await Queue(hands.store).prometheus_text())

    assert {each.labels["place"]: each.value for family in families for each in family.samples} == {
        "jobqueue:high_priority": 0,
        "jobqueue:sched:jobqueue:high_priority": 0,
        "jobqueue:low_priority": 1,
        "jobqueue:sched:jobqueue:low_priority": 0,
        "jobqueue:handover": 0,
        "jobqueue:completed": 0,
        "jobqueue:dead_letter": 0,
        "processing": 2,
    }


async def test_a_look_at_a_list_shows_the_next_first_and_moves_nothing(hands: Hands) -> None:
    ids = [await hands.add() for _ in range(3)]
    await hands.redis.lpush(hands.keys.queues[1], b"poison")
    found = await Queue(hands.store).peek("low", 10)
    assert [each.id if isinstance(each, Job) else each for each in found] == [*ids, b"poison"]
    assert await hands.redis.llen(hands.keys.queues[1]) == 4
    with pytest.raises(
        InvalidOption, match="wanted one of completed, dead_letter, high, low, handover, or its key"
    ):
        await Queue(hands.store).peek("elsewhere")


async def test_dead_letters_go_back_in_line_with_their_tries_forgotten(hands: Hands) -> None:
    ids = await bury(hands, 3)
    queue = Queue(hands.store)
    letters = await queue.dead_letters()
    assert [(letter.id, letter.reason) for letter in letters] == [
        (id, "HANDLER_ERROR") for id in ids
    ]
    assert await queue.requeue(2) == 2
    raws = await hands.redis.lrange(hands.keys.queues[1], 0, -1)
    assert [(json.loads(raw)["id"], json.loads(raw)["retries"]) for raw in raws] == [
        (ids[1], 0),
        (ids[0], 0),
    ]
    assert await hands.redis.hkeys(hands.keys.dead_letter_meta) == [ids[2].encode()]
    assert await queue.requeue() == 1
    assert await queue.requeue() == 0


async def test_poison_stays_among_the_dead_letters(hands: Hands) -> None:
    ids = await bury(hands, 2)
    await hands.redis.rpush(hands.keys.dead_letter, b"poison")
    assert await Queue(hands.store).requeue() == 2
    assert await hands.redis.lrange(hands.keys.dead_letter, 0, -1) == [b"poison"]
    assert await hands.redis.llen(hands.keys.queues[1]) == len(ids)


async def test_a_purge_leaves_no_letter_and_no_reason(hands: Hands) -> None:
    await bury(hands, 250)
    assert await Queue(hands.store).purge_dead_letters() == 250
    assert await hands.redis.exists(hands.keys.dead_letter, hands.keys.dead_letter_meta) == 0
    assert sum(event["event"] == "removed" for event in await hands.events()) == 250


async def test_a_bulk_load_of_the_same_rows_counts_once(hands: Hands) -> None:
    """The door for loads from outside: a batch that is sent again adds nothing."""
    queue = Queue(hands.store)
    rows = [
        entry(queue.keys, Found(f"/lake/{n}", n, 1), priority="low", now_ns=0) for n in range(2_500)
    ]
    first = await queue.intake.put(rows)
    again = await queue.intake.put(rows)
    assert (sum(first.codes), sum(again.codes)) == (2_500, 0)
    assert await hands.redis.llen(hands.keys.queues[1]) == 2_500


async def test_what_has_no_digest_is_always_new(hands: Hands) -> None:
    await hands.add()
    await hands.add()
    assert await hands.redis.llen(hands.keys.queues[1]) == 2
    assert not await hands.redis.exists(hands.keys.seen)


async def test_a_used_up_rate_refuses_and_says_when_to_come_back(hands: Hands) -> None:
    """F-T15: one script, and a key that forgets itself."""
    queue = Queue(hands.store)
    rows = [entry(queue.keys, Found(f"/{n}", n, 1), priority="low", now_ns=0) for n in range(30)]
    added = await queue.intake.put(rows, rate=100)
    assert added.codes.count(scripts.NEW) == 5
    assert added.codes.count(scripts.WAITS) == 25
    assert 0 < added.wait_ms <= 50
    assert await hands.redis.pttl(hands.keys.rate_limit) not in {-1, *range(51, 60_000)}
