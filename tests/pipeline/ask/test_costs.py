"""What the jobs of each tenant have cost, next to a loop over them."""

import datetime as dt
import json
import random
from collections import defaultdict
from typing import Any

import pytest

from tests.pipeline.ask import lakes
from waystation.cli import root as cli
from waystation.pipeline.tables import FIELD_VALUES, ITEMS, PAYLOADS

TENANTS = ("acme", "it's", None)


def a_job(dice: random.Random, number: int) -> dict[str, Any]:
    added = lakes.START + dt.timedelta(minutes=dice.randrange(4_000))
    return {
        "queue": dice.choice(("mail", "pay")),
        # An id that was free again belongs to two jobs, whose tenants may differ.
        "job_id": str(number // 2),
        "added_at": added,
        "last_recorded_at": added + dt.timedelta(seconds=50),
        "state": dice.choice(("completed", "failed")),
        "retries": dice.randrange(3),
        "run_ms": 100 * dice.randrange(100),
        "wait_ms": dice.choice((None, 500, 1_500)),
        "tenant": dice.choice(TENANTS),
    }


def keep(root: str, jobs: list[dict[str, Any]]) -> None:
    columns = (
        *("queue", "job_id", "added_at", "last_recorded_at", "state"),
        *("retries", "run_ms"),
    )
    shared = {"product": "bullmq", "attempts": 1, "duplicates": 0}
    items = [
        {**shared, **{name: job[name] for name in (*columns, "wait_ms")}, "date": _day(job)}
        for job in jobs
    ]
    lakes.store(root, ITEMS, items, 0)
    # It is read when it is added and again when it has ended.
    values = [
        {
            **{"product": "bullmq", "queue": job["queue"], "job_id": job["job_id"]},
            **{"field": "tenant", "value": job["tenant"], "date": _day(job)},
            "read_at": job["added_at"] + dt.timedelta(seconds=seconds),
        }
        for job in jobs
        for seconds in (0, 40)
        if job["tenant"] is not None
    ]
    lakes.store(root, FIELD_VALUES, values, 0)
    read = [
        {
            **{"product": "bullmq", "queue": job["queue"], "job_id": job["job_id"], "bytes": 2},
            **{"read_at": job["added_at"], "date": _day(job), "ended": False},
        }
        for job in jobs
        if job.get("read", True)
    ]
    lakes.store(root, PAYLOADS, read, 0)


def _day(job: dict[str, Any]) -> dt.date:
    return job["added_at"].date()


def said(capsys: pytest.CaptureFixture[str], *words: str, ends: int = 0) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        cli.run(["pipeline", "costs", *words])
    out, err = capsys.readouterr()
    assert int(ended.value.code or 0) == ends, err
    return out + err


def test_costs_are_what_a_loop_over_the_jobs_counts(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(9)
    # Two lives of one id must not overlap.
    jobs = [a_job(dice, number) for number in range(200)]
    known = {(job["queue"], job["job_id"], job["added_at"]): job for job in jobs}
    keep(root, list(known.values()))
    since = lakes.START + dt.timedelta(minutes=500)
    wanted: dict[str | None, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for job in known.values():
        if job["queue"] == "mail" and job["added_at"] >= since:
            mine = wanted[job["tenant"]]
            mine[0] += 1
            mine[1] += job["state"] == "failed"
            mine[2] += job["retries"]
            mine[3] += job["run_ms"]
    options = ("--by", "tenant", "--history", root, "--queue", "mail", "--since", since.isoformat())
    rows = [json.loads(line) for line in said(capsys, *options, "--json").splitlines()]
    found = {
        row["tenant"]: [row["jobs"], row["failed"], row["retries"], round(row["run_s"] * 10)]
        for row in rows
    }
    assert found == {
        tenant: [*counts[:3], round(counts[3] / 100)] for tenant, counts in wanted.items()
    }
    assert sum(row["percent"] for row in rows) == pytest.approx(100, abs=0.5)
    assert [row["run_s"] for row in rows] == sorted((row["run_s"] for row in rows), reverse=True)


def test_jobs_without_the_field_and_jobs_that_nobody_has_read_are_two_rows(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(3)
    fates = [("acme", True), (None, True), (None, True), (None, False)]
    jobs = [
        {**a_job(dice, 2 * number), "tenant": tenant, "read": read}
        for number, (tenant, read) in enumerate(fates)
    ]
    keep(root, jobs)
    since = lakes.START.isoformat()
    output = said(capsys, "--by", "tenant", "--history", root, "--since", since, "--json")
    rows = [json.loads(line) for line in output.splitlines()]
    assert {(row["tenant"], row["known"]): row["jobs"] for row in rows} == {
        ("acme", True): 1,
        (None, True): 2,
        (None, False): 1,
    }


def test_a_field_that_is_not_declared_is_refused_with_those_that_are(
    root: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "none is declared" in said(capsys, "--by", "shop", "--history", root, ends=2)
    keep(root, [a_job(random.Random(1), 1) | {"tenant": "acme"}])
    refused = said(capsys, "--by", "shop", "--history", root, ends=2)
    assert "no job has the declared field shop: there are tenant" in refused
    options = ("--by", "tenant", "--history", root, "--since", "1h")
    assert said(capsys, *options, ends=1) == "no job was added then\n"
