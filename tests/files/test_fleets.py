"""Fleets in one database: those with other queues share nothing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.files import fleets
from tests.files.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.errors import InvalidOption
from waystation.files import job as jobs
from waystation.files.handlers import Handlers
from waystation.files.options import Layout, WorkerOptions
from waystation.files.queue import Queue
from waystation.files.redis.keys import FileKeys
from waystation.files.settings import layout, load_files
from waystation.files.worker import Worker

NAMED: list[dict[str, Any]] = [
    {},
    {"queues": {"high": "fleet2:high", "low": "fleet2:low"}},
    {"queues": {"high": "a", "low": "b"}},
    {"queues": {"high": "jobqueue:a", "low": "jobqueue:b"}},
    {"priorities": ("now", "later")},
    {"priorities": ("now", "later"), "queues": {"now": "e", "later": "f"}},
    {"prefix": "fleet3"},
    {"prefix": "{fleet4}"},
    {"prefix": "fleet5", "queues": {"high": "c", "low": "d"}},
]


def test_each_key_belongs_to_exactly_one_fleet() -> None:
    owners: dict[str, int] = {}
    for number, given in enumerate(NAMED):
        keys = FileKeys(Layout(**given), worker="any")
        for key in (*keys.known(), *keys.lanes):
            assert owners.setdefault(key, number) == number, key


@pytest.mark.parametrize("given", [each for each in NAMED if "prefix" not in each])
def test_the_prefix_of_a_fleet_leads_to_its_queues_or_is_refused(given: dict[str, Any]) -> None:
    fleet = Layout(**given)
    if fleet == Layout():
        assert Layout(prefix=fleet.prefix) == fleet
    else:
        with pytest.raises(InvalidOption, match="give queues instead"):
            Layout(prefix=fleet.prefix)
    assert Layout(prefix=fleet.prefix, priorities=fleet.priorities, queues=fleet.queues) == fleet


def test_a_queue_that_would_give_a_fleet_the_keys_of_another_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"queues\.high must not be 'jobqueue'"):
        Layout(queues={"high": "jobqueue", "low": "other"})


def test_the_keys_of_a_fleet_without_names_are_those_of_the_document() -> None:
    keys = FileKeys(Layout(queues={n: f"jobqueue:{n}_priority" for n in ("high", "low")}))
    assert keys.workers == "jobqueue:workers"
    assert [*keys.known(), *keys.lanes] == [*FileKeys().known(), *FileKeys().lanes]


@pytest.mark.parametrize("namespace", ["jobs", "{jobqueue}"])
def test_every_key_follows_the_namespace(tmp_path: Path, namespace: str) -> None:
    environ = {"WAYSTATION_FILES__NAMESPACE": namespace}
    found = layout(load_files(environ=environ).settings)
    assert found == Layout(prefix=namespace)
    assert load_files(environ=environ).settings.worker.completed_list == f"{namespace}:completed"


async def test_a_fleet_is_left_alone_by_the_upkeep_and_the_workers_of_another(
    harness: Harness,
) -> None:
    handlers, ran = Handlers(), set[str]()

    @handlers.handler("**/*")
    def note(job: jobs.Job) -> None:
        ran.add(job.id)

    orphan = FileKeys(Layout()).of("unknown").processing
    await harness.redis.lpush(orphan, b'{"id":"ours","filepath":"/a"}')
    other = b'{"id":"theirs","filepath":"/a","origin_queue":"fleet2:low"}'
    await harness.redis.lpush(FileKeys(Layout()).of("shared").processing, other)
    options = WorkerOptions(backoff=0, poll=0.05, no_handler_after=0)
    async with asyncio.timeout(LIMIT_S), Worker(handlers, harness.store, options=options):
        await Queue(harness.store).wait((await _added(harness)).id)
        while "ours" not in ran:
            await harness.reaper().reap()
            await asyncio.sleep(0.01)

    assert not ran & {"waits", "later", "odd", "held", "left", "theirs"}
    await harness.redis.delete(FileKeys(Layout()).of("shared").processing)


async def _added(harness: Harness) -> Any:
    return await Queue(harness.store).add(__file__)


async def test_a_second_fleet_takes_its_own_back_while_the_first_one_works(
    harness: Harness,
) -> None:
    ran = set[str]()
    two = Layout(
        queues={"high": "own:high", "low": "own:low"},
        processing_list_pattern="own:worker:%s:processing",
        heartbeat_key_pattern="own:hb:%s",
        completed_list="own:completed",
        dead_letter_list="own:dead",
    )
    await fleets.furnish(harness.redis, two)
    options = WorkerOptions(backoff=0, poll=0.05)
    async with (
        asyncio.timeout(LIMIT_S),
        Worker(lambda job: None, harness.store, options=options),
        Worker(lambda job: ran.add(job.id), harness.store, layout=two, options=options),
    ):
        while not {"waits", "later", "odd", "held"} <= ran:
            await asyncio.sleep(0.02)
    for key in await fleets.census(harness.redis, two):
        await harness.redis.delete(key)
