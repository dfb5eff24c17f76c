"""A redrive counts a job as completed, or as failed again, only where something says so."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.console.harness import ConsoleApi
from tests.support.patience import limit
from waystation import routing
from waystation.bullmq import Job, JobOptions, Queue, Worker
from waystation.console.actions.runs import Mode, Redrive
from waystation.errors import Unrecoverable

TOTAL = 12


async def _redrive(
    api: ConsoleApi, ids: list[str], product: str = "bullmq", name: str = "shop"
) -> Redrive:
    console = api.app.console
    queue = await console.directory.find(product, name)
    drive = console.redrives.start(queue, "any", Mode.ALL, ids, by="ada")
    async with asyncio.timeout(limit(60)):
        while drive.state == "running":
            await asyncio.sleep(0.02)
    return drive


@asynccontextmanager
async def _failed(api: ConsoleApi, count: int = TOTAL) -> AsyncGenerator[tuple[Queue, list[str]]]:
    async with Queue("shop", api.store) as queue:
        jobs = await queue.add_many([("bill", {}, JobOptions(attempts=1)) for _ in range(count)])
        ids = [job.id for job in jobs]
        await queue.cancel(*ids)
        yield queue, ids


async def test_jobs_that_fail_again_and_are_not_kept_stop_a_redrive(api: ConsoleApi) -> None:
    ran: list[str] = []

    async def breaks(job: Job) -> None:
        ran.append(job.id)
        raise ValueError("no currency")

    async with (
        _failed(api) as (_, ids),
        Worker("shop", breaks, api.store, remove_on_fail=True),
    ):
        drive = await _redrive(api, ids)
    assert (drive.state, drive.gone) == ("relapsed", 0)
    # It looks on no longer once one has failed, and no job after the first five has followed.
    assert 0 < drive.failed <= len(ran) <= 5


async def test_jobs_that_are_completed_and_not_kept_count_as_completed(api: ConsoleApi) -> None:
    async def works(job: Job) -> None: ...

    async with (
        _failed(api) as (_, ids),
        Worker("shop", works, api.store, remove_on_complete=True),
    ):
        drive = await _redrive(api, ids)
    assert (drive.state, drive.completed, drive.gone) == ("done", TOTAL, 0)


async def test_a_redrive_of_which_nothing_says_how_it_goes_leaves_the_rest_alone(
    api: ConsoleApi,
) -> None:
    async def works(job: Job) -> None: ...

    async with _failed(api) as (queue, ids):
        for id in ids[:5]:
            await queue.remove(id)
        async with Worker("shop", works, api.store):
            drive = await _redrive(api, ids)
        assert (drive.state, drive.completed, drive.gone) == ("unseen", 0, 5)
        assert (await queue.counts("failed"))["failed"] == TOTAL - 5


async def test_what_has_completed_meanwhile_is_not_run_again(api: ConsoleApi) -> None:
    ran: list[str] = []

    async def works(job: Job) -> None:
        ran.append(job.id)

    async with _failed(api, 3) as (queue, ids), Worker("shop", works, api.store):
        await queue.retry(ids[0])
        await queue.wait(ids[0], timeout=limit(30))
        drive = await _redrive(api, ids)
    assert (drive.state, drive.released, drive.completed) == ("done", 2, 3)
    assert sorted(ran) == sorted(ids)


async def test_a_routed_job_whose_state_is_over_ends_as_its_event_says(api: ConsoleApi) -> None:
    async def works(job: routing.Job) -> None: ...

    async def breaks(job: routing.Job) -> None:
        raise Unrecoverable("no currency")

    async with routing.Queue(api.store) as queue:
        ended = dict[str, str]()
        async with routing.Worker({"good": works, "bad": breaks}, api.store):
            for type in ("good", "bad"):
                job = await queue.add(type)
                async with asyncio.timeout(limit(30)):
                    while await queue.state(job.id) not in ("completed", "dead", "failed"):
                        await asyncio.sleep(0.02)
                ended[type] = job.id
        gone = await queue.add("good")
        await queue.cancel(gone.id)
        await queue.dead_letters.remove(ended["bad"])
        for id in (*ended.values(), gone.id):
            await api.store.ask("DEL", queue.keys.of(id).status)
        seen = await (await api.app.console.directory.find("routing", "bridge")).settled(
            [ended["good"], gone.id, "never"]
        )
    assert seen == {ended["good"]: "completed", gone.id: "gone", "never": "gone"}
