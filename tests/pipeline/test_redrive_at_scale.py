"""Many failed jobs run again, each once, though drivers, workers and the pipeline are killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, cast

import msgspec
import pytest
from redis import Redis

from tests.pipeline.rounds import history_at
from tests.support.patience import limit
from waystation.bullmq import JobOptions, Queue
from waystation.bullmq.redis.keys import QueueKeys
from waystation.core.store import embedded
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import LEDGER

JOBS = int(os.environ.get("WAYSTATION_REDRIVEN", "100000"))
"""Jobs that fail; every tenth more completes."""
KILLS = 9
ENDS_WITHIN_S = 600 + JOBS / 50
KEYS = QueueKeys("mail")
WORKER = """
import asyncio, logging, sys
from redis.asyncio import Redis
from waystation.core.runtime.service import until_asked_to_stop
from waystation.bullmq import Unrecoverable, Worker

async def main(url):
    async with Redis.from_url(url, protocol=2) as store:

        async def charge(job):
            number = job.data["n"]
            if not job.id.startswith("redrive-") and number % 11:
                raise Unrecoverable(f"the provider gave no answer to {number}")
            await store.hincrby("effects", str(number), 1)

        async with Worker("mail", charge, url, concurrency=50, lease=5, stalled_interval=1,
                          max_stalled=1000):
            await until_asked_to_stop()

# So many failures are wanted.
logging.disable(logging.CRITICAL)
asyncio.run(main(sys.argv[1]))
"""


class Killable:
    """A process that is started again whenever it was killed."""

    def __init__(self, command: list[str], environment: Mapping[str, str], errors: Path) -> None:
        self._command, self._environment, self._errors = command, environment, errors
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=errors, stderr=errors
            )

    def kill(self) -> bool:
        """End it as a crash would; whether it was still there."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        return self._process.wait() == -signal.SIGKILL

    @property
    def code(self) -> int | None:
        """With what it has ended by itself."""
        assert self._process is not None
        return self._process.poll()

    @property
    def words(self) -> str:
        """What it has said last."""
        return self._errors.read_text(errors="replace")[-3000:]


async def add(url: str, many: int) -> None:
    async with Queue("mail", url) as queue:
        plain = JobOptions(attempts=1)
        passing = JobOptions(attempts=1, remove_on_complete=True)
        text = "x" * 400
        await queue.add_many(
            ("charge", {"n": n, "note": f"{n} {text}"}, passing if n % 2 else plain)
            for n in range(many)
        )


async def clean(url: str) -> int:
    """Remove every job that has ended; how many."""
    removed = 0
    async with Queue("mail", url) as queue:
        for state in ("completed", "failed"):
            while some := await queue.clean(0, limit=10_000, state=state):
                removed += len(some)
    return removed


def wait_until(holds: Callable[[], Any], *, watched: Killable | None = None) -> None:
    until = time.monotonic() + limit(ENDS_WITHIN_S)
    while not holds():
        assert time.monotonic() < until, watched.words if watched else "it took too long"
        time.sleep(0.02)


@pytest.mark.long
@pytest.mark.timeout(limit(2 * ENDS_WITHIN_S))
def test_all_jobs_of_an_incident_run_again_once_whoever_is_killed(tmp_path: Path) -> None:
    many = JOBS + -(-JOBS // 10)
    failing = {n for n in range(many) if n % 11}
    root = str(tmp_path / "history")
    history = history_at(root)
    with embedded.ephemeral() as server, Redis.from_url(server.url, protocol=2) as store:
        options = RunOptions(events=EventOptions(url=server.url), write_back=False)
        environment = {
            **os.environ,
            "WAYSTATION_STORE__URL": server.url,
            "WAYSTATION_PIPELINE__HISTORY": root,
        }

        def killable(name: str, *command: str) -> Killable:
            return Killable([sys.executable, *command], environment, tmp_path / f"{name}.txt")

        store.hset(KEYS.meta, "opts.maxLenEvents", 100 * many)
        with ExitStack() as running:
            workers = [
                running.enter_context(killable(f"worker{n}", "-c", WORKER, server.url))
                for n in range(2)
            ]
            asyncio.run(add(server.url, many))
            run(history, options)
            wait_until(lambda: store.zcard(KEYS.failed) == len(failing))
            wait_until(lambda: store.hlen("effects") == many - len(failing))
            run(history, options)
            asyncio.run(clean(server.url))
            assert store.zcard(KEYS.failed) == store.zcard(KEYS.completed) == 0
            assert not any(store.exists(f"{KEYS.base}{n}") for n in range(1, 100))

            follower = running.enter_context(
                killable("pipeline", "-m", "waystation", "pipeline", "run", "--every", "1")
            )
            driver = running.enter_context(
                killable(
                    "driver",
                    *("-m", "waystation", "redrive", "--error", "gave no answer", "--go"),
                    *("--canary", "20", "--cap", "2000", "--as", "incident"),
                )
            )
            killed = Counter[str]()
            before = many - len(failing)
            for number in range(KILLS):
                goal = before + 1 + len(failing) * number // KILLS
                wait_until(lambda goal=goal: store.hlen("effects") >= goal, watched=driver)
                for name, each, every in (
                    ("driver", driver, 1),
                    ("worker", workers[number % 2], 2),
                    ("pipeline", follower, 3),
                ):
                    if number % every == 0:
                        killed[name] += each.kill()
                        each.start()
            wait_until(lambda: driver.code is not None, watched=driver)
            assert driver.code == 0, driver.words
            wait_until(lambda: store.hlen("effects") == many)
        run(history, options)
        ran = {int(n): int(times) for n, times in cast(Any, store.hgetall("effects")).items()}

    check_ledger(root, many + len(failing))
    again = redriven(root)
    assert Counter(n for n, *_ in again) == Counter(failing)
    assert {(state, duplicates) for _, state, duplicates, _ in again} == {("completed", 0)}
    assert killed["driver"] > KILLS // 2
    # A handler runs again only when its worker was killed.
    repeated = {n for n, times in ran.items() if times > 1}
    assert repeated <= {n for n, _, _, attempts in again if attempts > 1}
    print(f"{len(again):,} redriven; killed {dict(killed)}; {len(repeated)} handlers ran again")


def check_ledger(root: str, jobs: int) -> None:
    names = ("acknowledged", "terminal", "removed", "visible", "lost", "duplicated", "gaps")
    rows = delta.read_arrow(root, LEDGER, (*names, "clean")).to_pylist()
    sums = {name: sum(row[name] or 0 for row in rows) for name in names}
    assert sums == {**dict.fromkeys(names, 0), "acknowledged": jobs, "terminal": jobs}
    assert all(row["clean"] for row in rows)


def redriven(root: str) -> list[tuple[int, str, int, int]]:
    """Number, state, duplicates and attempts of every job that was added again."""
    selection = Selection(where="starts_with(job_id, 'redrive-incident-')")
    with Engine(root) as engine:
        prepare(engine, selection)
        found = engine.ask(jobs_sql(selection))
        twice = dict(
            engine.select("select job_id, duplicates from items where duplicates > 0").rows
        )
    return list(_jobs(found.names, found.rows, twice))


def _jobs(
    names: list[str], rows: list[Any], twice: Mapping[str, int]
) -> Iterator[tuple[int, str, int, int]]:
    for values in rows:
        row = dict(zip(names, values, strict=True))
        number = msgspec.json.decode(row["data"])["n"]
        yield number, row["state"], twice.get(row["job_id"], 0), row["attempts"]
