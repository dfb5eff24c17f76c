"""`waystation fairness`: a sentence, a table, JSON and a page about what tenants were served."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.ask import lakes
from tests.pipeline.simulation.test_simulate import Balance
from tests.pipeline.test_report import charts
from waystation.cli.root import run
from waystation.pipeline.products.bullmq import TENANTS, TURNS

NOW = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
HOURS = 5


def tenant(ago: int, name: str, service: float, wait_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "product": "bullmq",
        "queue": "llm",
        "hour": NOW - dt.timedelta(hours=ago),
        "tenant": name,
        "started": 10,
        "service": service,
        "over_weight": service,
        "share": service / 100,
        "wait_mean_ms": float(wait_ms),
        "waiting_s": 60,
        "wait_histogram": [(wait_ms, 10)],
        **more,
    }


def turns(ago: int, **more: Any) -> dict[str, Any]:
    known = {"deviation": 3.5, "allowed": 4.0, "ahead": "acme", "behind": "", "held": True}
    of = {"product": "bullmq", "queue": "llm", "hour": NOW - dt.timedelta(hours=ago), "tenants": 3}
    return {**of, "compared_s": 50, **known, **more}


ALONE = {"deviation": None, "allowed": None, "ahead": None, "behind": None, "held": None}


@pytest.fixture
def history(root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hours in which acme had three tenths of a queue, bell six and jobs without a group one."""
    monkeypatch.chdir(tmp_path)
    rows = [
        each
        for ago in range(1, HOURS + 1)
        for each in (
            tenant(ago, "acme", 30, 96),
            tenant(ago, "bell", 60, 16),
            tenant(ago, "", 10, 0),
        )
    ]
    # Long ago, and another queue.
    rows += [tenant(100, "acme", 70, 8), tenant(2, "zoe", 100, 8, queue="mail")]
    lakes.store(root, TENANTS, rows, 0)
    held = [turns(ago) for ago in range(1, HOURS)] + [turns(HOURS, **ALONE)]
    lakes.store(root, TURNS, [*held, turns(2, queue="mail", **ALONE)], 0)
    return root


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run(["fairness", *words])
    return int(ended.value.code or 0)


def test_one_sentence_says_what_a_tenant_was_served(
    history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("llm", "--tenant", "acme", "--history", history) == 0
    sentence, _, first, second, *_ = capsys.readouterr().out.splitlines()
    assert sentence == (
        "acme had 30 % of llm's service in the last 24h, waited 96 ms (p95); no two that waited "
        "differed by more than the cost of one job each; the bound held in 4 of 4 hours "
        "(in 1 more nothing was to be compared)."
    )
    assert first.split()[:3] == ["bell", "60", "%"]
    assert second.split()[:4] == ["acme", "*", "30", "%"]


def test_without_a_queue_each_has_its_sentence(
    history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("--history", history) == 0
    said = capsys.readouterr().out
    assert "3 tenants shared llm's service in the last 24h, bell the most (60 %)" in said
    assert (
        "one tenant shared mail's service in the last 24h; no two tenants waited at the same time, "
        "so there is nothing to compare."
    ) in said


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (False, "acme and no group differed by 9 where 4 is allowed, in the hour from"),
        (None, "differed by 9 where 4 is allowed, for which a correction or an earlier job may be"),
    ],
)
def test_a_bound_that_was_not_kept_is_said_and_so_is_one_of_which_that_is_not_known(
    history: str, held: bool | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lakes.store(history, TURNS, [turns(6, deviation=9.0, held=held)], 1)
    assert called("llm", "--history", history) == 0
    sentence = capsys.readouterr().out.splitlines()[0]
    assert says in sentence
    unknown = "1 not known, " if held is None else ""
    assert f"held in 4 of 5 hours ({unknown}in 1 more nothing" in sentence


def test_programs_read_the_figures_of_each_tenant_and_hour(
    history: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("llm", "--tenant", "", "--history", history, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["hours"] == {"held": 4, "broken": 0, "unknown": 0}
    [own] = said["tenants"]
    assert (own["tenant"], own["service"], own["share"], own["started"]) == ("", 50, 0.1, 50)
    assert [each["held"] for each in said["turns"]] == [None, True, True, True, True]
    assert said["sentence"].startswith("no group had 10 % of llm's service")


def test_the_page_draws_shares_and_how_far_tenants_came_apart(history: str, tmp_path: Path) -> None:
    page = tmp_path / "receipt.html"
    assert called("llm", "--history", history, "--to", str(page)) == 0
    text = page.read_text()
    checker = Balance()
    checker.feed(text)
    assert checker.open == []
    shares, apart = charts(text)
    assert [each["name"] for each in shares["series"]] == ["bell", "acme", "no group"]
    assert shares["series"][1]["values"] == [30] * HOURS
    assert [each["name"] for each in apart["series"]] == ["apart", "allowed"]
    assert apart["series"][0]["values"] == [None, 3.5, 3.5, 3.5, 3.5]


def test_what_is_not_there_is_named(
    history: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called("sms", "--history", history) == 1
    assert capsys.readouterr().err == "no tenant took turns in sms then\n"
    assert called("llm", "--tenant", "zoe", "--history", history) == 1
    assert capsys.readouterr().err == "nothing of the tenant 'zoe' took turns in llm then\n"
    assert called("--history", str(tmp_path / "nowhere")) == 1
    assert "`waystation pipeline run` stores them" in capsys.readouterr().err
    assert called("llm", "--history", history, "--to", "none/here.html") == 2
    assert "in a folder that can be written to" in capsys.readouterr().err
