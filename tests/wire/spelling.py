"""BullMQ's options in its own spelling, made into ours."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from waystation.bullmq import Backoff, Deduplication, JobOptions, Keep, Limit, Parent, Schedule
from waystation.core.durations import instant

Json: TypeAlias = Any
Options: TypeAlias = Mapping[str, Json]

# BullMQ leaves out what nobody asked for; our producer has answers of its own.
NOTHING_SAID: dict[str, Any] = {
    "attempts": 1,
    "backoff": None,
    "stack_trace_limit": None,
    "keep_logs": None,
}

STRUCTS: dict[str, Callable[..., Any]] = {
    "backoff": Backoff,
    "deduplication": Deduplication,
    "parent": Parent,
    "removeOnComplete": Keep,
    "removeOnFail": Keep,
    "limiter": Limit,
}

DURATIONS = "delay backoff ttl duration every offset lockDuration lockRenewTime stalledInterval"
INSTANTS = "timestamp startDate endDate"


def job_options(given: Options) -> JobOptions:
    """What a producer asks for one job."""
    named = {"timestamp": "created_at"}
    said = {named.get(name, snake(name)): _option(name, value) for name, value in given.items()}
    return JobOptions(**{**NOTHING_SAID, **said})


def schedule(given: Options) -> Schedule:
    """When the jobs of a scheduler are due."""
    return Schedule(**{snake(name): _option(name, value) for name, value in given.items()})


def worker_options(given: Options) -> dict[str, Any]:
    """A worker's options, as our `Worker` takes them."""
    names = {"maxStalledCount": "max_stalled", "lockDuration": "lease", "lockRenewTime": "renew"}
    said: dict[str, Any] = {
        names.get(each, snake(each)): _option(each, given[each]) for each in given
    }
    if metrics := said.pop("metrics", None):
        said["metrics_points"] = metrics["maxDataPoints"]
    return said


def snake(name: str) -> str:
    """`removeOnFail` as `remove_on_fail`."""
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def keywords(given: Options) -> dict[str, Json]:
    """The names of an object in our spelling."""
    return {snake(name): value for name, value in given.items()}


def _option(name: str, value: Json) -> Any:
    if name in STRUCTS and isinstance(value, dict):
        fields = cast(dict[str, Json], value)
        return STRUCTS[name](**{snake(each): _option(each, fields[each]) for each in fields})
    if name in DURATIONS.split() and isinstance(value, int):
        return value / 1000
    return instant(value) if name in INSTANTS.split() and isinstance(value, int) else value
