"""Jobs that know of other jobs: flows and families."""

from collections.abc import Sequence

from tests.wire.scenario import AddFlow, Job, Json, OnJob, OnQueue, Step, Tree, Work
from tests.wire.scenarios.words import HOUR, doing

FLOWS: Sequence[Step] = [
    AddFlow(
        Tree(
            "parents",
            Job("all done", {}, {"jobId": "all done"}),
            [
                Tree("children", doing("first", ["return", {"n": 1}], jobId="first")),
                Tree("children", doing("second", ["return", None], jobId="second")),
            ],
        )
    ),
    AddFlow(
        Tree(
            "parents",
            Job("nameless", {}, {"priority": 4}),
            [Tree("children", doing("leaf", ["return", "leaf"]))],
        )
    ),
    Work("children", outcomes=3),
    Work("parents", outcomes=2),
    *(
        step
        for flag in (
            "failParentOnFailure",
            "continueParentOnFailure",
            "ignoreDependencyOnFailure",
            "removeDependencyOnFailure",
        )
        for step in (
            AddFlow(
                Tree(
                    f"parents-of-{flag}",
                    Job("parent", {}, {"jobId": "parent"}),
                    [
                        Tree(
                            f"children-of-{flag}",
                            doing("bad", ["throw", "no"], jobId="bad", **{flag: True}),
                        ),
                        Tree(
                            f"children-of-{flag}",
                            Job("slow", {}, {"jobId": "slow", "delay": HOUR}),
                        ),
                    ],
                )
            ),
            Work(f"children-of-{flag}", outcomes=1),
        )
    ),
    Work("parents-of-failParentOnFailure", outcomes=1),
    Work("parents-of-continueParentOnFailure", outcomes=1),
    AddFlow(
        Tree(
            "waiting-parents",
            Job("parent", {}, {"jobId": "parent"}),
            [
                Tree("waiting-children-of", Job("child", {}, {"jobId": "child"})),
                Tree("waiting-children-of", Job("other", {}, {"jobId": "other"})),
            ],
        )
    ),
    OnJob("waiting-children-of", "child", "remove_child_dependency"),
    OnJob("waiting-parents", "parent", "remove"),
]


def _family(queue: str, child: Job, **parent: Json) -> AddFlow:
    top = Job("parent", {}, {"jobId": "parent", **parent})
    return AddFlow(Tree(queue, top, [Tree(f"{queue}-children", child)]))


FAMILIES: Sequence[Step] = [
    _family("late", doing("child", ["return", 1]), delay=HOUR),
    Work("late-children", outcomes=1),
    _family("urgent", doing("child", ["return", 1]), priority=5),
    Work("urgent-children", outcomes=1),
    _family("repaired", doing("child", ["throw", "no"], jobId="c", failParentOnFailure=True)),
    Work("repaired-children", outcomes=1),
    OnJob("repaired-children", "c", "retry", ["failed"]),
    Work("repaired", outcomes=1),
    _family("waiting", doing("child", ["throw", "no"], jobId="c")),
    Work("waiting-children", outcomes=1),
    OnQueue("waiting-children", "retry_jobs", [{"state": "failed", "count": 10}]),
    _family("orphaned", Job("child", {}, {"jobId": "c"})),
    OnJob("orphaned-children", "c", "remove"),
    Work("orphaned", outcomes=1),
    _family("emptied", Job("child", {}, {"jobId": "c"})),
    OnJob("emptied", "parent", "remove_unprocessed_children"),
    AddFlow(
        Tree(
            "top",
            Job("top", {}, {"jobId": "top"}),
            [
                Tree(
                    "middle",
                    Job("middle", {}, {"jobId": "middle", "failParentOnFailure": True}),
                    [
                        Tree(
                            "bottom",
                            doing("bottom", ["throw", "no"], jobId="b", failParentOnFailure=True),
                        )
                    ],
                )
            ],
        )
    ),
    Work("bottom", outcomes=1),
    Work("middle", outcomes=1),
    Work("top", outcomes=1),
    _family("adopting", Job("child", {}, {"jobId": "c"})),
    Work("adopting-children", outcomes=1),
    Work("adopting", outcomes=1),
    _family("adopting", Job("child", {}, {"jobId": "c"})),
]
