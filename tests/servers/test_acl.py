"""The ACL on the page about production: a user with it can add and work, and touch nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

from tests.support.patience import LIMIT_S
from tests.support.programs import require_program
from tests.support.project import ROOT
from waystation import bullmq, files, routing
from waystation.console.measures import Live
from waystation.console.why import why
from waystation.core.store import embedded
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral
from waystation.waitingroom.redis.keys import RoomsKeys

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


async def asks_about_everything(url: str, prefix: str) -> None:
    """What is not this user's is left out by name, and nothing else is."""
    others = {"bull:*", "bridge:*", "jobqueue:*", RoomsKeys().every} - {f"{prefix}:*"}
    async with await connect(url) as store:
        [answer] = await why(store, "no such thing")
        assert set(answer.evidence["not_readable"]) == others
        live = Live(store)
        rows = await live.rows()
        assert set(live.forbidden) == others
    assert {row.product for row in rows} <= {"bullmq", "routing", "files"}


def rules(prefix: str) -> list[str]:
    """The user that the page shows, with this prefix."""
    found = re.search(r"^ACL SETUSER shop (.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found
    words = found[1].replace("\\\n", " ").split()
    return [word.replace("~bull:*", f"~{prefix}:*") for word in words]


@pytest.fixture(scope="module", params=["valkey", "redis"])
def server(request: pytest.FixtureRequest) -> Iterator[Ephemeral]:
    """The servers that this machine has: the wheel's, and an older one that knows fewer words."""
    is_redis = request.param == "redis"
    program = require_program("redis-server", package="redis-server") if is_redis else None
    with embedded.ephemeral(program=program) as server:
        yield server


PRODUCTS = [("bull", use_bullmq), ("bridge", use_routing), ("jobqueue", use_files)]


@pytest.mark.parametrize(("prefix", "use"), PRODUCTS)
async def test_the_user_of_the_page_can_work_and_nothing_else(
    server: Ephemeral, tmp_path: Path, prefix: str, use: Any
) -> None:
    admin: Any = Redis.from_url(server.url)
    await admin.execute_command("ACL", "SETUSER", "shop", *rules(prefix))
    await admin.execute_command("ACL", "LOG", "RESET")
    url = server.url.replace("redis://", "redis://shop:secret@")

    await use(url, tmp_path)

    assert await admin.execute_command("ACL", "LOG") == []
    async with bullmq.Queue("mail", server.url) as queue:
        await queue.add("send")
    await asks_about_everything(url, prefix)
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
