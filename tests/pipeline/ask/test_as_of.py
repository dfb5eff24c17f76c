"""The state of a queue as of an instant is what a dump of the queue showed then."""

import datetime as dt
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.bullmq.harness import Harness, harness_on
from tests.pipeline.batches import Batches
from tests.pipeline.events_of_all import events_of_products
from tests.pipeline.rounds import history_at
from tests.pipeline.saved import save
from waystation.bullmq import FlowNode, JobOptions
from waystation.bullmq.flows import FlowProducer
from waystation.bullmq.queue import Queue
from waystation.cli import root as cli
from waystation.core.runtime.claim import Claim
from waystation.pipeline.ask.engine import Engine, literal
from waystation.pipeline.product_keys import BULLMQ_STATES
from waystation.pipeline.refresh.fold import fold
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import EVENTS

FAR = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)
STEPS = 160
DUMPS = 100
AN_HOUR = dt.timedelta(hours=1)
WAITING = {"wait": "waiting", "paused": "waiting", "prioritized": "waiting"}
"""States of the store that events do not tell apart."""

Dump: TypeAlias = tuple[dt.datetime, dict[str, str]]


class Life:
    """A queue that lives, step by step."""

    def __init__(self, harness: Harness, queue: Queue, flows: FlowProducer) -> None:
        self.harness = harness
        self.queue = queue
        self.flows = flows
        self.dice = random.Random(31)
        self.held: list[Claim[Any]] = []

    @property
    def steps(self) -> list[Callable[[], Awaitable[Any]]]:
        return [
            *(self.add, self.add, self.add, self.claim, self.claim, self.claim),
            *(self.complete, self.complete, self.fail, self.fail),
            *(self.hand_back, self.stall, self.remove, self.retry),
            *(self.pause, self.cancel, self.add_tree, self.wait_an_hour),
        ]

    async def add(self) -> None:
        options: dict[str, Any] = self.dice.choice(
            [{}, {"priority": 3}, {"delay": AN_HOUR}, {"attempts": 1}, {"attempts": 3}]
        )
        if self.dice.random() < 0.2:
            # An id that is used again when its job is gone.
            options = {**options, "job_id": self.dice.choice(("own-1", "own-2"))}
        await self.harness.add(name=self.dice.choice(("send", "bill")), **options)

    async def add_tree(self) -> None:
        child = FlowNode(name="child", queue="mail", options=JobOptions(attempts=1))
        await self.flows.add(FlowNode(name="parent", queue="mail", children=[child]))

    async def claim(self) -> None:
        self.held += await self.harness.claim(self.dice.randint(1, 3))

    def taken(self) -> Claim[Any] | None:
        return self.held.pop(self.dice.randrange(len(self.held))) if self.held else None

    async def complete(self) -> None:
        if claim := self.taken():
            await self.harness.complete(claim, {"ok": True})

    async def fail(self) -> None:
        if claim := self.taken():
            await self.harness.fail(claim)

    async def hand_back(self) -> None:
        if claim := self.taken():
            await self.harness.hand_back(claim)

    async def stall(self) -> None:
        await self.harness.lapse()
        self.held.clear()

    async def remove(self) -> None:
        state = self.dice.choice(("wait", "delayed", "completed", "failed"))
        if ids := await self.harness.ids(state):
            await self.queue.remove(self.dice.choice(ids))

    async def retry(self) -> None:
        if ids := await self.harness.ids("failed"):
            await self.queue.retry(self.dice.choice(ids))

    async def pause(self) -> None:
        if await self.queue.is_paused():
            await self.queue.resume()
        else:
            await self.queue.pause()

    async def cancel(self) -> None:
        if ids := await self.harness.ids("wait"):
            await self.queue.cancel(self.dice.choice(ids))

    async def wait_an_hour(self) -> None:
        await self.harness.clock.advance(3600)

    async def dump(self) -> Dump:
        """The state of every job, in a millisecond of its own."""
        at = await self.next_millisecond()
        async with self.harness.redis.pipeline(transaction=True) as look:
            for state, kind in BULLMQ_STATES.items():
                key = f"{self.harness.keys.base}{state}"
                _ = look.lrange(key, 0, -1) if kind == "list" else look.zrange(key, 0, -1)
            found: list[list[bytes]] = await look.execute()
        await self.next_millisecond()
        return at, {
            id.decode(): WAITING.get(state, state)
            for state, ids in zip(BULLMQ_STATES, found, strict=True)
            for id in ids
        }

    async def next_millisecond(self) -> dt.datetime:
        """The first instant of a millisecond in which nothing has happened yet."""
        before = await self.millisecond()
        while (now := await self.millisecond()) == before:
            pass
        return dt.datetime.fromtimestamp(now / 1000, dt.UTC)

    async def millisecond(self) -> int:
        seconds, micros = await self.harness.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000


async def lived(url: str) -> list[Dump]:
    dumps: list[Dump] = []
    async with (
        harness_on(url) as harness,
        Queue(harness.keys.name, harness.store) as queue,
        FlowProducer(harness.store) as flows,
    ):
        life = Life(harness, queue, flows)
        dumps.append(await life.dump())
        for left in reversed(range(STEPS)):
            await life.dice.choice(life.steps)()
            if life.dice.random() < 0.6 or left < DUMPS - len(dumps):
                dumps.append(await life.dump())
    return dumps


def rebuilt(engine: Engine, at: dt.datetime) -> dict[str, str]:
    found = engine.ask(f"select job_id, state from as_of({literal(at)}) where queue = 'mail'")
    return dict(found.rows)


async def test_the_state_as_of_random_instants_is_what_dumps_showed(
    redis_url: str, tmp_path: Path
) -> None:
    root = str(tmp_path / "history")
    dumps = await lived(redis_url)
    Batches(root, EventOptions(url=redis_url)).store()
    seen = Counter(state for _, dump in dumps for state in dump.values())
    assert len(dumps) >= DUMPS
    assert set(seen) == {*BULLMQ_STATES} - {*WAITING} | {"waiting"}
    with Engine(root, threads=1) as engine:
        engine.add_tables(named={"as_of"})
        for at, wanted in dumps:
            assert rebuilt(engine, at) == wanted, at


@pytest.mark.slow
def test_the_state_as_of_now_is_that_of_the_jobs_and_files(root: str) -> None:
    events = pa.Table.from_pylist(events_of_products(), schema=schema_of(EVENTS.schema))
    save(events, root, EVENTS, BatchId("bronze-test", 0))
    fold(history_at(root))
    with Engine(root, threads=1) as engine:
        engine.add_tables()
        job = "product, queue, job_id"
        found = engine.ask(f"select {job}, state from as_of({literal(FAR)})").rows
        items = engine.ask(
            f"select {job}, state from items order by last_recorded_at, state <> 'removed'"
        ).rows
        removed = engine.ask(
            f"select {job} from events where event in ('removed', 'cancelled', 'kept')"
        ).rows
    last = {row[:3]: row[3] for row in items}
    here = {row[:3]: row[3] for row in found}
    assert {product for product, _, _ in here} == {"routing", "files"}
    assert here == {each: last[each] for each in here}
    assert last.keys() - here.keys() <= set(removed)


async def test_the_command_counts_and_lists_what_was_in_the_queues(
    redis_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = str(tmp_path / "history")
    async with harness_on(redis_url) as harness, Queue("mail", harness.store) as queue:
        life = Life(harness, queue, FlowProducer(harness.store))
        for name in ("send", "send", "bill"):
            await harness.add(name=name)
        held = await harness.claim_one()
        then, _ = await life.dump()
        await harness.complete(held)
        await harness.claim_one()
    Batches(root, EventOptions(url=redis_url)).store()

    def said(*words: str, ends: int = 0) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.run(["pipeline", "queues", *words, "--json", "--history", root])
        out, err = capsys.readouterr()
        assert int(ended.value.code or 0) == ends, err
        return out + err

    at = then.isoformat()
    assert said("--as-of", at).splitlines() == [
        '{"product":"bullmq","queue":"mail","state":"active","jobs":1}',
        '{"product":"bullmq","queue":"mail","state":"waiting","jobs":2}',
    ]
    [listed] = said("--as-of", at, "--jobs", "--state", "active").splitlines()
    assert f'"job_id":"{held.id}","name":"send","state":"active"' in listed
    assert '"attempts":1,"worker":"host-1-abc"' in listed
    assert '"state":"completed","jobs":1' in said("--queue", "mail")
    assert said("--queue", "nowhere") == "no job was in the queues then\n"
    assert said("--as-of", "2020-01-01") == "no job was in the queues then\n"
    assert "wanted an instant of the past" in said("--as-of", "2999-01-01", ends=2)
