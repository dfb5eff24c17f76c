"""`waystation tasks`: the worker, the list and the schema from the command line."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S
from tests.support.processes import running
from waystation.bullmq import Queue

MODULE = """
from waystation.tasks import Tasks

tasks = Tasks()
other = 7

@tasks.task(queue="mail")
async def send(to: str) -> str:
    job = await count.add(text=to)
    return job.id

@tasks.task(queue="numbers")
def count(text: str, times: int = 2) -> int:
    return len(text) * times
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(MODULE)
    return tmp_path


def run(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "waystation", "tasks", *words],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def test_tasks_and_their_schema_are_printed(place: Path) -> None:
    listed = run(place, "list", "shop:tasks").stdout.splitlines()
    schema = json.loads(run(place, "schema", "shop:tasks").stdout)

    assert [line.split()[:2] for line in listed] == [["mail", "send"], ["numbers", "count"]]
    assert schema["queues"]["numbers"]["count"]["data"]["required"] == ["text"]
    assert "must be a Tasks object, got 7" in run(place, "list", "shop:other").stderr


async def test_a_worker_runs_every_queue_of_the_tasks(place: Path, redis_url: str) -> None:
    command = ("-m", "waystation", "tasks", "work", "shop:tasks")
    async with Queue("mail", redis_url) as mail, Queue("numbers", redis_url) as numbers:
        with running(place, *command, WAYSTATION_STORE__URL=redis_url) as worker:
            job = await mail.add("send", {"to": "ada"})
            second = await mail.wait(job.id, LIMIT_S)
            assert await numbers.wait(second, LIMIT_S) == 6
            assert await worker.stop() == 0


async def test_several_processes_run_the_tasks(place: Path, redis_url: str) -> None:
    command = ("-m", "waystation", "tasks", "work", "shop:tasks", "mail", "numbers")
    async with Queue("mail", redis_url) as mail, Queue("numbers", redis_url) as numbers:
        with running(
            place, *command, "--processes", "2", WAYSTATION_STORE__URL=redis_url
        ) as worker:
            async with asyncio.timeout(LIMIT_S):
                while len(await mail.workers()) < 2:
                    await asyncio.sleep(0.05)
            job = await mail.add("send", {"to": "ada"})
            assert await numbers.wait(await mail.wait(job.id, LIMIT_S), LIMIT_S) == 6
            assert await worker.stop() == 0


@pytest.mark.slow
async def test_payloads_without_a_job_are_swept(place: Path, redis_url: str) -> None:
    (place / "blobs" / "mail").mkdir(parents=True)
    (place / "blobs" / "mail" / ("0" * 32)).write_text("{}")
    (place / "shop.py").write_text(f"{MODULE}\n{SEALED}".replace("redis://there", redis_url))

    outputs = [run(place, "sweep", "shop:sealed", *words).stdout for words in SWEEPS]

    assert outputs == ["0 deleted\n", "1 would be deleted\n", "1 deleted\n", "0 deleted\n"]
    assert "no blobs" in run(place, "sweep", "shop:tasks").stderr


SEALED = """
from waystation.tasks import PayloadOptions

sealed = Tasks("redis://there", payloads=PayloadOptions(blobs="blobs"))


@sealed.task(queue="mail")
async def sealed_send(to: str) -> None: ...
"""
SWEEPS = [(), ("--older", "0s", "--dry-run"), ("--older", "0s"), ("--older", "0s")]
