"""A job runs after all jobs of its latest `depends_on`, and after no other."""

import json
import random
from typing import Any

import pytest

from tests.routing.bridge import Bridge
from tests.routing.hands import Hands
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
    """What each job waits for, as told by what was done, and by nothing that is stored."""

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


async def complete(hands: Hands, worker: str, id: str) -> None:
    """Let a worker of one kind, which serves this job alone, complete it."""
    if worker == "ours":
        source = hands.source(types=[f"type-{id}"])
        (claim,) = await hands.claim(source)
        await hands.settle(source, claim)
        return
    literal = worker == "plain"
    bridge = Bridge(hands.redis, literal=literal)
    others = [each for each in IDS if each != id]
    await hands.redis.sadd(hands.keys.paused, *(f"type-{each}" for each in others))
    job = await bridge.claim("node", now=hands.clock.now_ms())
    await hands.redis.delete(hands.keys.paused)
    assert job is not None
    assert job["jobId"] == id
    keys = hands.keys.of(id)
    result = {"success": True, "completedAt": 1, "processingTime": 1}
    await hands.redis.set(keys.result, json.dumps(result), ex=86_400)
    await hands.redis.set(keys.status, "completed", ex=86_400)
    await hands.redis.delete(keys.data)
    await bridge.release(id, "node", type=f"type-{id}")
    if literal:
        upkeep = await hands.upkeep()
        await upkeep.reindex()
        await upkeep.find_ended()


@pytest.mark.parametrize("seed", range(8))
async def test_no_job_starts_before_those_it_was_last_added_with(hands: Hands, seed: int) -> None:
    dice, model = random.Random(seed), Model()
    for _ in range(60):
        id = dice.choice(IDS)
        match dice.choice(POSSIBLE[await hands.queue.state(id)]):
            case "add":
                known = sorted((model.live | model.completed) - {id})
                others = tuple(dice.sample(known, dice.randint(0, min(2, len(known)))))
                if any(id in model.waits.get(other, ()) for other in others):
                    continue
                await hands.add(f"type-{id}", job_id=id, depends_on=others, retry=Retry(attempts=1))
                model.add(id, others)
            case "complete":
                await complete(hands, dice.choice(WORKERS), id)
                model.complete(id)
            case "fail":
                assert await hands.fail(hands.source(types=[f"type-{id}"])) == id
                model.waits.pop(id)
            case "cancel":
                assert await hands.queue.cancel(id) == 1
                model.remove(id)
            case "purge":
                assert await hands.queue.dead_letters.remove(id) == 1
                model.remove(id)
            case _:
                await hands.queue.dead_letters.retry(id)
                model.retry(id)
        await check(hands, model)
    await hands.redis.flushdb()


async def check(hands: Hands, model: Model) -> None:
    found = {id: await hands.queue.state(id) for id in IDS}
    expected = {id: "held" if waits else "waiting" for id, waits in model.waits.items()}
    assert {id: state for id, state in found.items() if state in ("held", "waiting")} == expected
    # Whatever is held waits for something that can still end.
    awaited: Any = await hands.redis.smembers(hands.keys.awaited)
    for id, waits in model.waits.items():
        assert {each.decode() for each in awaited} >= waits, id


@pytest.mark.parametrize("worker", WORKERS)
async def test_a_child_runs_whoever_completes_its_parent_and_nothing_is_left(
    hands: Hands, worker: str
) -> None:
    await hands.add("type-A", job_id="A")
    await hands.add("type-B", job_id="B", depends_on=("A",))
    for id in "AB":
        await complete(hands, worker, id)

    assert await hands.queue.state("B") == "completed"
    left = {key.split(":", 1)[1] for key in await hands.keys_like("bridge:jobs:*")}
    ends = {f"jobs:{kind}:{id}" for kind in ("status", "result") for id in "AB"}
    assert left - {"jobs:wake"} == ends
    await hands.redis.flushdb()


async def test_a_grandchild_is_told_what_its_parent_waited_for(hands: Hands) -> None:
    await hands.add(job_id="A")
    await hands.add(job_id="B", depends_on=("A",))
    await hands.add(job_id="C", depends_on=("B",))
    await hands.add(job_id="D", depends_on=("C",))
    await hands.queue.cancel("A")

    letters = {each.id: each async for each in hands.queue.dead_letters}
    assert {each.reason for each in letters.values()} == {"DEPENDENCY"}
    assert letters["B"].error.message == "job A was cancelled"
    assert letters["C"].error.message == "job B is a dead letter, because job A was cancelled"
    assert letters["D"].error.message == "job C is a dead letter, because job A was cancelled"


async def test_a_job_that_never_ran_is_retried_only_when_it_can_run(hands: Hands) -> None:
    await hands.add(job_id="A")
    await hands.add(job_id="B", depends_on=("A",))
    await hands.queue.cancel("A")

    assert await hands.queue.dead_letters.retry("B") == 0
    await hands.add(job_id="A")
    assert await hands.queue.dead_letters.retry("B") == 1
    assert await hands.queue.state("B") == "held"


async def test_a_job_that_names_another_twice_runs_after_it_when_retried(hands: Hands) -> None:
    await hands.add(job_id="A")
    await hands.add(job_id="B", depends_on=("A", "A"))
    await hands.queue.cancel("A")
    await hands.add(job_id="A")
    assert await hands.queue.dead_letters.retry("B") == 1

    source = hands.source()
    (claim,) = await hands.claim(source)
    await hands.settle(source, claim)
    assert await hands.queue.state("B") == "waiting"


async def test_a_dependent_with_a_delay_says_when_it_is_due_and_wakes_those_who_wait(
    hands: Hands,
) -> None:
    first = await hands.add("first")
    second = await hands.add("second", depends_on=(first,), schedule=Schedule(delay=5))
    source = hands.source(types=["first"])
    (claim,) = await hands.claim(source)
    before = await hands.redis.xlen(hands.keys.wake)
    await hands.settle(source, claim)

    (due,) = [each for each in await hands.events() if each["event"] == "delayed"]
    assert (due["subject"], int(due["due"])) == (second, hands.clock.now_ms() + 5_000)
    assert await hands.redis.xlen(hands.keys.wake) == before + 1


@pytest.mark.parametrize("end", ["completed", "cancelled"])
async def test_very_many_dependents_go_on_in_pages(hands: Hands, end: str) -> None:
    parent = await hands.add("first")
    child = NewJob("second", None, JobOptions(depends_on=(parent,)))
    await hands.queue.add_many([child] * 250)
    if end == "completed":
        source = hands.source(types=["first"])
        (claim,) = await hands.claim(source)
        await hands.settle(source, claim)
    else:
        await hands.queue.cancel(parent)

    sizes = [await hands.redis.hlen(hands.keys.held)]
    # A new job of that id is not taken for the one that has ended.
    await hands.add("first", job_id=parent)
    late = await hands.add("third", depends_on=(parent,))
    while (await hands.queue.counts("held"))["held"] > 1:
        await (await hands.upkeep()).release()
        sizes.append(await hands.redis.hlen(hands.keys.held))
    assert sizes == [150, 1]
    assert await hands.queue.state(late) == "held"
    assert (await hands.queue.counts())["waiting" if end == "completed" else "dead"] >= 250
    await hands.redis.flushdb()


async def test_a_lowered_cap_is_reached_in_several_calls(hands: Hands) -> None:
    await hands.queue.add_many([NewJob("t", None, JobOptions(retry=Retry(attempts=1)))] * 601)
    source = hands.source()
    claims = await hands.claim(source, 600)
    await source.settle([Settled(each, Failed(OSError("no"))) for each in claims], claim=0)
    await hands.redis.hset(hands.keys.stalls, claims[0].id, "1")
    await hands.redis.set(hands.keys.deadletter_cap, 10)
    await hands.fail(source)

    assert await hands.queue.dead_letters.count() == 400
    first = hands.keys.of(claims[0].id)
    assert await hands.redis.exists(first.result, first.data, first.status) == 0
    assert await hands.redis.hlen(hands.keys.stalls) == 0
    await hands.redis.flushdb()


async def test_jobs_of_one_call_may_name_each_other_in_any_order(hands: Hands) -> None:
    def job(id: str, *others: str) -> NewJob:
        return NewJob("t", None, JobOptions(job_id=id, depends_on=others))

    added = await hands.queue.add_many([job("c", "b"), job("b", "a"), job("a")])

    assert [each.id for each in added] == ["c", "b", "a"]
    assert await hands.claim_ids(hands.source(), 9) == ["a"]
    with pytest.raises(InvalidOption, match="wait for each other, got x, y"):
        await hands.queue.add_many([job("z"), job("x", "y"), job("y", "x")])
    with pytest.raises(InvalidOption, match="wait for each other, got w"):
        await hands.queue.add_many([job("w", "w")])
    with pytest.raises(NotFound, match="nobody"):
        await hands.queue.add_many([job("v", "nobody")])
    assert await hands.queue.state("z") is None
    await hands.redis.flushdb()


async def standing(hands: Hands, kind: str) -> None:
    """A job X with the idempotency key `k`, as far as it has come."""
    if kind == "none":
        return
    schedule = Schedule(delay=60 if kind == "delayed" else None)
    once = Retry(attempts=1)
    await hands.add("x", job_id="X", idempotency_key="k", schedule=schedule, retry=once)
    source = hands.source(types=["x"])
    match kind:
        case "completed":
            (claim,) = await hands.claim(source)
            await hands.settle(source, claim)
        case "dead":
            await hands.fail(source)
        case "cancelled":
            await hands.queue.cancel("X")
        case _:
            pass


@pytest.mark.parametrize("per_call", [500, 1])
@pytest.mark.parametrize("named", ["X", "Y"])
@pytest.mark.parametrize("kind", ["none", "waiting", "delayed", "completed", "dead", "cancelled"])
async def test_a_child_waits_for_what_exists_or_runs_or_is_refused(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, kind: str, named: str, per_call: int
) -> None:
    monkeypatch.setattr("waystation.routing.queue.PER_CALL", per_call)
    await standing(hands, kind)
    payload = {"dependsOn": [named]}
    jobs = [
        NewJob("t", payload, JobOptions(job_id="Z", depends_on=(named, named))),
        NewJob("t", None, JobOptions(job_id="Y", idempotency_key="k")),
    ]
    if kind == "cancelled" or (kind, named) == ("none", "X"):
        with pytest.raises(NotFound, match="on job X, which is unknown, or was cancelled"):
            await hands.queue.add_many(jobs)
        assert await hands.queue.state("Z") is None
    else:
        child, _ = await hands.queue.add_many(jobs)
        stored = await hands.queue.get_job("Z")
        assert stored is not None
        assert (stored.raw, stored.data) == (child.raw, payload)
        awaited = set(texts(await hands.redis.smembers(hands.keys.awaited)))
        assert awaited == (set() if kind == "completed" else set(stored.depends_on))
        states = {await hands.queue.state(id) for id in awaited}
        assert states <= {"waiting", "delayed", "dead"}
        assert await hands.queue.state("Z") == ("held" if awaited else "waiting")
    await hands.redis.flushdb()


async def test_an_idempotency_key_of_another_type_stops_a_call_before_its_first_job(
    hands: Hands,
) -> None:
    await hands.redis.rpush("bridge:jobs:idempotency:k", "x")
    jobs = [NewJob("t"), NewJob("t", None, JobOptions(idempotency_key="k"))]

    with pytest.raises(StoreError):
        await hands.queue.add_many(jobs)
    assert await hands.queue.counts("waiting") == {"waiting": 0}
    await hands.redis.flushdb()


@pytest.mark.parametrize("together", [True, False])
async def test_nobody_waits_for_a_schedule_which_never_completes(
    hands: Hands, together: bool
) -> None:
    nightly = NewJob("t", None, JobOptions(job_id="N", schedule=Schedule(cron="0 3 * * *")))
    child = NewJob("t", None, JobOptions(job_id="Z", depends_on=("N",)))
    if not together:
        await hands.queue.add_many([nightly])
    with pytest.raises(InvalidOption, match="on job N, which is a schedule and never completes"):
        await hands.queue.add_many([nightly, child] if together else [child])
    assert await hands.queue.state("Z") is None
