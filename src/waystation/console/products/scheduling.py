"""Schedulers of BullMQ as the console changes them and runs them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from waystation.bullmq import JobOptions, Keep, Queue, Schedule, Scheduler
from waystation.bullmq.options import StoredOptions
from waystation.console.actions.kinds import Act
from waystation.core.errors import InvalidInput, InvalidOption

_READ = {
    "attempts", "backoff", "priority", "lifo", "removeOnComplete", "removeOnFail",
    "stackTraceLimit", "kl",
}  # fmt: skip
"""Options of a scheduler's jobs that are kept when it is changed."""


def wanted(asked: Act, known: Scheduler | None) -> Schedule:
    """The schedule that is asked for; limits of the one that is changed stay."""
    if bool(asked.pattern) == bool(asked.every_s):
        raise InvalidOption("a scheduler has either a pattern or every_s")
    kept = known or Scheduler(id=asked.scheduler, name=asked.scheduler, next_ms=None)
    return Schedule(
        pattern=asked.pattern or None,
        every=asked.every_s or None,
        tz=asked.tz or None,
        limit=kept.limit,
        start_date=kept.start_date,
        end_date=kept.end_date,
        # It was made for the old interval, and may be longer than the new one.
        offset=kept.offset if asked.every_s * 1000 == kept.every_ms else None,
    )


async def save(queue: Queue, asked: Act, known: Scheduler | None) -> None:
    """Make a scheduler, or change the one of this id; what is not asked for stays."""
    schedule = wanted(asked, known)
    data = known.data if asked.data is msgspec.UNSET and known else asked.data
    await queue.schedulers.upsert(
        asked.scheduler,
        schedule,
        name=asked.name or (known.name if known else asked.scheduler),
        data=None if data is msgspec.UNSET else data,
        options=options_of(known.options) if known else JobOptions(),
    )


async def run(queue: Queue, known: Scheduler) -> None:
    """Add a job of a scheduler now."""
    await queue.add(known.name, known.data, options_of(known.options))


def options_of(stored: Mapping[str, Any]) -> JobOptions:
    """The options of a scheduler's jobs; those that cannot be kept are an error."""
    if unknown := sorted(set(stored) - _READ):
        raise InvalidInput(
            f"its jobs have the options {', '.join(unknown)}, which the console cannot keep; "
            "change it with the library that made it"
        )
    read = StoredOptions(dict(stored))
    return JobOptions(
        attempts=read.attempts,
        backoff=read.backoff,
        priority=int(stored.get("priority") or 0),
        lifo=bool(stored.get("lifo")),
        remove_on_complete=_retention(stored.get("removeOnComplete")),
        remove_on_fail=_retention(stored.get("removeOnFail")),
        stack_trace_limit=stored.get("stackTraceLimit"),
        keep_logs=stored.get("kl"),
    )


def _retention(stored: Any) -> bool | int | Keep | None:
    if not isinstance(stored, Mapping):
        return stored
    rule: Mapping[str, Any] = stored  # pyright: ignore[reportUnknownVariableType]
    return Keep(age=rule.get("age"), count=rule.get("count"), limit=rule.get("limit"))
