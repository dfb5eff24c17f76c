"""What happens less often than in the other scenarios, and matters as much."""

from collections.abc import Mapping, Sequence

from .scenario import Abandon, Add, AddFlow, Job, Json, OnJob, OnQueue, Rest, Step, Tree, Work

SOON = 20
HOUR = 3_600_000
NEW_YEAR_2030 = 1_893_456_000_000
NEW_YEAR_2031 = 1_924_992_000_000

BRIEF = {"lockDuration": 60, "stalledInterval": 30}
WATCHFUL = {"stalledInterval": 30}
EXPIRED = 120
GONE = {"count": 0}


def _doing(name: str, *steps: Sequence[Json], **options: Json) -> Job:
    return Job(name, {"do": [list(step) for step in steps]}, options)


STALLS: Sequence[Step] = [
    Add("stalls", [_doing("stuck", ["runFor", 400], ["return", 1], jobId="stuck")]),
    Abandon("stalls", 1, BRIEF),
    Add("stalls", [Job("behind", {}, {"jobId": "behind"})]),
    Work("stalls", outcomes=2, options=WATCHFUL),
    Add("urgent-stalls", [_doing("stuck", ["runFor", 400], jobId="stuck", priority=3)]),
    Abandon("urgent-stalls", 1, BRIEF),
    Work("urgent-stalls", outcomes=1, options=WATCHFUL),
    Add("hopeless-stalls", [_doing("stuck", ["runFor", 400], jobId="stuck", attempts=3)]),
    Abandon("hopeless-stalls", 1, BRIEF),
    Work("hopeless-stalls", outcomes=1, options={**WATCHFUL, "maxStalledCount": 0}),
    Add("often-started", [_doing("stuck", ["runFor", 400], jobId="stuck", attempts=3)]),
    Abandon("often-started", 1, BRIEF),
    Work("often-started", outcomes=1, options={**WATCHFUL, "maxStartedAttempts": 1}),
    Rest(EXPIRED),
]


def _kept(name: str, n: int, **more: Json) -> list[Json]:
    rule = {"id": "kept", "keepLastIfActive": True}
    return ["add", name, {"n": n}, {"attempts": 1, "deduplication": rule, **more}]


def _owner(*steps: Sequence[Json], **options: Json) -> Job:
    rule = {"id": "kept", "keepLastIfActive": True}
    return _doing("owner", *steps, deduplication=rule, **options)


DEDUPLICATION_MEETS_WORK: Sequence[Step] = [
    Add("kept", [_owner(_kept("first", 1), _kept("last", 2), ["return", "done"])]),
    Work("kept", outcomes=2),
    Add("kept-after-failure", [_owner(_kept("next", 1), ["throw", "no"])]),
    Work("kept-after-failure", outcomes=2),
    Add("kept-delayed", [_owner(_kept("next", 1, delay=HOUR), ["return", 1])]),
    Work("kept-delayed", outcomes=1),
    Add("kept-urgent", [_owner(_kept("next", 1, priority=2), ["return", 1])]),
    Work("kept-urgent", outcomes=2),
    Add("kept-removed", [_owner(_kept("next", 1), ["return", 1], removeOnComplete=True)]),
    Work("kept-removed", outcomes=2),
    Add(
        "rescheduled",
        [
            Job(
                "a", {"n": n}, {"delay": n * HOUR, "deduplication": {"id": "x", "reschedule": True}}
            )
            for n in (1, 3)
        ],
    ),
    Add(
        "waited-for",
        [
            Job("a", {"n": n}, {"deduplication": {"id": "x", "replace": True, "ttl": HOUR}})
            for n in (1, 2)
        ],
    ),
    Add(
        "replaced",
        [
            Job("a", {"n": n}, {"delay": HOUR, "deduplication": {"id": "x", "replace": True}})
            for n in (1, 2)
        ],
    ),
    OnQueue("replaced", "promote_jobs", [{"count": 10}]),
    Add("replaced", [Job("a", {"n": 3}, {"deduplication": {"id": "x", "replace": True}})]),
    Work("replaced", outcomes=1),
    Add("freed", [Job("a", {}, {"jobId": "a", "deduplication": {"id": "x"}})]),
    OnJob("freed", "a", "remove_deduplication_key"),
    Add("freed", [Job("b", {}, {"jobId": "b", "deduplication": {"id": "x"}})]),
    OnQueue("freed", "drain"),
]

LIMITED: Sequence[Step] = [
    Add("slow", [Job("one"), Job("two"), Job("three")]),
    Work("slow", outcomes=3, options={"limiter": {"max": 1, "duration": 40}}),
    OnQueue("all-slow", "set_global_rate_limit", [2, 40]),
    Add("all-slow", [Job("one"), Job("two"), Job("three")]),
    Work("all-slow", outcomes=3),
    OnQueue("all-slow", "remove_global_rate_limit"),
    Rest(EXPIRED),
    OnQueue("one-by-one", "set_global_concurrency", [1]),
    Add("one-by-one", [_doing("slow", ["runFor", 5]) for _ in range(4)]),
    Work("one-by-one", outcomes=4, options={"concurrency": 3}),
    OnQueue("stopped", "set_global_rate_limit", [10, HOUR]),
    OnQueue("stopped", "rate_limit", [HOUR]),
    Add("stopped", [Job("never")]),
    Add("slowed", [_doing("slowed", ["rateLimit", SOON], ["return", 1], priority=4)]),
    Add("slowed", [Job("behind", {}, {"priority": 4})]),
    Work("slowed", outcomes=2, options={"limiter": {"max": 100, "duration": HOUR}}),
    Add("front", [_doing("waits", ["moveToWait"], ["return", 1], priority=4)]),
    Add("front", [Job("behind", {}, {"priority": 4})]),
    Work("front", outcomes=2),
]

TURNS: Sequence[Step] = [
    Add("lifo", [Job("first"), Job("last", {}, {"lifo": True}), Job("middle")]),
    Add("lifo", [_doing("again", ["throw", "once", 1], ["return", 1], lifo=True, attempts=2)]),
    Work("lifo", outcomes=5),
    Add("due", [Job("urgent", {}, {"delay": SOON, "priority": 2})]),
    Work("due", outcomes=1),
    Add("due-again", [_doing("u", ["throw", "no", 1], priority=2, attempts=2, backoff=SOON)]),
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

AGAIN: Sequence[Step] = [
    Add("again", [_doing("good", ["return", 1], jobId="good", priority=2)]),
    Add("again", [_doing("bad", ["throw", "no"], jobId="bad", priority=2)]),
    Add("again", [_doing("front", ["throw", "no"], jobId="front", lifo=True)]),
    Work("again", outcomes=3),
    OnJob("again", "good", "retry", ["completed"]),
    OnJob("again", "bad", "retry", ["failed", {"resetAttemptsMade": True}]),
    OnJob("again", "front", "retry", ["failed", {"resetAttemptsStarted": True}]),
    Work("again", outcomes=3),
    OnQueue("again", "retry_jobs", [{"state": "completed", "count": 10}]),
    Work("again", outcomes=1),
    Add(
        "promoted",
        [Job("plain", {}, {"delay": HOUR}), Job("u", {}, {"delay": HOUR, "priority": 2})],
    ),
    OnQueue("promoted", "promote_jobs", [{"count": 1}]),
    OnQueue("again", "clean", [0, 100, "failed"]),
    OnQueue("again", "trim_events", [0]),
]

RETENTION_BY_THE_WORKER: Sequence[Step] = [
    Add("kept-one", [_doing("done", ["return", n]) for n in range(3)]),
    Add("kept-one", [_doing("bad", ["throw", "no"]) for _ in range(3)]),
    Work("kept-one", outcomes=6, options={"removeOnComplete": {"count": 1}, "removeOnFail": GONE}),
    Add("aged", [_doing("done", ["log", "x"], ["return", n]) for n in range(2)]),
    Work("aged", outcomes=2),
    Rest(1100),
    Add("aged", [_doing("new", ["return", 1], removeOnComplete={"age": 1})]),
    Work("aged", outcomes=1),
    Add("counted", [_doing("done", ["return", 1]), _doing("bad", ["throw", "no"])]),
    Work("counted", outcomes=2, options={"metrics": {"maxDataPoints": 5}}),
]


def _family(queue: str, child: Job, **parent: Json) -> AddFlow:
    top = Job("parent", {}, {"jobId": "parent", **parent})
    return AddFlow(Tree(queue, top, [Tree(f"{queue}-children", child)]))


FAMILIES: Sequence[Step] = [
    _family("late", _doing("child", ["return", 1]), delay=HOUR),
    Work("late-children", outcomes=1),
    _family("urgent", _doing("child", ["return", 1]), priority=5),
    Work("urgent-children", outcomes=1),
    _family("repaired", _doing("child", ["throw", "no"], jobId="c", failParentOnFailure=True)),
    Work("repaired-children", outcomes=1),
    OnJob("repaired-children", "c", "retry", ["failed"]),
    Work("repaired", outcomes=1),
    _family("waiting", _doing("child", ["throw", "no"], jobId="c")),
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
                            _doing("bottom", ["throw", "no"], jobId="b", failParentOnFailure=True),
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


def _tick(id: str, times: Json, **more: Json) -> list[Json]:
    return [id, times, {"name": "tick", "data": {"n": 1}, "opts": {"attempts": 1}, **more}]


CALENDAR: Sequence[Step] = [
    OnQueue(
        "future", "upsert_job_scheduler", _tick("s", {"every": HOUR, "startDate": NEW_YEAR_2030})
    ),
    OnQueue(
        "ending", "upsert_job_scheduler", _tick("s", {"every": HOUR, "endDate": NEW_YEAR_2031})
    ),
    Work("ending", outcomes=1),
    OnQueue("once", "upsert_job_scheduler", _tick("s", {"every": HOUR, "limit": 1})),
    Work("once", outcomes=1),
    OnQueue("changed", "upsert_job_scheduler", _tick("s", {"every": HOUR})),
    Work("changed", outcomes=1),
    OnQueue("changed", "upsert_job_scheduler", _tick("s", {"every": 2 * HOUR})),
    OnQueue("removed", "upsert_job_scheduler", _tick("s", {"every": HOUR})),
    OnQueue("removed", "remove_job_scheduler", ["s"]),
    OnQueue("drained", "upsert_job_scheduler", _tick("s", {"pattern": "0 0 1 1 *", "tz": "UTC"})),
    OnQueue("drained", "drain", [True]),
]

MORE_SCENARIOS: Mapping[str, Sequence[Step]] = {
    "stalls": STALLS,
    "deduplication meets work": DEDUPLICATION_MEETS_WORK,
    "limited": LIMITED,
    "turns": TURNS,
    "again": AGAIN,
    "retention by the worker": RETENTION_BY_THE_WORKER,
    "families": FAMILIES,
    "calendar": CALENDAR,
}
