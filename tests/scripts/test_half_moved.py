"""A script on a slot that a cluster is moving: it runs on the whole of its keys, or not at all.

Every call that the walks make is made again on two nodes, with some of the keys that it met on the
one and the others on the other. It is refused, or its keys are all where it runs; and no key is on
both nodes afterwards.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tests.scripts.calls import Call, Replay, recorded
from tests.scripts.test_declared_keys import NEVER_THERE
from tests.scripts.walks import bullmq, routing
from tests.support.size import size
from waystation.bullmq.redis.keys import PREFIX, QueueKeys
from waystation.core.store import embedded
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.script import LuaScript
from waystation.routing.redis.keys import NAMESPACE, RoutingKeys

TAGGED = "{bull}"
SLOTS = 16384
FAR_MS = 3_600_000
WAYS = size(1, full=3)
"""Ways through a script that are played."""


class Nodes:
    """Two nodes of a cluster, and a slot that goes from the first to the second."""

    def __init__(self, source: Ephemeral, target: Ephemeral) -> None:
        self.source, self.target = (Redis.from_url(each.url) for each in (source, target))
        self._port = target.port
        self.slot: Any = self.source.execute_command("CLUSTER", "KEYSLOT", TAGGED)
        self._ids: list[Any] = [
            each.execute_command("CLUSTER", "MYID") for each in (self.source, self.target)
        ]
        self.source.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        self.target.execute_command("CLUSTER", "SET-CONFIG-EPOCH", 2)
        bus: Any = self.target.config_get("cluster-port")
        self.source.execute_command(
            "CLUSTER", "MEET", "127.0.0.1", target.port, bus["cluster-port"]
        )
        for each in (self.source, self.target):
            while b"cluster_state:ok" not in self._info(each):
                pass

    def _info(self, node: Any) -> bytes:
        info: Any = node.execute_command("CLUSTER", "INFO")
        return info if b"cluster_known_nodes:2" in info else b""

    def half_moved(self, call: Call, gone: set[bytes]) -> None:
        """What the call met, with these keys on the target."""
        self._set("STABLE")
        for node in (self.source, self.target):
            node.flushall()
        pipe = self.source.pipeline(transaction=False)
        for key, (value, ttl) in call.database.items():
            pipe.restore(key, ttl and ttl + FAR_MS, value)
        pipe.execute()
        self._set("MIGRATING")
        if gone:
            self.source.execute_command(
                "MIGRATE", "127.0.0.1", self._port, "", 0, 5000, "KEYS", *gone
            )

    def make(self, call: Call) -> Any:
        """Make the call as a cluster client does: once here and, if told to, once there."""
        try:
            return self.source.eval(call.script.source, call.keys, *call.slots)
        except RedisError as refusal:
            if "ASK" not in f"{type(refusal).__name__} {refusal}".upper():
                raise
        pipe = self.target.pipeline(transaction=False)
        pipe.execute_command("ASKING")
        pipe.eval(call.script.source, call.keys, *call.slots)
        return pipe.execute()[1]

    def twice(self) -> set[bytes]:
        """Keys that are on both nodes."""
        here, there = self.source.keys("*"), self.target.keys("*")
        return {*here} & {*there}  # type: ignore[misc]

    def _set(self, state: str) -> None:
        for node, other in ((self.source, self._ids[1]), (self.target, self._ids[0])):
            role = {"MIGRATING": "IMPORTING"}.get(state, state) if node is self.target else state
            peer = () if state == "STABLE" else (other,)
            node.execute_command("CLUSTER", "SETSLOT", self.slot, role, *peer)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with ExitStack() as running:
        pair = [running.enter_context(embedded.cluster_node()) for _ in range(2)]
        yield Nodes(*pair)


def splits(call: Call, dice: random.Random) -> Iterator[set[bytes]]:
    """Sets of keys that have gone: those that are declared, the others, all but one, and some."""
    keys = sorted(call.database)
    declared = {str(key).encode() for key in call.slots[: call.keys]}
    yield declared & set(keys)
    yield set(keys) - declared
    yield set(keys) - {dice.choice(keys)}
    yield {key for key in keys if dice.random() < 0.5}


def tag_bullmq(monkeypatch: pytest.MonkeyPatch) -> None:
    named: Any = vars(QueueKeys)["__init__"]

    def tagged(keys: Any, name: str, *, prefix: str = PREFIX) -> None:
        named(keys, name, prefix=TAGGED if prefix == PREFIX else prefix)

    monkeypatch.setattr(QueueKeys, "__init__", tagged)


def tag_routing(monkeypatch: pytest.MonkeyPatch) -> None:
    named: Any = vars(RoutingKeys)["__init__"]

    def tagged(keys: Any, namespace: str = NAMESPACE) -> None:
        named(keys, TAGGED if namespace == NAMESPACE else namespace)

    monkeypatch.setattr(RoutingKeys, "__init__", tagged)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize(
    ("walk", "tag"),
    [(bullmq.walk, tag_bullmq), (routing.walk, tag_routing)],
    ids=["bullmq", "routing"],
)
async def test_no_script_of_a_queue_runs_on_half_a_slot(
    own_server: Ephemeral, nodes: Nodes, monkeypatch: pytest.MonkeyPatch, walk: Any, tag: Any
) -> None:
    tag(monkeypatch)
    redis = Redis.from_url(own_server.url)
    with recorded(redis, monkeypatch) as calls:
        await walk(own_server.url)

    dice, wrong = random.Random(7), list[str]()
    for call in chosen(Replay(redis), calls, dice):
        for gone in splits(call, dice):
            wrong += played(nodes, call, gone)
    assert not wrong, "\n".join(wrong)


BRIDGED = {"claim_job", "process_cron", "process_delayed", "release_lock"}
"""They have the keys that BridgeMQ gives them; our own calls of `process_delayed` name another."""
FOREIGN = {"bring", "take"} | BRIDGED - {"process_delayed"}
"""They also name keys of another system, which share a server with ours and no cluster."""


def chosen(replay: Replay, calls: list[Call], dice: random.Random) -> Iterator[Call]:
    """A few ways through each script."""
    ways: defaultdict[str, set[Any]] = defaultdict(set)
    for call in dice.sample(calls, len(calls)):
        known = ways[call.script.name]
        if call.script.name in FOREIGN or not call.database or len(known) == WAYS:
            continue
        if not all(str(key).startswith(TAGGED) for key in call.slots[: call.keys]):
            # A queue with a prefix of its own, which no cluster would take.
            continue
        found = replay.touched(call)
        met = {key: each for key, each in call.database.items() if key.startswith(b"{bull}:")}
        if found and met and found.way not in known:
            known.add(found.way)
            yield call._replace(database=met)


def played(nodes: Nodes, call: Call, gone: set[bytes]) -> Iterator[str]:
    """What is wrong after the call."""
    nodes.half_moved(call, gone)
    try:
        answer = nodes.make(call)
    except ResponseError as refusal:
        if "TRYAGAIN" not in f"{type(refusal).__name__} {refusal}".upper():
            yield f"{call.script} failed: {refusal}"
    else:
        is_whole = not gone or set(call.database) <= gone
        if not is_whole and not names_all_keys(call.script):
            yield f"{call.script} answered {answer!r} when {gone} had moved"
    if both := nodes.twice():
        yield f"{call.script} left {both} on both nodes when {gone} had moved"


def names_all_keys(script: "LuaScript[Any, Any]") -> bool:
    """Whether a script builds no key, so that the server judges rightly where it may run."""
    return not {"base", "namespace"} & {*script.header.args} and script.name != "add_flow"


@pytest.mark.parametrize("product", ["bullmq", "routing"])
def test_every_script_of_a_queue_that_builds_keys_names_one_that_is_never_there(
    product: str,
) -> None:
    package = f"waystation.{product}.redis"
    scripts = [each for each in LuaScript.every if each.package == package]
    builds = {script.name for script in scripts if not names_all_keys(script)} - BRIDGED

    assert builds <= {script.name for script in scripts if NEVER_THERE & {*script.header.keys}}
