"""The console shows what the history remembers: hours, the ledger, and jobs that are gone."""

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi
from tests.pipeline.ask import lakes
from waystation import routing
from waystation.bullmq import Queue
from waystation.console.past.history import History
from waystation.console.why import Cause, why
from waystation.pipeline.tables import GAPS, HOURLY, LEDGER, QUALITY, Table

NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def _row(table: Table, /, **known: Any) -> dict[str, Any]:
    return {name: known.get(name) for name in table.names}


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "history")


@pytest.fixture
async def api(redis_url: str, root: str) -> AsyncIterator[ConsoleApi]:
    options = msgspec.structs.replace(harness.ADMIN, history=root)
    async with harness.api(redis_url, options) as opened:
        yield opened


def _recent_jobs() -> list[dict[str, Any]]:
    dice = random.Random(3)
    jobs = [lakes.job(dice, number) for number in range(80)]
    for job in jobs:
        # Two days and a half, so that some began before the day that is asked for.
        job["added_at"] = NOW - timedelta(minutes=dice.randrange(60 * 60))
        job["ended_at"] = job["added_at"] + timedelta(minutes=dice.randrange(1, 600))
    return jobs


async def test_hours_of_the_past_count_what_came_and_what_was_open(
    api: ConsoleApi, root: str
) -> None:
    jobs = _recent_jobs()
    lakes.keep(root, jobs)
    hour = NOW - timedelta(hours=2)
    rows = [
        _row(HOURLY, product="bullmq", queue=queue, hour=hour, added=5, completed=3, failed=1,
             retried=2, wait_p95_ms=wait, run_p95_ms=7.0)
        for queue, wait in (("mail", 40.0), ("pay", 90.0))
    ]  # fmt: skip
    lakes.store(root, HOURLY, rows, 0)

    for queue in ("", "mail"):
        asked = {"days": "1", "queue": queue, "product": "bullmq" if queue else ""}
        hours = (await api.get("history/hours", params=asked))["hours"]
        assert len(hours) == 24
        for each in hours:
            end = datetime.fromisoformat(each["at"]) + timedelta(hours=1)
            wanted = sum(
                1 for job in jobs
                if queue in ("", job["queue"]) and job["added_at"] < end <= job["ended_at"]
            )  # fmt: skip
            assert each["open"] == wanted, each["at"]
        [busy] = [each for each in hours if datetime.fromisoformat(each["at"]) == hour]
        assert (busy["added"], busy["failed"]) == ((5, 1) if queue else (10, 2))
        assert busy["wait_p95_ms"] == (40.0 if queue else 90.0)


async def test_the_ledger_adds_up_the_hours_of_each_queue(api: ConsoleApi, root: str) -> None:
    ours = {"product": "bullmq", "removed": 1, "visible": 2, "duplicated": 0, "clean": True}
    rows = [
        _row(LEDGER, **ours, queue="mail", hour=NOW, acknowledged=9, terminal=6, lost=0, gaps=0),
        _row(LEDGER, **{**ours, "clean": False}, queue="mail", hour=NOW - timedelta(hours=1),
             acknowledged=4, terminal=0, lost=1, gaps=3, lost_ids=["17"]),
        _row(LEDGER, product="routing", queue="encode", hour=NOW, acknowledged=1, terminal=1,
             removed=0, duplicated=0, gaps=0),
    ]  # fmt: skip
    lakes.store(root, LEDGER, rows, 0)

    page = await api.get("history/ledger")

    mail, encode = page["rows"]
    assert mail == {
        "product": "bullmq", "queue": "mail", "added": 13, "ended": 6, "removed": 2, "open": 4,
        "lost": 1, "twice": 0, "missed": 3, "clean": False, "lost_ids": ["17"],
    }  # fmt: skip
    # Nobody has looked at this one: nothing is said about what may be lost.
    assert (encode["open"], encode["lost"], encode["clean"]) == (None, None, None)


async def test_the_pipeline_tells_its_lag_its_gaps_and_its_checks(
    api: ConsoleApi, root: str
) -> None:
    gap = _row(GAPS, product="bullmq", queue="mail", stream="bull:mail:events", after="0-0",
               before="9-0", lost=12, reason="trimmed", before_at=NOW)  # fmt: skip
    lakes.store(root, GAPS, [gap], 0)
    check = _row(QUALITY, table="items", what="one for each job added", wanted=7, found=6,
                 well=False, checked_at=NOW)  # fmt: skip
    lakes.store(root, QUALITY, [check], 0)
    async with Queue("mail", api.store) as mail:
        await mail.add("send", {})
        await api.app.console.directory.look()
        page = await api.get("history/pipeline")

    [lag] = page["lags"]
    assert (lag["queue"], lag["events"]) == ("mail", 2)  # added, and waiting
    assert [(each["lost"], each["reason"]) for each in page["gaps"]] == [(12, "trimmed")]
    [found] = page["checks"]
    assert (found["wanted"], found["found"]) == (7, 6)


async def test_without_a_history_nothing_of_the_past_is_available(redis_url: str) -> None:
    async with harness.api(redis_url) as api:
        for place in ("hours", "ledger", "pipeline"):
            assert (await api.get(f"history/{place}"))["available"] is False


@pytest.mark.parametrize("days", ["0", "401", "x", "-1"])
async def test_days_that_cannot_be_are_refused(api: ConsoleApi, days: str) -> None:
    answer = await api.here.get("/api/v1/history/hours", params={"days": days})
    assert answer.status_code == 400


async def test_why_remembers_jobs_that_are_no_longer_in_the_store(
    api: ConsoleApi, root: str
) -> None:
    jobs = _recent_jobs()
    lakes.keep(root, jobs)
    async with Queue("mail", api.store) as mail:
        await mail.add("send", {}, job_id="here")
    job = next(each for each in jobs if each["state"] == "failed" and each["queue"] == "mail")

    [answer] = await why(api.store, f"mail/{job['job_id']}", history=History(root))
    page = await api.get(f"queues/bullmq/mail/jobs/{job['job_id']}/why")
    [unknown] = await why(api.store, "mail/nobody", history=History(root))

    assert (answer.cause, answer.queue, answer.id) == (Cause.FAILED, "mail", job["job_id"])
    assert "failed for good at" in answer.sentence
    assert "the history remembers it" in answer.sentence
    assert page["sentence"] == answer.sentence
    assert unknown.cause is Cause.UNKNOWN


async def test_a_job_that_is_gone_is_remembered_by_its_product(api: ConsoleApi, root: str) -> None:
    """Two products may have a queue of one name, and a namespace is no queue of the history."""
    jobs = _recent_jobs()[:2]
    for job, product in zip(jobs, ("bullmq", "routing"), strict=True):
        job |= {"product": product, "queue": "mail", "job_id": f"of-{product}"}
    lakes.keep(root, jobs)
    await Queue("mail", api.store).add("a")
    await routing.Queue(api.store).add("mail", {})
    for place, id, status in (
        ("bullmq/mail", "of-bullmq", 200),
        ("bullmq/mail", "of-routing", 404),
        ("routing/bridge", "of-routing", 200),
        ("routing/bridge", "of-bullmq", 404),
    ):
        answer = await api.here.get(f"/api/v1/queues/{place}/jobs/{id}/why")
        assert answer.status_code == status, (place, id, answer.text)
