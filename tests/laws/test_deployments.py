"""Workers in code that are replaced while a job runs: it is finished, or free at once."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.laws.conftest import LINES
from tests.laws.line import Line
from tests.support.processes import Process, running

HANDLER = """
import asyncio, sys
url, pause_s, grace_s = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])

async def handle(job):
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(pause_s)
    return "done"
"""
WORKERS = {
    "bullmq": """
from waystation.bullmq import Worker
worker = Worker("laws", handle, url, grace=round(grace_s * 1000))
""",
    "routing": """
from waystation.routing import Worker
worker = Worker({"email": handle}, url, grace=grace_s)
""",
    "files": """
from waystation.files import Handlers, Worker
handlers = Handlers()
handlers.handler("**/*")(handle)
worker = Worker(handlers, url, grace=grace_s)
""",
}
RUN = "asyncio.run(worker.run())"

Deploy = Callable[..., AbstractContextManager[Process]]


@pytest.fixture(params=WORKERS)
async def deployed(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path
) -> AsyncGenerator[tuple[Line, Deploy]]:
    def deploy(*, pause_s: float, grace_s: float) -> AbstractContextManager[Process]:
        program = HANDLER + WORKERS[request.param] + RUN
        return running(tmp_path, "-c", program, redis_url, str(pause_s), str(grace_s))

    async with LINES[request.param](redis_url) as line:
        yield line, deploy


async def test_a_worker_in_code_finishes_its_job_when_it_is_told_to_end(
    deployed: tuple[Line, Deploy],
) -> None:
    line, deploy = deployed
    id = await line.add(attempts=1)
    with deploy(pause_s=0.5, grace_s=50) as process:
        await process.until(lambda process: "begun" in process.text)
        assert await process.stop() == 0
    assert await line.state(id) == "completed"
    assert process.text == "begun\n"


@pytest.mark.slow
async def test_replacing_the_worker_during_a_job_again_and_again_costs_it_nothing(
    deployed: tuple[Line, Deploy],
) -> None:
    line, deploy = deployed
    id = await line.add(attempts=1)
    for _ in range(2):
        with deploy(pause_s=3600, grace_s=0) as process:
            await process.until(lambda process: "begun" in process.text)
            assert await process.stop() == 0
        assert await line.state(id) == "waiting"
    with deploy(pause_s=0, grace_s=50) as process:
        await process.until(lambda process: "begun" in process.text)
        assert await process.stop() == 0
    assert await line.state(id) == "completed"
