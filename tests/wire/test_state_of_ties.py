"""What ties jobs to one another, by deduplication, flow or schedule, left alike by both sides."""

from collections.abc import Mapping, Sequence

import pytest

from tests.wire.node import NodeProcess
from tests.wire.scenario import Add, AddFlow, Job, Json, OnJob, OnQueue, Step, Tree, Work
from tests.wire.test_state_diff import apart, left_by_node, left_by_us

HOUR = 3_600_000
NEW_YEAR_2030 = 1_893_456_000_000


def like(id: str, *, n: int = 1, **options: Json) -> Job:
    """A job that others of this id are like; options of its own come before those of the rule."""
    own = {name: options.pop(name) for name in ("delay", "priority", "jobId") if name in options}
    return Job("like", {"n": n}, {**own, "deduplication": {"id": id, **options}})


def upsert(id: str, *, name: str = "tick", priority: int | None = None, **times: Json) -> Step:
    options: dict[str, Json] = {"attempts": 1}
    if priority is not None:
        options["priority"] = priority
    return OnQueue("s", "upsert_job_scheduler", [id, times, {"name": name, "opts": options}])


def named(queue: str, id: str, *children: Tree, **options: Json) -> Tree:
    return Tree(queue, Job(id, {}, {"jobId": id, **options}), children)


DEDUPLICATION: Sequence[Step] = [
    Add(
        "d",
        [
            *(like("moved", n=n, delay=n * HOUR, reschedule=True) for n in (1, 3)),
            *(like("kept", n=n, delay=HOUR, keepLastIfActive=True, replace=True) for n in (1, 2)),
            *(like("long", n=n, keepLastIfActive=True, ttl=HOUR, extend=True) for n in (1, 2)),
            *(like("ready", n=n, priority=2, replace=True) for n in (1, 2)),
            *(like("named", n=n, jobId="x") for n in (1, 2)),
            like("named", n=3, jobId="y"),
            *(like("debounced", delay=HOUR, replace=True, ttl=n * HOUR) for n in (1, 5)),
        ],
    ),
    OnJob("d", "1", "remove"),
    OnJob("d", "x", "remove"),
    Add("d", [like("moved"), like("named")]),
]

SCHEDULERS: Sequence[Step] = [
    upsert("changed", every=HOUR),
    upsert("changed", every=2 * HOUR),
    Work("s", outcomes=1),
    upsert("changed", every=3 * HOUR),
    upsert("urgent", every=HOUR, priority=3),
    upsert("urgent", every=HOUR, priority=2, name="tock"),
    upsert("yearly", pattern="0 0 1 1 *", tz="UTC"),
    upsert("yearly", pattern="0 0 2 1 *", tz="UTC", limit=2),
    upsert("once", every=10, limit=1),
    Work("s", outcomes=3),
    upsert("now", pattern="0 0 1 1 *", tz="UTC", immediately=True),
    Work("s", outcomes=1),
    upsert("removed", every=HOUR),
    OnQueue("s", "remove_job_scheduler", ["removed"]),
    OnQueue("s", "remove_job_scheduler", ["yearly"]),
    upsert("later", every=HOUR, startDate=NEW_YEAR_2030),
    upsert("until", every=HOUR, endDate=NEW_YEAR_2030),
    Work("s", outcomes=2),
]

FLOWS: Sequence[Step] = [
    Add("k", [Job("early", {}, {"jobId": "early"})]),
    Work("k", outcomes=1),
    AddFlow(
        named(
            "p",
            "top",
            named("m", "middle", named("k", "a"), named("k", "early")),
            named("k", "b", priority=2),
            priority=3,
        )
    ),
    Work("k", outcomes=2),
    Work("m", outcomes=1),
    Work("p", outcomes=1),
    AddFlow(named("p", "again", named("k", "c"))),
    AddFlow(named("p", "again", named("k", "d"))),
    Add("k", [Job("e", {}, {"jobId": "e", "parent": {"id": "again", "queue": "bull:p"}})]),
    Work("k", outcomes=3),
    AddFlow(named("p", "emptied", named("k", "f"), named("k", "g", delay=HOUR))),
    OnJob("p", "emptied", "remove_unprocessed_children"),
]

SCENARIOS: Mapping[str, Sequence[Step]] = {
    "deduplication": DEDUPLICATION,
    "schedulers": SCHEDULERS,
    "flows": FLOWS,
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_we_tie_jobs_as_node_does(
    name: str, node6_process: NodeProcess, redis_url: str, second_url: str
) -> None:
    node = await left_by_node(node6_process, redis_url, SCENARIOS[name])
    ours = await left_by_us(second_url, SCENARIOS[name])

    assert apart(node, ours, SCENARIOS[name]) == ""
