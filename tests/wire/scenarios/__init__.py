"""What both sides are put through; each scenario has queues of its own."""

from collections.abc import Mapping, Sequence

from tests.wire.scenario import Step
from tests.wire.scenarios.adding import ADDS, DELAYS, PRIORITIES
from tests.wire.scenarios.calendar import CALENDAR, SCHEDULERS
from tests.wire.scenarios.clearing import CLEANING, REMOVAL
from tests.wire.scenarios.endings import (
    AGAIN,
    DETOURS,
    OUTCOMES,
    REPORTING,
    RETENTION,
    RETENTION_BY_THE_WORKER,
)
from tests.wire.scenarios.holding import LIMITED, LIMITS, PAUSING, STALLS, TURNS
from tests.wire.scenarios.likeness import DEDUPLICATION, DEDUPLICATION_MEETS_WORK
from tests.wire.scenarios.ties import FAMILIES, FLOWS

SCENARIOS: Mapping[str, Sequence[Step]] = {
    "adds": ADDS,
    "priorities": PRIORITIES,
    "delays": DELAYS,
    "flows": FLOWS,
    "deduplication": DEDUPLICATION,
    "schedulers": SCHEDULERS,
    "outcomes": OUTCOMES,
    "detours": DETOURS,
    "retention": RETENTION,
    "telling": REPORTING,
    "pausing": PAUSING,
    "limits": LIMITS,
    "removal": REMOVAL,
    "cleaning": CLEANING,
    "stalls": STALLS,
    "deduplication meets work": DEDUPLICATION_MEETS_WORK,
    "limited": LIMITED,
    "turns": TURNS,
    "again": AGAIN,
    "retention by the worker": RETENTION_BY_THE_WORKER,
    "families": FAMILIES,
    "calendar": CALENDAR,
}
