"""Typed tasks: one that is not idempotent, and two that are."""

import base64
from datetime import date
from pathlib import Path

from waystation.bullmq import Job, PayloadOptions
from waystation.tasks import Tasks, depends
from waystation.testing import Drill

# Nobody listens there: the drill lets tasks add to its own server.
tasks = Tasks("redis://127.0.0.1:1")
sealed = Tasks(
    "redis://127.0.0.1:1",
    payloads=PayloadOptions(keys="k1=" + base64.b64encode(b"1" * 32).decode()),
)


def folder() -> Path:
    return Path()


@tasks.task(queue="log")
async def append(day: date, into: Path = depends(folder)) -> None:
    with (into / "log").open("a") as log:
        log.write(day.isoformat())


@tasks.task(queue="log")
def write(day: date, into: Path = depends(folder)) -> str:
    (into / day.isoformat()).write_text("done")
    return day.isoformat()


@sealed.task(queue="cards")
async def charge(card: str, job: Job = depends(Job)) -> str:
    return await job.step("charge", book, card)


def book(card: str) -> str:
    Path("charged").write_text(card)
    return f"{card} is charged"


drills = [
    Drill(append.bind(date(2026, 11, 16))),
    Drill(write, {"day": date(2026, 11, 16)}),
    Drill(charge.bind("4711")),
]
