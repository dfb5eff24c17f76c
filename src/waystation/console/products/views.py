"""What the console shows of queues, jobs, workers and schedulers, whatever product they are of."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from waystation.core.store.connection import Store

SHORT = 160
"""Characters of data and errors in a list."""


class JobView(msgspec.Struct, kw_only=True):
    """A job in a list."""

    id: str
    name: str
    state: str
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    due_at: datetime | None = None
    """When a delayed job becomes ready."""
    attempts: int = 0
    """Attempts that have ended."""
    max_attempts: int = 1
    priority: float = 0
    progress: Any = None
    error: str | None = None
    """What the last failed attempt said, in short."""
    worker: str | None = None
    data: str = ""
    """The beginning of the data, as text."""
    failure: str | None = None
    """The id of its group of failures, where it was found by that."""


class Moment(msgspec.Struct, kw_only=True):
    """Something that happened to a job."""

    at: datetime
    what: str
    """added, started, retried, completed, failed, …"""
    note: str = ""


class Relative(msgspec.Struct, kw_only=True):
    """A job that another one waits for, or that waits for it."""

    product: str
    queue: str
    id: str


class JobDetail(msgspec.Struct, kw_only=True):
    """Everything about one job."""

    job: JobView
    product: str
    queue: str
    data: Any
    options: Any = None
    result: Any = None
    traces: list[str] = []
    """The tracebacks of failed attempts, the oldest first."""
    logs: list[str] = []
    logs_total: int = 0
    timeline: list[Moment] = []
    parent: Relative | None = None
    children: dict[str, int] = {}
    """How many children there are, by state."""
    facts: dict[str, Any] = {}
    """What only this product knows about a job."""
    actions: list[str] = []
    """What can be done to it now: retry, promote, cancel, remove."""


class FlowNode(msgspec.Struct, kw_only=True):
    """A job of a flow, with its children."""

    queue: str
    id: str
    name: str
    state: str
    children: list["FlowNode"] = []


class HeldJob(msgspec.Struct, kw_only=True):
    """A job that a worker holds."""

    id: str
    name: str
    queue: str
    started_at: datetime | None = None


class WorkerView(msgspec.Struct, kw_only=True):
    """A worker."""

    name: str
    product: str
    queues: list[str]
    alive: bool = True
    seen_at: datetime | None = None
    active: int | None = None
    """Jobs that it holds, where that is known."""
    is_complete: bool = True
    """False when its queue has more active jobs than were looked at: it holds at least `active`."""
    holds: list[HeldJob] = []
    """The latest of them, where they are known."""
    facts: dict[str, Any] = {}


class SchedulerView(msgspec.Struct, kw_only=True):
    """Something that adds jobs again and again."""

    id: str
    product: str
    queue: str
    name: str
    every_s: float | None = None
    pattern: str | None = None
    tz: str | None = None
    next_at: datetime | None = None
    runs: int | None = None
    """Jobs that it has made."""
    paused_at: datetime | None = None
    """Since when it makes no jobs; None while it does."""
    paused_by: str = ""
    started_again: bool = False
    """It was paused, and a program that knows of no pause, such as Node's, has made it again."""
    data: Any = None


class Failure(msgspec.Struct, kw_only=True):
    """A job that failed for good, with all that its error said."""

    job: JobView
    name: str
    """That of the job, or for files what kind of failure it was."""
    reason: str
    trace: str = ""


class Levels(msgspec.Struct, kw_only=True):
    """A queue at one instant."""

    counts: dict[str, int]
    paused: bool = False
    oldest_at: datetime | None = None
    """Since when the oldest job that is ready has waited."""


async def measured(store: Store, keys: Sequence[str], jobs: Sequence[str], count: int) -> int:
    """The bytes of these keys, and of `count` jobs like these."""
    sizes = await asyncio.gather(
        *(store.ask("MEMORY", "USAGE", key, "SAMPLES", 5) for key in (*keys, *jobs))
    )
    fixed = sum(size or 0 for size in sizes[: len(keys)])
    found = [size for size in sizes[len(keys) :] if size]
    return fixed + (sum(found) * count // len(found) if found else 0)


def short(text: str, most: int = SHORT) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class TenantView(msgspec.Struct, kw_only=True):
    """A tenant: the parent of groups, a group without one, or all jobs without a group."""

    group: str
    """Its path; empty for the jobs without a group."""
    share: float | None
    """Its share of what was served lately; None where nothing was."""
    service: float
    """What its jobs cost that were started lately, as far as it was told."""
    started: int
    waiting: int | None
    """None for the jobs without a group, which are among the others that wait."""
    active: int | None
    held_by: str | None
    """paused, concurrency, rate or budget; None when nothing holds it back."""
    held_s: float | None
    """For how long; None also while it is paused."""
    paused: bool
    concurrency: int | None
    rate: float | None
    """The cost that may start in `rate_s` seconds."""
    rate_s: float | None
    weight: float
    max_size: int | None
    budget: float | None
    """The cost that may start on one day."""
    spent_today: float


class Tenants(msgspec.Struct, kw_only=True):
    """The tenants of a queue, those with the largest shares first."""

    seconds: float = 0
    """How far back the shares look: an hour, or as far as the newest events reach."""
    tenants: list[TenantView] = []
    more: int = 0
    """Groups with jobs that wait, beside those that were looked at."""
