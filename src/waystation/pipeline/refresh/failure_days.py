"""Failures by the day, so that a refresh counts only the days that have changed since the last one.

A day is counted again when `failed_items` has other files for it, whatever has changed them.
"""

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from deltalake import (
    write_deltalake,  # pyright: ignore[reportUnknownVariableType]
)

from waystation.pipeline.gold.failures import kinds
from waystation.pipeline.products.facts import HistoryFrames
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, pc
from waystation.pipeline.storage.opened import files_of
from waystation.pipeline.storage.sql import conform, to_arrow
from waystation.pipeline.tables import FAILED_ITEMS, FAILURE_DAYS

_write: Any = write_deltalake


def stale_days(root: str) -> dict[dt.date, str | None]:
    """The days to count, and the names of their files; None for a day that has none any more."""
    there, counted = _files(root), _counted(root)
    days = there.keys() | counted.keys()
    return {day: there.get(day) for day in sorted(days) if there.get(day) != counted.get(day)}


def counted(root: str, frames: HistoryFrames, stale: Mapping[dt.date, str | None]) -> Any:
    """The kinds of failure of all jobs that have ended, by the day, as an Arrow table.

    The names of the files are older than the rows, if anything: then the day is counted again.
    """
    known = delta.read_arrow(root, FAILURE_DAYS, FAILURE_DAYS.names)
    if not stale:
        return known
    days = list(stale)
    found = to_arrow(kinds(frames.read(FAILED_ITEMS, days=days), by_day=True))
    files = pa.array([stale[day] for day in found["day"].to_pylist()], pa.string())
    fresh = conform(found.append_column("counted_from", files), FAILURE_DAYS.schema)
    there = delta.open_table(FAILURE_DAYS.path(root), FAILURE_DAYS.schema)
    _write(there, fresh, mode="overwrite", predicate=_of_days(days))
    is_stale = pc.is_in(known["day"], pa.array(days, pa.date32()))
    return pa.concat_tables([known.filter(pc.invert(is_stale)), fresh])


def with_open(of_ended: Any, frames: HistoryFrames) -> Any:
    """The same with the failures of jobs that have not ended."""
    of_open = conform(kinds(frames.failing()), FAILURE_DAYS.schema)
    return pa.concat_tables([of_ended, of_open])


def _files(root: str) -> dict[dt.date, str]:
    files = files_of(FAILED_ITEMS.path(root))
    found: dict[dt.date, list[str]] = {}
    rows: list[dict[str, Any]] = [] if files is None else files.to_pylist()
    for file in rows:
        found.setdefault(file["partition.date"], []).append(file["path"])
    return {day: _name(paths) for day, paths in found.items()}


def _name(paths: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:32]


def _counted(root: str) -> dict[dt.date, str]:
    rows = delta.read_arrow(root, FAILURE_DAYS, ("day", "counted_from"))
    return dict(zip(rows["day"].to_pylist(), rows["counted_from"].to_pylist(), strict=True))


def _of_days(days: Iterable[dt.date]) -> str:
    named = ", ".join(f"'{day.isoformat()}'" for day in days)
    return f"day in ({named})"
