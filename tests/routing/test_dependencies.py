"""A job runs after all jobs of its latest `depends_on`, and after no other."""

import json
import random
from typing import Any

import pytest

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
from waystation.core.errors import InvalidOption, NotFound, StoreError
from waystation.core.outcome import Failed
from waystation.core.runtime.claim import Settled
from waystation.core.store.script import texts
from waystation.routing import JobOptions, NewJob, Retry, Schedule

IDS = "ABCD"
WORKERS = ("ours", "scripts", "plain")
POSSIBLE: dict[str | None, list[str]] = {
    "waiting": ["complete", "fail", "cancel"],
    "held": ["cancel"],
    "dead": ["purge", "retry"],
    "completed": ["add"],
    "failed": ["add"],
    None: ["add"],
}
"""What can be done with a job in each state."""


class Model:
    """What each job waits for, by what was done, and by nothing that is stored."""

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.completed: set[str] = set()
        self.waits: dict[str, set[str]] = {}
        self.asked: dict[str, tuple[str, ...]] = {}
        self.never_ran: set[str] = set()

    def add(self, id: str, others: tuple[str, ...]) -> None:
        self.live.add(id)
        self.asked[id] = others
        self.waits[id] = {other for other in others if other not in self.completed}
        self.completed.discard(id)

    def complete(self, id: str) -> None:
        self.live.discard(id)
        self.completed.add(id)
        for waits in self.waits.values():
            waits.discard(id)
        self.waits.pop(id, None)

    def remove(self, id: str) -> None:
        """It is gone, and whatever waits for it is a dead letter."""
        self.live.discard(id)
        self.completed.discard(id)
        self.waits.pop(id, None)
        self.never_ran.discard(id)
        self._bury_what_waits_for(id)

    def _bury_what_waits_for(self, id: str) -> None:
        for other, waits in list(self.waits.items()):
            if id in waits and other in self.waits:
                self.waits.pop(other)
                self.never_ran.add(other)
                self._bury_what_waits_for(other)

    def retry(self, id: str) -> None:
        if id not in self.never_ran:
            self.waits[id] = set()
        elif all(other in self.completed | self.live for other in self.asked[id]):
            self.never_ran.discard(id)
            self.waits[id] = set(self.asked[id]) - self.completed


async def complete(harness: Harness, worker: str, id: str) -> None:
    """Let a worker of one kind, which serves this job alone, complete it."""
    if worker == "ours":
        source = harness.source(types=[f"type-{id}"])
        (claim,) = await harness.claim(source)
        await harness.settle(source, claim)
        return
    literal = worker == "plain"
    bridge = Bridge(harness.redis, literal=literal)
    others = [each for each in IDS if each != id]
    await harness.redis.sadd(harness.keys.paused, *(f"type-{each}" for each in others))
    job = await bridge.claim("node", now=harness.clock.now_ms())
    await harness.redis.delete(harness.keys.paused)
    assert job is not None
    assert job["jobId"] == id
    keys = harness.keys.of(id)
    result = {"success": True, "completedAt": 1, "processingTime": 1}
    await harness.redis.set(keys.result, json.dumps(result), ex=86_400)
    await harness.redis.set(keys.status, "completed", ex=86_400)
    await harness.redis.delete(keys.data)
    await bridge.release(id, "node", type=f"type-{id}")
    if literal:
        upkeep = await harness.upkeep()
        await upkeep.reindex()
        await upkeep.find_ended()


@pytest.mark.parametrize("seed", range(8))
async def test_no_job_starts_before_those_it_was_last_added_with(
    harness: Harness, seed: int
) -> None:
    dice, model = random.Random(seed), Model()
    for _ in range(60):
        id = dice.choice(IDS)
        match dice.choice(POSSIBLE[await harness.queue.state(id)]):
            case "add":
                known = sorted((model.live | model.completed) - {id})
                others = tuple(dice.sample(known, dice.randint(0, min(2, len(known)))))
                if any(id in model.waits.get(other, ()) for other in others):
                    continue
                await harness.add(
                    f"type-{id}", job_id=id, depends_on=others, retry=Retry(attempts=1)
                )
                model.add(id, others)
            case "complete":
                await complete(harness, dice.choice(WORKERS), id)
                model.complete(id)
            case "fail":
                assert await harness.fail(harness.source(types=[f"type-{id}"])) == id
                model.waits.pop(id)
            case "cancel":
                assert await harness.queue.cancel(id) == 1
                model.remove(id)
            case "purge":
                assert await harness.queue.dead_letters.remove(id) == 1
                model.remove(id)
            case _:
                await harness.queue.dead_letters.retry(id)
                model.retry(id)
        await check(harness, model)
    await harness.redis.flushdb()


async def check(harness: Harness, model: Model) -> None:
    found = {id: await harness.queue.state(id) for id in IDS}
    expected = {id: "held" if waits else "waiting" for id, waits in model.waits.items()}
    assert {id: state for id, state in found.items() if state in ("held", "waiting")} == expected
    # Whatever is held waits for something that can still end.
    awaited: Any = await harness.redis.smembers(harness.keys.awaited)
    for id, waits in model.waits.items():
        assert {each.decode() for each in awaited} >= waits, id


@pytest.mark.parametrize("worker", WORKERS)
async def test_a_child_runs_whoever_completes_its_parent_and_nothing_is_left(
    harness: Harness, worker: str
) -> None:
    await harness.add("type-A", job_id="A")
    await harness.add("type-B", job_id="B", depends_on=("A",))
    for id in "AB":
        await complete(harness, worker, id)

    assert await harness.queue.state("B") == "completed"
    left = {key.split(":", 1)[1] for key in await harness.keys_like("bridge:jobs:*")}
    ends = {f"jobs:{kind}:{id}" for kind in ("status", "result") for id in "AB"}
    assert left - {"jobs:wake"} == ends
    await harness.redis.flushdb()


async def test_a_grandchild_is_told_what_its_parent_waited_for(harness: Harness) -> None:
    await harness.add(job_id="A")
    await harness.add(job_id="B", depends_on=("A",))
    await harness.add(job_id="C", depends_on=("B",))
    await harness.add(job_id="D", depends_on=("C",))
    await harness.queue.cancel("A")

    letters = {each.id: each async for each in harness.queue.dead_letters}
    assert {each.reason for each in letters.values()} == {"DEPENDENCY"}
    assert letters["B"].error.message == "job A was cancelled"
    assert letters["C"].error.message == "job B is a dead letter, because job A was cancelled"
    assert letters["D"].error.message == "job C is a dead letter, because job A was cancelled"


async def test_a_job_that_never_ran_is_retried_only_when_it_can_run(harness: Harness) -> None:
    await harness.add(job_id="A")
    await harness.add(job_id="B", depends_on=("A",))
    await harness.queue.cancel("A")

    assert await harness.queue.dead_letters.retry("B") == 0
    await harness.add(job_id="A")
    assert await harness.queue.dead_letters.retry("B") == 1
    assert await harness.queue.state("B") == "held"


async def test_a_job_that_names_another_twice_runs_after_it_when_retried(harness: Harness) -> None:
    await harness.add(job_id="A")
    await harness.add(job_id="B", depends_on=("A", "A"))
    await harness.queue.cancel("A")
    await harness.add(job_id="A")
    assert await harness.queue.dead_letters.retry("B") == 1

    source = harness.source()
    (claim,) = await harness.claim(source)
    await harness.settle(source, claim)
    assert await harness.queue.state("B") == "waiting"


async def test_a_dependent_with_a_delay_says_when_it_is_due_and_wakes_those_who_wait(
    harness: Harness,
) -> None:
    first = await harness.add("first")
    second = await harness.add("second", depends_on=(first,), schedule=Schedule(delay=5))
    source = harness.source(types=["first"])
    (claim,) = await harness.claim(source)
    before = await harness.redis.xlen(harness.keys.wake)
    await harness.settle(source, claim)

    (due,) = [each for each in await harness.events() if each["event"] == "delayed"]
    assert (due["subject"], int(due["due"])) == (second, harness.clock.now_ms() + 5_000)
    assert await harness.redis.xlen(harness.keys.wake) == before + 1


@pytest.mark.parametrize("end", ["completed", "cancelled"])
async def test_very_many_dependents_go_on_in_pages(harness: Harness, end: str) -> None:
    parent = await harness.add("first")
    child = NewJob("second", None, JobOptions(depends_on=(parent,)))
    await harness.queue.add_many([child] * 250)
    if end == "completed":
        source = harness.source(types=["first"])
        (claim,) = await harness.claim(source)
        await harness.settle(source, claim)
    else:
        await harness.queue.cancel(parent)

    sizes = [await harness.redis.hlen(harness.keys.held)]
    # A new job of that id is not taken for the one that has ended.
    await harness.add("first", job_id=parent)
    late = await harness.add("third", depends_on=(parent,))
    while (await harness.queue.counts("held"))["held"] > 1:
        await (await harness.upkeep()).release()
        sizes.append(await harness.redis.hlen(harness.keys.held))
    assert sizes == [150, 1]
    assert await harness.queue.state(late) == "held"
    assert (await harness.queue.counts())["waiting" if end == "completed" else "dead"] >= 250
    await harness.redis.flushdb()


async def test_a_lowered_cap_is_reached_in_several_calls(harness: Harness) -> None:
    await harness.queue.add_many([NewJob("t", None, JobOptions(retry=Retry(attempts=1)))] * 601)
    source = harness.source()
    claims = await harness.claim(source, 600)
    await source.settle([Settled(each, Failed(OSError("no"))) for each in claims], claim=0)
    await harness.redis.hset(harness.keys.stalls, claims[0].id, "1")
    await harness.redis.set(harness.keys.deadletter_cap, 10)
    await harness.fail(source)

    assert await harness.queue.dead_letters.count() == 400
    first = harness.keys.of(claims[0].id)
    assert await harness.redis.exists(first.result, first.data, first.status) == 0
    assert await harness.redis.hlen(harness.keys.stalls) == 0
    await harness.redis.flushdb()


async def test_jobs_of_one_call_may_name_each_other_in_any_order(harness: Harness) -> None:
    def job(id: str, *others: str) -> NewJob:
        return NewJob("t", None, JobOptions(job_id=id, depends_on=others))

    added = await harness.queue.add_many([job("c", "b"), job("b", "a"), job("a")])

    assert [each.id for each in added] == ["c", "b", "a"]
    assert await harness.claim_ids(harness.source(), 9) == ["a"]
    with pytest.raises(InvalidOption, match="wait for each other, got x, y"):
        await harness.queue.add_many([job("z"), job("x", "y"), job("y", "x")])
    with pytest.raises(InvalidOption, match="wait for each other, got w"):
        await harness.queue.add_many([job("w", "w")])
    with pytest.raises(NotFound, match="nobody"):
        await harness.queue.add_many([job("v", "nobody")])
    assert await harness.queue.state("z") is None
    await harness.redis.flushdb()


async def standing(harness: Harness, kind: str) -> None:
    """A job X with the idempotency key `k`, as far as it has come."""
    if kind == "none":
        return
    schedule = Schedule(delay=60 if kind == "delayed" else None)
    once = Retry(attempts=1)
    await harness.add("x", job_id="X", idempotency_key="k", schedule=schedule, retry=once)
    source = harness.source(types=["x"])
    match kind:
        case "completed":
            (claim,) = await harness.claim(source)
            await harness.settle(source, claim)
        case "dead":
            await harness.fail(source)
        case "cancelled":
            await harness.queue.cancel("X")
        case _:
            pass


@pytest.mark.parametrize("per_call", [500, 1])
@pytest.mark.parametrize("named", ["X", "Y"])
@pytest.mark.parametrize("kind", ["none", "waiting", "delayed", "completed", "dead", "cancelled"])
async def test_a_child_waits_for_what_exists_or_runs_or_is_refused(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, kind: str, named: str, per_call: int
) -> None:
    monkeypatch.setattr("waystation.routing.queue.PER_CALL", per_call)
    await standing(harness, kind)
    payload = {"dependsOn": [named]}
    jobs = [
        NewJob("t", payload, JobOptions(job_id="Z", depends_on=(named, named))),
        NewJob("t", None, JobOptions(job_id="Y", idempotency_key="k")),
    ]
    if kind == "cancelled" or (kind, named) == ("none", "X"):
        with pytest.raises(NotFound, match="on job X, which is unknown, or was cancelled"):
            await harness.queue.add_many(jobs)
        assert await harness.queue.state("Z") is None
    else:
        child, _ = await harness.queue.add_many(jobs)
        stored = await harness.queue.get_job("Z")
        assert stored is not None
        assert (stored.raw, stored.data) == (child.raw, payload)
        awaited = set(texts(await harness.redis.smembers(harness.keys.awaited)))
        assert awaited == (set() if kind == "completed" else set(stored.depends_on))
        states = {await harness.queue.state(id) for id in awaited}
        assert states <= {"waiting", "delayed", "dead"}
        assert await harness.queue.state("Z") == ("held" if awaited else "waiting")
    await harness.redis.flushdb()


async def test_an_idempotency_key_of_another_type_stops_a_call_before_its_first_job(
    harness: Harness,
) -> None:
    await harness.redis.rpush("bridge:jobs:idempotency:k", "x")
    jobs = [NewJob("t"), NewJob("t", None, JobOptions(idempotency_key="k"))]

    with pytest.raises(StoreError):
        await harness.queue.add_many(jobs)
    assert await harness.queue.counts("waiting") == {"waiting": 0}
    await harness.redis.flushdb()


@pytest.mark.parametrize("together", [True, False])
async def test_nobody_waits_for_a_schedule_which_never_completes(
    harness: Harness, together: bool
) -> None:
    nightly = NewJob("t", None, JobOptions(job_id="N", schedule=Schedule(cron="0 3 * * *")))
    child = NewJob("t", None, JobOptions(job_id="Z", depends_on=("N",)))
    if not together:
        await harness.queue.add_many([nightly])
    with pytest.raises(InvalidOption, match="on job N, which is a schedule and never completes"):
        await harness.queue.add_many([nightly, child] if together else [child])
    assert await harness.queue.state("Z") is None
