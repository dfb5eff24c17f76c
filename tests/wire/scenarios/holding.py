"""What keeps jobs from running: pauses, limits, workers that fall silent."""

from collections.abc import Sequence

from tests.wire.scenario import Abandon, Add, Job, OnJob, OnQueue, Rest, Step, Work
from tests.wire.scenarios.words import HOUR, SOON, doing

BRIEF = {"lockDuration": 60, "stalledInterval": 30}
WATCHFUL = {"stalledInterval": 30}
EXPIRED = 120
LONG_ENOUGH = 1_200
"""Milliseconds; a busy machine needs some of them to kill the worker while the job runs."""
WINDOW = 300
"""Longer than a busy machine takes between two jobs, so that the limit still holds then."""

PAUSING: Sequence[Step] = [
    Add("pausing", [Job("before", {}, {"jobId": "before"})]),
    OnQueue("pausing", "pause"),
    Add(
        "pausing",
        [
            Job("during", {}, {"jobId": "during"}),
            Job("urgent", {}, {"priority": 1}),
            Job("later", {}, {"delay": HOUR}),
        ],
    ),
    OnQueue("pausing", "resume"),
    Work("pausing", outcomes=3),
    OnQueue("pausing", "pause"),
    Add("pausing", [Job("after")]),
]

LIMITS: Sequence[Step] = [
    OnQueue("limits", "set_global_concurrency", [2]),
    OnQueue("limits", "set_global_rate_limit", [100, HOUR]),
    Add("limits", [Job("one"), Job("two")]),
    Work("limits", outcomes=2),
    OnQueue("limits", "remove_global_concurrency"),
]

LIMITED: Sequence[Step] = [
    Add("slow", [Job("one"), Job("two"), Job("three")]),
    Work("slow", outcomes=3, options={"limiter": {"max": 1, "duration": WINDOW}}),
    OnQueue("all-slow", "set_global_rate_limit", [2, WINDOW]),
    Add("all-slow", [Job("one"), Job("two"), Job("three")]),
    Work("all-slow", outcomes=3),
    OnQueue("all-slow", "remove_global_rate_limit"),
    Rest(2 * WINDOW),
    OnQueue("one-by-one", "set_global_concurrency", [1]),
    Add("one-by-one", [doing("slow", ["runFor", 5]) for _ in range(4)]),
    Work("one-by-one", outcomes=4, options={"concurrency": 3}),
    OnQueue("stopped", "set_global_rate_limit", [10, HOUR]),
    OnQueue("stopped", "rate_limit", [HOUR]),
    Add("stopped", [Job("never")]),
    Add("slowed", [doing("slowed", ["rateLimit", SOON], ["return", 1], priority=4)]),
    Add("slowed", [Job("behind", {}, {"priority": 4})]),
    Work("slowed", outcomes=2, options={"limiter": {"max": 100, "duration": HOUR}}),
    Add("front", [doing("waits", ["moveToWait"], ["return", 1], priority=4)]),
    Add("front", [Job("behind", {}, {"priority": 4})]),
    Work("front", outcomes=2),
]

TURNS: Sequence[Step] = [
    Add("lifo", [Job("first"), Job("last", {}, {"lifo": True}), Job("middle")]),
    Add("lifo", [doing("again", ["throw", "once", 1], ["return", 1], lifo=True, attempts=2)]),
    Work("lifo", outcomes=5),
    Add("due", [Job("urgent", {}, {"delay": SOON, "priority": 2})]),
    Work("due", outcomes=1),
    Add("due-again", [doing("u", ["throw", "no", 1], priority=2, attempts=2, backoff=SOON)]),
    Work("due-again", outcomes=2),
    Add(
        "changed",
        [
            Job("a", {}, {"jobId": "a"}),
            Job("b", {}, {"jobId": "b"}),
            Job("c", {}, {"jobId": "c", "delay": HOUR}),
        ],
    ),
    OnJob("changed", "a", "change_priority", [{"priority": 0, "lifo": True}]),
    OnJob("changed", "c", "change_priority", [{"priority": 7}]),
    OnJob("changed", "c", "promote"),
    OnJob("changed", "b", "change_priority", [{"priority": 7, "lifo": True}]),
    OnQueue("paused-due", "pause"),
    Add("paused-due", [Job("late", {}, {"delay": 1})]),
    Rest(10),
    Work("paused-due", outcomes=0),
    OnQueue("paused-due", "resume"),
]

STALLS: Sequence[Step] = [
    Add("stalls", [doing("stuck", ["runFor", LONG_ENOUGH], ["return", 1], jobId="stuck")]),
    Abandon("stalls", 1, BRIEF),
    Add("stalls", [Job("behind", {}, {"jobId": "behind"})]),
    Work("stalls", outcomes=2, options=WATCHFUL),
    Add("urgent-stalls", [doing("stuck", ["runFor", LONG_ENOUGH], jobId="stuck", priority=3)]),
    Abandon("urgent-stalls", 1, BRIEF),
    Work("urgent-stalls", outcomes=1, options=WATCHFUL),
    Add("hopeless-stalls", [doing("stuck", ["runFor", LONG_ENOUGH], jobId="stuck", attempts=3)]),
    Abandon("hopeless-stalls", 1, BRIEF),
    Work("hopeless-stalls", outcomes=1, options={**WATCHFUL, "maxStalledCount": 0}),
    Add("often-started", [doing("stuck", ["runFor", LONG_ENOUGH], jobId="stuck", attempts=3)]),
    Abandon("often-started", 1, BRIEF),
    Work("often-started", outcomes=1, options={**WATCHFUL, "maxStartedAttempts": 1}),
    Rest(EXPIRED),
]
