"""The tables of mixed entries are those that the code computed before Spark was the one engine."""

from itertools import islice
from pathlib import Path

import pytest

from tests.pipeline import before, mixed_entries
from tests.pipeline.recount import Recount
from tests.pipeline.rounds import history_at
from waystation.pipeline.storage import sessions

SHOWN = 3
"""Rows that are shown of each table that differs."""


def differences(table: str, wanted: list[str], found: list[str]) -> list[str]:
    """What is missing in a table, and what should not be there."""
    missing, more = sorted({*wanted} - {*found}), sorted({*found} - {*wanted})
    said = [f"{table}: {len(wanted)} rows wanted, {len(found)} found"]
    said += [f"  {table} misses {row}" for row in islice(missing, SHOWN)]
    said += [f"  {table} has {row}" for row in islice(more, SHOWN)]
    return said if missing or more or len(wanted) != len(found) else []


@pytest.mark.slow
def test_rounds_over_few_entries_give_the_rows_of_before(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As rounds of many rows are computed, which other tests have not.
    monkeypatch.setattr(sessions, "FEW_ROWS", 500)
    history = history_at(str(tmp_path / "history"))
    list(before.run_rounds(history, redis_url, mixed_entries.rounds(*before.FEW)))
    found, wanted = before.rows_of(history), before.stored_rows()
    said = [line for name in wanted for line in differences(name, wanted[name], found[name])]
    assert said == [], "\n".join(said)


def test_a_recount_in_plain_python_gives_the_rows_of_before() -> None:
    wanted, found = before.stored_rows(), recounted(before.FEW)
    said = [line for name in found for line in differences(name, wanted[name], found[name])]
    assert said == [], "\n".join(said)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_rounds_over_many_entries_give_the_rows_of_before(redis_url: str, tmp_path: Path) -> None:
    history = history_at(str(tmp_path / "history"))
    list(before.run_rounds(history, redis_url, mixed_entries.rounds(*before.MANY)))
    assert_same_groups(before.rows_of(history))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_recount_of_many_entries_gives_the_rows_of_before() -> None:
    assert_same_groups(recounted(before.MANY))


def recounted(size: tuple[int, int]) -> dict[str, list[str]]:
    rows = Recount(mixed_entries.rounds(*size)).rows()
    return {name: sorted(map(before.text_of, some)) for name, some in rows.items()}


def assert_same_groups(found: dict[str, list[str]]) -> None:
    """Compare the rows of some tables with the digests of their groups."""
    digests = before.digests(found)
    wanted = {
        group: digest for group, digest in before.stored_digests().items() if group[0] in found
    }
    said: list[str] = []
    for name, group in sorted(wanted.keys() | digests.keys()):
        if wanted.get((name, group)) != digests.get((name, group)):
            rows = before.group_rows(name, group, found)
            said += [f"{name}, group {group}: {len(rows)} rows found", *rows[:SHOWN]]
    assert said == [], "\n".join(said)
