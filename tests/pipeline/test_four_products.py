"""One run over all four lines: everything is accounted for, and what is missing is named."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.rounds import history_at, written_here
from waystation import bullmq, files, routing, waitingroom
from waystation.core.store.connection import connect
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.reports.facts import report
from waystation.pipeline.runner import STREAM_LIMIT, RunOptions, run
from waystation.pipeline.silver.moves import STEPS
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.tables import EVENTS, ITEMS, LEDGER
from waystation.waitingroom.redis.keys import RoomKeys

pytestmark = pytest.mark.slow


async def fill(url: str, folder: Path) -> None:
    """Put something into every line."""
    for queue in ("mail", "drained", "obliterated"):
        async with bullmq.Queue(queue, url) as mail:
            await mail.add_many([("send", {}) for _ in range(4)])
    async with bullmq.Queue("mail", url) as mail:
        assert await mail.remove("4")
    async with await connect(url) as store:
        line = routing.Queue(store)
        ids = [(await line.add("render", {"scene": n})).id for n in range(3)]
        await line.add("render", {}, routing.JobOptions(depends_on=(ids[0],)))
        await line.add("render", {}, routing.JobOptions(schedule=routing.Schedule(delay=60)))
        assert await line.cancel(ids[2])
        options = files.ScanOptions(scan_dir=str(folder), settle=0)
        await files.Producer(files.Queue(store), files.ProducerOptions(scan=options)).scan()
    async with waitingroom.Room("tickets", url) as room:
        await room.open(waitingroom.RoomOptions(admission_rate=1, newcomers_per_minute=0))
        places = [
            await room.join(waitingroom.JoinRequest(key=f"{n}", secret="s")) for n in range(4)
        ]
        assert isinstance(places[0], waitingroom.Joined)
        await room.leave(places[0].place, "s")


async def empty_some(url: str) -> None:
    async with bullmq.Queue("drained", url) as queue:
        assert await queue.drain() == 4
    async with bullmq.Queue("obliterated", url) as queue:
        await queue.obliterate()


def write_far_future_events(store: Redis) -> None:
    """What programs write for which the last instant of the year 9999 means never."""
    never = 253_402_300_799_999
    for line, stream, event in (
        ("routing", "bridge:events:stream", "added"),
        ("files", "jobqueue:events", "waiting"),
        ("waitingroom", "queue:{far}:events", "waiting"),
    ):
        fields: Any = {"v": 1, "line": line, "queue": "far", "event": event, "subject": "1"}
        store.xadd(stream, {**fields, "at": never, "path": "/in/a", "lane": 0})
    store.xadd("bull:far:events", {"event": "added", "jobId": "1"}, id=f"{never}-1")


def ledger(spark: SparkSession, root: str, url: str) -> dict[tuple[str, str], dict[str, Any]]:
    with written_here() as seen:
        run(history_at(root), RunOptions(events=EventOptions(url=url)))
    # Tasks write the rows of tables; what a snapshot has found missing is written here.
    assert seen <= {EVENTS.name}
    rows = history_at(root).read(LEDGER).collect()
    accounts: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        if row["queue"].strip("{}") == "far":
            continue
        # An hour may end while the test runs.
        mine = accounts.setdefault((row["product"], row["queue"]), dict.fromkeys(COUNTED, 0))
        for name in COUNTED:
            mine[name] += row[name]
        mine["lost_ids"] = [*mine.get("lost_ids", []), *row["lost_ids"]]
    return accounts


COUNTED = ("acknowledged", "terminal", "removed", "visible", "lost", "gaps")


def counts(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in COUNTED)


def test_what_is_taken_out_is_removed_and_what_is_torn_out_is_lost(
    spark: SparkSession, store: Redis, redis_url: str, root: str, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).touch()
        os.utime(tmp_path / "in" / name, (1, 1))
    asyncio.run(fill(redis_url, tmp_path / "in"))

    accounts = ledger(spark, root, redis_url)
    assert {place: counts(row) for place, row in accounts.items()} == {
        ("bullmq", "mail"): (4, 0, 1, 3, 0, 0),
        ("bullmq", "drained"): (4, 0, 0, 4, 0, 0),
        ("bullmq", "obliterated"): (4, 0, 0, 4, 0, 0),
        ("routing", "render"): (5, 0, 1, 4, 0, 0),
        ("files", "jobqueue:low_priority"): (3, 0, 0, 3, 0, 0),
        ("waitingroom", "{tickets}"): (4, 1, 0, 3, 0, 0),
    }
    assert int(store.get("bridge:events:cap") or 0) == STREAM_LIMIT
    lines = history_at(root).read(EVENTS).groupBy("product").count().collect()
    assert {row["product"] for row in lines} == {"bullmq", "routing", "files", "waitingroom"}

    write_far_future_events(store)
    asyncio.run(empty_some(redis_url))
    store.delete("bull:mail:1")
    store.lrem("bull:mail:wait", 1, "2")
    torn: Any = store.lpop("bridge:jobs:waiting")
    store.rpop("jobqueue:low_priority")
    store.zpopmax(RoomKeys("tickets").positions)

    accounts = ledger(spark, root, redis_url)
    assert {place: counts(row) for place, row in accounts.items()} == {
        ("bullmq", "mail"): (4, 0, 1, 1, 2, 0),
        ("bullmq", "drained"): (4, 0, 4, 0, 0, 0),
        ("bullmq", "obliterated"): (4, 0, 4, 0, 0, 0),
        ("routing", "render"): (5, 0, 1, 3, 1, 0),
        ("files", "jobqueue:low_priority"): (3, 0, 0, 2, 1, 0),
        ("waitingroom", "{tickets}"): (4, 1, 0, 2, 1, 0),
    }
    assert accounts["bullmq", "mail"]["lost_ids"] == ["1", "2"]
    assert accounts["routing", "render"]["lost_ids"] == [torn.decode()]

    hours = [hour["hour"] for queue in report(history_at(root)).queues for hour in queue.hours]
    assert hours
    assert max(hours).year < 9999

    # What was found out is reported from now on: it has ended, and nobody looks for it again.
    history = history_at(root)
    fold(history)
    still = history.read(STEPS).where("product = 'bullmq'").select("queue").distinct().collect()
    assert {row["queue"] for row in still} - {"far"} == {"mail"}
    ended = history.read(ITEMS).where("queue in ('drained', 'obliterated')").collect()
    assert [row["state"] for row in ended] == ["removed"] * 8
