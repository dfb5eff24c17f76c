import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from tests.bullmq.harness import Harness
from waystation.bullmq.options import Backoff, Deduplication, JobOptions, Parent, wire_options
from waystation.bullmq.queue import Queue
from waystation.bullmq.redis import packing
from waystation.bullmq.redis.commands import VERSION
from waystation.bullmq.redis.packing import NewJob
from waystation.bullmq.scheduling.schedule import Schedule
from waystation.core.errors import (
    InvalidInput,
    NotAdded,
    NotFound,
    PayloadTooLarge,
    StoreUnreachable,
)
from waystation.core.store import embedded


async def test_a_job_is_added_with_what_was_asked_for(queue: Queue, harness: Harness) -> None:
    job = await queue.add(
        "send", {"to": "anna"}, priority=1, attempts=5, backoff=Backoff.fixed(0.009)
    )

    assert (job.id, job.name, job.data, job.priority) == ("1", "send", {"to": "anna"}, 1)
    stored = await harness.hash("1")
    assert stored["name"] == "send"
    assert stored["data"] == '{"to":"anna"}'
    assert stored["priority"] == "1"
    assert await harness.ids("prioritized") == ["1"]


async def test_a_job_without_data_has_an_empty_object_and_none_is_a_value(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("tick")
    await queue.add("nothing", None)
    await queue.add_many([NewJob("tick"), ("nothing", None)])

    stored = [(await harness.hash(id))["data"] for id in ("1", "2", "3", "4")]
    assert stored == ["{}", "null", "{}", "null"]


async def test_keywords_change_the_options_given(queue: Queue) -> None:
    job = await queue.add("send", {}, JobOptions(attempts=7, lifo=True), attempts=2)

    assert job.options.attempts == 2
    assert job.options.lifo


async def test_the_queue_has_options_for_jobs_that_say_nothing(harness: Harness) -> None:
    async with Queue(
        "mail", harness.store, default_job_options=JobOptions(attempts=9, delay=60)
    ) as queue:
        quiet = await queue.add("a")
        eager = await queue.add("b", delay=0)
        [many] = await queue.add_many([("c", 1)])

    assert [job.options.attempts for job in (quiet, eager, many)] == [9, 9, 9]
    assert await harness.ids("delayed") == [quiet.id, many.id]
    assert await harness.ids("wait") == [eager.id]


async def test_an_unknown_option_is_named(queue: Queue) -> None:
    with pytest.raises(InvalidInput, match=r"no option 'tries'.*a job takes attempts, backoff"):
        await queue.add("send", {}, tries=3)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("option", "meant"),
    [("attemps", "attempts"), ("countdown", "delay"), ("retries", "attempts, which counts")],
)
async def test_an_option_of_another_name_leads_to_the_right_one(
    queue: Queue, option: str, meant: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"no option '{option}'; did you mean {meant}"):
        await queue.add("send", {}, **{option: 3})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["", 7, None, "\ud800"])
async def test_a_job_needs_a_name(queue: Queue, harness: Harness, name: str) -> None:
    """D-4, D-14."""
    before = await harness.everything()

    with pytest.raises(InvalidInput, match="name must be"):
        await queue.add(name)

    assert await harness.everything() == before


async def test_a_job_like_another_is_turned_away(queue: Queue) -> None:
    first = await queue.add("a", deduplication=Deduplication("x"))
    second = await queue.add("a", deduplication=Deduplication("x"))

    assert second.id == first.id
    assert second.deduplication_id == "x"
    assert await queue.get_deduplication_job_id("x") == first.id
    assert await queue.remove_deduplication_key("x")
    assert await queue.get_deduplication_job_id("x") is None
    assert (await queue.add("a", deduplication=Deduplication("x"))).id != first.id


async def test_a_job_of_exactly_the_limit_is_added(harness: Harness) -> None:
    """D-16: by decision it is a setting."""
    async with Queue("mail", harness.store, size_limit=1000) as queue:
        room = 1000 - len(wire_options(JobOptions()))
        await queue.add("full", "x" * (room - 2))
        with pytest.raises(PayloadTooLarge):
            await queue.add("over", "x" * (room - 1))


async def test_a_job_may_have_a_limit_of_its_own(queue: Queue) -> None:
    await queue.add("small", "x" * 98, size_limit=100)

    with pytest.raises(PayloadTooLarge, match="takes 101 bytes, but size_limit is 100"):
        await queue.add("small", "x" * 99, size_limit=100)


async def test_many_jobs_are_added_in_order(queue: Queue, harness: Harness) -> None:
    jobs = await queue.add_many(("work", {"n": n}) for n in range(3 * packing.MOST_JOBS + 1))

    assert [job.id for job in jobs] == [str(n + 1) for n in range(751)]
    assert [job.data["n"] for job in jobs] == list(range(751))
    assert await harness.ids("wait") == [str(n) for n in range(751, 0, -1)]


async def test_many_jobs_may_each_have_options(queue: Queue, harness: Harness) -> None:
    later = JobOptions(delay=60)
    jobs = await queue.add_many(
        [
            ("plain", 1),
            ("later", 2, later),
            NewJob("urgent", 3, JobOptions(priority=2)),
            ("a", None),
        ]
    )

    assert [job.data for job in jobs] == [1, 2, 3, None]
    assert [job.delay_ms for job in jobs] == [0, 60_000, 0, 0]
    assert [job.priority for job in jobs] == [0, 0, 2, 0]
    assert await harness.ids("delayed") == ["2"]
    assert await harness.ids("prioritized") == ["3"]
    assert await harness.ids("wait") == ["4", "1"]


async def test_one_bad_job_stops_all_before_anything_is_written(
    queue: Queue, harness: Harness
) -> None:
    before = await harness.everything()

    with pytest.raises(InvalidInput, match=r"NaN|nan"):
        await queue.add_many([("good", 1)] * 600 + [("bad", float("nan"))])
    with pytest.raises(InvalidInput, match="a name, its data and perhaps options"):
        await queue.add_many([("good", 1), ("bad",)])  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidInput, match=r"options must be a JobOptions, got \{'delay': 1\}"):
        await queue.add_many([("bad", 1, {"delay": 1})])  # pyright: ignore[reportArgumentType]

    assert await harness.everything() == before


async def test_refused_jobs_are_told_and_the_others_added(queue: Queue, harness: Harness) -> None:
    orphan = JobOptions(parent=Parent("7", "bull:nowhere"))

    with pytest.raises(NotAdded, match="1 of 3 jobs were refused, the first at 1") as caught:
        await queue.add_many([("a", 1), ("b", 2, orphan), ("c", 3)])

    assert isinstance(caught.value.refused[1], NotFound)
    assert [job and job.name for job in caught.value.added] == ["a", None, "c"]
    assert await harness.ids("wait") == ["2", "1"]
    with pytest.raises(NotFound, match="the parent of 'b' does not exist"):
        await queue.add("b", {}, orphan)


async def test_large_jobs_travel_in_smaller_lots() -> None:
    packed = [(b"n", b"x" * 400_000, b"", b"")] * 7

    assert [len(lot) for lot in packing.chunks(packed)] == [2, 2, 2, 1]
    assert list(packing.chunks([])) == []


async def test_adding_no_jobs_adds_none(queue: Queue) -> None:
    assert await queue.add_many([]) == []


async def test_a_lost_store_says_how_many_jobs_had_been_added(
    own_server: embedded.Ephemeral,
) -> None:
    async with Queue("mail", own_server.url) as queue:
        await queue.add("before")
        own_server.kill()

        with pytest.raises(StoreUnreachable) as lost:
            await queue.add_many([("a", n) for n in range(600)])

    assert lost.value.__notes__ == ["at least 0 of 600 jobs had been added"]


async def test_a_job_belongs_to_the_trace_that_made_it(queue: Queue) -> None:
    context = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(context)):
        job = await queue.add("traced")
        [many] = await queue.add_many([("traced", 1)])
    plain = await queue.add("plain")

    carrier = f'{{"traceparent":"00-{0xABC:032x}-{0xDEF:016x}-01"}}'
    assert job.options.telemetry == many.options.telemetry == carrier
    assert plain.options.telemetry is None


async def test_the_first_job_says_who_made_the_queue_and_leaves_what_is_there(
    harness: Harness,
) -> None:
    await harness.call("HSET", harness.keys.meta, "version", "bullmq:5.0.0", "opts.maxLenEvents", 7)

    async with Queue("mail", harness.store) as queue:
        await queue.add("send")
        assert await queue.meta() == {"version": "bullmq:5.0.0", "opts.maxLenEvents": "7"}
    async with Queue("post", harness.store) as queue:
        await queue.add("send")
        assert await queue.meta() == {"version": VERSION, "opts.maxLenEvents": "10000"}
        assert await queue.version() == VERSION
    async with Queue("nightly", harness.store) as queue:
        await queue.schedulers.upsert("report", Schedule(every=3600))
        assert await queue.version() == VERSION


async def test_whoever_only_reads_a_queue_makes_none(harness: Harness) -> None:
    async with Queue("mial", harness.store) as queue:
        await queue.counts()
        await queue.get_jobs()
        await queue.is_paused()
        await queue.meta()
        await queue.schedulers.list()
        await queue.limits.get_concurrency()
    assert await harness.call("KEYS", "bull:mial:*") == []


# --- what was there before -----------------------------------------------------------------------


async def test_adding_a_taken_id_returns_the_job_that_has_it(queue: Queue) -> None:
    first = await queue.add("first", {"n": 1}, job_id="x", attempts=7, priority=3)

    again = await queue.add("second", {"n": 2}, job_id="x", attempts=1)

    assert again.id == first.id == "x"
    assert (again.name, again.data, again.priority) == ("first", {"n": 1}, 3)
    assert again.options.attempts == 7


async def test_a_finished_job_with_the_id_is_returned_as_it_ended(
    queue: Queue, harness: Harness
) -> None:
    await queue.add("work", job_id="x")
    await harness.complete(await harness.claim_one(), "done")

    again = await queue.add("work", {"n": 2}, job_id="x")

    assert (again.result, again.attempts_made) == ("done", 1)
    assert again.finished_ms


async def test_adding_what_another_job_stands_for_returns_that_job(queue: Queue) -> None:
    once = Deduplication("same")
    await queue.add("first", {"n": 1}, deduplication=once)

    again = await queue.add("second", {"n": 2}, deduplication=once)

    assert (again.id, again.name, again.data) == ("1", "first", {"n": 1})


async def test_among_many_those_that_were_there_before_are_as_they_are_stored(
    queue: Queue,
) -> None:
    taken = JobOptions(job_id="x")
    added = await queue.add_many([("a", 1), ("b", 2, taken), ("c", 3, taken), ("d", 4)])

    assert [(job.id, job.data) for job in added] == [("1", 1), ("x", 2), ("x", 2), ("4", 4)]


async def test_an_id_that_is_taken_by_something_else_is_no_reason_to_fail(
    queue: Queue, harness: Harness
) -> None:
    await harness.call("SET", f"{harness.keys.base}x", "no job")

    assert (await queue.add("work", {"n": 2}, job_id="x")).id == "x"
