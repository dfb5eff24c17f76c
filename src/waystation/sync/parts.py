"""The parts of a queue, for code that waits: schedulers, limits, dead letters, groups.

Written by `make docs` from the code for a loop; do not edit.
"""

from datetime import timedelta
from typing import Any, TypeAlias, Unpack

from waystation.bullmq.groups import GroupSettings, GroupState
from waystation.bullmq.keywords import JobKeywords
from waystation.bullmq.limits import Limit
from waystation.bullmq.options import Group, JobOptions
from waystation.bullmq.scheduling.schedule import Schedule, Scheduler
from waystation.bullmq.sync_job import SyncJob
from waystation.core.durations import Duration
from waystation.core.options import checked
from waystation.sync.client import Part

_Schedulers: TypeAlias = list[Scheduler]
_Jobs: TypeAlias = list[SyncJob]
_States: TypeAlias = list[GroupState]


@checked
class Schedulers(Part):
    """The schedulers of a queue: `queue.schedulers`."""

    def upsert(
        self,
        scheduler_id: str,
        schedule: Schedule,
        *,
        name: str | None = None,
        data: Any = None,
        options: JobOptions | None = None,
        **given: Unpack[JobKeywords],
    ) -> str:
        """Make a scheduler, or change the one of this id; returns the id of its next job.

        Its jobs get this name (by default the scheduler's id), this data and these options. One
        that is paused stays so and makes no job; the returned id is empty then. A job that has
        begun, and sleeps or is to be tried again, goes on beside the next one.
        """
        return self._do(
            "upsert", scheduler_id, schedule, name=name, data=data, options=options, **given
        )

    def get(self, scheduler_id: str) -> Scheduler | None:
        """The scheduler of this id."""
        return self._do("get", scheduler_id)

    def list(self, offset: int = 0, limit: int | None = 100) -> _Schedulers:
        """Schedulers, by when their next jobs are due, paused ones last; `limit` None means all."""
        return self._do("list", offset, limit)

    def count(self) -> int:
        """How many schedulers there are."""
        return self._do("count")

    def pause(self, scheduler_id: str, *, by: str = "") -> bool:
        """Make no jobs until it is resumed; False when it is paused already.

        Its next job goes; one that is due already, or has begun, stays. `by` names whoever pauses.
        """
        return self._do("pause", scheduler_id, by=by)

    def resume(self, scheduler_id: str) -> str:
        """Make jobs again, without those that were missed; returns the id of the next one."""
        return self._do("resume", scheduler_id)

    def remove(self, scheduler_id: str) -> bool:
        """Remove a scheduler; False when there is none. A job that is due, or has begun, stays."""
        return self._do("remove", scheduler_id)


@checked
class Limits(Part):
    """The limits of a queue, which bind all its workers: `queue.limits`."""

    def set_concurrency(self, concurrency: int) -> None:
        """Let at most so many jobs be active at once."""
        return self._do("set_concurrency", concurrency)

    def get_concurrency(self) -> int | None:
        """How many jobs may be active at once; None when there is no limit."""
        return self._do("get_concurrency")

    def remove_concurrency(self) -> None:
        """Remove the limit of active jobs."""
        return self._do("remove_concurrency")

    def is_maxed(self) -> bool:
        """True when as many jobs are active as may be."""
        return self._do("is_maxed")

    def set_rate_limit(self, max: int, duration: Duration) -> None:
        """Let at most `max` jobs start in this duration."""
        return self._do("set_rate_limit", max, duration)

    def get_rate_limit(self) -> Limit | None:
        """The rate limit; None when there is none."""
        return self._do("get_rate_limit")

    def remove_rate_limit(self) -> None:
        """Remove the rate limit."""
        return self._do("remove_rate_limit")

    def rate_limit(self, duration: Duration) -> None:
        """Start no job for a while, where a rate limit is set."""
        return self._do("rate_limit", duration)

    def rate_limit_ttl(self, max: int | None = None) -> timedelta:
        """How long no job may start; zero when one may.

        `max` is the limit to compare with; without it the queue's own counts and, if it has none,
        whatever was counted.
        """
        return self._do("rate_limit_ttl", max)

    def reset_rate_limit(self) -> bool:
        """Let jobs start again at once; False when nothing held them back."""
        return self._do("reset_rate_limit")


@checked
class DeadLetters(Part):
    """The failed jobs of a queue: `queue.dead_letters`."""

    def list(self, offset: int = 0, limit: int | None = 100) -> _Jobs:
        """Failed jobs, those that failed last first; `limit` None means all."""
        return self._do("list", offset, limit)

    def count(self) -> int:
        """How many failed jobs there are."""
        return self._do("count")

    def retry(self, *ids: str) -> int:
        """Run these jobs again; returns how many of them had failed."""
        return self._do("retry", *ids)

    def retry_all(self, limit: int | None = None) -> int:
        """Run all failed jobs again, the oldest first, at most `limit`; returns how many."""
        return self._do("retry_all", limit)

    def purge(self) -> int:
        """Remove all failed jobs; returns how many."""
        return self._do("purge")


@checked
class Groups(Part):
    """The groups of a queue: `queue.groups`.

    A group needs no making: it is there while jobs of it are. `group` is an id, a `Group`, or None,
    which stands for all jobs without a group.
    """

    def list(self, *, offset: int = 0, limit: int = 100) -> _States:
        """The groups of which jobs wait, those with the most first."""
        return self._do("list", offset=offset, limit=limit)

    def count(self) -> int:
        """How many groups have jobs that wait."""
        return self._do("count")

    def count_jobs(self) -> int:
        """How many jobs wait in all groups."""
        return self._do("count_jobs")

    def get(self, group: Group | str) -> GroupState:
        """A group as it is now; one of which no job is there has zeros."""
        return self._do("get", group)

    def settings(self, group: Group | str | None = None) -> GroupSettings:
        """What was set for a group itself, or for the jobs without one."""
        return self._do("settings", group)

    def set(
        self,
        group: Group | str | None,
        *,
        concurrency: int | None = None,
        rate: Limit | None = None,
        budget: float | None = None,
        weight: float | None = None,
        max_size: int | None = None,
    ) -> None:
        """Set something for one group, while workers run; what is not given stays.

        For the jobs without a group only `weight` can be set: `limits` holds for the whole queue.
        """
        return self._do(
            "set",
            group,
            concurrency=concurrency,
            rate=rate,
            budget=budget,
            weight=weight,
            max_size=max_size,
        )

    def set_for_all(
        self,
        *,
        concurrency: int | None = None,
        rate: Limit | None = None,
        budget: float | None = None,
        weight: float | None = None,
        max_size: int | None = None,
        in_parents: bool = False,
    ) -> None:
        """Set something for all groups that have no setting of their own; what is not given stays.

        With `in_parents` it holds for the groups that belong to another one, instead.
        """
        return self._do(
            "set_for_all",
            concurrency=concurrency,
            rate=rate,
            budget=budget,
            weight=weight,
            max_size=max_size,
            in_parents=in_parents,
        )

    def reset(self, group: Group | str | None) -> None:
        """Forget what was set for a group; a paused one stays paused."""
        return self._do("reset", group)

    def reset_for_all(self, *, in_parents: bool = False) -> None:
        """Forget what was set for all groups."""
        return self._do("reset_for_all", in_parents=in_parents)

    def pause(self, group: Group | str) -> None:
        """Start no jobs of a group until it is resumed; active ones go on."""
        return self._do("pause", group)

    def resume(self, group: Group | str) -> None:
        """Start jobs of a group again."""
        return self._do("resume", group)
