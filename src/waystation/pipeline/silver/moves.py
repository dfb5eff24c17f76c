"""Moves: the events that change the state of a job or file, and what each of them means."""

import msgspec

from waystation.pipeline.storage.sql import texts
from waystation.pipeline.tables import (
    ATTEMPTS,
    FAILED_ITEMS,
    FLAG,
    INSTANT,
    ITEMS,
    LONG,
    REAL,
    TEXT,
    Column,
    Layer,
    Table,
)

READY = ("added", "fired", "waiting", "redriven", "returned", "retry", "stalled")
"""Events after which a worker may claim it."""
ENDS = ("completed", "failed", "dead", "removed", "cancelled")
"""Events after which it has ended, unless it is put back."""
MOVES = (*READY, *ENDS, "delayed", "waiting-children", "active")
CHARGED = "charged"
"""The event of a job that tells, while it runs, what it costs: a step that changes no state."""

OUTCOMES = {
    "completed": "completed",
    "failed": "failed",
    "dead": "failed",
    "retry": "retried",
    "stalled": "stalled",
    "returned": "returned",
    "cancelled": "returned",
    "removed": "returned",
}
"""Outcome of an attempt, by the event that ends it; the first one counts."""

STATES = {
    "added": "waiting",
    "fired": "waiting",
    "waiting": "waiting",
    "redriven": "waiting",
    "returned": "waiting",
    "retry": "waiting",
    "stalled": "waiting",
    "delayed": "delayed",
    "waiting-children": "waiting-children",
    "active": "active",
    "completed": "completed",
    "failed": "failed",
    "dead": "failed",
    "removed": "removed",
    "cancelled": "removed",
}
"""State of a job, by its last event."""
ENDED = ("completed", "failed", "removed")
"""Final states."""
HAS_ENDED = f"state in {texts(ENDED)}"
"""Condition: an item is in a final state."""

STEPS = Table(
    name="open_steps",
    layer=Layer.SILVER,
    meaning="one row for each step of open work, which one fold hands to the next",
    key=("product", "queue", "job_id", "recorded_at", "seq"),
    columns=(
        Column("product", TEXT, "product"),
        Column("queue", TEXT, "queue of the product"),
        Column("job_id", TEXT, "id of the job or file"),
        Column("recorded_at", INSTANT, "when the entry was written, by the store's clock"),
        Column("seq", LONG, "position among the entries of one millisecond"),
        Column("at", INSTANT, "when it happened"),
        Column("event", TEXT, "name of the event"),
        Column("birth", FLAG, "whether a life begins with it"),
        Column("again", FLAG, "whether it puts an ended job back"),
        Column("worker", TEXT, "name of the worker"),
        Column("name", TEXT, "name or type of the job"),
        Column("reason", TEXT, "error message"),
        Column("group", TEXT, "group of the job"),
        Column("cost", REAL, "what the job costs"),
        Column("more", REAL, "of it, what was not known when the attempt began"),
        Column("weight", REAL, "weight of its tenant, where jobs take turns"),
        Column("free_at", INSTANT, "when its group was last paused; 1970 for never"),
        Column("_corrupt", TEXT, "why the row is doubtful"),
    ),
)

NEW_STEPS = msgspec.structs.replace(
    STEPS,
    name="steps",
    columns=(
        *STEPS.columns,
        Column("earlier", TEXT, "event of the step before it, if that was in the same hour"),
        Column("repeated", FLAG, "whether a failure was recorded before in the same instant"),
        Column("doubled", FLAG, "whether the step before is of the same entry"),
    ),
)
"""Steps with what those before them say, so that each can be counted on its own."""

OPEN_ATTEMPTS = msgspec.structs.replace(
    ATTEMPTS,
    name="open_attempts",
    meaning="one row for each attempt of a job or file that has not ended, as in `attempts`",
    partitions=(),
)
OPEN_ITEMS = msgspec.structs.replace(
    ITEMS,
    name="open_items",
    meaning="one row for each job or file that has not ended, as in `items`",
    partitions=(),
)
OPEN_FAILURES = msgspec.structs.replace(
    FAILED_ITEMS,
    name="open_failures",
    meaning="one row for each job or file that has not ended and each kind of failure that it had",
    partitions=(),
)

OPEN = (OPEN_ATTEMPTS, OPEN_ITEMS, OPEN_FAILURES, STEPS)
"""The tables of open work, which every fold replaces; the commit of the last makes it count."""
