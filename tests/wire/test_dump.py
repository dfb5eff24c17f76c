from redis.asyncio import Redis

from tests.wire.dump import differences, dump, render, without_our_events

START = 1_790_000_000_123
MINUTE = 60_000
UUIDS = [f"{n}0000000-0000-4000-8000-000000000000" for n in (9, 1)]


async def test_two_databases_with_the_same_content_have_no_differences(redis: Redis) -> None:
    await redis.lpush("bull:q:wait", "1", "2")

    first = await dump(redis, since=START)

    assert differences(first, await dump(redis, since=START)) == ""


async def test_a_difference_is_told_with_its_key_and_both_values(redis: Redis) -> None:
    await redis.hset("bull:q:1", mapping={"name": "send", "priority": "0"})
    before = await dump(redis, since=START)
    await redis.hset("bull:q:1", "priority", "7")
    await redis.sadd("bull:q:stalled", "1")

    shown = differences(before, await dump(redis, since=START), names=("node", "ours"))

    assert shown.splitlines() == [
        "--- node",
        "+++ ours",
        '-bull:q:1 (hash) priority = "0"',
        '+bull:q:1 (hash) priority = "7"',
        '+bull:q:stalled (set) [0] = "1"',
    ]


async def test_order_in_lists_counts_and_in_sets_does_not(redis: Redis) -> None:
    await redis.rpush("list", "b", "a")
    await redis.sadd("set", "b", "a")

    assert render(await dump(redis, since=START)) == [
        'list (list) [0] = "b"',
        'list (list) [1] = "a"',
        'set (set) [0] = "a"',
        'set (set) [1] = "b"',
    ]


async def test_instants_are_told_in_minutes_after_the_start(redis: Redis) -> None:
    await redis.hset(
        f"bull:q:repeat:s:{START + MINUTE}",
        mapping={
            "timestamp": START + 900,
            "processedOn": START + 59 * MINUTE + 59_000,
            "opts": f'{{"prevMillis":{START + 5 * MINUTE}}}',
        },
    )
    await redis.zadd("bull:q:completed", {"1": START + 20_000})

    snapshot = await dump(redis, since=START)

    assert snapshot["bull:q:repeat:s:<start+1 min>"].value == {
        "timestamp": "<start>",
        "processedOn": "<start+60 min>",
        "opts": {"prevMillis": "<start+5 min>"},
    }
    assert snapshot["bull:q:completed"].value == [["1", "<start>"]]


async def test_a_wrong_delay_shows_and_the_place_within_a_chance_instant_does_not(
    redis: Redis,
) -> None:
    await redis.zadd("bull:q:delayed", {"a": (START + 10 * MINUTE) * 4096 + 3})
    await redis.zadd("bull:q:delayed", {"b": 1_893_456_000_000 * 4096 + 1})

    snapshot = await dump(redis, since=START)

    assert snapshot["bull:q:delayed"].value == [
        ["a", "<start+10 min>"],
        ["b", "<2030-01-01 00:00> #1"],
    ]


async def test_priorities_and_their_counter_are_kept_as_they_are(redis: Redis) -> None:
    await redis.zadd("bull:q:prioritized", {"a": 400 * 2**32 + 2, "b": 400 * 2**32 + 1})

    snapshot = await dump(redis, since=START)

    assert snapshot["bull:q:prioritized"].value == [
        ["b", 400 * 2**32 + 1],
        ["a", 400 * 2**32 + 2],
    ]


async def test_random_ids_are_numbered_in_the_order_of_the_events(redis: Redis) -> None:
    for uuid in UUIDS:
        await redis.xadd("bull:q:events", {"event": "added", "jobId": uuid})
        await redis.hset(f"bull:q:{uuid}", mapping={"name": "send", "pb": "host-17-a8f3"})

    snapshot = await dump(redis, since=START)

    assert sorted(snapshot) == ["bull:q:<id 1>", "bull:q:<id 2>", "bull:q:events"]
    assert [entry["jobId"] for entry in snapshot["bull:q:events"].value] == ["<id 1>", "<id 2>"]
    assert snapshot["bull:q:<id 1>"].value["pb"] == "<worker>"


async def test_locks_and_time_to_live_are_told_without_their_chance_parts(redis: Redis) -> None:
    await redis.set("bull:q:1:lock", f"{UUIDS[0]}:3", px=29_000)
    await redis.set("bull:q:de:once", "1", px=3_590_000)

    assert render(await dump(redis, since=START)) == [
        'bull:q:1:lock (string, 0 min left) = "<token>"',
        'bull:q:de:once (string, 60 min left) = "1"',
    ]


async def test_options_are_compared_by_meaning_and_data_by_value(redis: Redis) -> None:
    first = '{"b":[],"a":9.007199254741e+15,"path":"a\\/b","none":null}'
    second = '{"path":"a/b","a":9007199254740991,"b":{}}'
    await redis.hset("one", mapping={"opts": first, "data": '{"n":null}'})
    await redis.hset("two", mapping={"opts": second, "data": '{"n":{}}'})

    snapshot = await dump(redis, since=START)

    assert snapshot["one"].value["opts"] == snapshot["two"].value["opts"]
    assert snapshot["one"].value["data"] != snapshot["two"].value["data"]


async def test_a_field_that_should_be_json_and_is_not_shows(redis: Redis) -> None:
    await redis.hset("bull:q:1", mapping={"data": "{broken", "stacktrace": '["Error: a","b"]'})

    snapshot = await dump(redis, since=START)

    assert snapshot["bull:q:1"].value == {
        "data": "<not JSON> {broken",
        "stacktrace": ["<stack>", "<stack>"],
    }


async def test_our_own_events_can_be_left_out(redis: Redis) -> None:
    for entry in (
        {"event": "active", "jobId": "1", "prev": "waiting", "workerId": "w"},
        {"event": "retry", "jobId": "1", "delay": "0"},
        {"event": "failed", "jobId": "1", "attemptsMade": "1"},
        {"event": "retries-exhausted", "jobId": "1", "attemptsMade": "1"},
    ):
        await redis.xadd("bull:q:events", entry)  # pyright: ignore[reportArgumentType]

    snapshot = without_our_events(await dump(redis, since=START))

    assert snapshot["bull:q:events"].value == [
        {"event": "active", "jobId": "1", "prev": "waiting"},
        {"event": "failed", "jobId": "1"},
        {"event": "retries-exhausted", "jobId": "1", "attemptsMade": "1"},
    ]
