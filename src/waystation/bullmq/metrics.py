"""Metrics: how many jobs end, by the minute, as workers count them."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.replies import GroupCount, GroupCounts
from waystation.bullmq.states import State
from waystation.core.errors import InvalidOption
from waystation.core.events import Product
from waystation.core.line import prometheus
from waystation.core.line.forecasts import Forecast
from waystation.core.line.prometheus import Family
from waystation.core.store.commands import ask_all
from waystation.core.store.script import Client

_WHERE = "only there where workers keep metrics."
COUNT = Family(
    "bullmq_job_count", "gauge", ("queue", "state"), "Jobs of the queue by state, by BullMQ's name."
)
COMPLETED = Family(
    "bullmq_job_completed_total", "counter", ("queue",), f"Jobs that were completed; {_WHERE}"
)
FAILED = Family(
    "bullmq_job_failed_total", "counter", ("queue",), f"Jobs that failed for good; {_WHERE}"
)
GROUPS = Family(
    "waystation_groups",
    "gauge",
    ("product", "queue"),
    "Groups of which jobs wait, those in another one included.",
)
GROUPS_HELD = Family(
    "waystation_groups_held",
    "gauge",
    ("product", "queue"),
    "Groups of which jobs wait, but none is started: paused, or at a limit.",
)
GROUP_JOBS = Family(
    "waystation_group_jobs",
    "gauge",
    ("product", "queue", "group", "state"),
    "Jobs of a group that wait or are active, of the ten groups with the most that wait; all "
    "other groups are `(other)`. A parent stands for the groups in it.",
)
FAMILIES = (COUNT, COMPLETED, FAILED, GROUPS, GROUPS_HELD, GROUP_JOBS)

MOST_GROUPS = 10
"""Groups that have a label of their own."""
OTHER_GROUPS = "(other)"
"""The label of all others; no group has it, because brackets are escaped in their names."""

MetricsKind: TypeAlias = Literal["completed", "failed"]


class Metrics(NamedTuple):
    """How many jobs were completed, or failed, while workers counted them."""

    total: int
    """Since counting began."""
    previous_total: int
    """At the end of the newest full minute."""
    previous_ms: int
    """Milliseconds since 1970 of that minute."""
    data: list[int]
    """By the minute, the newest first."""
    points: int
    """How many minutes are kept."""


async def read_metrics(
    client: Client, keys: QueueKeys, kind: MetricsKind, start: int, end: int
) -> Metrics:
    """Read the counts of one kind."""
    if kind not in ("completed", "failed"):
        raise InvalidOption(f"there are metrics of completed and of failed, got {kind!r}")
    counts, data = (
        (keys.metrics_completed, keys.metrics_completed_data)
        if kind == "completed"
        else (keys.metrics_failed, keys.metrics_failed_data)
    )
    sums, points, many = await ask_all(
        client,
        ("HMGET", counts, "count", "prevCount", "prevTS"),
        ("LRANGE", data, start, end),
        ("LLEN", data),
    )
    total, previous, at = (int(float(each or 0)) for each in sums)
    return Metrics(total, previous, at, [int(float(point)) for point in points], many)


def as_text(
    queue: str,
    counts: Mapping[State, int],
    completed: Metrics,
    failed: Metrics,
    groups: GroupCounts,
    forecast: Forecast,
) -> str:
    """The numbers of a queue in Prometheus' text format, under the names BullMQ gives them.

    The history's recommendations are included while they are fresh, for a scaler to read.
    """
    jobs = [({"queue": queue, "state": state}, count) for state, count in counts.items()]
    lines = [*COUNT.lines(jobs)]
    for family, ended in ((COMPLETED, completed), (FAILED, failed)):
        if ended.points or ended.total:  # else no worker counts them, which is not the same as none
            lines += family.lines([({"queue": queue}, ended.total)])
    lines += _of_groups(queue, groups)
    lines += prometheus.recommended(Product.BULLMQ, {queue: forecast})
    return prometheus.joined(lines)


def _of_groups(queue: str, counts: GroupCounts) -> Iterator[str]:
    labels = {"product": Product.BULLMQ.value, "queue": queue}
    yield from GROUPS.lines([(labels, counts.groups)])
    yield from GROUPS_HELD.lines([(labels, counts.held)])
    if not counts.waiting and not counts.active:
        return
    # What was not among the largest, and jobs of groups that have none waiting.
    others = GroupCount(
        OTHER_GROUPS,
        counts.waiting - sum(each.waiting for each in counts.largest),
        counts.active - sum(each.active for each in counts.largest),
    )
    yield from GROUP_JOBS.lines(
        ({**labels, "group": each.path, "state": state}, many)
        for each in (*counts.largest, others)
        for state, many in (("waiting", each.waiting), ("active", each.active))
    )
