"""Statistics of a Parquet file for the Delta log, by which readers skip files."""

import datetime as dt
from typing import Any

import msgspec

LONGEST = 32
"""Characters of a text that are kept; a longer text has a lower bound and no upper one."""


class Stats(msgspec.Struct, rename="camel"):
    """Rows of a file, and minimum, maximum and nulls of each column."""

    num_records: int
    min_values: dict[str, Any] = {}
    max_values: dict[str, Any] = {}
    null_count: dict[str, int] = {}


def of(footer: Any) -> str:
    """The statistics in a Parquet footer; nested columns are left out."""
    stats = Stats(footer.num_rows)
    for number in range(footer.num_columns):
        groups = [footer.row_group(each).column(number) for each in range(footer.num_row_groups)]
        name = groups[0].path_in_schema if groups else ""
        found = [group.statistics for group in groups]
        if not name or "." in name or not all(found):
            continue
        if all(each.has_null_count for each in found):
            stats.null_count[name] = sum(each.null_count for each in found)
        # A row group of nulls has neither minimum nor maximum.
        known = [each for each in found if each.has_min_max]
        if not known or any(not each.has_min_max and each.num_values for each in found):
            continue
        least, most = min(each.min for each in known), max(each.max for each in known)
        if (low := _least(least)) is not None:
            stats.min_values[name] = low
        if (high := _most(most)) is not None:
            stats.max_values[name] = high
    return msgspec.json.encode(stats).decode()


def _least(value: Any) -> Any:
    match value:
        case str():
            return value[:LONGEST]
        case dt.datetime():
            return _instant(value, value.microsecond // 1000)
        case _:
            return _plain(value)


def _most(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= LONGEST else None
        case dt.datetime():
            # Delta keeps milliseconds, so the maximum must be rounded up.
            up = value + dt.timedelta(microseconds=-value.microsecond % 1000)
            return _instant(up, up.microsecond // 1000)
        case _:
            return _plain(value)


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return None
        case float():
            return value if value == value else None
        case int():
            return value
        case dt.date():
            return value.isoformat()
        case _:
            return None


def _instant(value: dt.datetime, millis: int) -> str:
    return f"{value.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%S}.{millis:03}Z"
