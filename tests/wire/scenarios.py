"""What both sides are put through; each scenario has queues of its own.

Delays are whole hours, which no run reaches, or a few milliseconds, which every run waits for.
"""

from collections.abc import Mapping, Sequence

from .more_scenarios import MORE_SCENARIOS
from .scenario import Add, AddFlow, AddMany, Job, Json, OnJob, OnQueue, Step, Tree, Work

SOON = 20
HOUR = 3_600_000
NEW_YEAR_2030 = 1_893_456_000_000


def _doing(name: str, *steps: Sequence[Json], **options: Json) -> Job:
    """A job that carries what its worker does."""
    return Job(name, {"do": [list(step) for step in steps]}, options)


ADDS: Sequence[Step] = [
    Add(
        "adds",
        [
            Job("plain", {"n": 1}),
            Job("text", 'only text, with ü and / and " and \u2028'),
            Job("number", 4.5),
            Job("nothing", None),
            Job("nested", {"empty": [], "none": None, "deep": {"list": [1, [2, {}]]}}),
            Job("named", {}, {"jobId": "mine"}),
            Job("named again", {"dropped": True}, {"jobId": "mine"}),
            Job("front", {}, {"lifo": True}),
            Job("later", {}, {"delay": HOUR}),
            Job("kept", {}, {"removeOnComplete": 10, "removeOnFail": {"age": 60, "count": 5}}),
            Job("thrown away", {}, {"removeOnComplete": True, "removeOnFail": False}),
            Job("steady", {}, {"attempts": 4, "backoff": {"type": "fixed", "delay": 500}}),
            Job("growing", {}, {"attempts": 2, "backoff": {"type": "exponential", "delay": 100}}),
            Job("brief", {}, {"keepLogs": 3, "stackTraceLimit": 1, "sizeLimit": 100}),
        ],
    ),
    AddMany("adds", [Job("one", {"n": 1}), Job("two", {}, {"priority": 2}), Job("three")]),
    AddMany("adds", [Job("late", {}, {"delay": 2 * HOUR}), Job("mine", {}, {"jobId": "mine"})]),
]

PRIORITIES: Sequence[Step] = [
    Add(
        "priorities",
        [
            Job("low", {}, {"priority": 9, "jobId": "low"}),
            Job("high", {}, {"priority": 1, "jobId": "high"}),
            Job("high too", {}, {"priority": 1, "jobId": "high too"}),
            Job("none", {}, {"jobId": "none"}),
            Job("lowest", {}, {"priority": 2_097_151, "jobId": "lowest"}),
            Job("late", {}, {"priority": 3, "delay": HOUR, "jobId": "late"}),
        ],
    ),
    OnJob("priorities", "low", "change_priority", [{"priority": 2}]),
    OnJob("priorities", "none", "change_priority", [{"priority": 5}]),
    OnJob("priorities", "lowest", "change_priority", [{"priority": 2, "lifo": True}]),
    OnJob("priorities", "high too", "change_priority", [{"priority": 0}]),
    OnJob("priorities", "late", "promote"),
    Work("priorities", outcomes=6),
]

DELAYS: Sequence[Step] = [
    Add(
        "delays",
        [
            Job("moved", {}, {"delay": HOUR, "jobId": "moved"}),
            Job("promoted", {}, {"delay": HOUR, "jobId": "promoted"}),
            Job("fixed", {}, {"timestamp": NEW_YEAR_2030, "delay": HOUR, "jobId": "first"}),
            Job("fixed", {}, {"timestamp": NEW_YEAR_2030, "delay": HOUR, "jobId": "second"}),
        ],
    ),
    OnJob("delays", "moved", "change_delay", [3 * HOUR]),
    OnJob("delays", "promoted", "promote"),
    Work("delays", outcomes=1),
    Add("delays", [Job("soon", {"n": 1}, {"delay": SOON})]),
    Work("delays", outcomes=1),
    OnQueue("delays", "promote_jobs", [{"count": 10}]),
]

FLOWS: Sequence[Step] = [
    AddFlow(
        Tree(
            "parents",
            Job("all done", {}, {"jobId": "all done"}),
            [
                Tree("children", _doing("first", ["return", {"n": 1}], jobId="first")),
                Tree("children", _doing("second", ["return", None], jobId="second")),
            ],
        )
    ),
    AddFlow(
        Tree(
            "parents",
            Job("nameless", {}, {"priority": 4}),
            [Tree("children", _doing("leaf", ["return", "leaf"]))],
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
                            _doing("bad", ["throw", "no"], jobId="bad", **{flag: True}),
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

DEDUPLICATION: Sequence[Step] = [
    Add(
        "dedup",
        [
            Job("simple", {"n": 1}, {"deduplication": {"id": "simple"}}),
            Job("simple", {"n": 2}, {"deduplication": {"id": "simple"}}),
            Job("throttled", {"n": 1}, {"deduplication": {"id": "throttled", "ttl": HOUR}}),
            Job("throttled", {"n": 2}, {"deduplication": {"id": "throttled", "ttl": HOUR}}),
            *(
                Job(
                    "extended",
                    {"n": n},
                    {"deduplication": {"id": "extended", "ttl": n * HOUR, "extend": True}},
                )
                for n in (1, 2)
            ),
            *(
                Job(
                    "debounced",
                    {"n": n},
                    {
                        "delay": HOUR,
                        "deduplication": {
                            "id": "debounced",
                            "ttl": HOUR,
                            "extend": True,
                            "replace": True,
                        },
                    },
                )
                for n in (1, 2, 3)
            ),
            *(
                Job(
                    "kept",
                    {"n": n},
                    {"delay": HOUR, "deduplication": {"id": "kept", "keepLastIfActive": True}},
                )
                for n in (1, 2)
            ),
        ],
    ),
    Work("dedup", outcomes=3),
    Add("dedup", [Job("simple", {"n": 3}, {"deduplication": {"id": "simple"}})]),
    Add("dedup", [Job("throttled", {"n": 3}, {"deduplication": {"id": "throttled", "ttl": HOUR}})]),
    OnQueue("dedup", "remove_deduplication_key", ["throttled"]),
    Add("dedup", [Job("throttled", {"n": 4}, {"deduplication": {"id": "throttled", "ttl": HOUR}})]),
]

SCHEDULERS: Sequence[Step] = [
    OnQueue(
        "every",
        "upsert_job_scheduler",
        ["hourly", {"every": HOUR}, {"name": "tick", "data": {"n": 1}, "opts": {"attempts": 2}}],
    ),
    Work("every", outcomes=1),
    OnQueue(
        "every",
        "upsert_job_scheduler",
        ["hourly", {"every": HOUR}, {"name": "tock", "data": {"n": 2}, "opts": {"attempts": 2}}],
    ),
    OnQueue(
        "cron",
        "upsert_job_scheduler",
        [
            "new year",
            {"pattern": "0 0 0 1 1 *", "tz": "UTC", "limit": 5},
            {"name": "cheers", "data": {}, "opts": {"attempts": 1, "priority": 3}},
        ],
    ),
    OnQueue(
        "cron",
        "upsert_job_scheduler",
        [
            "removed",
            {"pattern": "0 12 * * 1", "tz": "UTC"},
            {"name": "gone", "opts": {"attempts": 1}},
        ],
    ),
    OnQueue("cron", "remove_job_scheduler", ["removed"]),
]

OUTCOMES: Sequence[Step] = [
    Add(
        "outcomes",
        [
            _doing("good", ["return", {"sum": 3, "text": "ü"}]),
            _doing("silent"),
            _doing("second try", ["throw", "once", 1], ["return", 2], attempts=3),
            _doing("exhausted", ["throw", "never works"], attempts=2, jobId="exhausted"),
            _doing("hopeless", ["unrecoverable", "stop"], attempts=5, jobId="hopeless"),
            _doing(
                "waiting long",
                ["throw", "wait an hour"],
                attempts=2,
                backoff={"type": "exponential", "delay": HOUR},
            ),
            _doing(
                "urgent",
                ["throw", "once", 1],
                ["return", 1],
                attempts=2,
                priority=2,
            ),
            _doing("one stack", ["throw", "no"], attempts=3, stackTraceLimit=1),
        ],
    ),
    Work("outcomes", outcomes=13, options={"name": "anna"}),
    OnJob("outcomes", "exhausted", "retry", ["failed"]),
    OnJob("outcomes", "hopeless", "retry", ["failed"]),
    Work("outcomes", outcomes=2),
    OnQueue("outcomes", "retry_jobs", [{"state": "failed", "count": 100}]),
]

# Two jobs due within milliseconds may come in either order, so each has a queue to itself.
DETOURS: Sequence[Step] = [
    Add(
        "backed-off",
        [
            _doing(
                "backed off",
                ["throw", "wait a little", 2],
                ["return", "rested"],
                attempts=3,
                backoff={"type": "exponential", "delay": SOON},
            )
        ],
    ),
    Work("backed-off", outcomes=3),
    Add("moved", [_doing("moved", ["moveToDelayed", SOON], ["return", "moved"])]),
    Work("moved", outcomes=1),
    Add("waited", [_doing("waited", ["moveToWait"], ["return", "waited"]), Job("behind")]),
    Work("waited", outcomes=2),
    Add("slowed", [_doing("slowed", ["rateLimit", SOON], ["return", "slowed"]), Job("behind")]),
    Work("slowed", outcomes=2, options={"limiter": {"max": 100, "duration": HOUR}}),
    Add(
        "families",
        [
            _doing(
                "family",
                ["waitForChildren", [{"queue": "kids", "name": "kid", "opts": {"attempts": 1}}]],
                ["childrenValues"],
            )
        ],
    ),
    Work("families", outcomes=0),
    Work("kids", outcomes=1),
    Work("families", outcomes=1),
]

RETENTION: Sequence[Step] = [
    Add(
        "retention",
        [
            _doing("gone", ["return", 1], removeOnComplete=True),
            _doing("gone too", ["throw", "no"], removeOnFail=True),
            _doing("first", ["log", "one"], ["return", 1], jobId="first"),
            _doing("second", ["return", 1], jobId="second"),
            _doing("last two", ["return", 1], removeOnComplete=2, jobId="third"),
            _doing("aged", ["throw", "no"], removeOnFail={"age": 3600, "count": 10}),
        ],
    ),
    Work("retention", outcomes=6, options={"metrics": {"maxDataPoints": 60}}),
]

TELLING: Sequence[Step] = [
    Add(
        "telling",
        [
            _doing("teller", ["progress", 40], ["log", "half"], ["progress", {"at": "end"}]),
            _doing("short", ["log", "1"], ["log", "2"], ["log", "3"], keepLogs=2),
            _doing("changer", ["updateData", {"changed": [True]}]),
            Job("idle", {"n": 1}, {"jobId": "idle", "delay": HOUR}),
        ],
    ),
    Work("telling", outcomes=3),
    OnJob("telling", "idle", "update_data", [{"n": 2}]),
    OnJob("telling", "idle", "update_progress", [99]),
    OnJob("telling", "idle", "log", ["from outside"]),
    OnJob("telling", "idle", "log", ["once more"]),
]

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
    Add("cleaning", [_doing("done", ["return", n]) for n in range(3)]),
    Add("cleaning", [_doing("bad", ["throw", "no"]) for _ in range(2)]),
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

SCENARIOS: Mapping[str, Sequence[Step]] = {
    "adds": ADDS,
    "priorities": PRIORITIES,
    "delays": DELAYS,
    "flows": FLOWS,
    "deduplication": DEDUPLICATION,
    "schedulers": SCHEDULERS,
    "outcomes": OUTCOMES,
    "detours": DETOURS,
    "retention": RETENTION,
    "telling": TELLING,
    "pausing": PAUSING,
    "limits": LIMITS,
    "removal": REMOVAL,
    "cleaning": CLEANING,
    **MORE_SCENARIOS,
}
