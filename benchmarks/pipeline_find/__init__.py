"""Finding single jobs among many of a kilobyte each: by id, by declared field, by data.

FIND_JOBS=10000000 picks how many there are, FIND_IN a folder for them that is kept and used again.
Before each question the tables and their logs are dropped from the memory of the system.
"""

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import msgspec

from benchmarks.apart import apart
from benchmarks.pipeline_find import jobs
from benchmarks.report import Report, Row
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare

MANY = int(os.environ.get("FIND_JOBS", "100000"))
ASKED = int(os.environ.get("FIND_ASKED", "40"))
"""Questions of each kind."""
COMPARED = int(os.environ.get("FIND_COMPARED", "1000"))
"""Questions whose answers are compared with a search through every job."""
AIMS = {"one day by a path in the data": 5.0}
"""Seconds in which an answer should come, where it is not one."""


class Took(NamedTuple):
    """What one question took."""

    wall_s: float
    cpu_s: float


def run() -> list[Report]:
    """How fast jobs are found, whether these are the right ones, and the room that they take."""
    with _history() as root:
        if not Path(root, "silver/items/_delta_log").is_dir():
            apart(jobs.write, root, MANY)
        questions = Questions(MANY)
        took = {
            name: [_asked(root, make()) for _ in range(ASKED)]
            for name, make in questions.kinds.items()
        }
        commands = [
            _command(root, make())
            for make in questions.kinds.values()
            for _ in range(max(1, ASKED // 8))
        ]
        wrong = apart(differences, root, MANY, COMPARED)
        sizes = jobs.bytes_per_job(root, MANY)
    assert wrong == 0, f"{wrong} of {COMPARED} answers differ from a search through every job"
    each = ", ".join(f"{name} {size:,.0f}" for name, size in sizes.items())
    return [
        Report(
            title=f"Finding jobs among {MANY:,} of a kilobyte, cold",
            unit="seconds, p95",
            beside="aim",
            rows=[
                Row(name, _p95([one.wall_s for one in all_]), AIMS.get(name, 1.0))
                for name, all_ in took.items()
            ],
            remark="; ".join(
                _spread(name, all_) for name, all_ in {**took, "the command": commands}.items()
            )
            + f"; {COMPARED:,} random answers equal a search through every job",
        ),
        Report(
            title="Room that a job takes",
            unit="bytes at rest",
            beside="bytes of its data",
            rows=[Row("all tables", sum(sizes.values()), _raw_bytes())],
            remark=f"{each}; a job is read when it was added and again when it has ended",
        ),
    ]


def _spread(name: str, took: list[Took]) -> str:
    wall, cpu = ([each[which] for each in took] for which in (0, 1))
    return (
        f"{name}: p50 {statistics.median(wall):.2f} s, "
        f"CPU p50 {statistics.median(cpu):.2f} s, p95 {_p95(cpu):.2f} s"
    )


class Questions:
    """Random questions about the made-up jobs."""

    def __init__(self, many: int) -> None:
        self._many, self._dice = many, random.Random(11)
        self.kinds: dict[str, Callable[[], Selection]] = {
            "by id": self._by_id,
            "by a declared field, one job": self._by_order,
            "by a declared field, twenty jobs": self._by_tenant,
            "one day by a path in the data": self._by_path,
        }

    def any(self) -> Selection:
        """Any of them, now and then with other conditions or about a job that is not there."""
        chosen = self._dice.choices(
            (self._by_id, self._by_order, self._by_tenant, self._by_path), (4, 3, 3, 1)
        )[0]()
        match self._dice.randrange(6):
            case 0:
                return msgspec.structs.replace(chosen, state="failed")
            case 1:
                return msgspec.structs.replace(chosen, queue="q1")
            case 2 if chosen.ids:
                return Selection(ids=[f"{chosen.ids[0]}x", *chosen.ids])
            case _:
                return chosen

    def _by_id(self) -> Selection:
        return Selection(ids=[self._job()["job_id"]])

    def _by_order(self) -> Selection:
        return Selection(fields={"order": self._job()["order"]})

    def _by_tenant(self) -> Selection:
        return Selection(fields={"tenant": self._job()["tenant"]})

    def _by_path(self) -> Selection:
        job = self._job()
        day = job["added_at"].replace(hour=0, minute=0, second=0, microsecond=0)
        amount = str(job["amount"])
        return Selection(paths={"$.order.amount": amount}, since=day, until=day + jobs.DAY)

    def _job(self) -> dict[str, Any]:
        number = self._dice.randrange(self._many)
        with duckdb.connect() as db:
            db.execute("set TimeZone = 'UTC'")
            jobs.describe(db, number, number + 1, self._many)
            (row,) = db.sql("from jobs").to_arrow_table().to_pylist()
        return row


def differences(root: str, many: int, questions: int) -> int:
    """How many answers to random questions differ from what a search through every job gives."""
    asking = Questions(many)
    wrong = 0
    with duckdb.connect(config={"threads": 2}) as db:
        db.execute("set TimeZone = 'UTC'; set enable_progress_bar = false")
        jobs.describe(db, 0, many, many)
        db.execute("create table every_job as from jobs")
        for _ in range(questions):
            asked = asking.any()
            found = _answer(root, asked)
            if sorted(_wanted(db, asked, many)) != sorted(found):
                print(f"a wrong answer to {asked}", file=sys.stderr)
                wrong += 1
    return wrong


def _wanted(
    db: duckdb.DuckDBPyConnection, asked: Selection, many: int
) -> Iterator[tuple[Any, ...]]:
    """The answer of a search through every job."""
    paths = {"$.order.amount": "amount"}
    tests = [f"job_id in ({', '.join(repr(each) for each in asked.ids)})"] if asked.ids else []
    tests += [f"\"{name}\" = '{value}'" for name, value in asked.fields.items()]
    tests += [f"{paths[path]}::varchar = '{value}'" for path, value in asked.paths.items()]
    tests += [f"state = '{asked.state}'"] if asked.state else []
    tests += [f"queue = '{asked.queue}'"] if asked.queue else []
    tests += [f"added_at >= '{asked.since}'"] if asked.since else []
    tests += [f"added_at < '{asked.until}'"] if asked.until else []
    numbers = db.execute(f"select n from every_job where {' and '.join(tests)}").fetchall()
    for (number,) in numbers:
        jobs.describe(db, number, number + 1, many)
        yield from db.execute("select queue, job_id, state, data from whole").fetchall()


def _answer(root: str, selection: Selection) -> list[tuple[Any, ...]]:
    with Engine(root) as engine:
        prepare(engine, selection)
        found = engine.ask(jobs_sql(selection, ["tenant", "order"]))
    places = [found.names.index(name) for name in ("queue", "job_id", "state", "data")]
    return [tuple(row[place] for place in places) for row in found.rows]


def _asked(root: str, asked: Selection) -> Took:
    """Find jobs whose files are in nobody's memory."""
    _forget_files(root)
    began, cpu = time.perf_counter(), time.process_time()
    assert _answer(root, asked)
    return Took(time.perf_counter() - began, time.process_time() - cpu)


def _command(root: str, asked: Selection) -> Took:
    """The same by the command, with the start of Python."""
    given = [*asked.ids, *(f"--field={name}={value}" for name, value in asked.fields.items())]
    given += [f"--path={path}={value}" for path, value in asked.paths.items()]
    given += [f"--since={asked.since.isoformat()}"] if asked.since else []
    given += [f"--until={asked.until.isoformat()}"] if asked.until else []
    command = (sys.executable, "-m", "waystation", "pipeline", "find", *given, "--no-live")
    _forget_files(root)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run((*command, "--history", root), check=True, stdout=subprocess.DEVNULL)
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _forget_files(root: str) -> None:
    """Drop the files of the tables and their logs from the memory of the system."""
    for path in Path(root).rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _raw_bytes() -> float:
    with duckdb.connect() as db:
        jobs.describe(db, 0, 1000, MANY)
        return db.execute("select avg(length(data)) from whole").fetchall()[0][0]


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


@contextmanager
def _history() -> Generator[str]:
    kept = os.environ.get("FIND_IN")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory() as folder:
        yield folder
