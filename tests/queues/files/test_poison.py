"""What is no job ends with a reason, and the list moves on."""

import json

import pytest

from waystation.core.outcome import Done
from waystation.core.runtime.claim import Settled
from waystation.core.telemetry.metrics import Metrics
from waystation.queues.files import job as jobs
from waystation.queues.files.meter import Meter

from .hands import Hands

POISON = b'{"id": 7, "filepath": '


async def test_a_poison_payload_ends_as_a_dead_letter_and_others_go_on(hands: Hands) -> None:
    await hands.redis.lpush(hands.keys.queues[1], POISON)
    id = await hands.add()
    metrics = Metrics()
    source = hands.source(meter=Meter(metrics, hands.keys.queues))
    (claim,) = (await source.settle([], claim=5)).claims
    assert claim.id == id
    await source.settle([Settled(claim, Done())], claim=5)

    assert await hands.redis.lrange(hands.keys.dead_letter, 0, -1) == [POISON]
    meta = json.loads(await hands.redis.hget(hands.keys.dead_letter_meta, jobs.name_of(POISON)))
    assert meta["reason"] == "MALFORMED"
    assert await hands.redis.llen(hands.keys.of(source.worker).processing) == 0
    assert 'reason="MALFORMED"} 1.0' in metrics.expose().decode()


async def test_a_queue_of_nothing_but_poison_does_not_make_the_worker_wait(hands: Hands) -> None:
    hands.set(wait_s=30.0)
    await hands.redis.lpush(hands.keys.queues[1], *[POISON + b"%d" % n for n in range(5)])
    source = hands.source()
    for _ in range(6):
        assert not (await source.settle([], claim=1)).claims
        await source.wait(30)
        if await hands.redis.llen(hands.keys.dead_letter) == 5:
            break
    assert await hands.redis.llen(hands.keys.dead_letter) == 5


async def test_poison_left_by_a_dead_worker_ends_as_a_dead_letter(hands: Hands) -> None:
    await hands.redis.sadd(hands.keys.workers, "w1")
    await hands.redis.lpush(hands.keys.of("w1").processing, POISON)
    assert await hands.reaper().reap() == 1
    assert await hands.redis.lrange(hands.keys.dead_letter, 0, -1) == [POISON]


async def test_poison_is_filed_when_the_worker_leaves_right_after(hands: Hands) -> None:
    await hands.redis.lpush(hands.keys.queues[1], POISON)
    source = hands.source()
    await source.settle([], claim=5)
    await source.close()
    assert await hands.redis.llen(hands.keys.dead_letter) == 1


@pytest.mark.parametrize(
    "path", ["/inbox/two\nlines.pdf", "/inbox/\udce9.pdf", '/inbox/"id":"x".pdf', "/inbox/ü😀"]
)
async def test_odd_names_go_all_the_way(hands: Hands, path: str) -> None:
    lane = hands.keys.queues[1]
    id, raw = jobs.write(path, 0, priority="low", queue=lane, now_ns=0)
    await hands.redis.lpush(lane, raw)
    source = hands.source()
    (claim,) = (await source.settle([], claim=1)).claims
    assert str(claim.work.path) == path
    assert not (await source.settle([Settled(claim, Done())], claim=0)).refused
    assert {event["subject"] for event in await hands.events()} == {id}
