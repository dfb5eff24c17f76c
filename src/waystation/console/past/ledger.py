"""The ledger: what became of the jobs of each queue, as far as the history knows."""

import msgspec

from waystation.console.past.jobs import THREADS
from waystation.console.past.views import LedgerRow
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.tables import LEDGER

_SQL = """
    select product, queue, sum(acknowledged)::bigint as added,
           sum(terminal)::bigint as ended, sum(removed)::bigint as removed,
           sum(visible)::bigint as open, sum(lost)::bigint as lost,
           sum(duplicated)::bigint as twice, coalesce(sum(gaps), 0)::bigint as missed,
           bool_and(clean) as clean,
           coalesce(list_filter(flatten(list(lost_ids) filter (lost_ids is not null)),
                                lambda id: id is not null)[:10], []) as lost_ids
    from ledger group by product, queue order by product, queue
"""


def read(root: str) -> list[LedgerRow]:
    """A row for each queue."""
    with Engine(root, threads=THREADS) as engine:
        engine.add_table(LEDGER)
        found = engine.ask(_SQL)
    rows = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    return msgspec.convert(rows, list[LedgerRow])
