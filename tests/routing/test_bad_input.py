"""What others may have left in the store, and targets that nobody meets: visible, never fatal."""

import pytest

from tests.routing.bridge import Bridge
from tests.routing.harness import Harness
from waystation.core.events import from_entry
from waystation.routing import Retry, Target, registry
from waystation.routing.registry import Profile

MALFORMED = [
    "",
    "{",
    "null",
    "[]",
    "7",
    '"text"',
    '{"jobId":"bad"}',
    '{"jobId":"bad","type":7}',
    "\x00\xff",
    "[" * 5_000,
]


@pytest.mark.parametrize("data", MALFORMED)
async def test_job_json_that_cannot_be_read_ends_in_the_dead_letter_list(
    harness: Harness, data: str
) -> None:
    await harness.redis.set("bridge:jobs:data:bad", data)
    await harness.redis.rpush("bridge:jobs:waiting", "bad")
    good = await harness.add()

    assert await harness.claim_ids(harness.source(), 9) == [good]

    (letter,) = [each async for each in harness.queue.dead_letters]
    assert (letter.id, letter.reason) == ("bad", "MALFORMED")
    assert await harness.text("bridge:jobs:data:bad") == data
    assert await harness.queue.dead_letters.retry_all() == 0


@pytest.mark.parametrize(
    "data",
    [
        '{"jobId":"bad","type":"email","attempts":"many"}',
        '{"jobId":"bad","type":"email","attempts":1e300}',
        '{"jobId":"bad","type":"email","retry":{"attempts":-1}}',
        '{"jobId":"bad","type":"email","retry":{"backoff":{"type":"sideways"}}}',
        '{"jobId":"bad","type":"email","payload":{"broken":}}',
    ],
)
async def test_job_json_that_makes_no_sense_ends_in_the_dead_letter_list_when_claimed(
    harness: Harness, data: str
) -> None:
    await harness.add(job_id="bad")
    await harness.redis.set("bridge:jobs:data:bad", data)
    good = await harness.add()

    assert await harness.claim_ids(harness.source(), 9) == [good]

    (letter,) = [each async for each in harness.queue.dead_letters]
    assert (letter.id, letter.reason) == ("bad", "MALFORMED")
    assert letter.error.message
    assert await harness.redis.sismember("bridge:jobs:active", "bad") == 0


async def test_an_id_without_data_ends_in_the_dead_letter_list(harness: Harness) -> None:
    await harness.redis.rpush("bridge:jobs:waiting", "ghost")
    lost = await harness.add()
    await harness.redis.delete(f"bridge:jobs:data:{lost}")
    good = await harness.add()

    assert await harness.claim_ids(harness.source(), 9) == [good]

    letters = {each.id: each async for each in harness.queue.dead_letters}
    assert {id: letter.reason for id, letter in letters.items()} == {
        "ghost": "NO_DATA",
        lost: "NO_DATA",
    }
    assert letters["ghost"].error.message == "there is nothing under bridge:jobs:data:ghost"
    assert [await harness.queue.state(id) for id in ("ghost", lost)] == ["dead", "dead"]
    assert await harness.redis.llen("bridge:jobs:waiting") == 0
    assert await harness.queue.dead_letters.retry_all() == 0
    assert await harness.queue.dead_letters.purge() == 2
    assert await harness.keys_like("*ghost*") == []


async def test_an_id_whose_data_comes_late_can_be_tried_again(harness: Harness) -> None:
    await harness.redis.rpush("bridge:jobs:waiting", "late")
    source = harness.source()
    assert await harness.claim_ids(source) == []

    await harness.redis.set("bridge:jobs:data:late", '{"jobId":"late","type":"email"}')
    assert await harness.queue.dead_letters.retry("late") == 1

    assert await harness.claim_ids(source) == ["late"]


@pytest.mark.parametrize("literal", [True, False], ids=["plain commands", "our script"])
async def test_a_job_that_another_client_completed_and_did_not_release_is_not_dead(
    harness: Harness, literal: bool
) -> None:
    """B-9 B-59"""
    id, bridge = await harness.add(), Bridge(harness.redis, literal=literal)
    assert await bridge.claim("other", now=harness.clock.now_ms()) is not None
    keys = harness.keys.of(id)
    await harness.redis.set(keys.status, "completed", ex=86_400)
    await harness.redis.delete(keys.data, keys.lock)

    await harness.lapse()

    assert await harness.queue.state(id) == "completed"
    assert [each async for each in harness.queue.dead_letters] == []
    assert (
        await harness.redis.exists(harness.keys.active, harness.keys.claims, harness.keys.waiting)
        == 0
    )


@pytest.mark.parametrize("literal", [True, False], ids=["plain commands", "our script"])
async def test_a_job_whose_data_is_lost_while_it_runs_elsewhere_is_a_dead_letter(
    harness: Harness, literal: bool
) -> None:
    id, bridge = await harness.add(), Bridge(harness.redis, literal=literal)
    assert await bridge.claim("other", now=harness.clock.now_ms()) is not None
    await harness.redis.delete(harness.keys.of(id).data, harness.keys.of(id).lock)

    await harness.lapse()

    (letter,) = [each async for each in harness.queue.dead_letters]
    assert (letter.id, letter.reason) == (id, "NO_DATA")


async def test_a_job_of_a_type_nobody_handles_waits_and_is_reported(harness: Harness) -> None:
    await harness.add("unheard-of")
    profile = Profile(server="w1", types=("email",))
    await registry.beat(harness.redis, harness.keys, profile)

    assert not await harness.claim(harness.source(types=["email"]))

    (covered,) = await harness.queue.coverage()
    assert (covered.type, covered.waiting, covered.served) == ("unheard-of", 1, False)
    assert covered.missing == ("no handler for unheard-of",)


async def test_coverage_says_what_the_nearest_worker_lacks(harness: Harness) -> None:
    for name, capabilities in (("w1", ("sms",)), ("w2", ("gpu", "video:*"))):
        profile = Profile(server=name, region="eu", capabilities=capabilities)
        await registry.beat(harness.redis, harness.keys, profile)
    first = await harness.add(target=Target(capabilities=("gpu", "tpu"), mode="all"))
    await harness.add(target=Target(capabilities=("tpu", "gpu"), mode="all"))
    await harness.add(target=Target(server="w9"))
    await harness.add(target=Target(capabilities=("video:encode",), region=("eu",)))
    await harness.add(target=Target(region=("us",), stack=("go",)))

    rows = {row.first: row for row in await harness.queue.coverage()}

    assert rows[first].waiting == 2
    assert rows[first].missing == ("capability tpu",)
    assert sorted((row.workers, row.missing) for row in rows.values()) == [
        (0, ("capability tpu",)),
        (0, ("server w9 is not here",)),
        (0, ("stack go", "region us")),
        (1, ()),
    ]


async def test_coverage_tells_what_is_needed_from_what_would_do(harness: Harness) -> None:
    """F-B11"""
    await registry.beat(harness.redis, harness.keys, Profile(server="w1", types=("email",)))
    either = Target(stack=("go", "rust"), capabilities=("gpu",), match="category-any")
    await harness.add(target=either)
    await harness.add("sms", target=either)
    await harness.add(target=Target(stack=("python",), capabilities=("gpu",), match="category-any"))

    rows = [(row.type, row.missing) for row in await harness.queue.coverage()]

    assert rows == [
        ("email", ("stack go or rust or capability gpu",)),
        ("sms", ("no handler for sms", "stack go or rust or capability gpu")),
        ("email", ()),
    ]


async def test_without_any_worker_coverage_says_so(harness: Harness) -> None:
    await harness.add()

    (covered,) = await harness.queue.coverage()

    assert covered.missing == ("no worker is alive",)


async def test_a_dead_worker_covers_nothing(harness: Harness) -> None:
    await registry.beat(harness.redis, harness.keys, Profile(server="w1"))
    await harness.add()
    assert [row.served for row in await harness.queue.coverage()] == [True]

    await harness.redis.delete("bridge:workers:heartbeat:w1")

    assert [row.served for row in await harness.queue.coverage()] == [False]


async def test_a_result_that_is_no_json_counts_as_a_failure(harness: Harness) -> None:
    from waystation.core.outcome import Done

    id = await harness.add(retry=Retry(attempts=1))
    source = harness.source()
    (claim,) = await harness.claim(source)

    assert not await harness.settle(source, claim, Done(object()))

    assert await harness.queue.state(id) == "dead"


async def test_every_event_can_be_read_and_none_is_corrupt(harness: Harness) -> None:
    source = harness.source()
    await harness.add(retry=Retry(attempts=1))
    await harness.fail(source)
    await harness.add()
    await harness.settle(source, (await harness.claim(source))[0])
    await harness.queue.pause("email")
    await harness.queue.resume("email")

    found = await harness.redis.xrange(harness.keys.events)

    events = [from_entry(id, entry) for id, entry in found]  # pyright: ignore
    assert [event.corrupt for event in events] == [None] * len(events)
    assert {event.line for event in events} == {"routing"}
    assert {"added", "waiting", "active", "failed", "dead", "completed", "paused", "resumed"} <= {
        event.name for event in events
    }


async def test_the_stream_is_capped(harness: Harness) -> None:
    await harness.redis.set("bridge:events:cap", 50)
    for _ in range(200):
        await harness.add()

    assert await harness.redis.xlen(harness.keys.events) < 300
