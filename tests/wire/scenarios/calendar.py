"""Jobs that a schedule makes."""

from collections.abc import Sequence

from tests.wire.scenario import Json, OnQueue, Step, Work
from tests.wire.scenarios.words import HOUR, NEW_YEAR_2030, NEW_YEAR_2031

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
