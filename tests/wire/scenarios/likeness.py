"""Jobs that stand for others like them."""

from collections.abc import Sequence

from tests.wire.scenario import Add, Job, Json, OnJob, OnQueue, Step, Work
from tests.wire.scenarios.words import HOUR, doing

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


def _kept(name: str, n: int, **more: Json) -> list[Json]:
    rule = {"id": "kept", "keepLastIfActive": True}
    return ["add", name, {"n": n}, {"attempts": 1, "deduplication": rule, **more}]


def _owner(*steps: Sequence[Json], **options: Json) -> Job:
    rule = {"id": "kept", "keepLastIfActive": True}
    return doing("owner", *steps, deduplication=rule, **options)


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
    Add(
        "replaced-retry",
        [
            doing(
                "a",
                ["throw", "no"],
                attempts=2,
                backoff={"type": "fixed", "delay": HOUR},
                deduplication={"id": "x", "replace": True},
            )
        ],
    ),
    Work("replaced-retry", outcomes=1),
    Add("replaced-retry", [Job("a", {"n": 2}, {"deduplication": {"id": "x", "replace": True}})]),
    Add("freed", [Job("a", {}, {"jobId": "a", "deduplication": {"id": "x"}})]),
    OnJob("freed", "a", "remove_deduplication_key"),
    Add("freed", [Job("b", {}, {"jobId": "b", "deduplication": {"id": "x"}})]),
    OnQueue("freed", "drain"),
]
