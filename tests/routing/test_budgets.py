"""Ten times as much of anything makes no single call of a script ten times as heavy."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.routing.hands import Hands
from tests.scripts.weights import weighed
from waystation.routing import JobOptions, NewJob, Retry, Target
from waystation.routing.redis import scripts
from waystation.routing.registry import Profile, beat

FEW = 300


async def signatures(hands: Hands, many: int) -> None:
    """A new worker comes where jobs with many different needs wait."""
    jobs = [NewJob("t", None, JobOptions(target=Target(server=f"x{n}"))) for n in range(many)]
    await hands.queue.add_many(jobs)
    last = await hands.add()
    profiles = [Profile(server=f"w{n}").matched() for n in range(5)]
    await scripts.look(
        hands.redis, hands.keys, namespace="bridge", now=hands.clock.now_ms(), profiles=profiles
    )
    assert await hands.claim_ids(hands.source()) == [last]


async def dependents(hands: Hands, many: int) -> None:
    """Many jobs wait for one that completes, and many for one that is cancelled."""
    upkeep = await hands.upkeep()
    for end in ("completed", "cancelled"):
        parent = await hands.add("first")
        await hands.queue.add_many([NewJob("t", None, JobOptions(depends_on=(parent,)))] * many)
        if end == "completed":
            source = hands.source(types=["first"])
            (claim,) = await hands.claim(source)
            await hands.settle(source, claim)
        else:
            await hands.queue.cancel(parent)
        await upkeep.release()
    assert await hands.queue.counts("held", "waiting", "dead") == {
        "held": 0,
        "waiting": many,
        "dead": many,
    }


async def foreign(hands: Hands, many: int) -> None:
    """Another client takes half of a list off its head with plain commands."""
    ids = [job.id for job in await hands.queue.add_many([NewJob("t")] * many)]
    taken: Any = await hands.redis.lpop(hands.keys.waiting, many // 2)
    for id in taken[:50]:
        await hands.redis.set(hands.keys.of(id.decode()).lock, "node", ex=30)
    assert await hands.claim_ids(hands.source()) in ([ids[many // 2]], [])
    await (await hands.upkeep()).reindex()
    assert await hands.redis.zcard(hands.keys.places) == await hands.redis.llen(hands.keys.waiting)
    assert await hands.redis.zrange(hands.keys.places, 0, 9) == await hands.redis.lrange(
        hands.keys.waiting, 0, 9
    )


async def workers(hands: Hands, many: int) -> None:
    """Many workers fall silent."""
    names = [f"w{n}" for n in range(many)]
    await beat(hands.redis, hands.keys, *(Profile(server=name) for name in names), now=1)
    await hands.add()
    await hands.claim(hands.source("w7"))
    await hands.redis.delete(*(hands.keys.worker_at(name).heartbeat for name in names))
    upkeep = await hands.upkeep()
    assert len(await upkeep.recover()) == 1
    assert len(await upkeep.tidy()) == many


async def dead_letters(hands: Hands, many: int) -> None:
    """The cap of the dead letter list is lowered."""
    await hands.redis.lpush(hands.keys.deadletter, *(f"d{n}" for n in range(many)))
    await hands.redis.set(hands.keys.deadletter_cap, 1)
    await hands.add(retry=Retry(attempts=1))
    await hands.fail(hands.source())


async def claims(hands: Hands, many: int) -> None:
    """A worker has lost an answer while others hold many jobs."""
    await hands.queue.add_many([NewJob("email")] * many)
    others = hands.source("other")
    while await hands.claim(others, 50):
        pass
    await hands.add()
    source = hands.source("w7")
    (claim,) = await hands.claim(source)
    found = await source._find_held([claim.token])  # pyright: ignore[reportPrivateUsage]
    assert [each.id for each in found] == [claim.id]


GROWING: list[Callable[[Hands, int], Awaitable[None]]] = [
    signatures, dependents, foreign, workers, dead_letters, claims,
]  # fmt: skip


@pytest.mark.parametrize("grow", GROWING, ids=lambda each: each.__name__)
async def test_no_call_grows_with_what_is_there(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, grow: Callable[[Hands, int], Awaitable[None]]
) -> None:
    found: list[dict[str, int]] = []
    for many in (FEW, 10 * FEW):
        await hands.redis.flushdb()
        with weighed(monkeypatch) as heaviest:
            await grow(hands, many)
        # What a producer sends in one call is its own choice.
        found.append({name: each for name, each in heaviest.items() if name not in PRODUCERS})
    few, many_more = found
    grown = {name: (few[name], each) for name, each in many_more.items() if each > 3 * few[name]}
    assert grown == {}
    await hands.redis.flushdb()


PRODUCERS = ("dispatch", "beat")
