"""Ten times as much of anything makes no single call of a script ten times as heavy."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.routing.harness import Harness
from tests.scripts.weights import weighed
from waystation.routing import JobOptions, NewJob, Retry, Target
from waystation.routing.redis import scripts
from waystation.routing.registry import Profile, beat

FEW = 300


async def signatures(harness: Harness, many: int) -> None:
    """A new worker comes where jobs with many different needs wait."""
    jobs = [NewJob("t", None, JobOptions(target=Target(server=f"x{n}"))) for n in range(many)]
    await harness.queue.add_many(jobs)
    last = await harness.add()
    profiles = [Profile(server=f"w{n}").matched() for n in range(5)]
    await scripts.look(
        harness.redis,
        harness.keys,
        now=harness.clock.now_ms(),
        profiles=profiles,
    )
    assert await harness.claim_ids(harness.source()) == [last]


async def dependents(harness: Harness, many: int) -> None:
    """Many jobs wait for one that completes, and many for one that is cancelled."""
    upkeep = await harness.upkeep()
    for end in ("completed", "cancelled"):
        parent = await harness.add("first")
        await harness.queue.add_many([NewJob("t", None, JobOptions(depends_on=(parent,)))] * many)
        if end == "completed":
            source = harness.source(types=["first"])
            (claim,) = await harness.claim(source)
            await harness.settle(source, claim)
        else:
            await harness.queue.cancel(parent)
        await upkeep.release()
    assert await harness.queue.counts("held", "waiting", "dead") == {
        "held": 0,
        "waiting": many,
        "dead": many,
    }


async def foreign(harness: Harness, many: int) -> None:
    """Another client takes half of a list off its head with plain commands."""
    ids = [job.id for job in await harness.queue.add_many([NewJob("t")] * many)]
    taken: Any = await harness.redis.lpop(harness.keys.waiting, many // 2)
    for id in taken[:50]:
        await harness.redis.set(harness.keys.of(id.decode()).lock, "node", ex=30)
    assert await harness.claim_ids(harness.source()) in ([ids[many // 2]], [])
    await (await harness.upkeep()).reindex()
    assert await harness.redis.zcard(harness.keys.places) == await harness.redis.llen(
        harness.keys.waiting
    )
    assert await harness.redis.zrange(harness.keys.places, 0, 9) == await harness.redis.lrange(
        harness.keys.waiting, 0, 9
    )


async def workers(harness: Harness, many: int) -> None:
    """Many workers fall silent."""
    names = [f"w{n}" for n in range(many)]
    await beat(harness.redis, harness.keys, *(Profile(server=name) for name in names), now=1)
    await harness.add()
    await harness.claim(harness.source("w7"))
    await harness.redis.delete(*(harness.keys.worker_at(name).heartbeat for name in names))
    upkeep = await harness.upkeep()
    assert len(await upkeep.recover()) == 1
    assert len(await upkeep.tidy()) == many


async def dead_letters(harness: Harness, many: int) -> None:
    """The cap of the dead letter list is lowered."""
    await harness.redis.lpush(harness.keys.deadletter, *(f"d{n}" for n in range(many)))
    await harness.redis.set(harness.keys.deadletter_cap, 1)
    await harness.add(retry=Retry(attempts=1))
    await harness.fail(harness.source())


async def claims(harness: Harness, many: int) -> None:
    """A worker has lost an answer while others hold many jobs."""
    await harness.queue.add_many([NewJob("email")] * many)
    others = harness.source("other")
    while await harness.claim(others, 50):
        pass
    await harness.add()
    source = harness.source("w7")
    (claim,) = await harness.claim(source)
    found = await source._find_held([claim.token])  # pyright: ignore[reportPrivateUsage]
    assert [each.id for each in found] == [claim.id]


GROWING: list[Callable[[Harness, int], Awaitable[None]]] = [
    signatures, dependents, foreign, workers, dead_letters, claims,
]  # fmt: skip


@pytest.mark.parametrize("grow", GROWING, ids=lambda each: each.__name__)
async def test_no_call_grows_with_what_is_there(
    harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
    grow: Callable[[Harness, int], Awaitable[None]],
) -> None:
    found: list[dict[str, int]] = []
    for many in (FEW, 10 * FEW):
        await harness.redis.flushdb()
        with weighed(monkeypatch) as heaviest:
            await grow(harness, many)
        # What a producer sends in one call is its own choice.
        found.append({name: each for name, each in heaviest.items() if name not in PRODUCERS})
    few, many_more = found
    grown = {name: (few[name], each) for name, each in many_more.items() if each > 3 * few[name]}
    assert grown == {}
    await harness.redis.flushdb()


PRODUCERS = ("dispatch", "beat")
