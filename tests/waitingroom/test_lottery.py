"""The draw at the start of a sale, and how anybody checks it."""

import asyncio
import contextlib
import itertools
import math
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from tests.waitingroom.hands import Hands
from waystation.core.errors import InvalidInput, WrongState
from waystation.waitingroom.operating import lottery
from waystation.waitingroom.operating.lottery import Lottery, Proof
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.redis.store import RoomStore
from waystation.waitingroom.room import Room
from waystation.waitingroom.visitor import Prequeued, Waiting

SEED, SECRET = "ab" * 32, "cd" * 32


async def gathered(hands: Hands, *names: str) -> None:
    await hands.open(admission_rate=1000, max_active=10_000)
    await hands.control.schedule(hands.clock.now_ms() + 600_000)
    await hands.lottery.announce(SEED)
    await hands.join_all(*names)


async def witnessed(hands: Hands, *names: str) -> None:
    await hands.open(admission_rate=1000, max_active=10_000)
    await hands.control.schedule(hands.clock.now_ms() + 600_000)
    await hands.lottery.announce(SEED, witness=lottery.commit(SECRET))
    await hands.join_all(*names)


async def test_people_gather_before_the_room_opens(hands: Hands) -> None:
    """F39: nobody is called, nobody expires, and everybody is told when it starts."""
    await gathered(hands, "a", "b")
    status = await hands.status("a")
    assert status == Prequeued(
        lane=status.lane,  # pyright: ignore
        starts_ms=hands.clock.now_ms() + 600_000,
        early=2,
    )
    assert await hands.admit() == []
    await hands.clock.advance(599)
    assert await hands.expire() == []
    place = hands.places["a"]
    assert await hands.redis.ttl(hands.keys.of(place.id).position) > 1800


async def test_the_draw_can_be_checked_by_anybody(hands: Hands) -> None:
    """F39: attack 60; commitment before, seed after, and the order follows from both."""
    names = [f"v{each}" for each in range(300)]
    await gathered(hands, *names)
    commitment = await hands.lottery.commitment()
    with pytest.raises(WrongState, match="no draw"):
        await hands.lottery.proof()
    assert await hands.lottery.draw(beacon="block 1234") == 300
    proof, drawn = await hands.lottery.proof(), await hands.lottery.drawn()
    assert proof.commitment == commitment == lottery.commit(SEED)
    lottery.verify(proof, drawn)
    order = hands.names(drawn)
    assert sorted(order) == sorted(names)
    assert order != names
    assert (await hands.admit()) == order


async def test_a_draw_that_was_tampered_with_does_not_check(hands: Hands) -> None:
    """Attack 60: another seed, another number of people, another order."""
    await gathered(hands, *(f"v{each}" for each in range(20)))
    await hands.lottery.draw()
    proof, drawn = await hands.lottery.proof(), await hands.lottery.drawn()
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


async def test_the_seed_cannot_be_chosen_after_people_came(hands: Hands) -> None:
    """Attack 60: whoever knows who came could try seeds until friends are first."""
    await gathered(hands, "a")
    with pytest.raises(WrongState, match="before anybody"):
        await hands.lottery.announce("cd" * 32)


async def test_a_seed_once_announced_stays(hands: Hands) -> None:
    """Attack 60."""
    await gathered(hands)
    assert await hands.lottery.announce("cd" * 32) == lottery.commit(SEED)


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
    hands: Hands, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """F39: the second one at the same moment, one step here and one step there."""
    await gathered(hands, *(f"v{each}" for each in range(18)))
    other = Lottery(Room(hands.room.name, hands.store, clock=hands.clock))
    turns = Turns(random.Random(seed))
    with monkeypatch.context() as once:
        stepwise(once, turns.wait)
        await turns.run(hands.lottery.draw(beacon="first"), other.draw(beacon="second"))
    drawn = await hands.lottery.drawn()
    lottery.verify(await hands.lottery.proof(), drawn)
    assert await hands.admit() == hands.names(drawn)
    seen = await hands.room.state()
    assert (seen.phase, seen.early, seen.waiting) == ("open", 0, 0)


@pytest.mark.parametrize("at", range(1, 11))
async def test_nobody_sees_half_a_draw_and_a_crash_changes_nothing(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """F39: everybody still waits for the start until the last one has a place."""
    await gathered(hands, *(f"v{each}" for each in range(18)))

    steps = itertools.count()

    async def stop() -> None:
        if next(steps) == at:
            raise Frozen

    with monkeypatch.context() as once:
        stepwise(once, stop)
        with pytest.raises(Frozen):
            await hands.lottery.draw(beacon="b")
    await hands.join("late")
    for name in ("v0", "v17", "late"):
        status = await hands.status(name)
        assert isinstance(status, Prequeued)
        assert status.early == 18
    seen = await hands.room.state()
    assert seen.early + seen.waiting == 19
    assert await hands.admit() == []

    await hands.lottery.draw(beacon="another")
    proof = await hands.lottery.proof()
    assert proof.beacon == "b"
    lottery.verify(proof, await hands.lottery.drawn())
    assert (await hands.admit())[-1] == "late"


async def test_a_draw_overtakes_nobody_who_stood_in_line_before(hands: Hands) -> None:
    """F39: those of before first, then those who were drawn, then whoever came later."""
    await hands.open(admission_rate=0, max_active=100)
    await hands.join_all("early", "earlier")
    await hands.join("premium", lane=3)
    before = await hands.status("earlier")
    await hands.control.schedule(hands.clock.now_ms() + 60_000)
    await hands.lottery.announce(SEED)
    crowd = [f"v{each}" for each in range(20)]
    await hands.join_all(*crowd)
    await hands.clock.advance(60)
    await hands.lottery.draw()
    await hands.join("late")
    after = await hands.status("earlier")
    assert isinstance(before, Waiting)
    assert isinstance(after, Waiting)
    assert after.ahead == before.ahead == 1
    await hands.control.set_rate(1)
    called = list[str]()
    for _ in range(24):
        await hands.clock.advance(1)
        called += await hands.admit()
    normal = [name for name in called if name != "premium"]
    assert normal == ["early", "earlier", *hands.names(await hands.lottery.drawn()), "late"]


async def test_nobody_slips_out_of_a_draw_that_has_counted_them(hands: Hands) -> None:
    """F39: a proof is about everybody who took part; they may leave as soon as it is made."""
    await gathered(hands, "ann", "bob", "eve")
    client = await hands.room.store.client()
    await scripts.begin_draw(client, hands.keys, beacon="", wait=0, now=hands.room.store.now())
    with pytest.raises(WrongState, match="lots are being drawn"):
        await hands.room.leave(hands.places["bob"], "bob")
    await hands.lottery.draw()
    lottery.verify(await hands.lottery.proof(), await hands.lottery.drawn())
    assert await hands.room.leave(hands.places["bob"], "bob") is True
    assert set(await hands.admit()) == {"ann", "eve"}


async def test_a_witness_has_a_hand_in_the_draw(hands: Hands) -> None:
    """Attack 60: neither who reads the store nor the witness knows the outcome beforehand."""
    names = [f"v{each}" for each in range(50)]
    await witnessed(hands, *names)
    with pytest.raises(WrongState, match="keep the secret"):
        await hands.lottery.reveal(SECRET)
    assert await hands.lottery.draw(beacon="b") == 50
    # The list is closed and published, and nobody is called yet.
    ids = sorted(place.id for place in hands.places.values())
    assert await hands.lottery.entrants() == (lottery.digest_of(ids), 50)
    await hands.join("late")
    assert await hands.admit() == []
    with pytest.raises(InvalidInput, match="not the one that the witness committed to"):
        await hands.lottery.reveal("ef" * 32)
    assert await hands.lottery.reveal(SECRET) is True
    assert await hands.lottery.reveal(SECRET) is False
    await hands.lottery.draw(beacon="another")
    proof, drawn = await hands.lottery.proof(), await hands.lottery.drawn()
    assert (proof.beacon, proof.witness, proof.revealed) == (SECRET, lottery.commit(SECRET), True)
    lottery.verify(proof, drawn)
    assert (await hands.admit())[-1] == "late"
    swapped = sorted({*drawn[1:], "{concert-tickets}:AAAAAAAAAAAAAAAA"})
    for given, listed, why in (
        (changed(proof, beacon="12" * 32), drawn, "the witness"),
        (changed(proof, beacon="no hex"), drawn, "the witness"),
        (proof, swapped, "those who took part"),
    ):
        with pytest.raises(InvalidInput, match=why):
            lottery.verify(given, listed)


async def test_a_list_that_is_closed_is_not_opened_again(hands: Hands) -> None:
    """Who takes part is published by then; one who joined after that would spoil the proof."""
    await witnessed(hands, "a", "b")
    await hands.lottery.draw()
    with pytest.raises(WrongState, match="lots are being drawn"):
        await hands.control.schedule(hands.clock.now_ms() + 60_000)
    await hands.lottery.reveal(SECRET)
    await hands.lottery.draw()
    lottery.verify(await hands.lottery.proof(), await hands.lottery.drawn())
    await hands.control.schedule(hands.clock.now_ms() + 60_000)


async def test_a_witness_who_stays_away_delays_the_draw_and_the_proof_says_so(
    hands: Hands,
) -> None:
    await witnessed(hands, "a", "b", "c")
    await hands.lottery.draw(beacon="b")
    await hands.clock.advance(lottery.WITNESS_S - 1)
    await hands.lottery.draw(beacon="b")
    with pytest.raises(WrongState, match="no draw"):
        await hands.lottery.proof()
    await hands.clock.advance(2)
    await hands.lottery.draw(beacon="b")
    proof = await hands.lottery.proof()
    assert (proof.beacon, proof.revealed) == ("b", False)
    lottery.verify(proof, await hands.lottery.drawn())
    with pytest.raises(WrongState, match="too late"):
        await hands.lottery.reveal(SECRET)
    assert len(await hands.admit()) == 3


async def test_a_draw_without_a_witness_takes_no_secret(hands: Hands) -> None:
    await gathered(hands, "a")
    with pytest.raises(WrongState, match="no witness"):
        await hands.lottery.reveal(SECRET)
    for wrong in ("", "ab", "AB" * 32, "zz" * 32):
        with pytest.raises(InvalidInput, match="64 small hex digits"):
            lottery.checked_witness(wrong)


async def test_lanes_are_drawn_each_for_itself(hands: Hands) -> None:
    """F39: a premium visitor stays one."""
    await gathered(hands, *(f"n{each}" for each in range(20)))
    await hands.join_all(*(f"p{each}" for each in range(20)), lane=3)
    await hands.lottery.draw()
    status = await hands.waiting("p3")
    assert status.lane == 3
    assert status.length == 20


async def test_without_a_seed_the_first_to_come_is_the_first_in(hands: Hands) -> None:
    """F39: a lottery is a choice."""
    await hands.open(admission_rate=100)
    await hands.control.schedule(hands.clock.now_ms() + 60_000)
    await hands.join_all("a", "b", "c")
    await hands.clock.advance(60)
    await hands.lottery.draw()
    assert await hands.admit() == ["a", "b", "c"]


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
