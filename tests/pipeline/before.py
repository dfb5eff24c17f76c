"""The rows of all tables, in a form that can be stored and compared.

`python -m tests.pipeline.before FOLDER` stores what the code of today makes of the mixed entries.
The digests in `tests/pipeline/before` were computed when a second engine ran the rules of silver
and gold in the process of the driver, the rows by code that gave these digests. Neither is written
again, unless a rule is changed on purpose.
"""

import datetime as dt
import json
import math
import re
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

from redis import Redis

from tests.pipeline import mixed_entries
from tests.pipeline.rounds import history_at
from waystation.pipeline.bronze.payload_columns import GONE
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import compact
from waystation.pipeline.products import product_tables
from waystation.pipeline.refresh import ledger
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.silver.moves import ENDED, OPEN_ATTEMPTS, OPEN_ITEMS, STEPS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pq
from waystation.pipeline.tables import (
    ATTEMPTS,
    EVENTS,
    FAILED_ITEMS,
    ITEMS,
    PAYLOADS,
    QUALITY,
    SLOTS,
    Table,
    every,
)

STORED = Path(__file__).parent / "before"
FEW, MANY = (2_000, 3), (100_000, 8)
"""About how many entries, and in how many rounds."""
GROUPS = 64
"""Groups of rows of a table that have a digest each."""
NOT_COMPARED = ("checked_at", "counted_from")
_OF_TURNS = ("group", "cost", "weight", "free_at", "more")
LATER = {ATTEMPTS.name: _OF_TURNS, ITEMS.name: _OF_TURNS, STEPS.name: _OF_TURNS}
"""Columns that came since; they are null where nobody takes turns."""
RENAMED = {"open": STEPS.name}
"""Tables that had another name then."""
_ENCRYPTED = re.compile(r"enc:new:[A-Za-z0-9_=-]+;")

Rows = Mapping[str, Sequence[str]]
"""The rows of each table as JSON, in order."""


def tables() -> list[Table]:
    """All tables."""
    return [*every(), STEPS, *product_tables()]


def run_rounds(history: History, url: str, given: Sequence[mixed_entries.Round]) -> Iterator[int]:
    """Run the pipeline over the entries of each round; the number of each after it."""
    options = RunOptions(
        events=EventOptions(url=url), payloads=mixed_entries.PAYLOADS, write_back=False
    )
    with Redis.from_url(url, protocol=2) as store:
        for nth, each in enumerate(given):
            mixed_entries.write(store, given, nth)
            if not each.entries:
                # Versions move without new rows, which changes nothing.
                compact(history)
            seconds, millis = divmod(each.clock_ms, 1000)
            with patch.object(Redis, "time", return_value=(seconds, millis * 1000)):
                result = run(history, options)
            assert result.events == sum(not one.is_lost for one in each.entries), result
            assert not result.failed_checks, result.failed_checks
            yield nth


def rows_of(history: History) -> dict[str, list[str]]:
    """The rows of all tables as every reader sees them, open work included."""
    return comparable({table.name: sorted(_texts(history, table)) for table in tables()})


def comparable(rows: Rows) -> dict[str, list[str]]:
    """Rows without what depends on how entries were cut into rounds.

    Slots of the last day are needed; older ones go some time. Checks count what the last round has
    touched.
    """
    slots = [json.loads(row) for row in rows[SLOTS.name]]
    hours = [dt.datetime.fromisoformat(row[SLOTS.names.index("hour")]) for row in slots]
    first = max(hours, default=None)
    lately = [
        row
        for row, hour in zip(rows[SLOTS.name], hours, strict=True)
        if first is None or hour >= first - dt.timedelta(hours=26)
    ]
    checks = [json.loads(row) for row in rows[QUALITY.name]]
    verdicts = [text_of([*check[:2], None, None, check[4]]) for check in checks]
    others = {name: list(some) for name, some in rows.items()}
    return {**others, SLOTS.name: lately, QUALITY.name: sorted(verdicts)}


def _texts(history: History, table: Table) -> Iterator[str]:
    columns = _columns(table)
    for row in _stored(history, table).select(columns).to_pylist():
        if table is FAILED_ITEMS and row["state"] not in ENDED:
            continue
        if table is PAYLOADS and row["product"] != "bullmq" and row["left_out"] == GONE:
            # Of other products nothing was read then; their stores here hold no data of jobs.
            continue
        if table is EVENTS and row["stream"] == ledger.STREAM:
            # Jobs that were found removed at one instant have no order.
            row |= {"entry_id": None, "seq": None}
        yield text_of([row[name] for name in columns])


def text_of(values: Iterable[Any]) -> str:
    """A row as text."""
    return json.dumps([_plain(value) for value in values], ensure_ascii=False, default=str)


def _stored(history: History, table: Table) -> Any:
    parts = {ATTEMPTS: (ATTEMPTS, OPEN_ATTEMPTS), ITEMS: (ITEMS, OPEN_ITEMS)}.get(table, (table,))
    found = [delta.read_arrow(history.root, each, table.names) for each in parts]
    return pa.concat_tables(found)


def _plain(value: Any) -> Any:
    """A value without what differs from run to run: last digits, and how it was encrypted."""
    if isinstance(value, float) and value:
        return round(value, 9 - math.ceil(math.log10(abs(value))))
    if isinstance(value, str):
        return _ENCRYPTED.sub("enc:", value)
    if isinstance(value, list):
        listed = cast("list[Any]", value)
        is_map = bool(listed) and isinstance(listed[0], tuple)
        return sorted([_plain(part) for part in pair] for pair in listed) if is_map else listed
    return value


def digests(rows: Rows) -> dict[tuple[str, int], str]:
    """One digest for each group of rows of each table; a row is in a group by its key."""
    groups: dict[tuple[str, int], list[str]] = {}
    for table in tables():
        for row in rows.get(table.name, ()):
            groups.setdefault((table.name, _group_of(table, row)), []).append(row)
    return {
        group: sha256("\n".join(some).encode()).hexdigest()[:16] for group, some in groups.items()
    }


def group_rows(name: str, group: int, rows: Rows) -> list[str]:
    """The rows of one group of a table."""
    (table,) = (each for each in tables() if each.name == name)
    return [row for row in rows[name] if _group_of(table, row) == group]


def _group_of(table: Table, row: str) -> int:
    values = dict(zip(_columns(table), json.loads(row), strict=True))
    return zlib.crc32(json.dumps([values[name] for name in table.key]).encode()) % GROUPS


def _columns(table: Table) -> list[str]:
    left_out = (*NOT_COMPARED, *LATER.get(table.name, ()))
    return [name for name in table.names if name not in left_out]


def stored_rows() -> dict[str, list[str]]:
    """The stored rows of all tables, for the few entries."""
    found: dict[str, list[str]] = {table.name: [] for table in tables()}
    for row in pq.read_table(STORED / "rows.parquet").to_pylist():
        found[_named_now(row)].append(row["row"])
    return found


def stored_digests() -> dict[tuple[str, int], str]:
    """The stored digests, for the many entries."""
    rows = pq.read_table(STORED / "digests.parquet").to_pylist()
    return {(_named_now(row), row["group"]): row["digest"] for row in rows}


def _named_now(row: Mapping[str, Any]) -> str:
    name = str(row["table"])
    return RENAMED.get(name, name)


def _store(folder: Path, few: Rows, many: Rows) -> None:
    listed = [{"table": name, "row": row} for name, rows in few.items() for row in rows]
    groups = [
        {"table": name, "group": group, "digest": digest}
        for (name, group), digest in sorted(digests(many).items())
    ]
    for name, rows in (("rows", listed), ("digests", groups)):
        path = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd", compression_level=19)


def computed(url: str, size: tuple[int, int]) -> dict[str, list[str]]:
    """The rows that the code of today makes of so many entries."""
    with tempfile.TemporaryDirectory() as root, Redis.from_url(url) as store:
        store.flushdb()
        history = history_at(root)
        for _ in run_rounds(history, url, mixed_entries.rounds(*size)):
            pass
        return rows_of(history)


if __name__ == "__main__":
    from waystation.core.store import embedded

    with embedded.ephemeral() as server:
        _store(Path(sys.argv[1]), computed(server.url, FEW), computed(server.url, MANY))
