"""What an operator throws away."""

from collections.abc import Sequence

from tests.wire.scenario import Add, AddFlow, Job, OnJob, OnQueue, Step, Tree, Work
from tests.wire.scenarios.words import HOUR, doing

REMOVAL: Sequence[Step] = [
    Add(
        "removal",
        [
            Job("waiting", {}, {"jobId": "waiting"}),
            Job("stays"),
            Job("late", {}, {"jobId": "late", "delay": HOUR}),
            Job("urgent", {}, {"jobId": "urgent", "priority": 1}),
            Job("once", {}, {"jobId": "once", "deduplication": {"id": "once"}}),
        ],
    ),
    OnJob("removal", "late", "log", ["goes with the job"]),
    *(OnJob("removal", name, "remove") for name in ("waiting", "late", "urgent", "once")),
    AddFlow(
        Tree(
            "removal",
            Job("parent", {}, {"jobId": "parent"}),
            [Tree("removal", Job("child", {}, {"jobId": "child"}))],
        )
    ),
    OnJob("removal", "parent", "remove", [{"removeChildren": True}]),
]

CLEANING: Sequence[Step] = [
    Add("cleaning", [doing("done", ["return", n]) for n in range(3)]),
    Add("cleaning", [doing("bad", ["throw", "no"]) for _ in range(2)]),
    Work("cleaning", outcomes=5),
    Add("cleaning", [Job("waiting"), Job("late", {}, {"delay": HOUR})]),
    OnQueue("cleaning", "clean", [0, 2, "completed"]),
    OnQueue("cleaning", "clean", [0, 100, "failed"]),
    OnQueue("cleaning", "clean", [0, 100, "delayed"]),
    OnQueue("cleaning", "clean", [HOUR, 100, "wait"]),
    Add("drained", [Job("waiting"), Job("urgent", {}, {"priority": 1})]),
    Add("drained", [Job("late", {}, {"delay": HOUR})]),
    OnQueue("drained", "drain"),
    Add("emptied", [Job("waiting"), Job("late", {}, {"delay": HOUR})]),
    OnQueue("emptied", "drain", [True]),
    Add("obliterated", [Job("waiting"), Job("late", {}, {"delay": HOUR})]),
    OnQueue("obliterated", "obliterate", [{"force": True}]),
]
