"""Schedules: each slot once, whoever fires it, in whatever night."""

import asyncio
import itertools
import json
from datetime import UTC, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
from waystation.core.clock import HandClock, SystemClock
from waystation.core.errors import InvalidOption
from waystation.core.outcome import Failed
from waystation.routing import BackoffRule, Queue, Retry, Schedule
from waystation.routing import queue as queue_module
from waystation.routing import upkeep as upkeep_module
from waystation.routing.schedules import MOST_MISSED, Turn, next_slot, turn


def next_slots(expression: str, timezone: str | None, after_ms: int, count: int) -> list[int]:
    """The next slots after an instant."""
    slots: list[int] = []
    while len(slots) < count:
        slot = next_slot(expression, timezone, slots[-1] if slots else after_ms)
        assert slot is not None
        slots.append(slot)
    return slots


def ms(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def utc(instants: list[int]) -> list[str]:
    return [datetime.fromtimestamp(each / 1000, UTC).strftime("%m-%d %H:%M") for each in instants]


ZONES = {
    # Each with the day clocks go forward, the day they go back, and the hours of 02:30 that week.
    "Europe/Vienna": ("2024-03-30", "2024-10-26", "02:30"),
    "America/New_York": ("2024-03-09", "2024-11-02", "02:30"),
    "Australia/Lord_Howe": ("2024-10-05", "2024-04-06", "02:15"),
}


@pytest.mark.parametrize("zone", ZONES)
def test_a_daily_slot_fires_once_a_day_through_both_nights(zone: str) -> None:
    """B-51"""
    forward, back, at = ZONES[zone]
    hour, minute = at.split(":")
    for eve in (forward, back):
        slots = next_slots(f"{int(minute)} {int(hour)} * * *", zone, ms(f"{eve} 00:00", zone), 4)
        days = [datetime.fromtimestamp(slot / 1000, ZoneInfo(zone)).date() for slot in slots]
        assert [(day - days[0]).days for day in days] == [0, 1, 2, 3]


def test_a_slot_that_the_spring_night_leaves_out_fires_right_after() -> None:
    """B-51"""
    slots = next_slots("30 2 * * *", "Europe/Vienna", ms("2024-03-30 12:00", "Europe/Vienna"), 2)

    assert utc(slots) == ["03-31 01:00", "04-01 00:30"]


def test_a_slot_that_the_autumn_night_has_twice_fires_once() -> None:
    """B-51"""
    slots = next_slots("30 2 * * *", "Europe/Vienna", ms("2024-10-26 12:00", "Europe/Vienna"), 2)

    assert utc(slots) == ["10-27 00:30", "10-28 01:30"]
    # Asked again from inside the doubled hour, it does not look back.
    assert next_slot("50 2 * * *", "Europe/Vienna", ms("2024-10-27 01:40")) == ms(
        "2024-10-28 01:50"
    )


@pytest.mark.parametrize("zone", ZONES)
def test_an_hourly_slot_fires_every_hour_of_real_time(zone: str) -> None:
    """B-51"""
    for eve in ZONES[zone][:2]:
        slots = next_slots("*/30 * * * *", zone, ms(f"{eve} 20:00", zone), 24)
        gaps = {later - earlier for earlier, later in itertools.pairwise(slots)}
        assert gaps == {1_800_000}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("night", ["forward", "back"])
async def test_a_scheduler_that_ticks_through_the_night_fires_each_day_once(
    harness: Harness, zone: str, night: str
) -> None:
    """B-25 B-51"""
    forward, back, at = ZONES[zone]
    hour, minute = at.split(":")
    eve = ms(f"{forward if night == 'forward' else back} 12:00", zone)
    await harness.clock.advance((eve - harness.clock.now_ms()) / 1000)
    daily = f"{int(minute)} {int(hour)} * * *"
    await harness.add(schedule=Schedule(cron=daily, timezone=zone, missed="all"))
    upkeep = await harness.upkeep()

    fired: list[str] = []
    for _ in range(4 * 60):
        await harness.clock.advance(15 * 60)
        fired += await upkeep.fire_schedules()

    slots = [int(instance.rpartition(":")[2]) / 1000 for instance in fired]
    days = [datetime.fromtimestamp(slot, ZoneInfo(zone)).date() for slot in slots]
    after = datetime.fromtimestamp(eve / 1000, ZoneInfo(zone)).date()
    assert [(day - after).days for day in days] == [1, 2]


def test_a_bad_expression_is_quoted_in_the_error() -> None:
    with pytest.raises(InvalidOption, match='Invalid cron expression "every day": '):
        next_slot("every day", None, 0)


async def test_an_expression_that_never_fires_is_refused(harness: Harness) -> None:
    with pytest.raises(InvalidOption, match="Invalid cron expression"):
        await harness.add(schedule=Schedule(cron="0 0 30 2 *"))


async def test_two_schedulers_at_once_make_one_job_a_slot(harness: Harness) -> None:
    """B-25 B-52 F-B4"""
    ids = [await harness.add(schedule=Schedule(cron="* * * * *")) for _ in range(5)]
    upkeep = await harness.upkeep()
    other = Bridge(harness.redis)
    for _ in range(4):
        await harness.clock.advance(60)
        await asyncio.gather(
            upkeep.fire_schedules(),
            other.process_cron(harness.clock.now_ms()),
            upkeep.fire_schedules(),
            other.process_cron(harness.clock.now_ms()),
        )

    fired = [event["subject"] for event in await harness.events() if event["event"] == "fired"]
    assert len(fired) == len(set(fired)) == 4 * len(ids)


async def test_a_scheduler_killed_before_it_set_the_next_time_fires_nothing_twice(
    harness: Harness,
) -> None:
    """F-B4"""
    id = await harness.add(schedule=Schedule(cron="* * * * *"))
    await harness.clock.advance(60)
    # Fires, and dies before it says when the next time is; then another one takes over.
    await Bridge(harness.redis).process_cron(harness.clock.now_ms())
    source = harness.source()
    (claim,) = await harness.claim(source)
    await harness.settle(source, claim)
    upkeep = await harness.upkeep(owner="next")

    assert await upkeep.fire_schedules() == []

    score = await harness.redis.zscore("bridge:jobs:cron", id)
    assert score is not None
    assert score > harness.clock.now_ms()


@pytest.mark.parametrize(("policy", "count"), [("last", 1), ("all", 10), ("skip", 0)])
async def test_missed_slots_are_made_up_for_by_policy(
    harness: Harness, policy: str, count: int
) -> None:
    schedule = Schedule(cron="0 * * * *", missed=policy)  # pyright: ignore
    await harness.add(schedule=schedule)
    # Ten slots have passed, the last one 13 minutes ago.
    await harness.clock.advance(10 * 3600 - harness.clock.now_ms() / 1000 % 3600 + 13 * 60)

    fired = await (await harness.upkeep()).fire_schedules()

    assert len(fired) == count
    skipped = [event for event in await harness.events() if event["event"] == "skipped"]
    assert len(skipped) == 10 - count
    assert all(event["reason"] == "missed" for event in skipped)


def test_a_slot_that_is_only_late_is_no_missed_one() -> None:
    decided = turn(Schedule(cron="* * * * *", missed="skip"), 60_000, 60_900)

    assert decided.fire == [60_000]


def test_after_a_very_long_absence_it_goes_on_from_now() -> None:
    now = 10 * MOST_MISSED * 60_000 + 30_000
    decided = turn(Schedule(cron="* * * * *", missed="all"), 60_000, now)

    assert len(decided.fire) == MOST_MISSED
    assert decided.next_ms == now + 30_000


async def fire(harness: Harness) -> list[str]:
    await harness.clock.advance(60)
    return await (await harness.upkeep()).fire_schedules()


async def test_overlap_allow_lets_a_slot_run_beside_the_last_one(harness: Harness) -> None:
    """F-B3"""
    await harness.add(schedule=Schedule(cron="* * * * *"))
    assert await fire(harness)
    assert await fire(harness)
    assert len(await harness.claim(harness.source(), 9)) == 2


async def test_overlap_skip_leaves_a_slot_out_while_the_last_one_has_not_ended(
    harness: Harness,
) -> None:
    """F-B3"""
    retry = Retry(attempts=2, backoff=BackoffRule(type="fixed", delay=90))
    await harness.add(schedule=Schedule(cron="* * * * *", overlap="skip"), retry=retry)
    source = harness.source()
    assert await fire(harness)
    assert not await fire(harness)  # it waits
    (claim,) = await harness.claim(source)
    assert not await fire(harness)  # it runs
    await harness.settle(source, claim, Failed(RuntimeError("again")))
    assert not await fire(harness)  # it waits for its next attempt
    await harness.clock.advance(60)
    await harness.fail(source)  # it is dead
    assert len(await fire(harness)) == 1


async def test_overlap_queue_one_lets_one_wait_behind_the_running_one(harness: Harness) -> None:
    """F-B3"""
    await harness.add(schedule=Schedule(cron="* * * * *", overlap="queue-one"))
    source = harness.source()
    assert await fire(harness)
    await harness.claim(source)
    assert await fire(harness)
    assert not await fire(harness)
    await harness.claim(source)
    assert await fire(harness)


async def test_a_schedule_nobody_can_read_is_set_aside_without_stopping_the_others(
    harness: Harness,
) -> None:
    bad = await harness.add(schedule=Schedule(cron="* * * * *"))
    good = await harness.add(schedule=Schedule(cron="* * * * *"))
    await harness.redis.set(f"bridge:jobs:data:{bad}", '{"jobId":"x","type":"t","schedule":7}')

    fired = await fire(harness)

    assert [instance.split(":")[0] for instance in fired] == [good]
    assert await harness.redis.zscore("bridge:jobs:cron", bad) is None


async def test_schedules_can_be_listed_whatever_others_wrote(harness: Harness) -> None:
    id = await harness.add("report", schedule=Schedule(cron="0 3 * * *", timezone="Asia/Tokyo"))
    await harness.redis.zadd(harness.keys.cron, {"gone": 1, "odd": 2})
    await harness.redis.set(harness.keys.of("odd").data, '{"jobId":"odd","type":"t","schedule":7}')

    listed = await harness.queue.schedules.list()

    assert [(each.id, each.type, each.cron) for each in listed] == [
        ("gone", "", ""),
        ("odd", "", ""),
        (id, "report", "0 3 * * *"),
    ]
    assert listed[-1].timezone == "Asia/Tokyo"
    assert listed[-1].next_ms == next_slot("0 3 * * *", "Asia/Tokyo", harness.clock.now_ms())
    await harness.redis.flushdb()


async def test_the_slots_that_were_fired_are_told_with_their_schedule(harness: Harness) -> None:
    id = await harness.add("report", schedule=Schedule(cron="* * * * *"))
    (instance,) = await fire(harness)

    (fired,) = [event for event in await harness.events() if event["event"] == "fired"]

    assert (fired["subject"], fired["schedule"], fired["queue"]) == (instance, id, "report")
    assert fired["slot"] == instance.rpartition(":")[2]


async def test_a_schedule_that_has_had_its_last_slot_leaves_nothing_behind(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last(schedule: Schedule, due_ms: int, now_ms: int) -> Turn:
        return Turn([due_ms], [], None)

    monkeypatch.setattr(upkeep_module, "turn", last)
    for _ in range(2):
        # A new one of that id may be added again, and runs.
        await harness.add(job_id="s", schedule=Schedule(cron="* * * * *"))
        await harness.clock.advance(60)
        (instance,) = await (await harness.upkeep()).fire_schedules()
        assert await harness.claim_ids(harness.source()) == [instance]
        for key in (harness.keys.of("s").data, harness.keys.of("s").status, harness.keys.fired):
            assert await harness.redis.exists(key) == 0
        assert await harness.redis.hget(harness.keys.routes, "s") is None


async def test_a_schedule_that_cannot_be_read_is_a_dead_letter(harness: Harness) -> None:
    data = '{"jobId":"s","type":"t","schedule":{"cron":"never"}}'
    await harness.redis.set(harness.keys.of("s").data, data)
    await harness.redis.zadd(harness.keys.cron, {"s": 1})

    assert await (await harness.upkeep()).fire_schedules() == []

    (letter,) = await harness.queue.dead_letters.list()
    assert (letter.id, letter.reason) == ("s", "MALFORMED")
    assert await harness.redis.zcard(harness.keys.cron) == 0


async def test_an_id_that_stands_in_its_own_payload_is_found_where_it_is_the_id(
    harness: Harness,
) -> None:
    schedule = '"schedule":{"cron":"* * * * *"}'
    payload = '"payload":[' + ",".join(['"a"'] * 50) + "]"
    for parts in (['"jobId":"a"', payload], [payload, '"jobId":"a"']):
        await harness.redis.flushdb()
        await harness.redis.set(
            harness.keys.of("a").data, "{" + ",".join(['"type":"t"', schedule, *parts]) + "}"
        )
        await harness.redis.zadd(harness.keys.cron, {"a": 60_000})
        await Bridge(harness.redis).process_cron(harness.clock.now_ms())
        (claim,) = await harness.claim(harness.source())
        assert json.loads(claim.work.raw)["jobId"] == "a:60000"
        assert claim.work.data == ["a"] * 50
    await harness.redis.flushdb()


async def test_a_schedule_begins_by_the_clock_of_the_store(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = SystemClock().now_ms()
    for off in (-3_600_000, 3_600_000):
        monkeypatch.setattr(queue_module, "SystemClock", partial(HandClock, before + off))
        job = await Queue(harness.store).add("t", schedule=Schedule(cron="* * * * *"))
        first = await harness.redis.zscore(harness.keys.cron, job.id)
        assert first is not None
        assert before < first <= before + 600_000


@pytest.mark.parametrize("expression", ["* * * * *", "* * * * * *", "*/7 3 * * *", "0 2 29 2 *"])
@pytest.mark.parametrize("gap_s", [0, 59, 3_600, 3 * 86_400, 40 * 86_400])
def test_every_slot_of_a_gap_is_fired_or_left_out(expression: str, gap_s: int) -> None:
    due = next_slot(expression, None, ms("2026-11-17"))
    assert due is not None
    now = due + gap_s * 1000
    last = due
    for every in ("all", "last", "skip"):
        found = turn(Schedule(cron=expression, missed=every), due, now)
        slots = sorted([*found.fire, *found.leave_out])
        assert len(slots) <= MOST_MISSED
        start = slots[0] if found.older else due
        assert slots == [start, *_between(expression, start, now)]
        if found.older:
            assert len(slots) == MOST_MISSED
            assert found.older == (due, slots[0] - 1)
        last = slots[-1]
        if every == "last":
            assert found.fire == [last]
        if every == "skip":
            assert found.fire == ([last] if now - last <= 60_000 else [])
        assert found.next_ms == next_slot(expression, None, now)


def _between(expression: str, first: int, last: int) -> list[int]:
    found: list[int] = []
    while (slot := next_slot(expression, None, found[-1] if found else first)) and slot <= last:
        found.append(slot)
    return found
