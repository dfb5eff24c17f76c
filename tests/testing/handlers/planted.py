"""Ten handlers that do too much, or too little, when their job is run again."""

import os
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

from redis import Redis

from waystation.bullmq import Job, Queue, SyncJob
from waystation.testing import Drill


def redis() -> "Redis":
    return Redis.from_url(os.environ["WAYSTATION_STORE__URL"])


def append_line(job: SyncJob) -> None:
    with Path("orders.txt").open("a") as file:
        file.write(f"{job.id}\n")


def count_up(job: SyncJob) -> None:
    counter = Path("counter")
    counter.write_text(str(int(counter.read_text()) + 1))


def insert_row(job: SyncJob) -> None:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop, shop:
        shop.execute("INSERT INTO mails (receiver) VALUES ('ada')")


def take_from_balance(job: SyncJob) -> None:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop, shop:
        shop.execute("UPDATE accounts SET balance = balance - 10 WHERE owner = 'ada'")


def increment_in_redis(job: SyncJob) -> None:
    with redis() as client:
        client.incr("sold")


def push_to_a_list(job: SyncJob) -> None:
    with redis() as client:
        client.rpush("sold", job.data["article"])


async def add_a_job(job: Job) -> None:
    async with Queue("mail", os.environ["WAYSTATION_STORE__URL"]) as queue:
        await queue.add("thank", {"to": job.data["customer"]})


def send_with_a_new_key(job: SyncJob) -> None:
    Path(f"sent-{uuid.uuid4()}").write_text("thank you")


def check_then_act(job: SyncJob) -> None:
    if Path("charged").exists():
        return
    with Path("charges.txt").open("a") as file:
        file.write("10\n")
    Path("charged").touch()


def move_the_only_copy(job: SyncJob) -> str:
    source = Path("inbox.txt")
    text = source.read_text()
    source.unlink()
    Path("archive.txt").write_text(text)
    return text


def tables() -> None:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop, shop:
        shop.execute("CREATE TABLE mails (receiver TEXT)")
        shop.execute("CREATE TABLE accounts (owner TEXT, balance INTEGER)")
        shop.execute("INSERT INTO accounts VALUES ('ada', 100)")


def rows() -> Any:
    with closing(sqlite3.connect("shop.db", timeout=0.2)) as shop:
        mails = shop.execute("SELECT * FROM mails").fetchall()
        return mails, shop.execute("SELECT * FROM accounts").fetchall()


drills = [
    Drill(append_line),
    Drill(count_up, setup=lambda: Path("counter").write_text("0")),
    Drill(insert_row, setup=tables, effects=rows),
    Drill(take_from_balance, setup=tables, effects=rows),
    Drill(increment_in_redis),
    Drill(push_to_a_list, {"article": "lamp"}),
    Drill(add_a_job, {"customer": "ada"}),
    Drill(send_with_a_new_key, effects=lambda: len(list(Path().glob("sent-*")))),
    Drill(check_then_act),
    Drill(move_the_only_copy, setup=lambda: Path("inbox.txt").write_text("hello")),
]
