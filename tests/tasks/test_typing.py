"""The types of tasks, as a type checker sees them in a user's program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mistakes import planted

PROGRAM = """
from collections.abc import AsyncIterator
from waystation.bullmq import Job
from waystation.tasks import Next, Tasks, depends

tasks = Tasks()


class Mailer:
    def send(self, to: str) -> int:
        return len(to)


async def open_mailer() -> AsyncIterator[Mailer]:
    yield Mailer()


@tasks.task(queue="mail", retries=5, timeout=30)
async def send(to: str, copies: int = 1, mailer: Mailer = depends(open_mailer)) -> int:
    return mailer.send(to) * copies


@tasks.task()
def shout(text: str) -> str:
    return text.upper()


@tasks.task
async def count(words: list[str]) -> int:
    return len(words)


@tasks.task
def half(n: int) -> float:
    return n / 2


@tasks.middleware
async def timed(job: Job, call_next: Next) -> object:
    return await call_next()


async def good() -> None:
    job = await send.add(to="ada", copies=2)
    length: int = await job.result()
    length = await send.call("ada")
    length = await send("ada", mailer=Mailer())
    loud: str = shout("hello")
    await send.add_many([send.bind(to="ada"), send.bind("bob")])
    await send.with_options(delay=60).add(to="ada")
    length = await count(["a"]) + await count.call(["b"])
    part: float = half(3) + await (await half.add(4)).result()
    print(length, loud, part)


@tasks.task("mail")  # mistake
async def positional() -> None: ...


@tasks.task(queu="mail")  # mistake
async def queu() -> None: ...


@tasks.task(retries="5")  # mistake
async def retries() -> None: ...


@tasks.task()
async def wrong(mailer: str = depends(open_mailer)) -> None: ...  # mistake


@tasks.middleware  # mistake
async def one_argument(job: Job) -> object:
    return job


async def bad() -> None:
    await send.add(too="ada")  # mistake
    await send.add(to=7)  # mistake
    await send.add()  # mistake
    send.bind("ada", "two")  # mistake
    await send.with_options(attemps=5).add(to="ada")  # mistake
    text: str = await send.call(to="ada")  # mistake
    number: int = shout("hello")  # mistake
    await send.add_many([shout.bind("hello")])  # mistake
    (await shout.add("hello")).results()  # mistake
    await count.add("a")  # mistake
    words: str = await count(["a"])  # mistake
    whole: int = half(3)  # mistake
    await half.add(n="3")  # mistake
    print(text, number, words, whole)
"""


@pytest.mark.slow
def test_pyright_finds_every_mistake_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')

    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    complaints = json.loads(done.stdout)["generalDiagnostics"]
    found = {each["range"]["start"]["line"] + 1 for each in complaints}
    assert found == planted(PROGRAM)
