"""Failures in a program of one's own: in the log of the program, and in Sentry, by default."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S
from waystation import bullmq

HANDLER = """
import asyncio, sys
url, place = sys.argv[1:]

def charge(job):
    return {"name": "ada"}["email"]

async def until_ended(worker, ended):
    async with worker:
        while not await ended():
            await asyncio.sleep(0.01)
"""
PROGRAMS = {
    "bullmq": """
from waystation.bullmq import (Queue, Worker)

async def main():
    async with Queue("mail", url) as queue:
        job = await queue.add("send", attempts=2, backoff=1)
        async def ended():
            return (await queue.counts())["failed"]
        await until_ended(Worker("mail", charge, url), ended)
""",
    "routing": """
from waystation.routing import BackoffRule, Queue, Retry, Worker

async def main():
    async with Queue(url) as queue:
        retry = Retry(attempts=2, backoff=BackoffRule(type="fixed", delay=0.001))
        job = await queue.add("mail", {}, retry=retry)
        async def ended():
            return await queue.state(job.id) == "dead"
        await until_ended(Worker({"mail": charge}, url), ended)
""",
    "files": """
from pathlib import Path
from waystation.files import (Handlers, Queue, WorkerOptions, Worker)
handlers = Handlers()
handlers.handler("**/*")(charge)

async def main():
    path = Path(place) / "mail.txt"
    path.write_text("mail")
    work = WorkerOptions(max_retries=1, backoff=0.001, backoff_max=0.001)
    async with Queue(url) as queue:
        await queue.add(path)
        async def ended():
            return (await queue.lengths())[queue.keys.dead_letter]
        await until_ended(Worker(handlers, url, options=work), ended)
""",
}
SENTRY = """
import json, sentry_sdk
from sentry_sdk.transport import Transport

class Printed(Transport):
    def capture_envelope(self, envelope):
        event = envelope.get_event()
        if event:
            print(json.dumps(event, default=str), flush=True)

# Every framework that is installed would be imported to be watched, which takes ten seconds.
sentry_sdk.init(dsn="http://key@127.0.0.1/1", transport=Printed, auto_enabling_integrations=False)
"""


def run(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{HANDLER}{program}\nasyncio.run(main())", *args],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_without_any_configuration_failures_are_on_stderr(
    program: str, redis_url: str, tmp_path: Path
) -> None:
    retried, failed, *trace = run(program, redis_url, str(tmp_path)).stderr.splitlines()
    assert retried.startswith("job_retried ")
    assert failed.startswith("job_failed ")
    assert "error_class=KeyError" in retried
    assert " queue=" in failed
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[1].endswith("in charge")
    assert trace[-1] == "KeyError: 'email'"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(PROGRAMS["bullmq"], id="bullmq"),
        pytest.param(PROGRAMS["routing"], id="routing", marks=pytest.mark.long),
        pytest.param(PROGRAMS["files"], id="files", marks=pytest.mark.long),
    ],
)
def test_sentry_sees_the_final_failure(program: str, redis_url: str, tmp_path: Path) -> None:
    (line,) = run(SENTRY + program, redis_url, str(tmp_path)).stdout.splitlines()
    event = json.loads(line)
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("KeyError", "'email'")
    assert [frame["function"] for frame in error["stacktrace"]["frames"]] == ["charge"]
    assert event["level"] == "error"
    assert event["logentry"]["message"].startswith("job_failed ")
    assert event["extra"]["job_id"]


async def test_the_reason_of_a_key_error_begins_with_its_class(redis_url: str) -> None:
    async def charge(job: bullmq.Job) -> None:
        _ = {"name": "ada"}[job.data]

    async with (
        bullmq.Queue("mail", redis_url) as queue,
        bullmq.Worker("mail", charge, redis_url),
    ):
        job = await queue.add("send", "email", attempts=1)
        with pytest.raises(bullmq.JobFailed, match=r"^KeyError: 'email'$"):
            await job.wait()
        stored = await queue.get_job(job.id)
    assert stored is not None
    assert stored.failed_reason == "KeyError: 'email'"
    head, first, *_ = stored.stacktrace[0].splitlines()
    assert head == "Traceback (most recent call last):"
    assert first.endswith("in charge")
