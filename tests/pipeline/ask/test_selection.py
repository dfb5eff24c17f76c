"""Jobs that are found in the history are those that a search through all of them finds."""

import datetime as dt
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from tests.pipeline.ask import lakes
from tests.pipeline.rounds import history_at
from tests.support.patience import limit
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.maintenance.compaction import compact
from waystation.pipeline.payloads.paths import JsonPath
from waystation.pipeline.tables import PAYLOADS

Test: TypeAlias = Callable[[dict[str, Any]], Any]
Also: TypeAlias = Callable[[str, Any, Test], None]

QUESTIONS = 45
JOBS = 400
MANY_JOBS = 20_000


@pytest.fixture(scope="module")
def jobs() -> list[dict[str, Any]]:
    dice = random.Random(5)
    return [lakes.job(dice, number) for number in range(JOBS)]


@pytest.fixture(scope="module")
def root(jobs: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    place = str(tmp_path_factory.mktemp("lake") / "history")
    lakes.keep(place, jobs)
    return place


def found(root: str, selection: Selection) -> list[dict[str, Any]]:
    with Engine(root, threads=1) as engine:
        prepare(engine, selection)
        answer = engine.ask(jobs_sql(selection, ["tenant"]))
    return [dict(zip(answer.names, row, strict=True)) for row in answer.rows]


@pytest.mark.slow
def test_random_questions_have_the_answers_of_a_full_search(
    root: str, jobs: list[dict[str, Any]]
) -> None:
    check_questions(root, jobs, QUESTIONS, random.Random(23))


@pytest.mark.parametrize(
    "path",
    [
        "$.order.id",
        "order.id",
        '$["order"]["id"]',
        "$.order.*",
        "$.order.lines[0].sku",
        "$.order.lines[*].sku",
        "$..id",
        "$..sku",
        "$.order..sku",
        "$.nothing",
    ],
)
def test_a_path_of_a_question_leads_where_that_of_a_rule_leads(
    root: str, jobs: list[dict[str, Any]], path: str
) -> None:
    for value in ("7", "a"):
        wanted = {
            each["job_id"]
            for each in jobs
            if not each["gone"]
            and value in [str(there) for there in JsonPath.parse(path).values(each["data"])]
        }
        rows = found(root, Selection(paths={path: value}))
        assert {row["job_id"] for row in rows} == wanted


@pytest.mark.slow
def test_they_have_the_same_answers_when_files_are_compacted(
    jobs: list[dict[str, Any]], tmp_path: Path
) -> None:
    place = str(tmp_path / "history")
    lakes.keep(place, jobs, batches=5)
    compact(history_at(place))
    check_questions(place, jobs, QUESTIONS, random.Random(24))


@pytest.mark.long
@pytest.mark.timeout(limit(3600))
def test_a_thousand_random_questions_have_the_answers_of_a_full_search(tmp_path: Path) -> None:
    """Half of them when the files are as they were written, half when they are compacted."""
    dice = random.Random(25)
    place = str(tmp_path / "history")
    jobs = [_awkward(dice, lakes.job(dice, number)) for number in range(MANY_JOBS)]
    lakes.keep(place, jobs, batches=30)
    check_questions(place, jobs, 500, dice)
    compact(history_at(place))
    check_questions(place, jobs, 500, dice)


def _awkward(dice: random.Random, job: dict[str, Any]) -> dict[str, Any]:
    """The job with an id that is hard to find: used twice, long, or of other letters."""
    number = int(job["job_id"].rpartition("-")[2])
    match dice.randrange(6):
        case 0:
            # Of two lives one ends before the other begins.
            day = dt.timedelta(days=10 * (number % 2))
            moved = {name: job[name] + day for name in ("added_at", "ended_at")}
            return {**job, **moved, "job_id": f"twice-{number // 2}"}
        case 1:
            return {**job, "job_id": f"{'long' * dice.randrange(5, 40)}-{number}"}
        case 2:
            return {**job, "job_id": f"{dice.choice('Üß𝄞')}'{number}"}
        case _:
            return job


def check_questions(
    root: str, jobs: list[dict[str, Any]], questions: int, dice: random.Random
) -> None:
    """Ask random questions, and search through all jobs for their answers."""
    sizes: set[int] = set()
    for _ in range(questions):
        selection, matches = question(dice, jobs)
        wanted = sorted(_shown(job, job["data"]) for job in jobs if matches(job))
        rows = found(root, selection)
        data = [row["data"] and msgspec.json.decode(row["data"]) for row in rows]
        assert sorted(map(_shown, rows, data)) == wanted, selection
        sizes.add(len(wanted))
    assert len(sizes) > 10, "the questions must have different answers"


def _shown(job: dict[str, Any], data: Any) -> tuple[str, ...]:
    """What a job is told from others by."""
    kept = None if job.get("gone") else data
    return job["queue"], job["job_id"], str(job["added_at"]), job["state"], str(kept)


def question(dice: random.Random, jobs: list[dict[str, Any]]) -> tuple[Selection, Test]:
    """A random selection, and the same as a test of one job."""
    given: dict[str, Any] = {}
    tests: list[Test] = []

    def also(name: str, value: Any, test: Test) -> None:
        given[name] = value
        tests.append(test)

    one = dice.choice(jobs)
    for kind in dice.sample(KINDS, dice.randint(1, 3)):
        kind(dice, one, also)
    return Selection(**given), lambda job: all(test(job) for test in tests)


def _by_id(dice: random.Random, one: Any, also: Also) -> None:
    ids = [one["job_id"], "nobody"]
    also("ids", ids, lambda job: job["job_id"] in ids)


def _by_queue(dice: random.Random, one: Any, also: Also) -> None:
    also("queue", one["queue"], lambda job: job["queue"] == one["queue"])


def _by_name(dice: random.Random, one: Any, also: Also) -> None:
    also("name", one["name"], lambda job: job["name"] == one["name"])


def _by_state(dice: random.Random, one: Any, also: Also) -> None:
    also("state", one["state"], lambda job: job["state"] == one["state"])


def _by_error(dice: random.Random, one: Any, also: Also) -> None:
    word = dice.choice(("timeout", "ORDER", "error"))
    also("error", word, lambda job: word.lower() in (job["reason"] or "").lower())


def _by_failure(dice: random.Random, one: Any, also: Also) -> None:
    also("failure", "f1", lambda job: job["fingerprint"] == "f1")


def _by_field(dice: random.Random, one: Any, also: Also) -> None:
    tenant = one["data"].get("tenant", "acme")
    also(
        "fields",
        {"tenant": tenant},
        lambda job: not job["gone"] and job["data"].get("tenant") == tenant,
    )


def _by_path(dice: random.Random, one: Any, also: Also) -> None:
    number = one["data"]["order"]["id"]
    sku = one["data"]["order"]["lines"][0]["sku"]
    also(
        "paths",
        {"$.order.id": str(number), "$.order.lines[0].sku": sku},
        lambda job: (
            not job["gone"] and job["data"]["order"] == {"id": number, "lines": [{"sku": sku}]}
        ),
    )


def _by_time(dice: random.Random, one: Any, also: Also) -> None:
    since = lakes.START + dt.timedelta(hours=dice.randrange(90))
    until = since + dt.timedelta(hours=dice.randrange(1, 40))
    also("since", since, lambda job: job["added_at"] >= since)
    also("until", until, lambda job: job["added_at"] < until)


def _by_sql(dice: random.Random, one: Any, also: Also) -> None:
    also(
        "where",
        "(data->>'$.vip')::boolean and tenant is not null -- and a remark",
        lambda job: not job["gone"] and job["data"]["vip"] and "tenant" in job["data"],
    )


KINDS = (
    *(_by_id, _by_queue, _by_name, _by_state, _by_error),
    *(_by_failure, _by_field, _by_path, _by_time, _by_sql),
)


def test_a_job_comes_with_the_newest_that_is_known_of_it(
    root: str, jobs: list[dict[str, Any]]
) -> None:
    rows = {(row["queue"], row["job_id"]): row for row in found(root, Selection(product="bullmq"))}
    assert len(rows) == JOBS
    for job in jobs:
        row = rows[job["queue"], job["job_id"]]
        if job["gone"]:
            assert (row["data"], row["left_out"][:14]) == (None, "it was removed")
            continue
        assert msgspec.json.decode(row["data"]) == job["data"]
        assert row["tenant"] == job["data"].get("tenant")
        assert row["left_out"] is None
        kept = row["result"] and msgspec.json.decode(row["result"])
        assert kept == job["result"]


def test_an_id_that_was_used_again_is_two_jobs_with_their_own_data(tmp_path: Path) -> None:
    place = str(tmp_path / "history")
    dice = random.Random(1)
    same = {"queue": "mail", "job_id": "1", "gone": False}
    first: dict[str, Any] = {**lakes.job(dice, 1), **same}
    second: dict[str, Any] = {**lakes.job(dice, 1), **same}
    first |= {"added_at": lakes.START, "ended_at": lakes.START + dt.timedelta(hours=1)}
    second |= {
        "added_at": lakes.START + dt.timedelta(hours=2),
        "ended_at": lakes.START + dt.timedelta(hours=3),
    }
    second["data"] = {"order": {"id": 99, "lines": []}, "tenant": "other"}
    lakes.keep(place, [first, second], batches=1)
    rows = found(place, Selection(ids=["1"]))
    assert [msgspec.json.decode(row["data"])["order"]["id"] for row in rows] == [
        99,
        first["data"]["order"]["id"],
    ]
    for selection in (Selection(fields={"tenant": "other"}), Selection(paths={"$.order.id": "99"})):
        assert [row["added_at"] for row in found(place, selection)] == [second["added_at"]]


def test_files_that_cannot_hold_the_id_are_not_opened(root: str) -> None:
    with Engine(root) as engine:
        prepare(engine, Selection(ids=["~beyond every id"]))
        assert engine.files == []


def test_files_of_other_days_are_not_opened(tmp_path: Path) -> None:
    place = str(tmp_path / "history")
    dice = random.Random(2)
    jobs = [lakes.job(dice, number) for number in range(60)]
    for number, job in enumerate(jobs):
        job["added_at"] = lakes.START + number % 6 * lakes.DAY
        job["ended_at"] = job["added_at"] + dt.timedelta(hours=1)
    lakes.keep(place, jobs, batches=2)
    day = lakes.START + 3 * lakes.DAY
    selection = Selection(paths={"$.vip": "true"}, since=day, until=day + dt.timedelta(hours=1))
    with Engine(place) as engine:
        prepare(engine, selection)
        opened = {each.rpartition("date=")[2][:10] for each in engine.files}
    # The day of an item may begin before that.
    assert opened == {"2026-03-03", "2026-03-04"}


def test_only_so_many_of_the_newest_are_looked_up(root: str, jobs: list[dict[str, Any]]) -> None:
    selection = Selection(queue="mail")
    with Engine(root, threads=1) as engine:
        prepare(engine, selection, 3)
        rows = engine.ask(jobs_sql(selection)).rows
    added = sorted(job["added_at"] for job in jobs if job["queue"] == "mail")
    assert [row[5] for row in rows] == added[:-4:-1]


@pytest.mark.parametrize("data", ["{no", r'{"order": "\ud800"}', "NaN"])
def test_data_that_is_no_json_hides_no_other_job(tmp_path: Path, data: str) -> None:
    place = str(tmp_path / "history")
    jobs: list[dict[str, Any]] = [
        {**lakes.job(random.Random(n), n), "gone": n == 0} for n in range(2)
    ]
    lakes.keep(place, jobs, batches=1)
    odd = {"product": "bullmq", "queue": jobs[0]["queue"], "job_id": jobs[0]["job_id"]}
    at = jobs[0]["ended_at"]
    lakes.store(place, PAYLOADS, [{**odd, "read_at": at, "data": data, "date": at.date()}], 5)
    number = jobs[1]["data"]["order"]["id"]
    for chosen in (
        Selection(paths={"$.order.id": str(number)}),
        Selection(where=f"data->>'$.order.id' = '{number}'"),
    ):
        assert jobs[1]["job_id"] in [row["job_id"] for row in found(place, chosen)]
    chosen = Selection(queue=odd["queue"], ids=(odd["job_id"],), where="data is not null")
    (row,) = found(place, chosen)
    # It is shown as it was stored.
    assert row["data"] == data


def test_there_may_be_no_day_before_the_first(root: str, jobs: list[dict[str, Any]]) -> None:
    ever = dt.datetime.min.replace(tzinfo=dt.UTC)
    assert len(found(root, Selection(since=ever))) == len(found(root, Selection(where="true")))


@pytest.mark.parametrize(
    "where", ["nope = 1", "1 = 1); drop view items; --", "data ->", "'", "count(*) > 1"]
)
def test_a_condition_that_is_none_is_refused(root: str, where: str) -> None:
    with pytest.raises(InvalidInput):
        found(root, Selection(where=where))


def test_selections_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(InvalidOption, match="wanted a path"):
        Selection(paths={"$": "1"})
    now = dt.datetime.now(dt.UTC)
    with pytest.raises(InvalidInput, match="since must be before until"):
        Selection(since=now, until=now)
