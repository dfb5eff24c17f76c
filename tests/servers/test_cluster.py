"""Three nodes that share the slots among them; a queue with a hash tag lies on one of them."""

import asyncio
import json
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis as BlockingRedis
from redis.asyncio import Redis
from redis.crc import key_slot

from tests.support.command import Command
from tests.support.patience import LIMIT_S
from tests.support.project import ROOT
from tests.waitingroom.http.harness import service
from waystation import files, routing
from waystation.bullmq import (
    Durability,
    FlowNode,
    FlowProducer,
    Job,
    Queue,
    QueueEvents,
    StoreOptions,
    Worker,
    open_store,
)
from waystation.core.errors import InvalidInput, InvalidOption, StoreUnsuitable
from waystation.core.store import embedded
from waystation.core.store.embedded import Ephemeral
from waystation.files.settings import layout, load_files
from waystation.waitingroom.metrics import RoomMetrics
from waystation.waitingroom.options import RoomOptions
from waystation.waitingroom.redis.keys import RoomsKeys
from waystation.waitingroom.running import RoomMaintenance
from waystation.waitingroom.visitor import JoinRequest

SLOTS = 16384
NODES = 3
PREFIX = "{shop}"
RULES = '[{"path":"/checkout*"}]'


@pytest.fixture
def waystation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


@contextmanager
def cluster() -> Generator[list[Ephemeral]]:
    """Three nodes, each with a third of the slots."""
    with ExitStack() as running:
        nodes = [running.enter_context(embedded.cluster_node()) for _ in range(NODES)]
        share_slots(
            nodes, [running.enter_context(BlockingRedis.from_url(node.url)) for node in nodes]
        )
        yield nodes


@pytest.fixture(scope="module")
def shared() -> Iterator[list[Ephemeral]]:
    """The three that all tests but one use, since it takes them seconds to agree."""
    with cluster() as nodes:
        yield nodes


@pytest.fixture
def cluster_url(shared: list[Ephemeral]) -> str:
    """The address of the three, which are empty."""
    for node in shared:
        with BlockingRedis.from_url(node.url) as client:
            client.flushall()
    return url_of(shared)


@pytest.fixture
def apart() -> Iterator[list[Ephemeral]]:
    """Three of the test's own, which it may close."""
    with cluster() as nodes:
        yield nodes


def url_of(nodes: list[Ephemeral]) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def share_slots(nodes: list[Ephemeral], clients: list[Any]) -> None:
    for number, client in enumerate(clients):
        first, last = number * SLOTS // NODES, (number + 1) * SLOTS // NODES - 1
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
        client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for node, client in zip(nodes[1:], clients[1:], strict=True):
        bus = client.config_get("cluster-port")
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus["cluster-port"])
    for client in clients:
        while not knows_everybody(client):
            time.sleep(0.05)


def knows_everybody(client: Any) -> bool:
    info = client.execute_command("CLUSTER", "INFO")
    return b"cluster_state:ok" in info and b"cluster_known_nodes:%d" % NODES in info


async def test_jobs_are_added_worked_on_and_told(cluster_url: str) -> None:
    async def double(job: Job) -> int:
        return job.data * 2

    async with (
        Queue("sums", cluster_url, prefix=PREFIX) as queue,
        QueueEvents("sums", cluster_url, prefix=PREFIX) as events,
        Worker("sums", double, cluster_url, prefix=PREFIX, concurrency=10),
        asyncio.timeout(LIMIT_S),
    ):
        jobs = await queue.add_many([("double", n) for n in range(300)])
        later = await queue.add("double", 1000, delay=0.05)
        results = [await events.wait(job.id) for job in (*jobs, later)]
    assert results == [2 * n for n in range(300)] + [2000]


async def test_a_flow_runs_over_queues_that_share_a_hash_tag(cluster_url: str) -> None:
    order: list[str] = []

    async def work(job: Job) -> str:
        order.append(job.name)
        return job.name

    children = [FlowNode(name=name, queue="paper") for name in ("cut", "fold")]
    async with (
        FlowProducer(cluster_url, prefix=PREFIX) as flows,
        Worker("paper", work, cluster_url, prefix=PREFIX),
        Worker("mail", work, cluster_url, prefix=PREFIX),
        asyncio.timeout(LIMIT_S),
    ):
        tree = await flows.add(FlowNode(name="send", queue="mail", children=children))
        assert await tree.job.wait() == "send"
        values = await tree.job.children_values()
    assert order == ["cut", "fold", "send"]
    assert sorted(values.values()) == ["cut", "fold"]


async def test_a_flow_over_several_slots_is_refused_before_anything_is_written(
    cluster_url: str,
) -> None:
    async with FlowProducer(cluster_url) as flows:
        child = FlowNode(name="cut", queue="paper")
        with pytest.raises(InvalidInput, match="must share a hash tag"):
            await flows.add(FlowNode(name="send", queue="mail", children=[child]))
    async with Queue("mail", cluster_url, prefix=PREFIX) as queue:
        assert await queue.count() == 0


async def test_a_job_finds_its_kind_of_worker(cluster_url: str) -> None:
    rendered = asyncio.Event()

    async def render(job: routing.Job) -> None:
        rendered.set()

    async with (
        routing.Queue(cluster_url, prefix=PREFIX) as queue,
        routing.Worker({"render": render}, cluster_url, prefix=PREFIX, capabilities=["gpu"]),
        asyncio.timeout(LIMIT_S),
    ):
        target = routing.Target(capabilities=("gpu",))
        await queue.add("render", {"scene": 7}, routing.JobOptions(target=target))
        await rendered.wait()


Use = Callable[[str, str], Awaitable[Any]]


async def bullmq_add(url: str, prefix: str) -> None:
    async with Queue("mail", url, prefix=prefix) as queue:
        await queue.add("send", {})


async def bullmq_work(url: str, prefix: str) -> None:
    async with Worker("mail", do_nothing, url, prefix=prefix):
        pass


async def bullmq_inspect(url: str, prefix: str) -> None:
    async with Queue("mail", url, prefix=prefix) as queue:
        await queue.counts()


async def routing_add(url: str, prefix: str) -> None:
    async with routing.Queue(url, prefix=prefix) as queue:
        await queue.add("send", {})


async def routing_work(url: str, prefix: str) -> None:
    async with routing.Worker({"send": do_nothing}, url, prefix=prefix):
        pass


async def routing_inspect(url: str, prefix: str) -> None:
    async with routing.Queue(url, prefix=prefix) as queue:
        await queue.counts()


async def files_add(url: str, prefix: str) -> None:
    async with files.Queue(url, prefix=prefix) as queue:
        await queue.add(__file__)


async def files_work(url: str, prefix: str) -> None:
    async with files.Worker(do_nothing, url, prefix=prefix):
        pass


async def files_inspect(url: str, prefix: str) -> None:
    async with files.Queue(url, prefix=prefix) as queue:
        await queue.counts()


async def do_nothing(job: Any) -> None: ...


USES: list[Use] = [
    bullmq_add, bullmq_work, bullmq_inspect, routing_add, routing_work, routing_inspect,
    files_add, files_work, files_inspect,
]  # fmt: skip


async def test_a_prefix_without_a_hash_tag_is_refused_when_it_is_opened(cluster_url: str) -> None:
    for use in USES:
        async with asyncio.timeout(LIMIT_S):
            await use(cluster_url, "{shop}")
            with pytest.raises(
                InvalidOption, match=r"must share a hash tag, .* \{shop\}, got shop"
            ):
                await use(cluster_url, "shop")


@pytest.mark.parametrize(
    ("prefix", "ends_with"),
    [("bull", 2), ("{bull}", 0)],
)
def test_a_command_says_what_a_cluster_needs_and_ends_with_2(
    cluster_url: str, waystation: Command, prefix: str, ends_with: int
) -> None:
    environ = {
        "WAYSTATION_STORE__URL": cluster_url,
        "WAYSTATION_BULLMQ__PREFIX": prefix,
        "WAYSTATION_ROUTING__NAMESPACE": prefix.replace("bull", "bridge"),
    }

    for command in (("bullmq", "add", "mail", "x", "{}"), ("routing", "add", "x", "{}")):
        ended = waystation(*command, **environ)
        assert ended.returncode == ends_with, (command, ended.stderr)
        assert ("must share a hash tag" in ended.stderr) is (ends_with == 2)
    output = waystation("doctor", **environ).stdout
    for product in ("bullmq", "routing"):
        assert (f"warn  {product}" in output) is (ends_with == 2), output


async def test_the_address_of_one_node_is_told_to_be_a_cluster(cluster_url: str) -> None:
    node = "redis://" + cluster_url.removeprefix("redis+cluster://").split(",")[0]
    # One of them lies on another node.
    with pytest.raises(StoreUnsuitable, match=r"use redis\+cluster://"):
        await asyncio.gather(*(bullmq_add(node, f"{{{name}}}") for name in "abcdef"))


async def test_durability_by_a_replica_is_refused_without_a_promise(cluster_url: str) -> None:
    with pytest.raises(InvalidOption, match=r"needs one server or sentinels, got a cluster$"):
        await open_store(cluster_url, StoreOptions(durability=Durability.REPLICA))


PAGE = ROOT / "docs/how-to/run-on-a-cluster.md"


def commands_of(page: Path, url: str) -> tuple[dict[str, str], list[list[str]]]:
    """The variables that a page exports, and the commands after them."""
    [block] = re.findall(r"^```\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line) for line in block.splitlines()]
    exports = [each for words in lines if words[0] == "export" for each in words[1:]]
    environ = dict(each.split("=", 1) for each in exports)
    assert environ["WAYSTATION_STORE__URL"].startswith("redis+cluster://")
    return environ | {"WAYSTATION_STORE__URL": url}, [w for w in lines if w[0] != "export"]


def test_the_commands_of_the_page_work_on_a_cluster(
    cluster_url: str, tmp_path: Path, waystation: Command
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("x")
    environ, commands = commands_of(PAGE, cluster_url)
    environ["PRODUCER_SETTLE"] = "0s"
    assert {words[1] for words in commands} == {"doctor", "bullmq", "routing", "files", "room"}
    for _, *words in commands:
        ended = waystation(*words, **environ)
        assert ended.returncode == 0, (words, ended)

    files_there = waystation("files", "--role=admin", "counts", "--json", **environ).stdout
    assert json.loads(files_there)["{jobqueue}:low_priority"] == 1
    mail = waystation("bullmq", "counts", "mail", "--json", **environ).stdout
    assert json.loads(mail)["waiting"] == 1


async def test_files_are_worked_on_below_a_namespace(cluster_url: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    settings = load_files(environ={"WAYSTATION_FILES__NAMESPACE": "{inbox}"}).settings
    ran = asyncio.Event()

    async def note(job: files.Job) -> None:
        ran.set()

    named = layout(settings)
    async with (
        files.Queue(cluster_url, layout=named) as queue,
        files.Worker(note, cluster_url, layout=named),
        asyncio.timeout(LIMIT_S),
    ):
        job = await queue.add(tmp_path / "a.txt")
        assert job
        await queue.wait(job.id)
        assert ran.is_set()


async def test_a_node_that_is_away_costs_its_own_rooms_alone(apart: list[Ephemeral]) -> None:
    """Whichever node it is, the one with the list of rooms among them."""
    names = [f"room-{n}" for n in range(9)]
    async with service(url_of(apart)) as opened:
        rooms = [opened.rooms.of(name) for name in names]
        owner = {room.name: key_slot(room.queue_id.encode()) * NODES // SLOTS for room in rooms}
        assert set(owner.values()) == set(range(NODES))
        for room in rooms:
            await room.open(RoomOptions(admission_rate=1000), settings={"rules": RULES})
        config = (await opened.visitor().get("/v1/connector-config")).json()
        for node in apart:
            async with Redis.from_url(node.url, protocol=2) as client:
                await client.config_set("cluster-require-full-coverage", "no")
        gone = key_slot(RoomsKeys().every.encode()) * NODES // SLOTS
        well = [room for room in rooms if owner[room.name] != gone]
        apart[gone].close()
        for room in well:
            await room.join(JoinRequest(key="a", secret="a"))
        care = RoomMaintenance(opened.rooms, RoomMetrics(None))
        for duty in (care.admit, care.sweep, care.open_due, care.measure, care.follow, care.watch):
            await duty()
        assert [(await room.counts())["called"] for room in well] == [1] * len(well)
        assert {room.name for room, _ in await opened.rooms.states()} >= {
            room.name for room in well
        }
        # What lies on the node is protected as before.
        shown = (await opened.visitor().get("/v1/connector-config")).json()
        assert [each["rules"] for each in shown["queues"]] == [
            each["rules"] for each in config["queues"]
        ]
        await care.__aexit__()
    # Whoever leaves leaves no connection open, though a node was lost meanwhile.
    for node in (each for place, each in enumerate(apart) if place != gone):
        async with Redis.from_url(node.url, protocol=2) as client, asyncio.timeout(LIMIT_S):
            while any(each["name"] == "waystation" for each in await client.client_list()):
                await asyncio.sleep(0.05)
