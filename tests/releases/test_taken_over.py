"""What released versions have left in a store and in a history is taken over without a loss."""

import asyncio
import tarfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.pipeline import before
from tests.pipeline.batches import run_round
from tests.pipeline.rounds import history_at
from tests.releases import dump, scenes
from tests.releases.write import options
from tests.support.patience import limit, until
from waystation import bullmq, files, routing, sync, waitingroom
from waystation.core.clock import HandClock
from waystation.core.operators.operators import Operators
from waystation.pipeline.maintenance.rebuild import rebuild
from waystation.pipeline.storage import delta
from waystation.pipeline.tables import EVENTS
from waystation.waitingroom import Admission, Called, Late, Lottery, Waiting

RELEASES = sorted(each.parent for each in Path(__file__).parent.glob("*/store.json.xz"))
LATER_S = 120
"""When the present code comes, every worker of then has long been silent."""


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    """Where that lies which a release has left."""
    return request.param


@pytest.fixture
def left(folder: Path) -> dump.Dump:
    """What it has left in a store."""
    return dump.read(folder / "store.json.xz")


@pytest.fixture
def url(left: dump.Dump, redis_url: str) -> str:
    """A store that holds it."""
    with Redis.from_url(redis_url) as store:
        dump.load(left, store, later_s=LATER_S)
    return redis_url


@pytest.fixture
async def store(url: str) -> AsyncIterator[bullmq.Store]:
    async with await bullmq.open_store(url) as opened:
        yield opened


def test_there_is_what_a_release_has_left() -> None:
    assert RELEASES


def test_a_store_that_is_loaded_is_the_store_that_was_dumped(
    left: dump.Dump, redis_url: str
) -> None:
    with Redis.from_url(redis_url) as store:
        dump.load(left, store)
        again = dump.taken(store, left.told)
    # What expires may be gone, and has another lifetime.
    assert [each for each in again.keys if each[2] < 0] == [
        each for each in left.keys if each[2] < 0
    ]


async def test_workers_finish_every_job_of_bullmq_once(
    left: dump.Dump, store: bullmq.Store
) -> None:
    handlers, told = scenes.Handlers(), left.told["jobs"]
    queues = {
        name: bullmq.Queue(name, store, payloads=scenes.PAYLOADS.get(name))
        for name in scenes.QUEUES
    }
    states = await scenes.known(store)
    assert states == told["known"]
    again = await queues["work"].add("plain", {}, deduplication=scenes.ONCE)
    assert f"work/{again.id}" in states
    assert await queues["work"].limits.get_concurrency() == 9
    settings = await queues["shared"].groups.settings("acme")
    assert (settings.weight, settings.concurrency) == (2, 1)
    assert await queues["work"].signal(told["order"], "approved")
    await queues["work"].retry_all()
    await queues["paused"].resume()
    await queues["shared"].groups.resume("beta")
    for name in ("work", "reports"):
        await queues[name].promote_all()
    workers = [
        bullmq.Worker(
            name, handlers.job, store, payloads=scenes.PAYLOADS.get(name), stalled_interval=0.1
        )
        for name in queues
    ]
    running = [asyncio.create_task(each.run(signals=False)) for each in workers]

    async def all_done() -> bool:
        ends = [queues[name].state(id) for name, id in map(_split, states)]
        return {*await asyncio.gather(*ends)} == {"completed"}

    try:
        await until(all_done)
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)

    open_ = [_split(each) for each, state in states.items() if state != "completed"]
    assert handlers.ended == Counter(open_)
    assert scenes.charged == []
    assert await queues["work"].wait(told["order"]) == "receipt 7"
    assert await queues["work"].wait(told["book"]) == [1, 2]
    assert [each.id for each in await queues["reports"].schedulers.list()] == ["often", "nightly"]
    assert await queues["reports"].counts("delayed") == {"delayed": 2}


async def test_workers_finish_every_job_of_routing_once(
    left: dump.Dump, store: bullmq.Store
) -> None:
    handlers, told = scenes.Handlers(), left.told["routing"]
    queue = routing.Queue(store)
    assert await queue.limits.get("plain") == routing.Limit(max_concurrent=2)
    assert [each.id for each in await queue.schedules.list()] == [told["schedule"]]
    assert await queue.dead_letters.retry_all() == 1
    async with routing.Worker(handlers.routed, store, capabilities=["gpu"]):
        for id in told["open"]:
            await queue.wait(id, timeout=limit(120))

    ended = Counter({id: many for (_, id), many in handlers.ended.items() if id in told["open"]})
    assert ended == Counter(told["open"])


async def test_workers_finish_every_file_once(left: dump.Dump, store: bullmq.Store) -> None:
    handlers, known = scenes.Handlers(), files.Handlers()
    known.handler("**/*")(handlers.file)
    queue, folder = files.Queue(store), Path(left.told["folder"])
    with scenes.in_folder(folder):
        options = files.ScanOptions(scan_dir=str(folder), settle=0)
        found = await files.Producer(queue, files.ProducerOptions(scan=options)).scan()
        assert (found.enqueued, found.known) == (0, len(scenes.FILES))
        assert await queue.dead_letters.retry_all() == 1
        reaper = files.ReaperOptions(interval=0.1)
        async with files.Worker(known, store, reaper=reaper):
            await until(lambda: _completed(queue, len(scenes.FILES)))

    names = scenes.FILES.keys() - {"done.txt"}
    assert handlers.ended == Counter(("files", name) for name in names)


@pytest.mark.slow
def test_a_history_goes_on_and_equals_a_rebuild(folder: Path, url: str, tmp_path: Path) -> None:
    with tarfile.open(folder / "history.tar.xz") as stored:
        stored.extractall(tmp_path, filter="data")
    history = history_at(str(tmp_path / "history"))
    with sync.Queue("today", url) as queue:
        queue.add_many([("plain", {"n": n}) for n in range(5)])

    ran = run_round(history, options(url))

    assert (ran.events >= 10, ran.failed_checks) == (True, ())
    read = delta.read_arrow(history.root, EVENTS, ["stream", "entry_id"]).to_pylist()
    stored = Counter((row["stream"], row["entry_id"]) for row in read)
    assert {*stored.values()} == {1}
    with Redis.from_url(url, decode_responses=True) as client:
        assert _entries(client, {stream for stream, _ in stored}) <= stored.keys()
    rows = before.rows_of(history)
    rebuild(history)
    rebuilt = before.rows_of(history)
    assert [name for name in rows if rows[name] != rebuilt[name]] == []


def _entries(client: Any, streams: set[str]) -> set[tuple[str, str]]:
    return {(each, id) for each in streams for id, _ in client.xrange(each)}


def _split(whose: str) -> tuple[str, str]:
    queue, _, id = whose.partition("/")
    return queue, id


async def _completed(queue: files.Queue, many: int) -> bool:
    return await queue.counts("completed") == {"completed": many}


async def test_a_room_keeps_its_places_and_their_order(left: dump.Dump, redis_url: str) -> None:
    told = left.told["rooms"]
    clock = HandClock(told["now_ms"])
    places = {name: waitingroom.Place(*given) for name, given in told["places"].items()}
    with Redis.from_url(redis_url) as client:
        dump.load(left, client)
    async with await bullmq.open_store(redis_url) as store:
        room = waitingroom.Room("{sale}", store, clock=clock)
        assert (await room.get_session(places[told["session"]].id)).id == places[told["session"]].id
        assert isinstance(await room.status(places[told["called"]]), Called)
        assert isinstance(await room.status(places[told["missed"]]), Late)
        line = [name for name in places if isinstance(await room.status(places[name]), Waiting)]
        called: list[str] = []
        while len(called) < len(line):
            await clock.advance(1)
            called += (await Admission(room).admit()).called
        for lane in ("n", "vip"):
            wanted = [places[name].id for name in line if name.startswith(lane)]
            assert [id for id in called if id in wanted] == wanted
        soon = waitingroom.Room("{soon}", store, clock=clock)
        assert await Lottery(soon).commitment() == told["commitment"]
        assert [each.name for each in await Operators(store, clock).every()] == ["ada"]
