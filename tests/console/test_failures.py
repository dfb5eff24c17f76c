"""Failures come in groups, and a group is run again with care."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.console import harness
from tests.console.harness import ConsoleApi
from tests.pipeline.rounds import history_at
from tests.support.patience import limit
from waystation.bullmq import Job, JobOptions, Queue, Worker
from waystation.bullmq.redis.keys import QueueKeys
from waystation.console.actions import failures, runs
from waystation.console.actions.runs import Bulk, Mode
from waystation.core.runtime.loop import Loop
from waystation.pipeline import runner
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import FAILURES

NAMES = ("send", "bill", "index", "resize", "notify")


async def _until(condition: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(limit(60)):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
    return found


class Shop:
    """Five handlers, of which a deploy may break one."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.broken: str | None = None
        self.runs = 0

    async def handle(self, job: Job) -> None:
        self.runs += 1
        if job.name == self.broken:
            raise ValueError(f"order {job.data['order']} has no currency")

    async def work(self, count: int) -> None:
        """Let that many jobs of each name be worked on."""
        before = await self._ended()
        for number in range(count):
            for name in NAMES:
                await self.queue.add(name, {"order": number}, attempts=1)

        async def all_ended() -> bool:
            return await self._ended() >= before + count * len(NAMES)

        await _until(all_ended)

    async def _ended(self) -> int:
        return sum((await self.queue.counts("completed", "failed")).values())


async def _group(api: ConsoleApi) -> dict[str, Any]:
    api.app.console.failures.forget()
    await api.app.console.sampler.take()
    [group] = (await api.get("failures"))["groups"]
    return group


async def _redrive(api: ConsoleApi, group: dict[str, Any], mode: str) -> dict[str, Any]:
    body = {"group": group["id"], "mode": mode}
    started = await api.post("queues/bullmq/shop/redrives", body, status=202)

    async def ended() -> Any:
        answer = await api.get(f"redrives/{started['id']}")
        return answer if answer["state"] != "running" else None

    return await _until(ended)


async def test_a_redrive_counts_what_it_released_and_what_is_gone(api: ConsoleApi) -> None:
    """One whose jobs somebody removes meanwhile has not completed them."""
    async with Queue("shop", api.store) as queue:
        ids = [(await queue.add("bill")).id for _ in range(3)]
        await queue.cancel(*ids)
        await queue.remove(ids[0])
        console = api.app.console
        drive = console.redrives.start(
            await console.directory.find("bullmq", "shop"), "any", Mode.ALL, ids, by="ada"
        )

        async def released() -> bool:
            return drive.released > 0

        await _until(released)
        for id in ids[1:]:
            await queue.remove(id)

        async def ended() -> bool:
            return drive.state != "running"

        await _until(ended)
    assert (drive.total, drive.released, drive.completed, drive.gone) == (3, 2, 0, 3)
    kept = (await api.get("redrives"))["redrives"]
    assert [each["gone"] for each in kept] == [3]


async def test_only_so_many_runs_are_remembered_and_the_rest_are_counted(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "KEPT", 2)
    kept = api.app.console.bulks

    async def nothing(run: Bulk) -> None: ...

    for _ in range(4):
        run = kept.begin(Bulk(by="ada", action="retry", q="a", matched=0, beyond=False), nothing)

        async def ended(run: Bulk = run) -> bool:
            return run.state != "running"

        await _until(ended)
    answer = await api.get("search/runs")
    assert (len(answer["runs"]), answer["forgotten"]) == (2, 2)


@pytest.mark.slow
async def test_an_incident_from_the_first_failure_to_a_clean_ledger(
    redis_url: str, tmp_path: Path
) -> None:
    """A deploy breaks one handler among five; it is seen, tried, mended, and all is run again."""
    options = msgspec.structs.replace(harness.ADMIN, history=str(tmp_path))
    async with (
        harness.api(redis_url, options) as api,
        _measured(api),
        Queue("shop", api.store) as queue,
    ):
        shop = Shop(queue)
        async with Worker("shop", shop.handle, api.store, concurrency=5):
            await shop.work(2)
            assert (await api.get("failures"))["groups"] == []

            shop.broken = "bill"
            await shop.work(30)

            async def seen() -> Any:
                # As a page does: it only asks again and again.
                groups = (await api.get("failures"))["groups"]
                return groups if groups and groups[0]["count"] == 30 else None

            [group] = await _until(seen)
            assert (group["name"], group["error"], group["count"]) == ("bill", "ValueError", 30)
            assert group["signature"] == "order <n> has no currency"
            assert sum(group["trend"]) == 30
            assert len(group["examples"]) == 5

            runs = shop.runs
            canary = await _redrive(api, group, "canary")
            assert (canary["state"], canary["released"]) == ("relapsed", 5)
            relapsed = await _redrive(api, group, "all")
            assert (relapsed["state"], relapsed["released"]) == ("relapsed", 5)
            assert shop.runs == runs + 10

            shop.broken = None
            mended = await _redrive(api, await _group(api), "all")
            assert (mended["state"], mended["completed"], mended["failed"]) == ("done", 30, 0)
            counts = await queue.counts()

        history = history_at(str(tmp_path))
        await asyncio.to_thread(runner.run, history, RunOptions(events=EventOptions(url=redis_url)))
        [account] = (await api.get("history/ledger"))["rows"]
    # The history groups as the console does.
    past = delta.read_arrow(history.root, FAILURES, ("fingerprint", "signature")).to_pylist()
    assert past == [{name: group[name] for name in ("fingerprint", "signature")}]
    assert counts["failed"] == 0
    assert counts["completed"] == 32 * len(NAMES)
    assert (account["added"], account["ended"]) == (32 * len(NAMES), 32 * len(NAMES))
    assert (account["lost"], account["twice"], account["clean"]) == (0, 0, True)


@asynccontextmanager
async def _measured(api: ConsoleApi) -> AsyncGenerator[None]:
    """Queues are found and measured as often as `waystation console` does it."""
    console = api.app.console
    loop = Loop(console.sampler.take_if_due, every_s=console.options.every_s)
    measuring = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        measuring.cancel()
        await asyncio.gather(measuring, return_exceptions=True)


async def test_a_redrive_counts_before_it_begins_and_can_be_stopped(api: ConsoleApi) -> None:
    async with Queue("shop", api.store) as queue:
        shop = Shop(queue)
        shop.broken = "bill"
        async with Worker("shop", shop.handle, api.store):
            await shop.work(7)
        group = await _group(api)
        for mode, count in (("one", 1), ("canary", 5), ("all", 7)):
            body = {"group": group["id"], "mode": mode, "dry_run": True}
            assert await api.post("queues/bullmq/shop/redrives", body) == {"affected": count}
        # No worker is there to end what is released.
        body = {"group": group["id"], "mode": "all", "expected": 7}
        started = await api.post("queues/bullmq/shop/redrives", body, status=202)
        stopped = await api.here.delete(f"/api/v1/redrives/{started['id']}")
        assert stopped.json()["state"] == "stopped"
        body["expected"] = 1
        refused = await api.post("queues/bullmq/shop/redrives", body, status=412)
        assert refused["code"] == "CHANGED_MEANWHILE"


async def test_errors_that_differ_in_their_words_are_groups_of_their_own(api: ConsoleApi) -> None:
    async def handle(job: Job) -> None:
        if job.data["n"] % 3:
            raise ConnectionError(f"connect to 10.0.0.{job.data['n']} refused")
        raise TimeoutError(f"no answer after {job.data['n']} s")

    async with Queue("shop", api.store) as queue:
        async with Worker("shop", handle, api.store):
            for n in range(12):
                await queue.add("call", {"n": n}, attempts=1)

            async def all_failed() -> bool:
                return (await queue.counts("failed"))["failed"] == 12

            await _until(all_failed)
        await api.app.console.sampler.take()
        groups = (await api.get("failures?product=bullmq&queue=shop"))["groups"]
    found = {(each["error"], each["signature"]): each["count"] for each in groups}
    assert found == {
        ("ConnectionError", "connect to <address> refused"): 8,
        ("TimeoutError", "no answer after <n> s"): 4,
    }


async def test_a_group_that_may_be_larger_than_what_was_looked_at_says_so(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PER_QUEUE", 4)

    async def refuses(job: Job) -> None:
        raise ValueError("no such card")

    async with Queue("many", api.store) as many, Queue("some", api.store) as some:
        for queue, count in ((many, 5), (some, 4)):
            await queue.add_many([("pay", {}, JobOptions(attempts=1)) for _ in range(count)])
        async with Worker("many", refuses, api.store), Worker("some", refuses, api.store):
            for queue, count in ((many, 5), (some, 4)):

                async def ended(queue: Queue = queue, count: int = count) -> bool:
                    return (await queue.counts("failed"))["failed"] == count

                await _until(ended)
    await api.app.console.sampler.take()
    found = await api.get("failures")
    counts = {each["queue"]: (each["count"], each["is_complete"]) for each in found["groups"]}
    assert counts == {"many": (4, False), "some": (4, True)}
    assert found["complete"] is False


async def test_every_failure_is_counted_once_also_around_ids_without_a_job(
    api: ConsoleApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PAGE", 5)
    keys = QueueKeys("mail")
    await api.store.ask("HSET", keys.meta, "version", "bullmq:5")
    fields = ("name", "send", "data", "{}", "opts", "{}", "timestamp", 1, "failedReason", "no")
    for number in range(20):
        await api.store.ask("ZADD", keys.failed, number + 1, f"job{number}")
        if number != 18:  # an id without a job
            ended = () if number == 12 else ("finishedOn", number + 1)
            await api.store.ask("HSET", keys.of(f"job{number}").job, *fields, *ended)
    (group,) = (await api.get("failures?product=bullmq&queue=mail"))["groups"]
    assert group["count"] == 18
