"""What the user's own code logs under a `work` command."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import Process, running
from waystation import bullmq, routing

SHOP = """
import logging
logging.basicConfig(level=logging.DEBUG, format="own format: %(message)s")
log = logging.getLogger("shop")

def send(job):
    log.info("sending to %s order %d", "ada", 7, extra={"cart": {"items": 2}})
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("charge failed for %s", "ada")
    return {"name": "ada"}["email"]
"""
FILES = "\nfrom waystation import files\nfiles.handler('**/*')(send)\n"


@asynccontextmanager
async def bullmq_worker(
    url: str, place: Path, *args: str, **environ: str
) -> AsyncGenerator[Process]:
    command = ("-m", "waystation", "bullmq", "work", "shop:send", "mail", *args)
    async with bullmq.Queue("mail", url) as queue:
        await queue.add("send", attempts=1)
        with running(place, *command, WAYSTATION_STORE__URL=url, **environ) as process:
            yield process


@asynccontextmanager
async def routing_worker(url: str, place: Path, **environ: str) -> AsyncGenerator[Process]:
    command = ("-m", "waystation", "routing", "work", "shop:send", "--type", "send")
    async with routing.Queue(url) as queue:
        await queue.add("send", {}, routing.JobOptions(retry=routing.Retry(attempts=1)))
        with running(place, *command, WAYSTATION_STORE__URL=url, **environ) as process:
            yield process


@asynccontextmanager
async def files_worker(url: str, place: Path, **environ: str) -> AsyncGenerator[Process]:
    (place / "files.yaml").write_text(
        "worker: {handlers: shop, max_retries: 0}\n"
        "producer: {scan_dir: in}\n"
        "observability: {metrics_port: 0}\n"
    )
    (place / "in").mkdir()
    (place / "in" / "a.txt").write_text("a")
    command = ("-m", "waystation", "files", "--role=all", "--config=files.yaml")
    with running(place, *command, WAYSTATION_STORE__URL=url, **environ) as process:
        yield process


Start = Callable[..., AbstractAsyncContextManager[Process]]


@pytest.mark.parametrize("start", [bullmq_worker, routing_worker, files_worker])
async def test_lines_of_handlers_are_written_whole_and_once(
    start: Start, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP + (FILES if start is files_worker else ""))
    async with start(redis_url, tmp_path, WAYSTATION_TELEMETRY__LOG_FORMAT="json") as process:
        await process.until(lambda process: process.events("job_failed"))
        assert await process.stop() == 0
    sent, charged = of_shop(process)
    assert (sent["msg"], sent["cart"]) == ("sending to ada order 7", {"items": 2})
    assert charged["msg"] == "charge failed for ada"
    assert charged["traceback"].endswith("ZeroDivisionError: division by zero")
    assert "own format" not in process.text
    (failed,) = process.events("job_failed")
    assert (failed["level"], failed["error_class"]) == ("error", "KeyError")
    assert failed["traceback"].splitlines()[1].endswith("in send")
    for event in ("worker_started", "stop_requested", "worker_stopped"):
        assert len(process.events(event)) == 1


async def test_lines_for_people_hold_the_same(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    console = {"WAYSTATION_TELEMETRY__LOG_FORMAT": "console"}
    async with bullmq_worker(redis_url, tmp_path, **console) as process:
        await process.until(lambda process: "division by zero\n" in process.text)
        assert await process.stop() == 0
    assert process.text.count("sending to ada order 7 cart=") == 1
    assert process.text.count("charge failed for ada") == 1
    assert process.text.count("ZeroDivisionError: division by zero") == 1


async def test_handlers_in_processes_log_like_the_others(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    async with bullmq_worker(redis_url, tmp_path, "--process") as process:
        await process.until(lambda process: of_shop(process)[1:])
        assert await process.stop() == 0
    assert [line["msg"] for line in of_shop(process)] == [
        "sending to ada order 7",
        "charge failed for ada",
    ]


async def test_a_configuration_that_replaces_ours_is_left_alone(
    redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace("DEBUG,", "DEBUG, force=True,"))
    async with bullmq_worker(redis_url, tmp_path) as process:
        await process.until(lambda process: "division by zero\n" in process.text)
        assert await process.stop() == 0
    assert process.text.count("own format: sending to ada order 7") == 1
    assert process.text.count("sending to ada order 7") == 1


def of_shop(process: Process) -> list[dict[str, Any]]:
    return [line for line in process.lines if line["logger"] == "shop"]
