"""The state of the pipeline: what it has stored, and whether its tables agree."""

from datetime import datetime

import msgspec

from waystation.console.past.jobs import THREADS
from waystation.console.past.views import CheckView, GapView
from waystation.pipeline import health
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.sources.offsets import Offset
from waystation.pipeline.tables import GAPS, QUALITY

_MOST_GAPS = 50


class State(msgspec.Struct, kw_only=True):
    """What the history says of itself."""

    events: int
    last_at: datetime | None
    read_to: dict[str, Offset]
    checks: list[CheckView]
    checked_at: datetime | None
    gaps: list[GapView]


def read(root: str) -> State:
    """The state of a history."""
    with Engine(root, threads=THREADS) as engine:
        engine.add_table(GAPS)
        engine.add_table(QUALITY)
        gaps = engine.ask(
            "select product, queue, lost, reason, after_at, before_at from gaps "
            "order by before_at desc",
            _MOST_GAPS,
        )
        checks = engine.ask(
            'select "table", what, wanted, found, checked_at from quality order by 1, 2'
        )
    stored = health.stored(root)
    return State(
        events=stored.events,
        last_at=stored.last_at,
        read_to=dict(stored.read_to),
        checks=[
            CheckView(table=table, what=what, wanted=wanted, found=found)
            for table, what, wanted, found, _ in checks.rows
        ],
        checked_at=max((row[4] for row in checks.rows if row[4]), default=None),
        gaps=[GapView(**dict(zip(gaps.names, row, strict=True))) for row in gaps.rows],
    )


def behind(here: Offset, last_id: str, added: int | None) -> int | None:
    """Entries of a stream that are not stored yet."""
    return health.behind(here, Offset(last_id, added))
