"""The types of the public interface, as a type checker sees them in a user's program."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from collections.abc import Sequence

from waystation.bullmq import Job, Queue, SyncJob, Worker, WorkerOptions


class Letter(dict[str, str]): ...


async def send(job: Job[Letter, int]) -> int:
    return len(job.data["to"])


def together(jobs: Sequence[SyncJob]) -> list[int]:
    return [len(job.id) for job in jobs]


def number(n: int) -> int:
    return n


async def main(queue: Queue) -> None:
    Worker("mail", together, batch=5)
    Worker("mail", {"send": send, "each": lambda job: job.id})
    Worker("mail", number)
    await queue.add("send", {}, attemps=5)
    await queue.schedulers.upsert("s", every=5)
    worker = Worker("mail", send, concurency=5)
    Worker("mail", send, options=WorkerOptions(concurrency=5), lease=60)
    worker.on("completed", lambda: None)
    worker.on("complete", print)
    worker.on("failed", lambda job, error: print(job.id, error.args))
    found: Job[Letter, int] | None = await queue.get_job("17")
    if found:
        text: str = found.result
"""


def test_mistakes_in_a_program_are_found(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, program],
        capture_output=True,
        check=False,
    )

    lines = PROGRAM.splitlines()
    found: set[str] = {
        lines[each["range"]["start"]["line"]].strip()
        for each in json.loads(done.stdout)["generalDiagnostics"]
        if each["severity"] == "error"
    }
    assert found == {
        'Worker("mail", number)',
        'await queue.add("send", {}, attemps=5)',
        'await queue.schedulers.upsert("s", every=5)',
        'worker = Worker("mail", send, concurency=5)',
        'worker.on("completed", lambda: None)',
        'worker.on("complete", print)',
        "text: str = found.result",
    }
