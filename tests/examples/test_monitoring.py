"""The rules and the dashboard that a platform team starts from."""

import json
import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.support.programs import require_program
from tests.support.project import ROOT

PLACE = ROOT / "examples" / "monitoring"
FIRING = 'count(ALERTS{alertname="%s",alertstate="firing"}) or vector(0)'
NAME = re.compile(r"\b((?:jobs?|queue|waystation|bullmq|waiting_room|circuit_breaker)_[a-z_]+)\b")


def described() -> set[str]:
    """The metrics that some page explains."""
    pages = ("docs/reference/metrics.md", "docs/how-to/watch-it.md")
    return {name for page in pages for name in NAME.findall((ROOT / page).read_text())}


@pytest.mark.parametrize("file", ["alerts.yaml", "dashboard.json"])
def test_every_number_that_is_watched_exists(file: str) -> None:
    text = (PLACE / file).read_text()
    watched = {name.removesuffix("_bucket") for name in NAME.findall(text)}
    assert len(watched) > 5
    assert watched <= described()


def test_the_dashboard_is_one() -> None:
    dashboard = json.loads((PLACE / "dashboard.json").read_text())
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert all(panel["targets"] for panel in dashboard["panels"])


@pytest.mark.parametrize(
    ("series", "at", "alerts"),
    [
        ({'bullmq_job_count{queue="q",state="waiting"}': "5x20"}, "10m", []),
        (
            {
                'bullmq_job_count{queue="q",state="waiting"}': "5x20",
                'bullmq_job_count{queue="q",state="active"}': "0x20",
            },
            "10m",
            ["NobodyWorks"],
        ),
        (
            {
                'bullmq_job_count{queue="q",state="waiting"}': "0x20",
                'bullmq_job_count{queue="q",state="prioritized"}': "5x20",
                'bullmq_job_count{queue="q",state="active"}': "0x20",
            },
            "10m",
            ["NobodyWorks"],
        ),
        ({"waystation_store_up": "1x3 0x20"}, "10m", ["StoreAway"]),
        (
            {
                'jobs_failed_total{queue="q",reason="X"}': "0+3x40",
                'jobs_consumed_total{queue="q"}': "0+10x40",
            },
            "30m",
            ["ManyFail"],
        ),
        (
            {
                'jobs_failed_total{queue="q",reason="X"}': "0+1x40",
                'jobs_consumed_total{queue="q"}': "0+20x40",
            },
            "30m",
            [],
        ),
    ],
    ids=["unknown", "nobody", "nobody for priorities", "away", "many fail", "few fail"],
)
def test_a_rule_speaks_when_it_should(
    series: dict[str, str], at: str, alerts: list[str], tmp_path: Path
) -> None:
    promtool = require_program("promtool", package="prometheus")
    rules = msgspec.yaml.decode((PLACE / "alerts.yaml").read_text())["groups"][0]["rules"]
    # Only whether a rule speaks is asked for, not in which words.
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": FIRING % rule["alert"],
                "eval_time": at,
                "exp_samples": [{"value": int(rule["alert"] in alerts)}],
            }
            for rule in rules
        ],
    }
    plan = {"rule_files": [str(PLACE / "alerts.yaml")], "tests": [case]}
    (tmp_path / "plan.yaml").write_bytes(msgspec.yaml.encode(plan))
    done = subprocess.run(
        [promtool, "test", "rules", tmp_path / "plan.yaml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
