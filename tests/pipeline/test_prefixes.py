"""Queues whose keys have another prefix: the commands find them as their workers do."""

import asyncio
import json
from pathlib import Path

import pytest
from redis import Redis

from waystation import files
from waystation.cli import root as cli
from waystation.core.errors import InvalidOption
from waystation.pipeline.sources.streams import EventOptions, Streams

SETTINGS = """
bullmq: {prefix: '{shop}', worker: {concurrency: 4}}
routing: {namespace: edge}
files: {namespace: lake, worker: {queues: {high: lake:now, low: lake:later}}}
"""


def test_a_prefix_counts_for_all_products_or_for_those_that_are_named(redis_url: str) -> None:
    products = ("bullmq", "routing", "files", "waitingroom")
    for given, wanted in {
        "": ["bull", "bridge", "jobqueue", "queue"],
        "shop": ["shop"] * 4,
        "bullmq={shop}, routing=edge": ["{shop}", "edge", "jobqueue", "queue"],
    }.items():
        options = EventOptions(url=redis_url, prefix=given)
        assert [options.prefixes_of(product) for product in products] == [
            (each,) for each in wanted
        ]
    with pytest.raises(InvalidOption, match="product must be one of"):
        EventOptions(prefix="bulmq=shop")


def test_streams_of_two_prefixes_are_followed_together(store: Redis, redis_url: str) -> None:
    for key in ("shop:mail:events", "bull:mail:events", "edge:events:stream", "queue:sale:events"):
        store.xadd(key, {"event": "added"})
    found = Streams(EventOptions(url=redis_url, prefix="bullmq=shop,routing=edge")).now()
    assert [(each.product, each.key) for each in found] == [
        ("bullmq", "shop:mail:events"),
        ("files", "jobqueue:events"),
        ("routing", "edge:events:stream"),
        ("waitingroom", "queue:sale:events"),
    ]


@pytest.mark.slow
def test_a_history_is_kept_and_asked_under_the_prefix_of_the_settings(
    store: Redis,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WAYSTATION_STORE__URL", redis_url)
    Path("waystation.yaml").write_text(SETTINGS)
    Path("a.csv").touch()
    asyncio.run(_add_a_file(redis_url))
    store.xadd("{shop}:mail:events", {"event": "added", "jobId": "7", "name": "send"})
    store.hset("{shop}:mail:7", mapping={"name": "send", "data": '{"to":"ada"}', "opts": "{}"})
    store.rpush("{shop}:mail:wait", "7")

    def said(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.run(["pipeline", *words])
        out, err = capsys.readouterr()
        assert not ended.value.code, err
        return out

    said("run", "--once")
    assert "{shop}:mail:events" in said("status")
    (job,) = [json.loads(line) for line in said("find", "7", "--json").splitlines()]
    assert (job["data"], job["now"]) == ('{"to":"ada"}', "wait")
    assert json.loads(said("sql", "select job_id from jobs", "--json")) == {"job_id": "7"}
    ledger = said("sql", "select product, visible, lost from ledger order by product", "--json")
    assert [json.loads(line) for line in ledger.splitlines()] == [
        {"product": "bullmq", "visible": 1, "lost": 0},
        {"product": "files", "visible": 1, "lost": 0},
    ]


async def _add_a_file(url: str) -> None:
    queues = {"high": "lake:now", "low": "lake:later"}
    async with files.Queue(url, layout=files.Layout(prefix="lake", queues=queues)) as queue:
        await queue.add("a.csv")
