"""Queues of the same name, with jobs of the same ids, under two prefixes in one history."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, cast
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.test_redrive import working
from tests.support.patience import limit
from tests.wire.conftest import LATEST, started
from tests.wire.node import NodePeer
from waystation.bullmq import Job, JobFailed, Queue, Worker
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.cli import root as cli
from waystation.core.errors import InvalidOption
from waystation.pipeline import current_jobs
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.bronze import ingest
from waystation.pipeline.maintenance import erasure
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.refresh.snapshot import take_snapshot
from waystation.pipeline.sources.streams import EventOptions, Streams

TWO = "bullmq=bull,bullmq=trial"
KEYS = ("bull:mail:events", "trial:mail:events", "trial:post:events", "bull:x:y:events")

Said: TypeAlias = Callable[..., str]
"""Runs a command of the pipeline that must succeed, and gives what it prints."""


@pytest.fixture
def said(
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Said:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    Path("waystation.yaml").write_text("pipeline: {prefixes: [trial]}")

    def said(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.run(list(words))
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == code, err
        return err if code else out

    return said


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


async def _fill(url: str) -> None:
    """Ours: one job that fails, one that waits. Node's: one fails, one completes, one is late."""

    async def fail(job: Job) -> None:
        raise ValueError("no such address")

    async with Queue("mail", url) as queue:
        job = await queue.add("send", {"n": 1, "to": "ada"}, attempts=1)
        async with Worker("mail", fail, url):
            with pytest.raises(JobFailed):
                await queue.wait(job.id, limit(60))
        await queue.add("send", {"n": 2})
    async with await started(LATEST) as process, NodePeer(process, url) as peer:
        theirs = peer.queue("mail", prefix="trial")
        steps = ["throw", "no such host", 9], ["return", 5]
        for number, step in enumerate(steps, 11):
            await theirs.call("add", "try", {"n": number, "do": [step]}, {"attempts": 1})
        await theirs.call("add", "later", {"n": 13}, {"delay": 3_600_000})
        worker = peer.worker("mail", prefix="trial")
        await worker.until("failed", jobId="1")
        await worker.until("completed", jobId="2")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_queue_has_its_own_jobs_from_the_run_to_the_redrive(
    store: Redis, redis_url: str, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_fill(redis_url))
    said("pipeline", "run", "--once")

    status = said("pipeline", "status")
    assert "bull:mail:events" in status
    assert "trial:mail:events" in status
    both = rows(said("pipeline", "find", "1", "--json"))
    shown = {job["queue"]: (job["name"], job["now"], json.loads(job["data"])["n"]) for job in both}
    assert shown == {"mail": ("send", "failed", 1), "trial:mail": ("try", "failed", 11)}
    (late,) = rows(said("pipeline", "find", "--queue", "trial:mail", "--name", "later", "--json"))
    assert (late["job_id"], late["now"]) == ("3", "delayed")
    joined = said(
        "pipeline",
        "sql",
        "select j.queue, j.job_id, j.state, i.state as kept from jobs j "
        "join items i using (product, queue, job_id) order by all",
        "--json",
    )
    assert [tuple(row.values()) for row in rows(joined)] == [
        ("mail", "1", "failed", "failed"),
        ("mail", "2", "wait", "waiting"),
        ("trial:mail", "1", "failed", "failed"),
        ("trial:mail", "2", "completed", "completed"),
        ("trial:mail", "3", "delayed", "delayed"),
    ]
    ledger = said(
        "pipeline",
        "sql",
        "select queue, sum(acknowledged)::int a, sum(terminal)::int t, sum(visible)::int v, "
        "sum(lost)::int l from ledger group by queue order by queue",
        "--json",
    )
    assert [tuple(row.values()) for row in rows(ledger)] == [
        ("mail", 2, 1, 1, 0),
        ("trial:mail", 3, 2, 1, 0),
    ]
    assert asyncio.run(_advised(redis_url)) == {"bull": 1.0, "trial": 0.5}
    assert "50.0% failed" in said("forecast", "trial:mail")

    store.delete("bull:mail:1", "bull:mail:failed", "trial:mail:1", "trial:mail:failed")
    with working(store, prefix="trial") as worker:
        output = said("redrive", "--queue", "trial:mail", "--go")
    assert "1 added, 1 completed" in output
    assert worker.ran == {11: 1}
    ours, theirs = (
        cast(list[bytes], store.keys(f"{each}:mail:redrive-*")) for each in ("bull", "trial")
    )
    # One that has completed is kept for a day, so that it can be told from one that was removed.
    assert (ours, len(theirs)) == ([], 1)
    with working(store, prefix="sand") as worker:
        output = said("redrive", "--state", "failed", "--since", "1h", "--sandbox", "sand", "--go")
    assert "2 added, 2 completed" in output
    assert worker.ran == {1: 1, 11: 1}

    monkeypatch.setattr(erasure, "refresh_all", Mock())
    refused = said("pipeline", "forget", "1", code=2)
    assert "1 is in several queues: mail of bullmq, trial:mail of bullmq. Say which" in refused
    said("pipeline", "forget", "1", "--queue", "trial:mail")
    assert [row["queue"] for row in rows(said("pipeline", "find", "1", "--json"))] == ["mail"]
    said("pipeline", "forget", "1", "--queue", "*")
    assert "no such job" in said("pipeline", "find", "1", code=1)


async def _advised(url: str) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for prefix in ("bull", "trial"):
        async with Queue("mail", url, prefix=prefix) as queue:
            slo = (await queue.forecast()).slo
            found[prefix] = slo and slo.failed_part
    return found


@pytest.mark.slow
def test_jobs_under_a_prefix_that_is_given_up_are_neither_lost_nor_looked_for(
    store: Redis, said: Said
) -> None:
    for prefix in ("bull", "trial"):
        store.xadd(f"{prefix}:mail:events", {"event": "added", "jobId": "7", "name": "send"})
        store.hset(f"{prefix}:mail:7", mapping={"name": "send", "data": "{}", "opts": "{}"})
        store.rpush(f"{prefix}:mail:wait", "7")
    said("pipeline", "run", "--once")
    Path("waystation.yaml").write_text("pipeline: {prefixes: []}")
    store.xadd("bull:mail:events", {"event": "added", "jobId": "8", "name": "send"})
    said("pipeline", "run", "--once")
    ledger = (
        "select queue, sum(lost)::int l, sum(removed)::int r from ledger group by all order by 1"
    )
    kept = rows(said("pipeline", "sql", ledger, "--json"))
    assert kept[-1] == {"queue": "trial:mail", "l": 0, "r": 0}
    found = rows(said("pipeline", "find", "7", "--json"))
    assert {job["queue"]: job["now"] for job in found} == {
        "mail": "wait",
        "trial:mail": "not followed",
    }
    refused = said("redrive", "--queue", "trial:mail", "--state", "waiting", code=2)
    assert "queue must be under a prefix that is known (bull), got 'trial:mail'" in refused


@pytest.mark.parametrize(
    ("queues", "wanted"),
    [
        ("*", ["mail", "trial:mail", "trial:post"]),
        ("mail", ["mail"]),
        ("ma*", ["mail"]),
        ("trial:mail", ["trial:mail"]),
        ("trial:*", ["trial:mail", "trial:post"]),
        ("*mail", ["mail", "trial:mail"]),
        ("trial:p*,mail", ["mail", "trial:post"]),
    ],
)
def test_queues_are_chosen_by_the_names_that_the_tables_have(
    store: Redis, redis_url: str, queues: str, wanted: list[str]
) -> None:
    for key in KEYS:
        store.xadd(key, {"event": "added", "jobId": "1"})
    options = EventOptions(url=redis_url, products="bullmq", prefix=TWO, queues=queues)
    streams = Streams(options)
    assert [each.queue for each in streams.now()] == wanted
    assert streams.known([each.key for each in streams.now()]) == streams.now()
    assert [options.place_of(*each[:2]) for each in streams.now()] == [
        tuple(each.key.split(":")[:2]) for each in streams.now()
    ]
    snapshot = take_snapshot(options)
    assert [
        queue
        for queue in ("mail", "trial:mail", "trial:post", "other:mail")
        if snapshot.covers("bullmq", queue)
    ] == wanted


def test_a_queue_under_another_prefix_can_be_chosen_among_those_of_all_products(
    store: Redis, redis_url: str
) -> None:
    for key in KEYS:
        store.xadd(key, {"event": "added", "jobId": "1"})
    found = Streams(EventOptions(url=redis_url, prefix=TWO, queues="mail,trial:mail")).now()
    assert [each.queue for each in found if each.product == "bullmq"] == ["mail", "trial:mail"]


@pytest.mark.parametrize(
    ("prefix", "complaint"),
    [
        ("bullmq=bull,bullmq=bull", "prefix must be given once, got 'bull' twice"),
        ("bullmq=bull,bullmq=bull:x", "must not lie within another one, got 'bull:x' and 'bull'"),
        ("bullmq=bull:x,bullmq=bull", "must not lie within another one, got 'bull:x' and 'bull'"),
        ("bullmq=bull,bullmq=tr*", "must be without blanks and"),
        ("bullmq=bull,bullmq=a b", "must be without blanks and"),
        ("bullmq=bull,bullmq=queue", "prefix 'queue' is that of waitingroom"),
        ("routing=a,routing=b", "only bullmq can have several prefixes"),
        ("bull,trial", "name the product of each"),
        ("bull,bullmq=trial", "name the product of each"),
    ],
)
def test_prefixes_that_could_not_be_told_apart_are_refused(prefix: str, complaint: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        EventOptions(prefix=prefix)
    assert complaint in str(refused.value)


def test_a_queue_under_a_prefix_that_is_not_followed_cannot_be_chosen() -> None:
    with pytest.raises(InvalidOption, match=r"known \(bull, trial\), got 'other:mail'"):
        EventOptions(prefix=TWO, queues="mail,other:mail")
    assert EventOptions(prefix="bullmq=bull,bullmq=bullet").prefixes_of("bullmq") == (
        "bull",
        "bullet",
    )
    assert Prefixes(("bull", "trial")).place_of("other:mail") is None


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ("bullmq: {prefix: [bull, trial]}", "bullmq.prefix (waystation.yaml:1) wants text"),
        ("pipeline: {prefixes: [bull]}", "got 'bull' twice"),
        ("bullmq: {prefix: trial}\npipeline: {prefixes: [trial]}", "got 'trial' twice"),
        ("pipeline: {prefixes: ['bull:x']}", "got 'bull:x' and 'bull'"),
    ],
)
def test_settings_that_cannot_be_are_refused(said: Said, settings: str, complaint: str) -> None:
    Path("waystation.yaml").write_text(settings)
    for command in (["pipeline", "status"], ["forecast", "mail"]):
        assert complaint in said(*command, code=2)


@pytest.mark.slow
def test_spark_reads_both_and_names_them_alike(
    spark: SparkSession, store: Redis, redis_url: str, root: str
) -> None:
    for prefix in ("bull", "trial"):
        store.xadd(f"{prefix}:mail:events", {"event": "added", "jobId": "7", "name": "send"})
        data = json.dumps({"of": prefix})
        store.hset(f"{prefix}:mail:7", mapping={"name": "send", "data": data, "opts": "{}"})
        store.rpush(f"{prefix}:mail:wait", "7")

    ingest.start(
        spark, root, payloads=PayloadSettings(), url=redis_url, prefix=TWO, products="bullmq"
    ).finish()

    with Engine(root, threads=1) as engine:
        engine.add_tables()
        kept = engine.ask(
            "select queue, stream, data->>'$.of' from events "
            "join payloads using (product, queue, job_id) order by all"
        )
    assert kept.rows == [
        ("mail", "bull:mail:events", "bull"),
        ("trial:mail", "trial:mail:events", "trial"),
    ]
    now = current_jobs(spark, EventOptions(url=redis_url, prefix=TWO, products="bullmq")).collect()
    assert sorted((row["queue"], row["job_id"], json.loads(row["data"])["of"]) for row in now) == [
        ("mail", "7", "bull"),
        ("trial:mail", "7", "trial"),
    ]
