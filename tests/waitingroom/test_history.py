"""What a room remembers of each minute."""

from tests.waitingroom.hands import Hands
from waystation.waitingroom.operating.history import History


async def test_a_minute_is_noted_once_and_says_what_happened_in_it(hands: Hands) -> None:
    await hands.open(admission_rate=2, burst=2)
    history = History(hands.room)
    await hands.join("a")
    assert await history.note() is True
    assert await history.note() is False
    assert await history.last() == []
    await hands.clock.advance(60)
    await hands.join_all("b", "c", "d")
    assert len(await hands.admit()) == 2
    await hands.come_in("a")
    assert await history.note() is True
    [minute] = await history.last()
    assert (minute.waiting, minute.called, minute.inside) == (2, 1, 1)
    assert (minute.arrivals, minute.admissions, minute.claims) == (3, 2, 1)
    assert minute.at == "2023-11-14T22:14:00+00:00"


async def test_no_shows_are_counted_and_minutes_without_anybody_are_shared_out(
    hands: Hands,
) -> None:
    await hands.open(admission_rate=4, burst=4, claim_window=60)
    history = History(hands.room)
    await history.note()
    await hands.join_all("a", "b", "c", "d")
    await hands.admit()
    await hands.clock.advance(240)
    await hands.admit()
    await history.note()
    [minute] = await history.last()
    assert (minute.arrivals, minute.no_shows) == (1, 1)


async def test_the_last_minute_of_an_hour_loses_nothing(hands: Hands) -> None:
    await hands.open(admission_rate=0)
    history = History(hands.room)
    await hands.clock.advance(2740)
    await hands.join("a")
    await history.note()
    await hands.clock.advance(40)
    await hands.join_all("b", "c")
    await hands.clock.advance(30)
    await hands.join("d")
    await history.note()
    [minute] = await history.last()
    assert minute.at == "2023-11-14T23:00:00+00:00"
    assert (minute.arrivals, minute.waiting) == (3, 4)


async def test_estimates_are_judged_by_the_minute(hands: Hands) -> None:
    await hands.open(admission_rate=1)
    history = History(hands.room)
    await history.note()
    key = hands.room.store.keys_now().stats
    await hands.redis.hset(key, mapping={"estimate_n": 8, "estimate_in": 6, "estimate_off": 120})
    await hands.redis.expire(key, 86_400)
    await hands.clock.advance(60)
    await history.note()
    [minute] = await history.last()
    assert (minute.estimates, minute.estimates_within, minute.estimate_error) == (8, 0.75, 0.15)


async def test_a_day_is_kept_and_the_latest_can_be_asked_for(hands: Hands) -> None:
    await hands.open(admission_rate=0)
    history = History(hands.room)
    for _ in range(5):
        await history.note()
        await hands.clock.advance(60)
    assert len(await history.last()) == 4
    assert [each.at for each in await history.last(2)] == [
        each.at for each in (await history.last())[-2:]
    ]
    assert 0 < await hands.redis.ttl(hands.keys.minutes) <= 172_800
