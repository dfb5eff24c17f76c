"""The index beside the list: whatever happens, the list is true and turns are kept."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
from waystation.core.outcome import Done, Returned
from waystation.core.runtime.claim import Settled
from waystation.routing import JobOptions, NewJob, Target

KINDS = ("a", "b", "c")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(KINDS), st.sampled_from((5, 9))),
        st.tuples(st.just("many"), st.sampled_from(KINDS), st.sampled_from((5, 9))),
        st.tuples(st.just("claim"), st.sampled_from(KINDS), st.integers(1, 30)),
        st.tuples(st.just("cancel"), st.sampled_from(KINDS), st.integers(0, 500)),
        st.tuples(st.just("return"), st.sampled_from(KINDS), st.just(0)),
        st.tuples(st.just("plain"), st.sampled_from(KINDS), st.sampled_from((5, 9))),
    ),
    max_size=16,
)


class Model:
    """What should wait, for each lane and kind in the order of turns."""

    def __init__(self) -> None:
        self.jobs: dict[str, tuple[int, int, str]] = {}
        self.turns = 0

    def add(self, id: str, kind: str, priority: int) -> None:
        self.turns += 1
        self.jobs[id] = (0 if priority >= 7 else 1, self.turns, kind)

    def next(self, kind: str, count: int) -> list[str]:
        fitting = sorted((job, id) for id, job in self.jobs.items() if job[2] == kind)
        return [id for _, id in fitting[:count]]

    def ids(self) -> list[str]:
        return sorted(self.jobs)


async def check(harness: Harness, model: Model) -> None:
    listed = await harness.waiting()
    placed: Any = await harness.redis.zrange(harness.keys.places, 0, -1)
    assert sorted(listed) == model.ids()
    assert [each.decode() for each in placed] == listed
    lanes = [model.jobs[id][0] for id in listed]
    assert lanes == sorted(lanes)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps)
async def test_the_list_holds_exactly_what_waits_and_claims_keep_the_turns(
    harness: Harness, chosen: list[tuple[str, str, int]]
) -> None:
    """B-17 B-44 F-B1 F-B9"""
    await harness.redis.flushdb()
    model, foreign = Model(), Bridge(harness.redis)
    sources = {kind: harness.source(kind, capabilities=[kind]) for kind in KINDS}
    held: list[tuple[str, Any, tuple[int, int, str]]] = []
    for number, (step, kind, count) in enumerate(chosen):
        target = Target(capabilities=(kind,))
        match step:
            case "add" | "many":
                options = JobOptions(target=target, priority=count)
                jobs = [NewJob("t", None, options)] * (1 if step == "add" else 105)
                for id in [job.id for job in await harness.queue.add_many(jobs)]:
                    model.add(id, kind, count)
            case "plain":
                wanted = {"capabilities": [kind]}
                id = await foreign.dispatch(f"plain{number}", priority=count, target=wanted)
                model.add(id, kind, count)
                # Adopted at the next step of ours, before anything else is done.
                await sources["a"].settle([], claim=0)
            case "claim":
                expected = model.next(kind, count)
                claims = await harness.claim(sources[kind], count)
                assert [claim.id for claim in claims] == expected
                held += [(kind, claim, model.jobs.pop(claim.id)) for claim in claims]
            case "cancel":
                if ids := model.ids():
                    id = ids[count % len(ids)]
                    assert await harness.queue.cancel(id) == 1
                    del model.jobs[id]
            case _:
                for holder, claim, job in held:
                    await sources[holder].settle([Settled(claim, Returned())], claim=0)
                    model.jobs[claim.id] = job
                held.clear()
        await check(harness, model)


async def test_a_job_deep_in_a_long_list_leaves_it_without_anybody_falling_back(
    harness: Harness,
) -> None:
    """F-B1"""
    absent = JobOptions(target=Target(server="absent"))
    before = [job.id for job in await harness.queue.add_many([NewJob("t", None, absent)] * 300)]
    fits = await harness.add("t")
    after = [job.id for job in await harness.queue.add_many([NewJob("t", None, absent)] * 300)]

    assert await harness.claim_ids(harness.source()) == [fits]

    assert await harness.waiting() == [*before, after[-1], *after[:-1]]
    assert await harness.redis.llen("bridge:jobs:waiting") == 600
    await harness.redis.flushdb()


async def test_returned_jobs_stand_where_the_index_says_however_many_came_in_between(
    harness: Harness,
) -> None:
    """F-B9"""
    model, source = Model(), harness.source("w1", capabilities=["a"])
    for id, kind, priority in (("n", "b", 5), ("y", "a", 9), ("z", "a", 9), ("x", "b", 9)):
        target = Target(capabilities=(kind,))
        await harness.add("t", job_id=id, target=target, priority=priority)
        model.add(id, kind, priority)
    held = await harness.claim(source, 2)
    for claim in held:
        del model.jobs[claim.id]
    # So many that new ones are put at the head of the list, down to the turns that were given out.
    many = JobOptions(target=Target(capabilities=("b",)), priority=9)
    for id in [job.id for job in await harness.queue.add_many([NewJob("t", None, many)] * 110)]:
        model.add(id, "b", 9)

    await source.settle([Settled(claim, Returned()) for claim in held], claim=0)

    for claim in held:
        model.add(claim.id, "a", 9)
    await check(harness, model)
    assert await harness.claim_ids(source, 9) == [claim.id for claim in held]


async def test_near_either_end_the_order_of_the_list_is_kept(harness: Harness) -> None:
    absent = JobOptions(target=Target(server="absent"))
    ids = [job.id for job in await harness.queue.add_many([NewJob("t", None, absent)] * 50)]
    fits = await harness.add("t")
    ids += [job.id for job in await harness.queue.add_many([NewJob("t", None, absent)] * 50)]

    assert await harness.claim_ids(harness.source()) == [fits]

    assert await harness.waiting() == ids


async def test_a_signature_nobody_asks_for_any_more_is_forgotten(harness: Harness) -> None:
    await harness.add(target=Target(capabilities=("gpu",)))
    await harness.add()
    source = harness.source()
    (claim,) = await harness.claim(source)
    await source.settle([Settled(claim, Done())], claim=0)

    await (await harness.upkeep()).tidy()

    assert await harness.redis.zcard(harness.keys.signatures) == 1
    again = await harness.add()
    assert await harness.claim_ids(source) == [again]


async def test_when_all_is_done_nothing_of_the_index_is_left(harness: Harness) -> None:
    for priority in (5, 9):
        await harness.add(priority=priority)
    source = harness.source()
    claims = await harness.claim(source, 9)
    await source.settle([Settled(claim, Done()) for claim in claims], claim=0)
    await (await harness.upkeep()).tidy()

    left = await harness.keys_like("bridge:index:*")

    assert [key for key in left if ":serves:" not in key] == ["bridge:index:serial"]
