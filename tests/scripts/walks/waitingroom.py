"""A room with its lanes, turns, sessions, draws and codes."""

import random
from typing import Any

import pytest

from tests.waitingroom.harness import Harness, harness_on
from waystation.core.errors import WrongState
from waystation.waitingroom.operating.codes import Codes
from waystation.waitingroom.operating.history import History
from waystation.waitingroom.operating.lottery import WITNESS_S, commit
from waystation.waitingroom.operating.schedule import Schedule, ScheduledEvent
from waystation.waitingroom.redis import scripts
from waystation.waitingroom.visitor import JoinRequest, Lane


async def walk(url: str) -> None:
    """Take the paths of every script of the waiting room."""
    for part in (join, enter, beat, admit, miss, leave, rejoin, draw, redeem, tend, plan, delete):
        async with harness_on(url) as harness:
            await harness.redis.flushdb()
            await part(harness)


async def ask(harness: Harness, name: str, **more: Any) -> None:
    """Ask for a place that may be refused."""
    await harness.room.join(JoinRequest(key=name, secret=name, **more))


async def join(harness: Harness) -> None:
    await harness.open()
    for lane in Lane:
        await harness.join(f"lane {lane}", lane)
    await harness.join_all("a", "b", "a")
    await harness.join("c", metadata='{"seat": 1}')
    await harness.join("a")
    await harness.open(newcomers_per_minute=1)
    for name in "de":
        await ask(harness, name, address="192.0.2.1")
        await ask(harness, f"v6 {name}", address="2001:db8::1", solved=True)
    for options in ({"max_queue_size": 1}, {"queueing_method": "reject"}):
        await harness.open(**options)
        await ask(harness, "refused")
    await harness.open(queueing_method="passthrough")
    await ask(harness, "passed")
    await harness.open()
    await harness.control.fail_open(60)
    await ask(harness, "passed too", lane=Lane.VIP)
    await harness.control.resume()
    await harness.control.drain()
    await ask(harness, "late")


async def enter(harness: Harness) -> None:
    def newcomer(name: str) -> JoinRequest:
        return JoinRequest(key=name, secret=name, address="2001:db8::1")

    await harness.open(admission_rate=2, newcomers_per_minute=5)
    for name in "aabc":
        await harness.room.enter(newcomer(name))
    await harness.join("d", 1)
    await harness.room.enter(newcomer("e"))
    await harness.open(waiting_page="off")
    await harness.room.enter(newcomer("f"))
    await harness.open(waiting_page="always")
    await harness.room.enter(newcomer("g"))


async def beat(harness: Harness) -> None:
    await harness.open()
    await harness.join_all("a", "b")
    await harness.join("c", 2)
    await harness.room.state()
    await harness.beat("a", "c")
    await harness.room.heartbeat(harness.places["b"], leaving=20)
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    await harness.join("early")
    await harness.beat("early")
    await harness.admit()
    await harness.beat("a")


async def admit(harness: Harness) -> None:
    await harness.open(admission_rate=4, burst=4)
    await harness.admit()
    for lane in Lane:
        await harness.join_all(*(f"{lane}-{at}" for at in range(3)), lane=lane)
    called = await harness.admit()
    for name in called[:3]:
        await harness.come_in(name)
        await harness.claim(name)
    await harness.room.claim(harness.places[called[3]], called[3], user="somebody")
    token = await harness.room.hand_over(harness.places[called[0]], "shop.example")
    await harness.room.take_over(token, "shop.example")
    await harness.room.renew(harness.places[called[0]])
    await harness.room.complete(harness.places[called[0]])
    await harness.room.terminate(harness.places[called[1]], "an operator says so")
    await harness.admission.admit_now(1, lane=Lane.NORMAL)
    await harness.open(admission_rate=4, queueing_method="random", strict_lanes=True, session=5)
    await harness.control.set_rate(8, ramp=10)
    await harness.clock.advance(1)
    await harness.admit()
    # Sessions that are over, and turns that nobody took.
    await harness.clock.advance(4000)
    await harness.admit()


async def miss(harness: Harness) -> None:
    await harness.open(admission_rate=1, burst=3)
    await harness.join_all("a", "b", "c")
    await harness.admit()
    await harness.clock.advance(121)
    # Nobody has swept the first turn away yet.
    await harness.room.recover(harness.places["a"], "a")
    await harness.admit()
    await harness.room.recover(harness.places["b"], "b")
    await harness.beat("b")
    await harness.join("b")
    await harness.admit()
    await harness.clock.advance(2000)
    await harness.expire()


async def leave(harness: Harness) -> None:
    await harness.open(admission_rate=1, burst=1)
    await harness.join_all("a", "b")
    await harness.join("c", 1)
    await harness.join("d", 3)
    (first,) = await harness.admit()
    await harness.room.leave(harness.places[first], first)
    for name in sorted({"a", "b", "c"} - {first}):
        await harness.room.leave(harness.places[name], name)
    if first != "d":
        await harness.room.remove(harness.places["d"], "as an operator")
    await harness.join_all("e", "f")
    await harness.join("g", 2)
    await harness.clock.advance(3000)
    await harness.expire()


async def rejoin(harness: Harness) -> None:
    await harness.open(admission_rate=1, burst=2)
    await harness.join_all(*"abcd")
    await harness.join("e", 2)
    await harness.join("f", 2)

    async def there_and_back(*names: str) -> None:
        for name in names:
            await harness.room.leave(harness.places[name], name)
        for name in names:
            await harness.room.rejoin(harness.places[name], name)

    await there_and_back("d", "e")
    await harness.room.leave(harness.places["a"], "a")
    await harness.room.leave(harness.places["b"], "b")
    called = await harness.admit()
    # The list of the lane has passed them by.
    await harness.room.rejoin(harness.places["a"], "a")
    await harness.room.rejoin(harness.places["b"], "b")
    await there_and_back(*called)
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    await harness.join("early")
    await harness.join("early too", 1)
    await there_and_back("early", "early too")


async def draw(harness: Harness) -> None:
    await harness.open()
    await harness.lottery.announce("ab" * 32)
    await harness.control.schedule(harness.clock.now_ms() + 60_000)
    for lane in Lane:
        await harness.join(f"early {lane}", lane)
    await harness.beat("early 0")
    await harness.room.leave(harness.places["early 1"], "early 1")
    await harness.join("early", 1)
    now = harness.room.store.now()
    await scripts.begin_draw(harness.redis, harness.keys, beacon="", wait=0, now=now)
    await harness.join("late")
    await harness.lottery.draw()
    secret = "cd" * 32
    for wait_s in (0, WITNESS_S):
        await harness.lottery.announce("ab" * 32, witness=commit(secret))
        await harness.control.schedule(harness.clock.now_ms() + 60_000)
        await harness.join(f"witnessed {wait_s}")
        await harness.lottery.draw()
        await harness.clock.advance(wait_s)
        if not wait_s:
            await harness.lottery.reveal(secret)
            await harness.lottery.reveal(secret)
        await harness.lottery.draw()


async def redeem(harness: Harness) -> None:
    await harness.open()
    codes = Codes(harness.room)
    (code,) = await codes.make("batch", 1, bits=random.Random(7), uses=2)
    for visitor in ("a", "a", "b", "c"):
        await codes.redeem(code, visitor)


async def tend(harness: Harness) -> None:
    await harness.open()
    place = await harness.join("a")
    for handle in ("somewhere", ""):
        for secret in ("a", "another"):
            await harness.room.notify(place, secret, handle)
    await harness.room.rebind(place, "another")
    await harness.room.heartbeat(place, secret="a")
    await harness.join("b", 2)
    for ghosts in (harness.keys.normal_list, harness.keys.vip_list):
        await harness.redis.rpush(ghosts, *(f"ghost {at}" for at in range(2000)))
    await harness.upkeep.compact()
    history = History(harness.room)
    for _ in range(2):
        await history.note()
    for change in (harness.control.pause, harness.control.resume, harness.control.queue_all):
        await change()


async def plan(harness: Harness) -> None:
    await harness.open()
    schedule, now = Schedule(harness.room), harness.clock.now_ms()
    await schedule.plan(ScheduledEvent(id="gala", starts_ms=now, ends_ms=now + 1))
    with pytest.raises(WrongState, match="at that time"):
        await schedule.plan(ScheduledEvent(id="sale", starts_ms=now, ends_ms=now + 1))
    drawn = ScheduledEvent(
        id="sale", gathers_ms=now + 1, starts_ms=now + 2, ends_ms=now + 3, by_lot=True
    )
    await schedule.plan(drawn)


async def delete(harness: Harness) -> None:
    await harness.open()
    await harness.room.delete()
