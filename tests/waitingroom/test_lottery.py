"""The draw at the start of a sale, and how anybody checks it."""

import asyncio
import contextlib
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.waitingroom.harness import Harness
from waystation.core.errors import InvalidInput, WrongState
from waystation.waitingroom.operating import lottery
from waystation.waitingroom.operating.lottery import Lottery, Proof
from waystation.waitingroom.operating.schedule import Schedule, ScheduledEvent
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.redis.store import RoomStore
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Prequeued, Waiting

SEED, SECRET = "ab" * 32, "cd" * 32


async def gathered(harness: Harness, *names: str) -> None:
    await harness.open(admission_rate=1000, max_active=10_000)
    await harness.control.schedule(harness.clock.now_ms() + 600_000)
    await harness.lottery.announce(SEED)
    await harness.join_all(*names)


async def witnessed(harness: Harness, *names: str) -> None:
    await harness.open(admission_rate=1000, max_active=10_000)
    await harness.control.schedule(harness.clock.now_ms() + 600_000)
    await harness.lottery.announce(SEED, witness=lottery.commit(SECRET))
    await harness.join_all(*names)


async def test_people_gather_before_the_room_opens(harness: Harness) -> None:
    """F39: nobody is called, nobody expires, and everybody sees when it starts."""
    await gathered(harness, "a", "b")
    status = await harness.status("a")
    assert status == Prequeued(
        lane=status.lane,  # pyright: ignore
        starts_ms=harness.clock.now_ms() + 600_000,
        early=2,
    )
    assert await harness.admit() == []
    await harness.clock.advance(599)
    assert await harness.expire() == []
    place = harness.places["a"]
    assert await harness.redis.ttl(harness.keys.of(place.id).position) > 1800


async def test_the_draw_can_be_checked_by_anybody(harness: Harness) -> None:
    """F39: attack 60; commitment before, seed after, and the order follows from both."""
    names = [f"v{each}" for each in range(300)]
    await gathered(harness, *names)
    commitment = await harness.lottery.commitment()
    with pytest.raises(WrongState, match="no draw"):
        await harness.lottery.proof()
    assert await harness.lottery.draw(beacon="block 1234") == 300
    proof, drawn = await harness.lottery.proof(), await harness.lottery.drawn()
    assert proof.commitment == commitment == lottery.commit(SEED)
    lottery.verify(proof, drawn)
    order = harness.names(drawn)
    assert sorted(order) == sorted(names)
    assert order != names
    assert (await harness.admit()) == order


async def test_a_draw_that_was_tampered_with_does_not_check(harness: Harness) -> None:
    """Attack 60: another seed, another number of people, another order."""
    await gathered(harness, *(f"v{each}" for each in range(20)))
    await harness.lottery.draw()
    proof, drawn = await harness.lottery.proof(), await harness.lottery.drawn()
    swapped = [drawn[1], drawn[0], *drawn[2:]]
    other = lottery.commit("cd" * 32)
    cases: list[tuple[Proof, list[str], str]] = [
        (proof, swapped, "order"),
        (proof, drawn[:-1], "among 20"),
        (changed(proof, commitment=other), drawn, "committed"),
        (changed(proof, digest="0"), drawn, "digest"),
    ]
    for given, ids, why in cases:
        with pytest.raises(InvalidInput, match=why):
            lottery.verify(given, ids)


def changed(proof: Proof, **changes: str) -> Proof:
    return msgspec.structs.replace(proof, **changes)


async def test_the_seed_cannot_be_chosen_after_people_came(harness: Harness) -> None:
    """Attack 60: whoever knows who came could try seeds until friends are first."""
    await gathered(harness, "a")
    with pytest.raises(WrongState, match="before anybody"):
        await harness.lottery.announce("cd" * 32)


async def test_a_seed_once_announced_stays(harness: Harness) -> None:
    """Attack 60."""
    await gathered(harness)
    assert await harness.lottery.announce("cd" * 32) == lottery.commit(SEED)


class Frozen(Exception):
    """The process stops here."""


def stepwise(monkeypatch: pytest.MonkeyPatch, before: Callable[[], Awaitable[None]]) -> None:
    """Have something happen before each step of a draw, which is made of small ones."""
    monkeypatch.setattr(lottery, "BATCH", 4)
    monkeypatch.setattr(lottery, "PAGE", 5)

    def passing(step: Callable[..., Any]) -> Callable[..., Any]:
        async def passed(*given: Any, **more: Any) -> Any:
            await before()
            return await step(*given, **more)

        return passed

    for name in ("begin_draw", "draw", "end_draw"):
        monkeypatch.setattr(scripts, name, passing(getattr(scripts, name)))
    monkeypatch.setattr(RoomStore, "ask", passing(RoomStore.ask))


class Turns:
    """Lets tasks take one step each, in an order that dice decide."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._held: dict[Any, asyncio.Event] = {}

    async def wait(self) -> None:
        """Wait until it is this task's turn."""
        event = self._held[asyncio.current_task()] = asyncio.Event()
        await event.wait()

    async def run(self, *work: Coroutine[Any, Any, Any]) -> None:
        """See all of them through."""
        tasks = [asyncio.create_task(each) for each in work]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            if self._held and all(task.done() or task in self._held for task in tasks):
                self._held.pop(self._dice.choice(list(self._held))).set()
        for task in tasks:
            with contextlib.suppress(WrongState):
                task.result()


@pytest.mark.parametrize("seed", range(12))
async def test_two_processes_draw_at_once_and_the_outcome_is_that_of_one(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """F39: the second one at the same moment, one step here and one step there."""
    await gathered(harness, *(f"v{each}" for each in range(18)))
    other = Lottery(Room(harness.room.name, harness.store, clock=harness.clock))
    turns = Turns(random.Random(seed))
    with monkeypatch.context() as once:
        stepwise(once, turns.wait)
        await turns.run(harness.lottery.draw(beacon="first"), other.draw(beacon="second"))
    drawn = await harness.lottery.drawn()
    lottery.verify(await harness.lottery.proof(), drawn)
    assert await harness.admit() == harness.names(drawn)
    seen = await harness.room.state()
    assert (seen.phase, seen.early, seen.waiting) == ("open", 0, 0)


@pytest.mark.parametrize("at", range(1, 11))
async def test_nobody_sees_half_a_draw_and_a_crash_changes_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """F39: everybody still waits for the start until the last one has a place."""
    await gathered(harness, *(f"v{each}" for each in range(18)))

    steps = itertools.count()

    async def stop() -> None:
        if next(steps) == at:
            raise Frozen

    with monkeypatch.context() as once:
        stepwise(once, stop)
        with pytest.raises(Frozen):
            await harness.lottery.draw(beacon="b")
    await harness.join("late")
    for name in ("v0", "v17", "late"):
        status = await harness.status(name)
        assert isinstance(status, Prequeued)
        assert status.early == 18
    seen = await harness.room.state()
    assert seen.early + seen.waiting == 19
    assert await harness.admit() == []

    await harness.lottery.draw(beacon="another")
    proof = await harness.lottery.proof()
    assert proof.beacon == "b"
    lottery.verify(proof, await harness.lottery.drawn())
    assert (await harness.admit())[-1] == "late"


async def test_a_draw_overtakes_nobody_who_stood_in_line_before(harness: Harness) -> None:
    """F39: those of before first, then those who were drawn, then whoever came later."""
    await harness.open(admission_rate=0, max_active=100)
    await harness.join_all("early", "earlier")
    await harness.join("premium", lane=3)
    before = await harness.status("earlier")
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    await harness.lottery.announce(SEED)
    crowd = [f"v{each}" for each in range(20)]
    await harness.join_all(*crowd)
    await harness.clock.advance(60)
    await harness.lottery.draw()
    await harness.join("late")
    after = await harness.status("earlier")
    assert isinstance(before, Waiting)
    assert isinstance(after, Waiting)
    assert after.ahead == before.ahead == 1
    await harness.control.set_rate(1)
    called = list[str]()
    for _ in range(24):
        await harness.clock.advance(1)
        called += await harness.admit()
    normal = [name for name in called if name != "premium"]
    assert normal == ["early", "earlier", *harness.names(await harness.lottery.drawn()), "late"]


async def test_nobody_slips_out_of_a_draw_that_has_counted_them(harness: Harness) -> None:
    """F39: a proof is about everybody who took part; they may leave as soon as it is made."""
    await gathered(harness, "ann", "bob", "eve")
    client = await harness.room.store.client()
    await scripts.begin_draw(client, harness.keys, beacon="", wait=0, now=harness.room.store.now())
    with pytest.raises(WrongState, match="lots are being drawn"):
        await harness.room.leave(harness.places["bob"], "bob")
    await harness.lottery.draw()
    lottery.verify(await harness.lottery.proof(), await harness.lottery.drawn())
    assert await harness.room.leave(harness.places["bob"], "bob") is True
    assert set(await harness.admit()) == {"ann", "eve"}


async def test_a_witness_has_a_hand_in_the_draw(harness: Harness) -> None:
    """Attack 60: neither who reads the store nor the witness knows the outcome beforehand."""
    names = [f"v{each}" for each in range(50)]
    await witnessed(harness, *names)
    with pytest.raises(WrongState, match="keep the secret"):
        await harness.lottery.reveal(SECRET)
    assert await harness.lottery.draw(beacon="b") == 50
    # The list is closed and published, and nobody is called yet.
    ids = sorted(place.id for place in harness.places.values())
    assert await harness.lottery.entrants() == (lottery.digest_of(ids), 50)
    await harness.join("late")
    assert await harness.admit() == []
    with pytest.raises(InvalidInput, match="not the one that the witness committed to"):
        await harness.lottery.reveal("ef" * 32)
    assert await harness.lottery.reveal(SECRET) is True
    assert await harness.lottery.reveal(SECRET) is False
    await harness.lottery.draw(beacon="another")
    proof, drawn = await harness.lottery.proof(), await harness.lottery.drawn()
    assert (proof.beacon, proof.witness, proof.revealed) == (SECRET, lottery.commit(SECRET), True)
    lottery.verify(proof, drawn)
    assert (await harness.admit())[-1] == "late"
    swapped = sorted({*drawn[1:], "{concert-tickets}:AAAAAAAAAAAAAAAA"})
    for given, listed, why in (
        (changed(proof, beacon="12" * 32), drawn, "the witness"),
        (changed(proof, beacon="no hex"), drawn, "the witness"),
        (proof, swapped, "those who took part"),
    ):
        with pytest.raises(InvalidInput, match=why):
            lottery.verify(given, listed)


async def test_a_list_that_is_closed_is_not_opened_again(harness: Harness) -> None:
    """Who takes part is published by then; one who joined after that would spoil the proof."""
    await witnessed(harness, "a", "b")
    await harness.lottery.draw()
    with pytest.raises(WrongState, match="lots are being drawn"):
        await harness.control.schedule(harness.clock.now_ms() + 60_000)
    await harness.lottery.reveal(SECRET)
    await harness.lottery.draw()
    lottery.verify(await harness.lottery.proof(), await harness.lottery.drawn())
    await harness.control.schedule(harness.clock.now_ms() + 60_000)


async def test_a_witness_who_stays_away_delays_the_draw_and_the_proof_says_so(
    harness: Harness,
) -> None:
    await witnessed(harness, "a", "b", "c")
    await harness.lottery.draw(beacon="b")
    await harness.clock.advance(lottery.WITNESS_S - 1)
    await harness.lottery.draw(beacon="b")
    with pytest.raises(WrongState, match="no draw"):
        await harness.lottery.proof()
    await harness.clock.advance(2)
    await harness.lottery.draw(beacon="b")
    proof = await harness.lottery.proof()
    assert (proof.beacon, proof.revealed) == ("b", False)
    lottery.verify(proof, await harness.lottery.drawn())
    with pytest.raises(WrongState, match="too late"):
        await harness.lottery.reveal(SECRET)
    assert len(await harness.admit()) == 3


async def test_a_draw_without_a_witness_takes_no_secret(harness: Harness) -> None:
    await gathered(harness, "a")
    with pytest.raises(WrongState, match="no witness"):
        await harness.lottery.reveal(SECRET)
    for wrong in ("", "ab", "AB" * 32, "zz" * 32):
        with pytest.raises(InvalidInput, match="64 small hex digits"):
            lottery.checked_witness(wrong)


async def test_lanes_are_drawn_each_for_itself(harness: Harness) -> None:
    """F39: a premium visitor stays one."""
    await gathered(harness, *(f"n{each}" for each in range(20)))
    await harness.join_all(*(f"p{each}" for each in range(20)), lane=3)
    await harness.lottery.draw()
    status = await harness.waiting("p3")
    assert status.lane == 3
    assert status.length == 20


async def test_without_a_seed_the_first_to_come_is_the_first_in(harness: Harness) -> None:
    """F39: a lottery is a choice."""
    await harness.open(admission_rate=100)
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    await harness.join_all("a", "b", "c")
    await harness.clock.advance(60)
    await harness.lottery.draw()
    assert await harness.admit() == ["a", "b", "c"]


def test_numbers_are_spread_evenly_and_know_nothing_of_the_order_of_arrival() -> None:
    """F39: deciles by chi square, and no correlation with who came first."""
    count = 20_000
    key = lottery.draw_key(SEED, count=count, beacon="b")
    ids = [f"{{q}}:{each:016d}" for each in range(count)]
    rank = {id: place for place, (_, id) in enumerate(lottery.order(key, ids))}
    tenths = [0] * 10
    for id in ids[: count // 2]:
        tenths[rank[id] * 10 // count] += 1
    expected = count / 2 / 10
    chi = sum((seen - expected) ** 2 / (expected / 2) for seen in tenths)
    assert chi < 21.67  # p > 0.01 with nine degrees of freedom
    mean = (count - 1) / 2
    covariance = sum((at - mean) * (rank[id] - mean) for at, id in enumerate(ids))
    variance = sum((at - mean) ** 2 for at in range(count))
    assert abs(covariance / variance) < 3 / math.sqrt(count)


class Cycle(NamedTuple):
    """One opening, and what anybody sees of it."""

    said: bool
    """The page says that lots are drawn."""
    in_order: bool
    """Whoever came first is first."""
    committed: bool
    """The proof checks, with the seed that was committed to before anybody joined."""
    witness: bool
    """A witness is named, and has had a hand in it."""


async def _opened(harness: Harness, name: str, *, lots: bool, witness: bool) -> Cycle:
    """Let people gather, by hand, and open the room."""
    digest = lottery.commit(SECRET) if witness else ""
    commitment = await harness.lottery.announce(witness=digest) if lots else None
    await harness.control.schedule(harness.clock.now_ms() + 10_000)
    return await _held(harness, name, commitment)


async def _event(harness: Harness, name: str, *, lots: bool, witness: bool) -> Cycle:
    """The same, as an event."""
    now_ms = harness.clock.now_ms()
    digest = lottery.commit(SECRET) if witness else ""
    event = ScheduledEvent(
        id=name, gathers_ms=now_ms, starts_ms=now_ms + 10_000, ends_ms=now_ms + 60_000,
        by_lot=lots, witness=digest,
    )  # fmt: skip
    planned = await Schedule(harness.room).plan(event)
    await Schedule(harness.room).keep()
    seen = await _held(harness, name, planned.commitment or None)
    await harness.clock.advance(60)
    await Schedule(harness.room).keep()
    return seen


async def _held(harness: Harness, name: str, commitment: str | None) -> Cycle:
    state = await harness.room.state()
    assert state.phase == "prequeue"
    said = state.fields.get("commitment")
    assert said == await harness.lottery.commitment() == commitment
    names = [f"{name}-{each}" for each in range(8)]
    await harness.join_all(*names)
    await harness.clock.advance(11)
    witness = await harness.lottery.witness()
    await harness.lottery.draw(beacon="b")
    if witness:
        await harness.lottery.reveal(SECRET)
        await harness.lottery.draw(beacon="b")
    assert (await harness.room.state()).phase == "open"
    drawn = await harness.lottery.drawn()
    assert sorted(harness.names(drawn)) == names
    committed = revealed = False
    with contextlib.suppress(WrongState):
        proof = await harness.lottery.proof()
        lottery.verify(proof, drawn)
        committed, revealed = proof.commitment == commitment, proof.revealed
    for each in names:
        await harness.room.leave(harness.places[each], each)
    in_order = harness.names(drawn) == names
    return Cycle(bool(said), in_order, committed, bool(witness) and revealed)


KINDS = [
    (by, how)
    for by in (_opened, _event)
    for how in (
        {"lots": False, "witness": False},
        {"lots": True, "witness": False},
        {"lots": True, "witness": True},
    )
]


async def test_a_room_that_was_opened_before_is_opened_as_a_new_one(harness: Harness) -> None:
    """Whatever the last opening left behind: a seed that is public decides nothing any more."""
    for number, ((first, before), (second, how)) in enumerate(itertools.product(KINDS, repeat=2)):
        await harness.redis.flushdb()
        await harness.open()
        await first(harness, f"{number}-first", **before)
        old = await harness.hash(harness.keys.lottery)
        seen = await second(harness, f"{number}-second", **how)
        lots, witness = how["lots"], how["witness"]
        assert seen == Cycle(lots, not lots, lots, witness), (first, before, second, how)
        new = await harness.hash(harness.keys.lottery)
        assert not lots or new["seed"] != old.get("seed")


async def test_a_late_announcement_of_an_event_leaves_its_draw_alone(harness: Harness) -> None:
    """A process that stood still while another gathered, drew and opened."""
    await harness.open()
    version = (await harness.room.state()).version
    await _opened(harness, "a", lots=True, witness=False)
    proof = await harness.lottery.proof()
    with pytest.raises(WrongState, match="version"):
        await harness.lottery.announce(SEED, version=version)
    assert await harness.lottery.proof() == proof
