"""Typed tasks: one that is not idempotent, and one that is."""

from datetime import date
from pathlib import Path

from waystation.tasks import Tasks, depends
from waystation.testing import Drill

# Nobody listens there: the drill lets tasks add to its own server.
tasks = Tasks("redis://127.0.0.1:1")


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


drills = [
    Drill(append.bind(date(2026, 11, 16))),
    Drill(write, {"day": date(2026, 11, 16)}),
]
