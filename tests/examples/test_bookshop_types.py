"""The bookshop under mypy and pyright, both strict: they find what is wrong, and nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mistakes import planted
from tests.support.project import ROOT

SHOP = ROOT / "examples/bookshop"
PROGRAM = """
from datetime import timedelta

from sqlalchemy.orm import Session

from examples.bookshop import warehouse
from examples.bookshop.database import engine, outbox
from examples.bookshop.tasks import Mailer, fulfil, mail, receive, tasks
from waystation.bullmq import Job, PayloadOptions, Queue, SyncJob, Worker
from waystation.sync import Queue as BlockingQueue
from waystation.tasks import Tasks, depends
from waystation.testing import Drill, MemoryJob, Sandbox, run_jobs, sandbox


@tasks.task
async def weigh(parcel: str) -> float:
    return len(parcel) / 2


@tasks.task
def count(parcels: list[str]) -> int:
    return len(parcels)


async def send(job: Job) -> str:
    return job.id


async def good(job: Job, queue: Queue, box: Sandbox) -> None:
    added = await fulfil.add("7", "ada@example.org")
    parcel: str = await added.result(timeout=10)
    parcel = await job.step("ship", warehouse.ship, "7")
    await job.sleep(timedelta(days=14))
    await queue.signal(added.id, "paid", {"cents": 700})
    await mail.with_options(delay=timedelta(hours=1), priority=2).add(to=parcel, text="")
    nothing: None = receive.sync.call("D-1", "978-0", 12)
    box.handle(tasks)
    box.handle("mail", {"mail": lambda job: "sent"})
    with Session(engine) as session:
        outbox.add_call(session, mail.bind("ada", text="hello"))
    print(nothing, Drill(receive.bind("D-1", "978-0", 12)), Mailer())
    grams: float = await weigh.call("parcel-1") + await weigh("parcel-2")
    many: int = count(["parcel-1"]) + await (await count.add([])).result()
    grams = await weigh.call_in(job, "parcel-3")
    await job.sleep(days=3, hours=12)
    await job.wait_for("paid", timeout=timedelta(days=2))
    async with sandbox() as own:
        await own.advance(weeks=1)
        (added_here,) = await own.assert_added("mail", "mail", count=1)
        await added_here.refresh()
    sealed = PayloadOptions(keys="k1=", blobs="/srv/shop", above=1000)
    async with Queue("mail", payloads=sealed), Worker("mail", send, payloads=sealed):
        (done,) = await run_jobs(send, MemoryJob({"to": "ada"}))
    print(grams, many, done.result, Tasks(payloads=sealed))


def good_plainly(job: SyncJob, queue: BlockingQueue) -> None:
    parcel: str = job.step("ship", warehouse.ship, "7")
    weight: float = weigh.call_in(job, parcel)
    job.sleep(timedelta(days=weight))
    queue.signal("7", "paid", {"cents": 700})
    for part in queue.stream("7"):
        print(part.id, part.data)
    with sandbox() as box:
        box.handle(tasks)
        box.run_all()
        (added,) = box.assert_added("mail", "mail", {"to": parcel}, count=1)
        added.refresh()


def bad_plainly(job: SyncJob, queue: BlockingQueue) -> None:
    job.step("ship", warehouse.ship, 7)  # mistake
    number: int = job.step("ship", warehouse.ship, "7")  # mistake
    job.sleep(day=3)  # mistake
    job.on_failure("release", warehouse.release)  # mistake
    queue.signal("7")  # mistake
    for part in queue.stream(7):  # mistake
        print(part.dat)  # mistake
    with sandbox() as box:
        box.handle("mail")  # mistake
        box.advance(day=3)  # mistake
        box.fail("mail")  # mistake
        box.assert_added("mail", count=1)  # mistake
        box.run_all(timeout="soon")  # mistake
        (added,) = box.added("mail", "mail")
        added.refreshed()  # mistake
    print(number)


async def bad_lately(job: Job, queue: Queue, box: Sandbox) -> None:
    await job.sleep(day=3)  # mistake
    await job.sleep("soon")  # mistake
    await job.wait_for("paid", timeout="soon")  # mistake
    await queue.signal(7, "paid")  # mistake
    await box.advance(day=3)  # mistake
    box.run_all()  # mistake
    await box.fail("mail", "mail")  # mistake
    PayloadOptions(key="k1=")  # mistake
    PayloadOptions("k1=")  # mistake
    Queue("mail", payloads="k1=")  # mistake
    Worker("mail", send, payload=None)  # mistake
    Tasks(payloads={"keys": "k1="})  # mistake
    await run_jobs(send, {"to": "ada"})  # mistake
    await weigh.add(7)  # mistake
    text: str = await weigh("parcel-1")  # mistake
    text = await weigh.call_in(job, "parcel-1")  # mistake
    await weigh.call_in(job, 7)  # mistake
    await weigh.call_in("7", "parcel-1")  # mistake
    count.sync.add("parcel-1", 2)  # mistake
    await fulfil.add_many([weigh.bind("parcel-1")])  # mistake
    print(text)


@tasks.task("mail")  # mistake
async def positional() -> None: ...


async def bad(job: Job, queue: Queue, blocking: BlockingQueue, box: Sandbox) -> None:
    await fulfil.add(7, "ada@example.org")  # mistake
    await fulfil.add("7")  # mistake
    await mail.add(to="ada", txt="hello")  # mistake
    number: int = await (await fulfil.add("7", "ada")).result()  # mistake
    receive.sync.add("D-1", "978-0", "12")  # mistake
    mail.bind("ada")  # mistake
    mail.with_options(delay="soon")  # mistake
    await job.step("ship", warehouse.ship, 7)  # mistake
    count: int = await job.step("ship", warehouse.ship, "7")  # mistake
    job.on_failure("release", warehouse.release)  # mistake
    await queue.add("mail", {}, attemps=5)  # mistake
    await queue.signal("7")  # mistake
    blocking.add("mail", {}, priority="high")  # mistake
    box.handle("mail")  # mistake
    print(number, count)


@tasks.task(queue="mail", retrys=5)  # mistake
async def misspelt() -> None: ...


@tasks.task(queue="mail")
async def confused(mailer: str = depends(Mailer)) -> None: ...  # mistake
"""


@pytest.mark.long
def test_mypy_finds_every_mistake_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mistakes.py").write_text(PROGRAM)
    command = ["--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *command, str(SHOP), str(tmp_path / "mistakes.py")],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^(.+?):(\d+): error: ", done.stdout, re.MULTILINE)
    assert {Path(file).name for file, _ in errors} == {"mistakes.py"}, done.stdout + done.stderr
    assert {int(line) for _, line in errors} == planted(PROGRAM), done.stdout


@pytest.mark.slow
def test_pyright_finds_every_mistake_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mistakes.py").write_text(PROGRAM)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], "include": ["."]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    complaints = json.loads(done.stdout)["generalDiagnostics"]
    found = {each["range"]["start"]["line"] + 1 for each in complaints}
    assert found == planted(PROGRAM), complaints
