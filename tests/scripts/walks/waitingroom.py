"""A room with its lanes, turns, sessions, draws and codes."""

import random
from typing import Any

import pytest

from tests.waitingroom.hands import Hands, hands_on
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
        async with hands_on(url) as hands:
            await hands.redis.flushdb()
            await part(hands)


async def ask(hands: Hands, name: str, **more: Any) -> None:
    """Ask for a place that may be refused."""
    await hands.room.join(JoinRequest(key=name, secret=name, **more))


async def join(hands: Hands) -> None:
    await hands.open()
    for lane in Lane:
        await hands.join(f"lane {lane}", lane)
    await hands.join_all("a", "b", "a")
    await hands.join("c", metadata='{"seat": 1}')
    await hands.join("a")
    await hands.open(newcomers_per_minute=1)
    for name in "de":
        await ask(hands, name, address="192.0.2.1")
        await ask(hands, f"v6 {name}", address="2001:db8::1", solved=True)
    for options in ({"max_queue_size": 1}, {"queueing_method": "reject"}):
        await hands.open(**options)
        await ask(hands, "refused")
    await hands.open(queueing_method="passthrough")
    await ask(hands, "passed")
    await hands.open()
    await hands.control.fail_open(60)
    await ask(hands, "passed too", lane=Lane.VIP)
    await hands.control.resume()
    await hands.control.drain()
    await ask(hands, "late")


async def enter(hands: Hands) -> None:
    def newcomer(name: str) -> JoinRequest:
        return JoinRequest(key=name, secret=name, address="2001:db8::1")

    await hands.open(admission_rate=2, newcomers_per_minute=5)
    for name in "aabc":
        await hands.room.enter(newcomer(name))
    await hands.join("d", 1)
    await hands.room.enter(newcomer("e"))
    await hands.open(waiting_page="off")
    await hands.room.enter(newcomer("f"))
    await hands.open(waiting_page="always")
    await hands.room.enter(newcomer("g"))


async def beat(hands: Hands) -> None:
    await hands.open()
    await hands.join_all("a", "b")
    await hands.join("c", 2)
    await hands.room.state()
    await hands.beat("a", "c")
    await hands.room.heartbeat(hands.places["b"], leaving=20)
    await hands.control.schedule(hands.clock.now_ms() + 60_000)
    await hands.join("early")
    await hands.beat("early")
    await hands.admit()
    await hands.beat("a")


async def admit(hands: Hands) -> None:
    await hands.open(admission_rate=4, burst=4)
    await hands.admit()
    for lane in Lane:
        await hands.join_all(*(f"{lane}-{at}" for at in range(3)), lane=lane)
    called = await hands.admit()
    for name in called[:3]:
        await hands.come_in(name)
        await hands.claim(name)
    await hands.room.claim(hands.places[called[3]], called[3], user="somebody")
    token = await hands.room.hand_over(hands.places[called[0]], "shop.example")
    await hands.room.take_over(token, "shop.example")
    await hands.room.renew(hands.places[called[0]])
    await hands.room.complete(hands.places[called[0]])
    await hands.room.terminate(hands.places[called[1]], "an operator says so")
    await hands.admission.admit_now(1, lane=Lane.NORMAL)
    await hands.open(admission_rate=4, queueing_method="random", strict_lanes=True, session=5)
    await hands.control.set_rate(8, ramp=10)
    await hands.clock.advance(1)
    await hands.admit()
    # Sessions that are over, and turns that nobody took.
    await hands.clock.advance(4000)
    await hands.admit()


async def miss(hands: Hands) -> None:
    await hands.open(admission_rate=1, burst=3)
    await hands.join_all("a", "b", "c")
    await hands.admit()
    await hands.clock.advance(121)
    # Nobody has swept the first turn away yet.
    await hands.room.recover(hands.places["a"], "a")
    await hands.admit()
    await hands.room.recover(hands.places["b"], "b")
    await hands.beat("b")
    await hands.join("b")
    await hands.admit()
    await hands.clock.advance(2000)
    await hands.expire()


async def leave(hands: Hands) -> None:
    await hands.open(admission_rate=1, burst=1)
    await hands.join_all("a", "b")
    await hands.join("c", 1)
    await hands.join("d", 3)
    (first,) = await hands.admit()
    await hands.room.leave(hands.places[first], first)
    for name in sorted({"a", "b", "c"} - {first}):
        await hands.room.leave(hands.places[name], name)
    if first != "d":
        await hands.room.remove(hands.places["d"], "as an operator")
    await hands.join_all("e", "f")
    await hands.join("g", 2)
    await hands.clock.advance(3000)
    await hands.expire()


async def rejoin(hands: Hands) -> None:
    await hands.open(admission_rate=1, burst=2)
    await hands.join_all(*"abcd")
    await hands.join("e", 2)
    await hands.join("f", 2)

    async def there_and_back(*names: str) -> None:
        for name in names:
            await hands.room.leave(hands.places[name], name)
        for name in names:
            await hands.room.rejoin(hands.places[name], name)

    await there_and_back("d", "e")
    await hands.room.leave(hands.places["a"], "a")
    await hands.room.leave(hands.places["b"], "b")
    called = await hands.admit()
    # The list of the lane has passed them by.
    await hands.room.rejoin(hands.places["a"], "a")
    await hands.room.rejoin(hands.places["b"], "b")
    await there_and_back(*called)
    await hands.control.schedule(hands.clock.now_ms() + 60_000)
    await hands.join("early")
    await hands.join("early too", 1)
    await there_and_back("early", "early too")


async def draw(hands: Hands) -> None:
    await hands.open()
    await hands.lottery.announce("ab" * 32)
    await hands.control.schedule(hands.clock.now_ms() + 60_000)
    for lane in Lane:
        await hands.join(f"early {lane}", lane)
    await hands.beat("early 0")
    await hands.room.leave(hands.places["early 1"], "early 1")
    await hands.join("early", 1)
    now = hands.room.store.now()
    await scripts.begin_draw(hands.redis, hands.keys, beacon="", wait=0, now=now)
    await hands.join("late")
    await hands.lottery.draw()
    await scripts.forget_draw(hands.redis, hands.keys)
    secret = "cd" * 32
    for wait_s in (0, WITNESS_S):
        await hands.lottery.announce("ab" * 32, witness=commit(secret))
        await hands.control.schedule(hands.clock.now_ms() + 60_000)
        await hands.join(f"witnessed {wait_s}")
        await hands.lottery.draw()
        await hands.clock.advance(wait_s)
        if not wait_s:
            await hands.lottery.reveal(secret)
            await hands.lottery.reveal(secret)
        await hands.lottery.draw()
        await scripts.forget_draw(hands.redis, hands.keys)


async def redeem(hands: Hands) -> None:
    await hands.open()
    codes = Codes(hands.room)
    (code,) = await codes.make("batch", 1, bits=random.Random(7), uses=2)
    for visitor in ("a", "a", "b", "c"):
        await codes.redeem(code, visitor)


async def tend(hands: Hands) -> None:
    await hands.open()
    place = await hands.join("a")
    for handle in ("somewhere", ""):
        for secret in ("a", "another"):
            await hands.room.notify(place, secret, handle)
    await hands.room.rebind(place, "another")
    await hands.room.heartbeat(place, secret="a")
    await hands.join("b", 2)
    for ghosts in (hands.keys.normal_list, hands.keys.vip_list):
        await hands.redis.rpush(ghosts, *(f"ghost {at}" for at in range(2000)))
    await hands.upkeep.compact()
    history = History(hands.room)
    for _ in range(2):
        await history.note()
    for change in (hands.control.pause, hands.control.resume, hands.control.queue_all):
        await change()


async def plan(hands: Hands) -> None:
    await hands.open()
    schedule, now = Schedule(hands.room), hands.clock.now_ms()
    await schedule.plan(ScheduledEvent(id="gala", starts_ms=now, ends_ms=now + 1))
    with pytest.raises(WrongState, match="at that time"):
        await schedule.plan(ScheduledEvent(id="sale", starts_ms=now, ends_ms=now + 1))
    drawn = ScheduledEvent(
        id="sale", gathers_ms=now + 1, starts_ms=now + 2, ends_ms=now + 3, by_lot=True
    )
    await schedule.plan(drawn)


async def delete(hands: Hands) -> None:
    await hands.open()
    await hands.room.delete()
