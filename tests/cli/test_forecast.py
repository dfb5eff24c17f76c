"""`waystation forecast`: what history says, while it is fresh."""

import json
import time
from pathlib import Path

import pytest
from redis import Redis

from waystation.cli import root
from waystation.core.line.forecasts import (
    DesiredWorkers,
    Drain,
    FailureLabel,
    FailureLabels,
    Recommendation,
    Slo,
    key_of,
    written,
)


@pytest.fixture
def store(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Redis":
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    with Redis.from_url(redis_url) as client:
        return client


def called(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        root.run(["forecast", *words])
    return int(ended.value.code or 0)


def put(
    store: Redis, piece: Recommendation, *, queue: str = "mail", product: str = "bullmq"
) -> None:
    store.hset(key_of(type(piece), queue), product, written(piece))


def life(seconds: int) -> dict[str, int]:
    now = time.time_ns() // 1_000_000
    return {"made_at": now, "until": now + seconds * 1000}


def test_fresh_advice_is_told_in_sentences(
    store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = {"wait_p50_ms": 3.0, "wait_p95_ms": 40.0, "wait_p99_ms": None}
    runs = {"run_p50_ms": 1.0, "run_p95_ms": 90_000.0, "run_p99_ms": None}
    put(store, Slo(hours=24, failed_part=0.021, **waits, **runs, **life(60)))
    drain = {"waiting": 1200, "low_s": 40.0, "likely_s": 60.0, "high_s": 180.0, "band": 0.9}
    put(store, Drain(**drain, **life(60)))
    put(store, DesiredWorkers(workers=12, target_wait_ms=1000, **life(60)))
    label = FailureLabel("f", "TimeoutError: no answer", 7, 0.8)
    put(store, FailureLabels(labels=(label,) * 7, **life(60)))

    assert called("mail") == 0
    assert capsys.readouterr().out.splitlines() == [
        "in 24 h: half waited 3 ms, 19 of 20 waited 40 ms and ran 1.5 min; 2.1% failed",
        "the 1,200 that wait will be done in 40 s to 3 min; 90% of such forecasts held",
        "with 12 in hand at a time, 19 of 20 wait less than 1 s when work comes as it did lately",
        *["7 failed with TimeoutError: no answer; trying again helped 80%"] * 5,
        "and 2 more kinds of failure",
    ]
    assert called("mail", "--json") == 0
    assert json.loads(capsys.readouterr().out)["workers"]["workers"] == 12


def test_the_evidence_for_a_number_of_workers_is_told(
    store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = DesiredWorkers(
        workers=132,
        target_wait_ms=1000,
        busiest_minute=3_000,
        run_mean_ms=50.0,
        wait_p95_ms=18_000.0,
        **life(60),
    )
    put(store, wanted)
    assert called("mail") == 0
    assert capsys.readouterr().out.splitlines() == [
        "with 132 in hand at a time, 19 of 20 wait less than 1 s when work comes as it did lately: "
        "3,000 in one minute, 50 ms each; really they waited 18 s",
    ]


def test_stale_advice_and_that_of_another_product_is_not_told(
    store: Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    put(store, DesiredWorkers(workers=12, target_wait_ms=1000, **life(-1)))
    put(store, DesiredWorkers(workers=3, target_wait_ms=1000, **life(60)), product="routing")
    assert called("mail") == 0
    assert "no recent history of bullmq/mail" in capsys.readouterr().out
    put(
        store,
        DesiredWorkers(workers=5, target_wait_ms=1000, **life(60)),
        queue="a:b",
        product="files",
    )
    assert called("a:b", "--product", "files") == 0
    assert "with 5 in hand" in capsys.readouterr().out


def test_an_unknown_product_is_refused(store: Redis, capsys: pytest.CaptureFixture[str]) -> None:
    assert called("mail", "--product", "post") == 2
    assert "product must be one of bullmq, routing, files, waitingroom" in capsys.readouterr().err
