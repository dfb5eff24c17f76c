"""What a room remembers of each minute."""

from tests.waitingroom.harness import Harness
from waystation.waitingroom.operating.history import History


async def test_a_minute_is_noted_once_and_says_what_happened_in_it(harness: Harness) -> None:
    await harness.open(admission_rate=2, burst=2)
    history = History(harness.room)
    await harness.join("a")
    assert await history.note() is True
    assert await history.note() is False
    assert await history.last() == []
    await harness.clock.advance(60)
    await harness.join_all("b", "c", "d")
    assert len(await harness.admit()) == 2
    await harness.come_in("a")
    assert await history.note() is True
    [minute] = await history.last()
    assert (minute.waiting, minute.called, minute.inside) == (2, 1, 1)
    assert (minute.arrivals, minute.admissions, minute.claims) == (3, 2, 1)
    assert minute.at == "2023-11-14T22:14:00+00:00"


async def test_no_shows_are_counted_and_minutes_without_anybody_are_shared_out(
    harness: Harness,
) -> None:
    await harness.open(admission_rate=4, burst=4, claim_window=60)
    history = History(harness.room)
    await history.note()
    await harness.join_all("a", "b", "c", "d")
    await harness.admit()
    await harness.clock.advance(240)
    await harness.admit()
    await history.note()
    [minute] = await history.last()
    assert (minute.arrivals, minute.no_shows) == (1, 1)


async def test_the_last_minute_of_an_hour_loses_nothing(harness: Harness) -> None:
    await harness.open(admission_rate=0)
    history = History(harness.room)
    await harness.clock.advance(2740)
    await harness.join("a")
    await history.note()
    await harness.clock.advance(40)
    await harness.join_all("b", "c")
    await harness.clock.advance(30)
    await harness.join("d")
    await history.note()
    [minute] = await history.last()
    assert minute.at == "2023-11-14T23:00:00+00:00"
    assert (minute.arrivals, minute.waiting) == (3, 4)


async def test_estimates_are_judged_by_the_minute(harness: Harness) -> None:
    await harness.open(admission_rate=1)
    history = History(harness.room)
    await history.note()
    key = harness.room.store.keys_now().stats
    await harness.redis.hset(key, mapping={"estimate_n": 8, "estimate_in": 6, "estimate_off": 120})
    await harness.redis.expire(key, 86_400)
    await harness.clock.advance(60)
    await history.note()
    [minute] = await history.last()
    assert (minute.estimates, minute.estimates_within, minute.estimate_error) == (8, 0.75, 0.15)


async def test_a_day_is_kept_and_the_latest_can_be_asked_for(harness: Harness) -> None:
    await harness.open(admission_rate=0)
    history = History(harness.room)
    for _ in range(5):
        await history.note()
        await harness.clock.advance(60)
    assert len(await history.last()) == 4
    assert [each.at for each in await history.last(2)] == [
        each.at for each in (await history.last())[-2:]
    ]
    assert 0 < await harness.redis.ttl(harness.keys.minutes) <= 172_800
