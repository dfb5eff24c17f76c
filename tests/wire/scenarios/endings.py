"""How attempts end, by the way or for good, and what is kept of them."""

from collections.abc import Sequence

from tests.wire.scenario import Add, Job, OnJob, OnQueue, Rest, Step, Work
from tests.wire.scenarios.words import HOUR, SOON, doing

OUTCOMES: Sequence[Step] = [
    Add(
        "outcomes",
        [
            doing("good", ["return", {"sum": 3, "text": "ü"}]),
            doing("silent"),
            doing("second try", ["throw", "once", 1], ["return", 2], attempts=3),
            doing("exhausted", ["throw", "never works"], attempts=2, jobId="exhausted"),
            doing("hopeless", ["unrecoverable", "stop"], attempts=5, jobId="hopeless"),
            doing(
                "waiting long",
                ["throw", "wait an hour"],
                attempts=2,
                backoff={"type": "exponential", "delay": HOUR},
            ),
            doing(
                "urgent",
                ["throw", "once", 1],
                ["return", 1],
                attempts=2,
                priority=2,
            ),
            doing("one stack", ["throw", "no"], attempts=3, stackTraceLimit=1),
        ],
    ),
    Work("outcomes", outcomes=13, options={"name": "anna"}),
    OnJob("outcomes", "exhausted", "retry", ["failed"]),
    OnJob("outcomes", "hopeless", "retry", ["failed"]),
    Work("outcomes", outcomes=2),
    OnQueue("outcomes", "retry_jobs", [{"state": "failed", "count": 100}]),
]

DETOURS: Sequence[Step] = [
    Add(
        "backed-off",
        [
            doing(
                "backed off",
                ["throw", "wait a little", 2],
                ["return", "rested"],
                attempts=3,
                backoff={"type": "exponential", "delay": SOON},
            )
        ],
    ),
    Work("backed-off", outcomes=3),
    Add("moved", [doing("moved", ["moveToDelayed", SOON], ["return", "moved"])]),
    Work("moved", outcomes=1),
    Add("waited", [doing("waited", ["moveToWait"], ["return", "waited"]), Job("behind")]),
    Work("waited", outcomes=2),
    Add("slowed", [doing("slowed", ["rateLimit", SOON], ["return", "slowed"]), Job("behind")]),
    Work("slowed", outcomes=2, options={"limiter": {"max": 100, "duration": HOUR}}),
    Add(
        "families",
        [
            doing(
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

AGAIN: Sequence[Step] = [
    Add("again", [doing("good", ["return", 1], jobId="good", priority=2)]),
    Add("again", [doing("bad", ["throw", "no"], jobId="bad", priority=2)]),
    Add("again", [doing("front", ["throw", "no"], jobId="front", lifo=True)]),
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

RETENTION: Sequence[Step] = [
    Add(
        "retention",
        [
            doing("gone", ["return", 1], removeOnComplete=True),
            doing("gone too", ["throw", "no"], removeOnFail=True),
            doing("first", ["log", "one"], ["return", 1], jobId="first"),
            doing("second", ["return", 1], jobId="second"),
            doing("last two", ["return", 1], removeOnComplete=2, jobId="third"),
            doing("aged", ["throw", "no"], removeOnFail={"age": 3600, "count": 10}),
        ],
    ),
    Work("retention", outcomes=6, options={"metrics": {"maxDataPoints": 60}}),
]

GONE = {"count": 0}

RETENTION_BY_THE_WORKER: Sequence[Step] = [
    Add("kept-one", [doing("done", ["return", n]) for n in range(3)]),
    Add("kept-one", [doing("bad", ["throw", "no"]) for _ in range(3)]),
    Work("kept-one", outcomes=6, options={"removeOnComplete": {"count": 1}, "removeOnFail": GONE}),
    Add("aged", [doing("done", ["log", "x"], ["return", n]) for n in range(2)]),
    Work("aged", outcomes=2),
    Rest(1100),
    Add("aged", [doing("new", ["return", 1], removeOnComplete={"age": 1})]),
    Work("aged", outcomes=1),
    Add("counted", [doing("done", ["return", 1]), doing("bad", ["throw", "no"])]),
    Work("counted", outcomes=2, options={"metrics": {"maxDataPoints": 5}}),
]

REPORTING: Sequence[Step] = [
    Add(
        "telling",
        [
            doing("teller", ["progress", 40], ["log", "half"], ["progress", {"at": "end"}]),
            doing("short", ["log", "1"], ["log", "2"], ["log", "3"], keepLogs=2),
            doing("changer", ["updateData", {"changed": [True]}]),
            Job("idle", {"n": 1}, {"jobId": "idle", "delay": HOUR}),
        ],
    ),
    Work("telling", outcomes=3),
    OnJob("telling", "idle", "update_data", [{"n": 2}]),
    OnJob("telling", "idle", "update_progress", [99]),
    OnJob("telling", "idle", "log", ["from outside"]),
    OnJob("telling", "idle", "log", ["once more"]),
]
