from datetime import timedelta
from typing import Any, cast

import pytest

from tests.bullmq.harness import Harness
from tests.bullmq.trees import child, parent, state
from tests.scripts.weights import weighed
from waystation.bullmq import Deduplication, FlowNode, FlowProducer, JobOptions, Parent, Queue
from waystation.bullmq.redis import ends, scripts
from waystation.core.errors import InvalidInput, InvalidOption, NotFound, WrongState

HOUR = 3_600_000
AN_HOUR = timedelta(hours=1)


async def traces(harness: Harness) -> list[Any]:
    """What any addition would change."""
    keys = sorted(await harness.everything())
    return [keys, await harness.events(), await harness.call("GET", harness.keys.id)]


async def test_a_node_takes_the_keywords_of_add() -> None:
    node = FlowNode(name="x", queue="mail", priority=3, options=JobOptions(attempts=7))

    assert (node.options.priority, node.options.attempts, node.data) == (3, 7, {})
    with pytest.raises(InvalidOption, match="did you mean children"):
        FlowNode(name="x", queue="mail", childs=[])  # type: ignore[call-arg]


async def test_a_parent_runs_when_its_children_are_done(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child("a"), child("b")))
    assert await state(flow) == "waiting-children"

    first, second = await harness.claim(2)
    await harness.complete(first, {"n": 1})
    assert await state(flow) == "waiting-children"
    await harness.complete(second, 2)

    claim = await harness.claim_one()
    assert claim.id == "parent"
    assert await claim.work.children_values() == {
        f"bull:mail:{first.id}": {"n": 1},
        f"bull:mail:{second.id}": 2,
    }


async def test_parents_of_parents_wait_too_whatever_queues_they_are_in(
    harness: Harness, flows: FlowProducer
) -> None:
    leaf = FlowNode(name="leaf", queue="mail")
    middle = FlowNode(name="middle", queue="other", children=[leaf], prefix="elsewhere")
    flow = await flows.add(FlowNode(name="top", queue="mail", children=[middle]))

    assert await harness.call("EXISTS", f"elsewhere:other:{flow.children[0].job.id}") == 1
    await harness.complete(await harness.claim_one())

    assert await state(flow.children[0]) == "waiting"
    assert await state(flow) == "waiting-children"


@pytest.mark.parametrize(
    ("wish", "becomes"), [({"priority": 3}, "prioritized"), ({"delay": HOUR}, "delayed")]
)
async def test_a_released_parent_goes_where_it_asked_to(
    harness: Harness, flows: FlowProducer, wish: dict[str, int], becomes: str
) -> None:
    flow = await flows.add(parent(child(), **wish))
    await harness.complete(await harness.claim_one())

    assert await state(flow) == becomes


async def test_a_child_that_fails_fails_its_parent_when_it_says_so(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child(fail_parent_on_failure=True), child(delay=AN_HOUR)))
    claim = await harness.claim_one()
    await harness.fail(claim)

    assert await state(flow) == "waiting"
    key = f"bull:mail:{claim.id}"
    assert (await harness.hash("parent"))["defa"] == f"child {key} failed"
    assert await flow.job.failed_children() == [key]
    with pytest.raises(WrongState, match="pending dependencies"):
        raise await harness.complete(await harness.claim_one()) or AssertionError("was completed")


async def test_a_delayed_parent_is_failed_at_once(harness: Harness, flows: FlowProducer) -> None:
    await flows.add(
        parent(
            child(continue_parent_on_failure=True),
            child(fail_parent_on_failure=True),
            delay=AN_HOUR,
        )
    )
    first, second = await harness.claim(2)
    await harness.fail(first)
    assert await harness.where("parent") == ["delayed"]

    await harness.fail(second)

    assert await harness.where("parent") == ["wait"]
    assert (await harness.hash("parent"))["delay"] == "0"


async def test_a_child_that_fails_lets_its_parent_run_at_once_when_it_says_so(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child(continue_parent_on_failure=True), child(delay=AN_HOUR)))
    claim = await harness.claim_one()
    await harness.fail(claim, "no luck")

    assert await state(flow) == "waiting"
    assert await flow.job.ignored_children_failures() == {f"bull:mail:{claim.id}": "no luck"}


@pytest.mark.parametrize(
    ("flag", "remembered"),
    [("ignore_dependency_on_failure", 1), ("remove_dependency_on_failure", 0)],
)
async def test_a_failure_that_counts_as_done_waits_for_the_other_children(
    harness: Harness, flows: FlowProducer, flag: str, remembered: int
) -> None:
    flow = await flows.add(parent(child(**{flag: True}), child()))
    failing, other = await harness.claim(2)
    await harness.fail(failing)
    assert await state(flow) == "waiting-children"

    await harness.complete(other)

    assert await state(flow) == "waiting"
    assert len(await flow.job.ignored_children_failures()) == remembered


async def test_a_job_that_ends_before_its_children_fails(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child(continue_parent_on_failure=True), child(delay=AN_HOUR)))
    await harness.fail(await harness.claim_one())

    await harness.complete(await harness.claim_one())

    assert await state(flow) == "failed"
    assert (await harness.hash("parent"))["failedReason"].startswith("Job parent has pending")


async def test_without_a_flag_a_failed_child_is_waited_for(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child()))
    await harness.fail(await harness.claim_one())
    assert await state(flow) == "waiting-children"

    (failed,) = await harness.ids("failed")
    job = await flows.get_flow("mail", failed)
    assert job
    await job.job.retry()
    await harness.complete(await harness.claim_one())
    assert await state(flow) == "waiting"


async def test_a_child_that_is_not_kept_is_not_waited_for(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child(remove_on_fail=True)))
    await harness.fail(await harness.claim_one())

    assert await state(flow) == "waiting"


async def test_a_failed_child_that_is_trimmed_away_is_not_waited_for(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child()))
    await harness.fail(await harness.claim_one())
    await harness.clock.advance(1)
    await harness.add(attempts=1, remove_on_fail=1)
    await harness.fail(await harness.claim_one())

    assert await state(flow) == "waiting"


async def test_children_that_were_completed_before_count(
    harness: Harness, flows: FlowProducer
) -> None:
    await harness.add(job_id="early")
    await harness.complete(await harness.claim_one(), "result")

    flow = await flows.add(parent(child(job_id="early"), child("late")))
    assert await state(flow) == "waiting-children"
    await harness.complete(await harness.claim_one(), "more")

    assert set((await flow.job.children_values()).values()) == {"result", "more"}
    assert await state(flow) == "waiting"


async def test_a_parent_whose_children_are_all_done_runs_at_once(
    harness: Harness, flows: FlowProducer
) -> None:
    await harness.add(job_id="early")
    await harness.complete(await harness.claim_one())

    assert await state(await flows.add(parent(child(job_id="early")))) == "waiting"


async def test_a_tree_may_hang_under_a_job_that_waits_already(
    harness: Harness, flows: FlowProducer
) -> None:
    await harness.add(job_id="early")
    await harness.complete(await harness.claim_one())
    flow = await flows.add(parent(child(job_id="open", delay=AN_HOUR)))
    below = Parent("parent", "bull:mail")

    await flows.add(child(job_id="more", delay=AN_HOUR, parent=below))
    assert (await flow.job.dependency_counts()).unprocessed == 2

    for open_child in ("open", "more"):
        await harness.call(
            "SREM", harness.keys.of(flow.job.id).dependencies, f"bull:mail:{open_child}"
        )
    await flows.add(child(job_id="early", parent=below))
    assert await state(flow) == "waiting"


async def test_a_flow_is_added_as_a_whole_or_not_at_all(
    harness: Harness, flows: FlowProducer
) -> None:
    await flows.add(parent(child(job_id="taken")))
    before = await traces(harness)

    with pytest.raises(WrongState, match=r"taken .*another parent"):
        await flows.add_many(
            [FlowNode(name="x", queue="mail", children=[child(), child(job_id="taken")])]
        )
    with pytest.raises(NotFound, match="bull:mail:nobody"):
        await flows.add(
            FlowNode(
                name="x", queue="mail", options=JobOptions(parent=Parent("nobody", "bull:mail"))
            )
        )

    assert await traces(harness) == before


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        (parent(child(), deduplication=Deduplication("x")), "cannot be deduplicated"),
        (parent(child(deduplication=Deduplication("x"))), "cannot be deduplicated"),
        (parent(child(parent=Parent("1", "bull:mail"))), "the job above it"),
        (parent(child(job_id="twice"), child(job_id="twice")), "stands twice"),
        (FlowNode(name="x", queue="with:colon"), "colon"),
        (FlowNode(name="x", queue="mail", data=float("nan")), "finite"),
        (FlowNode(name="", queue="mail"), "name must be text"),
        (FlowNode(name="x", queue="mail", children=["y"]), "made of FlowNode"),  # pyright: ignore[reportArgumentType]
        ("x", "tree must be a FlowNode"),
        (FlowNode(name="x", queue="mail", children=[child()] * 50_000), "at most 50000"),
    ],
)
async def test_a_flow_that_cannot_be_is_refused_before_anything_is_written(
    harness: Harness, flows: FlowProducer, tree: FlowNode, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        await flows.add(tree)
    assert await harness.everything() == {}


async def test_a_flow_with_a_taken_id_returns_what_is_stored(flows: FlowProducer) -> None:
    await flows.add(FlowNode(name="first", queue="mail", data=1, options=JobOptions(job_id="x")))

    flow = await flows.add(
        parent(FlowNode(name="second", queue="mail", data=2, options=JobOptions(job_id="x")))
    )

    job = flow.children[0].job
    assert (job.id, job.name, job.data) == ("x", "first", 1)
    assert job.parent_key == f"bull:mail:{flow.job.id}"


async def test_a_broken_reference_to_a_parent_loses_nothing(
    harness: Harness, flows: FlowProducer
) -> None:
    flow = await flows.add(parent(child()))
    claim = await harness.claim_one()
    await harness.call("HSET", harness.keys.of(claim.id).job, "parent", "{broken")

    assert await harness.complete(claim) is None

    assert await state(flow) == "waiting"


async def test_a_flow_is_read_to_some_depth(flows: FlowProducer) -> None:
    with pytest.raises(InvalidOption, match="depth"):
        await flows.get_flow("mail", "1", depth=0)
    with pytest.raises(InvalidOption, match="max_children"):
        await flows.get_flow("mail", "1", max_children=0)


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 100])
async def test_a_tree_of_any_size_is_removed_in_bounded_steps(
    harness: Harness,
    flows: FlowProducer,
    queue: Queue,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    """Children go first, and no parent runs because some of its children are gone."""
    monkeypatch.setattr(ends, "SWEPT_AT_ONCE", at_once)
    before = set(await harness.everything())
    await flows.add(
        parent(
            *(child(f"leaf-{n}") for n in range(15)),
            FlowNode(
                name="middle",
                queue="mail",
                job_id="middle",
                children=[
                    child(job_id="deep-1"),
                    child(job_id="deep-2", priority=1),
                    child(job_id="deep-3", delay=60),
                ],
            ),
        )
    )
    for claim, outcome in zip(await harness.claim(4), (True, True, False, False), strict=True):
        await (harness.complete(claim) if outcome else harness.fail(claim))
    held = await harness.claim_one()
    assert not await queue.remove("parent")
    assert len(await harness.events("removed")) == 0

    await harness.hand_back(held)
    script, seen = scripts.remove_job, list[int]()

    async def watched(*given: Any, **kwargs: Any) -> int:
        seen.append(await script(*given, **kwargs))
        waiting = await harness.ids("wait")
        assert "parent" not in waiting
        if seen[-1] == 2:
            assert await queue.state("parent") == "waiting-children"
        return seen[-1]

    monkeypatch.setattr(scripts, "remove_job", watched)
    assert await queue.remove("parent")
    assert seen == [3] * (at_once < 20) + [2] * (-(-20 // at_once) - 1) + [1]
    removed = [event["jobId"] for event in await harness.events("removed")]
    assert len(removed) == 20
    assert removed.index("middle") > max(removed.index(f"deep-{n}") for n in (1, 2, 3))
    left = set(await harness.everything()) - before
    assert {key.rpartition(":")[2] for key in left} <= {"id", "meta", "events", "marker", "pc"}


async def test_no_call_that_removes_a_tree_grows_with_it(
    harness: Harness, flows: FlowProducer, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "SWEPT_AT_ONCE", 10)
    heaviest: list[int] = []
    for many in (40, 400):
        # In `delayed`, because lists are looked through.
        await flows.add(parent(*(child(f"leaf-{n}", delay=60) for n in range(many))))
        with weighed(monkeypatch) as weights:
            assert await queue.remove("parent")
        heaviest.append(weights["remove_job"])
    assert heaviest[1] < heaviest[0] * 1.2


async def test_a_child_of_a_flow_costs_the_store_hardly_more_than_a_job(
    harness: Harness, flows: FlowProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 300
    parts = ["send", "{}", "{}", ""] * many
    leaves = [FlowNode(name="send", queue="mail") for _ in range(many)]
    with weighed(monkeypatch) as weights:
        await scripts.add(harness.store.hot, harness.keys, now="", jobs=parts)
        await flows.add(FlowNode(name="all", queue="mail", children=leaves))
    assert weights["add_flow"] < 1.5 * weights["add"]


async def test_children_run_in_the_order_in_which_they_are_given(
    harness: Harness, flows: FlowProducer
) -> None:
    given = {"a": {}, "b": {"job_id": "own"}, "c": {}, "d": {"lifo": True}, "e": {"delay": 60}}
    given |= {"f": {"priority": 1}, "g": {}}
    leaves = [FlowNode(name=name, queue="mail", **cast(Any, more)) for name, more in given.items()]
    added = await flows.add(FlowNode(name="all", queue="mail", children=leaves))
    assert [each.job.name for each in added.children] == list(given)
    assert [claim.work.name for claim in await harness.claim(10)] == ["d", "a", "b", "c", "g", "f"]
    assert (await added.job.dependency_counts()).unprocessed == len(given)
