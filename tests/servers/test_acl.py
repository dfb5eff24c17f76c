"""The ACL on the page about production: a user with it can add and work, and touch nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from tests.support.patience import LIMIT_S
from tests.support.project import ROOT
from waystation import bullmq, files, routing
from waystation.core.store.embedded import Ephemeral

PAGE = ROOT / "docs/how-to/run-in-production.md"


async def works(job: Any) -> str:
    return "done"


async def use_bullmq(url: str, home: Path) -> None:
    async with bullmq.Queue("mail", url) as queue, bullmq.Worker("mail", works, url):
        job = await queue.add("send")
        assert await queue.wait(job.id, LIMIT_S) == "done"
        await queue.pause()
        await queue.resume()


async def use_routing(url: str, home: Path) -> None:
    async with routing.Queue(url) as queue, routing.Worker({"send": works}, url):
        job = await queue.add("send")
        assert await queue.wait(job.id, LIMIT_S) == "done"


async def use_files(url: str, home: Path) -> None:
    (home / "a").write_text("a")
    async with files.Queue(url) as queue, files.Worker(works, url):
        job = await queue.add(home / "a")
        assert job is not None
        await queue.wait(job.id, LIMIT_S)


def rules(prefix: str) -> list[str]:
    """The user that the page shows, with this prefix."""
    found = re.search(r"^ACL SETUSER shop (.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found
    words = found[1].replace("\\\n", " ").split()
    return [word.replace("~bull:*", f"~{prefix}:*") for word in words]


@pytest.mark.parametrize(
    ("prefix", "use"),
    [("bull", use_bullmq), ("bridge", use_routing), ("jobqueue", use_files)],
)
async def test_the_user_of_the_page_can_work_and_nothing_else(
    own_server: Ephemeral, tmp_path: Path, prefix: str, use: Any
) -> None:
    admin: Any = Redis.from_url(own_server.url)
    await admin.execute_command("ACL", "SETUSER", "shop", *rules(prefix))
    await admin.execute_command("ACL", "LOG", "RESET")
    url = own_server.url.replace("redis://", "redis://shop:secret@")

    await use(url, tmp_path)

    assert await admin.execute_command("ACL", "LOG") == []
    user: Any = Redis.from_url(url)
    for command in (
        ("GET", "elsewhere"),
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("CONFIG", "SET", "a", "b"),
    ):
        with pytest.raises(NoPermissionError):
            await user.execute_command(*command)
    await user.aclose()
    await admin.aclose()
