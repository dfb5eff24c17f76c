"""Files and visitors by the day: what a round reads of them, and what is forgotten or not kept."""

import datetime as dt
import random
from typing import Any, NamedTuple

import pytest

from tests.pipeline.events_of_all import events_of_files, events_of_products
from tests.pipeline.rounds import history_at, keep, reads, refresh
from tests.pipeline.stories import START
from tests.pipeline.test_erasure import no_refresh
from waystation.pipeline.maintenance import erasure
from waystation.pipeline.maintenance.erasure import forget, retain
from waystation.pipeline.maintenance.rebuild import refresh_all
from waystation.pipeline.products.files import ADDED_FILES, FILE_DAYS, FILES
from waystation.pipeline.products.room_places import PLACES
from waystation.pipeline.products.waitingroom import VISITS
from waystation.pipeline.refresh.gold_tables import fold_after_counting
from waystation.pipeline.storage import delta

pytestmark = pytest.mark.slow


def files(dice: random.Random) -> list[dict[str, Any]]:
    """Events of files, without those that stay open: every round looks at their days."""
    rows = events_of_files(dice, 120)
    last = {row["job_id"]: row["event"] for row in rows}
    return [row for row in rows if last[row["job_id"]] in ("completed", "dead", "removed")]


def visitors() -> list[dict[str, Any]]:
    """Events of visitors over the same days."""
    rows = [row for row in events_of_products(4) if row["product"] == "waitingroom"]
    for row in rows:
        row["recorded_at"] = START + (row["recorded_at"] - START) * 4_000
        row["at"], row["date"] = row["recorded_at"], row["recorded_at"].date()
    return rows


def added_files(root: str) -> int:
    return sum(delta.read_arrow(root, FILES, ("files",))["files"].to_pylist())


class Ran(NamedTuple):
    """What was seen of a history of some days."""

    read: dict[str, set[str]]
    """Days that the round over the last days has read, by table."""
    admissions: set[str]
    """Days of which it has read the order of admissions."""
    added: set[str]
    """Days on which the files were added that the last days are about."""
    folded: set[str]
    """Days of which its fold has read the places."""
    days: list[str]
    """All days."""
    counted: tuple[int, int]
    """Files that are counted, before and after one was forgotten and days were deleted."""
    added_on: list[dt.date]
    """The days of those that were not forgotten."""
    first_kept: dt.date


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = str(tmp_path_factory.mktemp("history"))
    history, mine = history_at(root), files(random.Random(7))
    rows = [*mine, *visitors()]
    days = sorted({row["date"] for row in mine})
    keep(root, [row for row in rows if row["date"] < days[-1]], 0)
    refresh(history)
    keep(root, [row for row in rows if row["date"] >= days[-1]], 1)
    with reads() as read, reads("call_order") as admissions:
        with reads() as folded:
            fold_after_counting(history)
        refresh(history)
    added_on = {row["job_id"]: row["date"] for row in mine if "path" in dict(row["fields"])}
    news = {f"date={added_on[row['job_id']]}" for row in mine if row["date"] >= days[-1]}
    places = folded.get(PLACES.name, set())
    before = added_files(root)
    with pytest.MonkeyPatch.context() as patch:
        # Gold is computed once both are done.
        patch.setattr(erasure, "refresh_all", no_refresh)
        last = max(added_on, key=lambda file: added_on[file])
        assert forget(history, last)[ADDED_FILES.name] == 1
    dates: list[dt.date] = delta.read_arrow(root, ADDED_FILES, ("date",))["date"].to_pylist()
    middle = sorted(dates)[len(dates) // 2]
    assert retain(history, middle)[FILE_DAYS.name]
    refresh_all(history)
    counted = before, added_files(root)
    named = [f"date={day}" for day in days]
    return Ran(
        read,
        admissions.get(VISITS.name, set()),
        news,
        places,
        named,
        counted,
        sorted(dates),
        middle,
    )


def test_a_round_reads_the_files_of_the_days_on_which_its_own_were_added(ran: Ran) -> None:
    assert ran.read.get(ADDED_FILES.name, set()) <= ran.added
    assert len(ran.added) < len(ran.days)


def test_a_fold_reads_the_places_of_the_days_on_which_its_visitors_joined(ran: Ran) -> None:
    assert ran.folded
    assert ran.days[0] not in ran.folded


def test_a_round_reads_the_visits_since_the_first_hour_that_has_changed(ran: Ran) -> None:
    # By the days on which the visitors joined.
    assert ran.days[0] not in ran.admissions


def test_a_file_that_is_forgotten_and_days_that_are_not_retained_are_not_counted(ran: Ran) -> None:
    before, after = ran.counted
    assert len(ran.added_on) == before - 1
    assert after == sum(day >= ran.first_kept for day in ran.added_on) > 0
