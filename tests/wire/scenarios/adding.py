"""What a producer asks for: kinds of data, priorities, delays."""

from collections.abc import Sequence

from tests.wire.scenario import Add, AddMany, Job, OnJob, OnQueue, Step, Work
from tests.wire.scenarios.words import HOUR, NEW_YEAR_2030, SOON

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
