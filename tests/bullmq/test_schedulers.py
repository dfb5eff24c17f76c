import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pytest

from tests.bullmq.harness import Harness
from waystation.bullmq import Deduplication, Job, JobOptions, Parent, Queue, Schedule
from waystation.bullmq.scheduling import cron, schedulers
from waystation.core.durations import instant
from waystation.core.errors import InvalidInput, InvalidOption, NotFound, WrongState
from waystation.core.store.script import Client

MINUTE = 60_000
HOUR = 60 * MINUTE
START = instant(9)
AN_HOUR = timedelta(hours=1)
EVERY_HOUR = Schedule(every=AN_HOUR)
AT_THREE = Schedule(pattern="0 3 * * *", tz="Europe/Berlin")

Upsert: TypeAlias = Callable[..., Awaitable[str]]


@pytest.fixture
def upsert(harness: Harness) -> Upsert:
    async def upsert(schedule: Schedule, **template: Any) -> str:
        return await schedulers.upsert(
            harness.store.hot,
            harness.keys,
            "tick",
            schedule,
            now=harness.clock.now_ms(),
            **template,
        )

    return upsert


async def advance(harness: Harness, job: Job) -> str | None:
    return await schedulers.advance(
        harness.store.hot, harness.keys, job, now=harness.clock.now_ms()
    )


async def run(harness: Harness) -> str | None:
    """Work off the job that is due, as a worker does: first what comes next."""
    claim = await harness.claim_one()
    made = await advance(harness, claim.work)
    assert await harness.complete(claim) is None
    return made


async def pending(harness: Harness) -> list[str]:
    states = ("wait", "prioritized", "delayed")
    return [id for state in states for id in await harness.ids(state)]


def slot(id: str | None) -> int:
    assert id is not None
    return int(id.rpartition(":")[2])


async def test_the_first_job_of_an_interval_comes_now(harness: Harness, upsert: Upsert) -> None:
    now = harness.clock.now_ms()
    id = await upsert(EVERY_HOUR, name="beat", data={"n": 1}, options=JobOptions(attempts=2))

    assert id == f"repeat:tick:{now}"
    assert await harness.ids("wait") == [id]
    job = await harness.hash(id)
    assert job["name"] == "beat"
    assert job["data"] == '{"n":1}'
    assert job["rjk"] == "tick"


async def test_whoever_runs_a_job_makes_the_next_one(harness: Harness, upsert: Upsert) -> None:
    first = await upsert(EVERY_HOUR)
    second = await run(harness)

    assert slot(second) == slot(first) + HOUR
    assert await harness.ids("delayed") == [second]
    found = await schedulers.get(harness.store.hot, harness.keys, "tick")
    assert found
    assert found.next_ms == slot(second)
    assert found.iteration_count == 2


async def test_a_job_that_is_tried_again_makes_nothing_more(
    harness: Harness, upsert: Upsert
) -> None:
    await upsert(EVERY_HOUR, options=JobOptions(attempts=2, backoff=None))
    claim = await harness.claim_one()
    assert await advance(harness, claim.work)
    await harness.fail(claim)

    assert await advance(harness, (await harness.claim_one()).work) is None
    assert len(await harness.ids("delayed")) == 1


async def test_missed_slots_are_left_out_and_the_rhythm_is_kept(
    harness: Harness, upsert: Upsert
) -> None:
    first = await upsert(EVERY_HOUR)
    await harness.clock.advance(5.5 * HOUR / 1000)

    assert slot(await run(harness)) == slot(first) + 6 * HOUR


async def test_an_offset_sets_the_place_inside_of_each_stretch(
    harness: Harness, upsert: Upsert
) -> None:
    id = await upsert(Schedule(every=AN_HOUR, offset=5 * MINUTE / 1000))

    assert slot(id) % HOUR == 5 * MINUTE
    assert 0 < slot(id) - harness.clock.now_ms() <= HOUR


async def test_a_start_date_is_waited_for(harness: Harness, upsert: Upsert) -> None:
    start = datetime.now(UTC) + timedelta(days=2)
    every = Schedule(every=AN_HOUR, start_date=start)
    assert slot(await upsert(every)) == round(start.timestamp() * 1000)

    cron_id = await upsert(Schedule(pattern="0 0 * * *", tz="UTC", start_date=start))
    assert slot(cron_id) > round(start.timestamp() * 1000)


async def test_a_limit_is_the_number_of_jobs(harness: Harness, upsert: Upsert) -> None:
    await upsert(Schedule(every=MINUTE / 1000, limit=3))
    made = 1
    while await run(harness):
        made += 1
        await harness.clock.advance(MINUTE / 1000)

    assert made == 3
    assert await pending(harness) == []
    assert await schedulers.count(harness.store.hot, harness.keys) == 1


async def test_no_job_comes_after_the_end(harness: Harness, upsert: Upsert) -> None:
    end = instant(harness.clock.now_ms() + 90 * MINUTE)
    await upsert(Schedule(every=AN_HOUR, end_date=end))
    assert await run(harness)
    await harness.clock.advance(HOUR / 1000)
    assert await run(harness) is None

    await harness.clock.advance(1)
    await upsert(Schedule(pattern="0 0 1 1 *", tz="UTC", immediately=True, end_date=end))
    assert await run(harness) is None


async def test_a_pattern_is_followed_in_its_time_zone(harness: Harness, upsert: Upsert) -> None:
    id = await upsert(AT_THREE)
    local = datetime.fromtimestamp(slot(id) / 1000, ZoneInfo("Europe/Berlin"))

    assert (local.hour, local.minute) == (3, 0)
    assert await harness.ids("delayed") == [id]


async def test_a_pattern_can_begin_now(harness: Harness, upsert: Upsert) -> None:
    now = harness.clock.now_ms()
    id = await upsert(Schedule(pattern="0 3 * * *", tz="UTC", immediately=True))

    assert slot(id) == now
    assert slot(await run(harness)) > now
    assert "immediately" not in (await harness.hash(id))["opts"]


async def test_a_pattern_never_names_the_slot_of_the_job_that_runs(
    harness: Harness, upsert: Upsert
) -> None:
    """As when the worker's clock, or the server's, is a little behind."""
    id = await upsert(AT_THREE)
    await harness.call("ZREM", harness.keys.delayed, id)
    await harness.call("LPUSH", harness.keys.wait, id)

    assert slot(await run(harness)) > slot(id)


async def test_changing_a_scheduler_replaces_the_job_that_waits(
    harness: Harness, upsert: Upsert
) -> None:
    await upsert(EVERY_HOUR, name="old")
    second = await run(harness)

    assert await upsert(EVERY_HOUR, name="new", data={"n": 2}) == second

    assert await pending(harness) == [second]
    assert (await harness.hash(second or ""))["name"] == "new"
    await harness.clock.advance(1)
    again = await upsert(Schedule(every=2 * AN_HOUR))
    assert slot(again) == harness.clock.now_ms()
    assert await pending(harness) == [again]


@pytest.mark.parametrize("priority", [0, 4])
async def test_changing_a_scheduler_of_a_paused_queue_leaves_one_job(
    harness: Harness, queue: Queue, upsert: Upsert, priority: int
) -> None:
    options = JobOptions(priority=priority)
    await upsert(EVERY_HOUR, options=options)
    await queue.pause()

    await upsert(EVERY_HOUR, options=options)
    await upsert(AT_THREE, options=options)

    assert len(await pending(harness)) == 1


async def test_changing_a_scheduler_finds_a_job_that_bullmq_5_set_aside(
    harness: Harness, upsert: Upsert
) -> None:
    id = await upsert(EVERY_HOUR)
    await harness.call("HSET", harness.keys.meta, "paused", 1)
    await harness.call("RENAME", harness.keys.wait, harness.keys.paused)

    await upsert(EVERY_HOUR)

    assert await harness.ids("paused") + await harness.ids("wait") == [id]


async def test_a_change_while_a_job_runs_takes_over_from_it(
    harness: Harness, upsert: Upsert
) -> None:
    await upsert(EVERY_HOUR)
    claim = await harness.claim_one()
    changed = await upsert(Schedule(every=2 * AN_HOUR))

    assert await advance(harness, claim.work) is None
    assert await pending(harness) == [changed]


async def test_two_sides_at_once_make_one_next_job(harness: Harness, upsert: Upsert) -> None:
    await upsert(EVERY_HOUR)
    claim = await harness.claim_one()

    made = [await advance(harness, claim.work) for _ in range(2)]

    assert [id is not None for id in made] == [True, False]
    assert len(await pending(harness)) == 1


async def test_a_slot_that_has_a_job_already_does_not_end_the_schedule(
    harness: Harness, upsert: Upsert
) -> None:
    first = await upsert(EVERY_HOUR)
    await harness.call(
        "HSET", f"{harness.keys.base}repeat:tick:{slot(first) + HOUR}", "name", "old"
    )
    assert slot(await run(harness)) == slot(first) + 2 * HOUR

    await harness.clock.advance(1)
    third = await upsert(Schedule(pattern="0 0 * * *", tz="UTC", immediately=True))
    taken = cron.next_after("0 0 * * *", "UTC", slot(third)) or 0
    await harness.call("HSET", f"{harness.keys.base}repeat:tick:{taken}", "name", "old")
    assert slot(await run(harness)) == taken + 24 * HOUR
    assert len(await harness.events("duplicated")) == 2


async def test_removing_a_scheduler_removes_the_job_that_waits_for_its_time(
    harness: Harness, upsert: Upsert
) -> None:
    id = await upsert(AT_THREE)

    assert await schedulers.remove(harness.store.hot, harness.keys, "tick")

    assert await pending(harness) == []
    assert await harness.hash(id) == {}
    assert await schedulers.get(harness.store.hot, harness.keys, "tick") is None
    assert not await schedulers.remove(harness.store.hot, harness.keys, "tick")


async def test_the_last_job_of_a_removed_scheduler_makes_no_other(
    harness: Harness, upsert: Upsert
) -> None:
    await upsert(EVERY_HOUR)
    claim = await harness.claim_one()
    await schedulers.remove(harness.store.hot, harness.keys, "tick")

    assert await advance(harness, claim.work) is None


async def test_a_schedule_that_nobody_can_read_does_not_stop_its_job(
    harness: Harness, upsert: Upsert
) -> None:
    await upsert(Schedule(pattern="0 0 * * *", tz="UTC", immediately=True))
    await harness.call("HSET", f"{harness.keys.base}repeat:tick", "pattern", "nonsense")

    assert await run(harness) is None


async def test_jobs_get_the_options_of_the_template(harness: Harness, upsert: Upsert) -> None:
    options = JobOptions(priority=2, attempts=7, deduplication=Deduplication("one"))
    await upsert(EVERY_HOUR, options=options)
    id = await run(harness)

    job = await harness.hash(id or "")
    assert job["priority"] == "2"
    assert job["deid"] == "one"
    assert '"attempts":7' in job["opts"]
    assert '"count":2' in job["opts"]


async def test_a_queue_tells_of_its_schedulers(queue: Queue) -> None:
    await queue.schedulers.upsert("b", AT_THREE, data=[1])
    await queue.schedulers.upsert('a "quoted" one:ü', EVERY_HOUR, name="beat")

    first, second = await queue.schedulers.list()
    assert (first.id, first.name, first.every) == ('a "quoted" one:ü', "beat", AN_HOUR)
    assert (second.pattern, second.tz, second.data) == ("0 3 * * *", "Europe/Berlin", [1])
    assert await queue.schedulers.count() == 2
    job = await queue.get_job(f"repeat:{first.id}:{first.next_ms}")
    assert job
    assert job.options.raw["jobId"] == job.id
    assert job.options.attempts == 3
    assert await queue.schedulers.remove("b")
    assert await queue.schedulers.get("b") is None


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({}, "either"),
        ({"every": 5, "pattern": "* * * * *"}, "either"),
        ({"every": 0}, "every must be more than 0 seconds"),
        ({"every": 0.0001}, "every must be"),
        ({"every": 5, "limit": 0}, "limit must be"),
        ({"every": 5, "offset": 5}, "offset must be less than"),
        ({"pattern": "* * * * *", "offset": 5}, "offset must be less than"),
        ({"pattern": "61 * * * *"}, "cannot be read"),
        ({"pattern": "* * * * * * *"}, "five or six fields"),
        ({"pattern": "0 3 * *"}, "five fields, or six with the seconds"),
        ({"pattern": "0 0 LW * *"}, "cannot be read"),
        ({"pattern": "0 0 30 2 *"}, "cannot be read"),
        ({"pattern": "0 0 * * *", "tz": "Mars/Base"}, "time zone such as"),
        ({"pattern": "0 0 * * *", "tz": "../etc/passwd"}, "time zone such as"),
        ({"every": 5, "immediately": True, "start_date": instant(9)}, "not both"),
        ({"every": 5, "start_date": START, "end_date": START}, "after start_date"),
        ({"every": 5, "start_date": datetime(2030, 1, 1)}, "needs a time zone"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidOption, match=complaint):
        Schedule(**wrong)


async def test_a_scheduler_that_makes_no_sense_is_refused(harness: Harness, upsert: Upsert) -> None:
    for options in (
        JobOptions(job_id="mine"),
        JobOptions(delay=0.005),
        JobOptions(created_at=instant(5)),
        JobOptions(parent=Parent("1", "bull:mail")),
    ):
        with pytest.raises(InvalidOption, match="itself"):
            await upsert(EVERY_HOUR, options=options)
    with pytest.raises(InvalidOption, match="in the future"):
        await upsert(Schedule(every=0.005, end_date=instant(harness.clock.now_ms())))
    with pytest.raises(InvalidOption, match="not due before"):
        await upsert(
            Schedule(pattern="0 0 1 1 *", tz="UTC", end_date=instant(harness.clock.now_ms() + 1))
        )
    with pytest.raises(InvalidInput, match="Unicode"):
        await upsert(EVERY_HOUR, name="\ud800")
    with pytest.raises(InvalidOption, match="needs an id"):
        await schedulers.upsert(harness.store.hot, harness.keys, "", EVERY_HOUR)
    assert await harness.everything() == {}


async def test_a_paused_scheduler_makes_no_jobs_until_it_is_resumed(
    harness: Harness, queue: Queue, upsert: Upsert
) -> None:
    await upsert(EVERY_HOUR, name="beat", data={"n": 1}, options=JobOptions(attempts=7))
    second = await run(harness)
    assert await queue.schedulers.pause("tick", by="anna")
    assert not await queue.schedulers.pause("tick")
    assert await pending(harness) == []
    [known] = await queue.schedulers.list()
    assert (known.id, known.next_at, known.paused_by) == ("tick", None, "anna")
    assert known.paused_at is not None
    assert (known.every, known.data) == (AN_HOUR, {"n": 1})
    assert await queue.schedulers.count() == 1

    await harness.clock.advance(10 * 3600 + 60)
    now = harness.clock.now_ms()
    id = await schedulers.resume(harness.store.hot, harness.keys, "tick", now=now)
    # What was missed is left out, and the rhythm is kept.
    assert 0 < slot(id) - now < HOUR
    assert (slot(id) - slot(second)) % HOUR == 0
    assert await pending(harness) == [id]
    job = await queue.get_job(id)
    assert job is not None
    assert (job.name, job.data, job.max_attempts) == ("beat", {"n": 1}, 7)
    found = await queue.schedulers.get("tick")
    assert found is not None
    assert (found.paused_at, found.next_ms, found.iteration_count) == (None, slot(id), 2)
    with pytest.raises(WrongState, match="is not paused"):
        await queue.schedulers.resume("tick")


async def test_a_calendar_goes_on_with_its_next_day(harness: Harness, queue: Queue) -> None:
    id = await queue.schedulers.upsert("nightly", AT_THREE)
    await queue.schedulers.pause("nightly")
    assert await pending(harness) == []
    assert await queue.schedulers.resume("nightly") == id
    assert await pending(harness) == [id]


async def test_a_job_that_is_due_when_its_scheduler_is_paused_runs_and_makes_no_other(
    harness: Harness, queue: Queue, upsert: Upsert
) -> None:
    first = await upsert(EVERY_HOUR)
    await queue.schedulers.pause("tick")
    assert await pending(harness) == [first]
    assert await run(harness) is None
    assert await pending(harness) == []
    await harness.clock.advance(60)
    second = await schedulers.resume(
        harness.store.hot, harness.keys, "tick", now=harness.clock.now_ms()
    )
    found = await queue.schedulers.get("tick")
    assert found is not None
    assert (slot(second) - slot(first), found.iteration_count) == (HOUR, 2)


async def test_a_pause_counts_no_job_against_the_limit(harness: Harness, queue: Queue) -> None:
    twice = Schedule(every=AN_HOUR, limit=2, start_date=datetime.now(UTC) + AN_HOUR)
    await queue.schedulers.upsert("tick", twice)
    id = ""
    for _ in range(3):
        await queue.schedulers.pause("tick")
        id = await queue.schedulers.resume("tick")
    job = await queue.get_job(id)
    assert job is not None
    assert job.options.raw["repeat"]["count"] == 1

    await job.promote()
    await queue.schedulers.pause("tick")
    await harness.complete(await harness.claim_one())
    id = await queue.schedulers.resume("tick")
    last = await queue.get_job(id)
    assert last is not None
    assert last.options.raw["repeat"]["count"] == 2
    await last.promote()
    await queue.schedulers.pause("tick")
    with pytest.raises(WrongState, match="has made all its jobs"):
        await queue.schedulers.resume("tick")


async def test_a_paused_scheduler_that_is_changed_stays_paused(
    harness: Harness, queue: Queue
) -> None:
    await queue.schedulers.upsert("tick", AT_THREE, data={"n": 1})
    await queue.schedulers.pause("tick", by="anna")
    assert await queue.schedulers.upsert("tick", EVERY_HOUR, data={"n": 2}) == ""
    assert await pending(harness) == []
    found = await queue.schedulers.get("tick")
    assert found is not None
    assert (found.paused_by, found.every, found.data) == ("anna", AN_HOUR, {"n": 2})
    job = await queue.get_job(await queue.schedulers.resume("tick"))
    assert job is not None
    assert job.data == {"n": 2}


async def test_a_paused_scheduler_is_removed_and_leaves_nothing(
    harness: Harness, queue: Queue
) -> None:
    await queue.schedulers.upsert("tick", AT_THREE)
    await queue.schedulers.pause("tick")
    assert await queue.schedulers.remove("tick")
    assert not await queue.schedulers.remove("tick")
    assert await queue.schedulers.list() == []
    assert await queue.schedulers.upsert("tick", AT_THREE) != ""
    await queue.schedulers.pause("tick")
    await queue.obliterate()
    assert [key for key in await harness.call("KEYS", "*") if b"repeat" in key] == []
    assert not await harness.call("EXISTS", harness.keys.paused_schedulers)


async def test_paused_schedulers_are_listed_behind_the_others(queue: Queue) -> None:
    for id in "abcd":
        await queue.schedulers.upsert(id, AT_THREE)
    for id in "cab":
        await queue.schedulers.pause(id)
    pages = [await queue.schedulers.list(offset, 2) for offset in (0, 2, 4)]
    assert [[each.id for each in page] for page in pages] == [["d", "a"], ["b", "c"], []]
    assert [each.id for each in await queue.schedulers.list(1, None)] == ["a", "b", "c"]


async def test_a_scheduler_that_is_not_there_is_not_paused(queue: Queue) -> None:
    with pytest.raises(NotFound, match="there is no scheduler nobody"):
        await queue.schedulers.pause("nobody")
    with pytest.raises(WrongState, match="is not paused"):
        await queue.schedulers.resume("nobody")


class Counted:
    """A client that counts what is sent."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.sent = 0

    def execute_command(self, *args: Any) -> Awaitable[Any]:
        self.sent += 1
        return self._client.execute_command(*args)


async def test_schedulers_are_listed_by_the_page(queue: Queue, harness: Harness) -> None:
    async def sent_for(many: int) -> int:
        await asyncio.gather(
            *(queue.schedulers.upsert(f"s{n}", Schedule(every=3600)) for n in range(many))
        )
        await queue.schedulers.pause("s0")
        client = Counted(harness.store.hot)
        assert len(await schedulers.get_many(client, harness.keys)) == many
        return client.sent

    # The first call also sends the text of the script.
    few, many = await sent_for(2), await sent_for(200)
    assert many <= few < 10


async def test_a_lone_star_is_every_minute(queue: Queue) -> None:
    await queue.schedulers.upsert("s", Schedule(pattern="*", tz="UTC"))

    found = await queue.schedulers.get("s")
    assert found
    assert found.next_ms
    assert found.next_ms % 60_000 == 0


@pytest.mark.parametrize("ends", [{"limit": 1}, {"endDate": 9 + MINUTE}])
async def test_upkeep_reads_schedulers_that_have_ended_by_the_page(
    harness: Harness, ends: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        record: dict[Any, Any] = {"name": "beat", "ic": 1, "every": HOUR, **ends}
        await harness.redis.hset(f"{harness.keys.base}repeat:{n}", mapping=record)
        await harness.redis.zadd(harness.keys.repeat, {str(n): 9})

    async def one_by_one(*_: Any) -> None:
        raise AssertionError("a scheduler that has ended was asked for by itself")

    monkeypatch.setattr(schedulers, "_record", one_by_one)
    assert await schedulers.advance_overdue(harness.store.hot, harness.keys) == []
