"""Ten handlers that can be run again at any time."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from redis import Redis

from waystation.bullmq import Job, Queue, SyncJob
from waystation.testing import Drill


def redis() -> "Redis":
    return Redis.from_url(os.environ["WAYSTATION_STORE__URL"])


def write_whole_file(job: SyncJob) -> None:
    Path("order.txt").write_text(job.id)


def compute(job: SyncJob) -> int:
    return sum(job.data["prices"])


def insert_by_key(job: SyncJob) -> None:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop, shop:
        shop.execute("INSERT OR IGNORE INTO mails VALUES (?, 'ada')", [job.id])


def charge_once(job: SyncJob) -> None:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop, shop:
        booked = shop.execute("INSERT OR IGNORE INTO mails VALUES (?, 'ada')", [job.id])
        if booked.rowcount:
            shop.execute("UPDATE accounts SET balance = balance - 10 WHERE owner = 'ada'")


def set_in_redis(job: SyncJob) -> None:
    with redis() as client:
        client.hset("stock", job.data["article"], 5)


def add_to_a_set(job: SyncJob) -> None:
    with redis() as client:
        client.sadd("sold", job.id)


async def add_a_job_with_an_id(job: Job) -> None:
    async with Queue("mail", os.environ["WAYSTATION_STORE__URL"]) as queue:
        await queue.add("thank", {"to": job.data["customer"]}, job_id=f"thank-{job.id}")


async def do_steps(job: Job) -> str:
    receipt = await job.step("charge", charge, f"{job.id}-charge")
    await job.sleep(days=3)
    await job.step("send", send, receipt)
    await job.emit("sent")
    return receipt


def charge(key: str) -> str:
    Path(f"charge-{key}").touch()
    return key


def send(receipt: str) -> None:
    Path("sent.txt").write_text(receipt)


def remove_if_there(job: SyncJob) -> None:
    Path("temporary").unlink(missing_ok=True)


def copy_then_remove(job: SyncJob) -> None:
    source, target = Path("inbox.txt"), Path("archive.txt")
    if source.exists():
        Path("archive.part").write_text(source.read_text())
        Path("archive.part").replace(target)
        source.unlink(missing_ok=True)


def tables() -> None:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop, shop:
        shop.execute("CREATE TABLE mails (id TEXT PRIMARY KEY, receiver TEXT)")
        shop.execute("CREATE TABLE accounts (owner TEXT, balance INTEGER)")
        shop.execute("INSERT INTO accounts VALUES ('ada', 100)")


def rows() -> Any:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop:
        mails = shop.execute("SELECT * FROM mails").fetchall()
        return mails, shop.execute("SELECT * FROM accounts").fetchall()


drills = [
    Drill(write_whole_file),
    Drill(compute, {"prices": [1, 2, 3]}),
    Drill(insert_by_key, setup=tables, effects=rows),
    Drill(charge_once, setup=tables, effects=rows),
    Drill(set_in_redis, {"article": "lamp"}),
    Drill(add_to_a_set),
    Drill(add_a_job_with_an_id, {"customer": "ada"}),
    Drill(do_steps),
    Drill(remove_if_there, setup=lambda: Path("temporary").touch()),
    Drill(copy_then_remove, setup=lambda: Path("inbox.txt").write_text("hello")),
]
