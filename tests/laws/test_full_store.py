"""A store whose memory is full takes nothing more, and can still be worked off and cleared."""

import asyncio
from typing import Any

import pytest

from tests.support.patience import LIMIT_S
from waystation import bullmq, files, routing
from waystation.core.errors import StoreBusy
from waystation.core.store.connection import connect
from waystation.core.store.embedded import Ephemeral
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile

MANY = 5
JOBS = [bullmq.NewJob("send")] * MANY


class Handled:
    """A handler that counts, and says when all is done."""

    def __init__(self) -> None:
        self.all = asyncio.Event()
        self._count = 0

    async def __call__(self, job: Any) -> None:
        self._count += 1
        if self._count == MANY:
            self.all.set()


async def fill(server: Ephemeral) -> None:
    """From here on the server has more than it may."""
    async with await connect(server.url) as store:
        await store.redis.config_set("maxmemory", 1)


async def test_bullmq(own_server: Ephemeral) -> None:
    handled = Handled()
    async with bullmq.Queue("mail", own_server.url) as queue:
        await queue.add_many(JOBS)
        await fill(own_server)
        with pytest.raises(StoreBusy, match="OOM"):
            await queue.add("send")

        async with bullmq.Worker("mail", handled, own_server.url), asyncio.timeout(LIMIT_S):
            await handled.all.wait()

        assert await queue.counts("completed", "waiting") == {"completed": MANY, "waiting": 0}


async def test_what_is_too_much_can_be_paused(own_server: Ephemeral) -> None:
    url = own_server.url
    async with (
        bullmq.Queue("mail", url) as mail,
        routing.Queue(url) as jobs,
        files.Queue(url) as inbox,
    ):
        await mail.add_many(JOBS)
        await jobs.add("mail")
        await fill(own_server)
        await mail.pause()
        assert await mail.is_paused()
        assert await jobs.pause("mail")
        assert await jobs.paused_types() == ["mail"]
        assert await inbox.pause("low")
        assert await inbox.paused_priorities() == ["low"]
        await mail.resume()
        assert await jobs.resume("mail")
        assert await inbox.resume("low")


@pytest.mark.parametrize("how", ["drained", "cleaned", "obliterated"])
async def test_a_queue_of_bullmq_is_cleared(own_server: Ephemeral, how: str) -> None:
    async with bullmq.Queue("mail", own_server.url) as queue:
        await queue.add_many(JOBS)
    await fill(own_server)
    # Opened anew: whoever looks after it may come only now.
    async with bullmq.Queue("mail", own_server.url) as queue:
        match how:
            case "drained":
                assert await queue.drain() == MANY
            case "cleaned":
                assert len(await queue.clean(0, state="waiting")) == MANY
            case _:
                await queue.obliterate()
        assert await queue.count() == 0


async def test_stalled_jobs_of_bullmq_are_recovered(own_server: Ephemeral) -> None:
    handled, begun = Handled(), asyncio.Event()

    async def stall(job: Any) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with bullmq.Queue("mail", own_server.url) as queue:
        await queue.add_many(JOBS)
        soon: Any = {"stalled_interval": 0.1}
        worker = bullmq.Worker("mail", stall, own_server.url, lease=1, **soon)
        await worker.start()
        await begun.wait()
        await worker.close(force=True)
        await fill(own_server)
        async with (
            bullmq.Worker("mail", handled, own_server.url, **soon),
            asyncio.timeout(LIMIT_S),
        ):
            await handled.all.wait()


async def test_routing(own_server: Ephemeral) -> None:
    handled = Handled()
    async with routing.Queue(own_server.url) as queue:
        await queue.add_many([routing.NewJob("mail")] * MANY)
        await fill(own_server)
        with pytest.raises(StoreBusy, match="OOM"):
            await queue.add("mail")

        async with routing.Worker({"mail": handled}, own_server.url), asyncio.timeout(LIMIT_S):
            await handled.all.wait()

        assert (await queue.counts())["waiting"] == 0


async def test_files(own_server: Ephemeral) -> None:
    handled, handlers = Handled(), files.Handlers()
    handlers.handler("**/*")(handled)
    async with files.Queue(own_server.url) as queue:
        found = [ScannedFile(f"/inbox/{n}.pdf", 1, n) for n in range(MANY + 1)]
        entries = [entry(queue.keys, file, priority="low", now_ns=1) for file in found]
        await queue.intake.put(entries[:MANY])
        await fill(own_server)
        with pytest.raises(StoreBusy, match="OOM"):
            await queue.intake.put(entries[MANY:])

        async with files.Worker(handlers, own_server.url), asyncio.timeout(LIMIT_S):
            await handled.all.wait()

        assert await queue.counts("completed") == {"completed": MANY}
