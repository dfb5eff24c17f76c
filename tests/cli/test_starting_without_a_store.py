"""Commands that start while the store is away."""

from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.ports import free_port
from tests.support.processes import running
from waystation.bullmq import Queue
from waystation.core.store.embedded import Ephemeral

BULLMQ = ("bullmq", "work", "shop:send", "mail")
COMMANDS = {
    "bullmq": BULLMQ,
    "routing": ("routing", "work", "shop:send", "--type", "send"),
    "scheduler": ("routing", "scheduler"),
    "files": ("files", "--role=worker"),
    "exporter": ("exporter", "mail", "--port", "0"),
}


async def test_a_worker_waits_for_its_store(own_server: Ephemeral, tmp_path: Path) -> None:
    own_server.kill()
    (tmp_path / "shop.py").write_text("def send(job):\n    return 'sent'\n")
    url = own_server.url
    with running(tmp_path, "-m", "waystation", *BULLMQ, WAYSTATION_STORE__URL=url) as process:
        await process.until(lambda process: process.events("store_unreachable"))
        own_server.restart()
        await process.until(lambda process: process.events("store_back"))
        async with Queue("mail", url) as queue:
            job = await queue.add("send")
            assert await job.wait() == "sent"
        assert await process.stop() == 0


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_a_signal_ends_the_wait(command: tuple[str, ...], tmp_path: Path) -> None:
    handler = "from waystation import files\n@files.handler('**/*')\ndef send(job): ...\n"
    (tmp_path / "shop.py").write_text(handler)
    environ = {
        "WAYSTATION_STORE__URL": f"redis://127.0.0.1:{free_port()}",
        "WORKER_HANDLERS": "shop",
        "OBSERVABILITY_METRICS_PORT": "0",
    }
    with running(tmp_path, "-m", "waystation", *command, **environ) as process:
        await process.until(lambda process: "store_unreachable" in process.text)
        assert await process.stop() == 0
    assert "Traceback" not in process.text


def test_a_store_that_stays_away_is_told_from_wrong_usage(
    waystation: Command, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text("def send(job):\n    return 'sent'\n")
    away = f"redis://127.0.0.1:{free_port()}"
    for command in (("bullmq", "counts", "mail"), (*BULLMQ, "--wait", "10ms")):
        ended = waystation(*command, WAYSTATION_STORE__URL=away)
        assert ended.returncode == 69
        assert f"no store answers at {away}" in ended.stderr
    assert waystation(*BULLMQ, "--wait", "soon", WAYSTATION_STORE__URL=away).returncode == 2
