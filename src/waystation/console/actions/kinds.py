"""The actions that operators may take on queues, jobs and schedulers."""

from datetime import datetime
from typing import Annotated, Any

import msgspec

from waystation.core.http.endpoints import stated

MOST_IDS = 1000
LONGEST_ID = 500
"""Jobs that one request may name."""


class Action(msgspec.Struct, frozen=True):
    """One kind of action: the role it needs, and what it does."""

    scope: str
    summary: str
    takes: tuple[str, ...] = ()
    """Fields of a request that mean something to it; any other is refused."""
    confirmed: bool = False
    """The name of the queue has to be sent along, because nothing brings back what it removes."""


ACTIONS: dict[str, Action] = {
    "pause": Action("operator", "Start no more jobs; active ones go on."),
    "resume": Action("operator", "Start jobs again."),
    "retry": Action("operator", "Run these failed jobs again.", ("ids",)),
    "retry-all": Action(
        "operator", "Run all failed jobs again; bullmq: that failed up to `until`.", ("until",)
    ),
    "promote": Action("operator", "Make these delayed jobs ready now.", ("ids",)),
    "promote-all": Action("operator", "Make all delayed jobs ready now."),
    "remove": Action("operator", "Remove these jobs.", ("ids",)),
    "cancel": Action("operator", "Cancel these jobs.", ("ids",)),
    "edit": Action(
        "operator", "Replace the `data` of this one job, which must not run.", ("ids", "data")
    ),
    "clone": Action(
        "operator",
        "Add a job with the name, data and options of this one, or with another `name` or `data`; "
        "bullmq only.",
        ("ids", "name", "data"),
    ),
    "set-concurrency": Action(
        "operator", "Let at most `max` jobs run at once; 0 for no limit.", ("max",)
    ),
    "set-rate": Action(
        "operator",
        "Let at most `max` jobs start in `duration_s` seconds; 0 for no limit.",
        ("max", "duration_s"),
    ),
    "run-scheduler": Action("operator", "Add a job of this scheduler now.", ("scheduler",)),
    "set-scheduler": Action(
        "operator",
        "Make a scheduler, or change this one: `pattern` with `tz`, or `every_s`; `name`, `data`.",
        ("scheduler", "pattern", "tz", "every_s", "name", "data"),
    ),
    "pause-scheduler": Action(
        "operator",
        "Make no jobs of this scheduler until it is resumed; bullmq only.",
        ("scheduler",),
    ),
    "resume-scheduler": Action(
        "operator",
        "Make jobs of this scheduler again, without those that were missed.",
        ("scheduler",),
    ),
    "remove-scheduler": Action("operator", "Remove this scheduler.", ("scheduler",)),
    "pause-group": Action("operator", "Start no more jobs of this group; bullmq only.", ("group",)),
    "resume-group": Action("operator", "Start jobs of this group again.", ("group",)),
    "set-group": Action(
        "operator",
        "Set limits of a group: at most `concurrency` jobs at once, a cost of `max` started in "
        "`duration_s` seconds and of `budget` on a day, at most `max_size` that wait, and its "
        "`weight`; 0 stays as it is. "
        "The group `*` is all groups, `*/*` all that have a parent.",
        ("group", "concurrency", "max", "duration_s", "budget", "weight", "max_size"),
    ),
    "reset-group": Action(
        "operator", "Forget what was set for a group; a paused one stays paused.", ("group",)
    ),
    "drain": Action("admin", "Remove all jobs that wait.", confirmed=True),
    "clean": Action(
        "admin",
        "Remove jobs of a state; of completed and failed ones those that ended more than "
        "`older_than_s` ago.",
        ("state", "older_than_s"),
        confirmed=True,
    ),
    "obliterate": Action("admin", "Delete the queue with all its jobs.", confirmed=True),
}


class Act(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to do, to what, and whether only to count."""

    dry_run: bool = False
    """Count what would be concerned, and do nothing."""
    expected: Annotated[int | None, stated(minimum=0)] = None
    """What a dry run counted; when there is more now, nothing is done."""
    confirm: str = ""
    """The name of the queue, for actions that nothing brings back."""
    reason: Annotated[str, stated(maxLength=500)] = ""
    """Goes into the audit log."""
    ids: Annotated[list[str], stated(maxItems=MOST_IDS)] = []
    """The jobs."""
    scheduler: Annotated[str, stated(maxLength=LONGEST_ID)] = ""
    """The id of a scheduler."""
    group: Annotated[str, stated(maxLength=LONGEST_ID)] = ""
    """The path of a group: its id, or its parent's and its own, `acme/key`."""
    pattern: Annotated[str, stated(maxLength=LONGEST_ID)] = ""
    """Five cron fields, or six with the seconds first."""
    tz: Annotated[str, stated(maxLength=LONGEST_ID)] = ""
    """The time zone of the pattern, such as Europe/Vienna."""
    every_s: Annotated[float, stated(minimum=0)] = 0
    name: Annotated[str, stated(maxLength=LONGEST_ID)] = ""
    """The name of the scheduler's jobs, or of the clone."""
    data: Any = msgspec.UNSET
    """The data of the scheduler's jobs, of the job that is edited, or of the clone."""
    state: str = ""
    until: datetime | None = None
    older_than_s: Annotated[float, stated(minimum=0)] = 0
    max: Annotated[int, stated(minimum=0)] = 0
    duration_s: Annotated[float, stated(minimum=0)] = 0
    concurrency: Annotated[int, stated(minimum=0)] = 0
    max_size: Annotated[int, stated(minimum=0)] = 0
    budget: Annotated[float, stated(minimum=0)] = 0
    weight: Annotated[float, stated(minimum=0)] = 0


ALWAYS = ("dry_run", "expected", "confirm", "reason")
"""Fields of a request that every action takes."""


class Acted(msgspec.Struct, kw_only=True):
    """What came of an action."""

    action: str
    affected: int
    """How many things it concerned, or would concern."""
    done: bool
    """False for a dry run."""
