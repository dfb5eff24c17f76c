"""Jobs that rest midway through their steps: no script costs one of them what it has done.

Every call that the walk makes is made again with each job that waits or is delayed midway.
"""

from typing import Any

import pytest
from redis import Redis

from tests.scripts.calls import Call, recorded
from tests.scripts.test_failed_scripts import writes
from tests.scripts.walks import bullmq
from waystation.core.store.embedded import Ephemeral
from waystation.core.store.script import LuaScript

LATE_MS = 2**41 - 2
"""Later than any call that promotes what is due."""
MOVES = {"cancel", "change_delay", "promote", "retry_jobs"}
"""Somebody asks for the job to rest no longer, or for another time."""
REMOVES = {"obliterate", "remove_job", "remove_unprocessed_children", "sweep"}
"""Somebody asks for the job to go."""
DONE = {
    b"steps": b"1",
    b"step:charge": b"7",
    b"by:charge": b"charge",
    b"given": b"1",
    b"wait:approve": b"%d token" % LATE_MS,
    b"waits": b"%d approve" % LATE_MS,
    b"signals:other": b"1",
    b"signal:other#1": b"1",
}


def planted(redis: Any, call: Call) -> dict[tuple[bytes, bytes], Any]:
    """Restore what the call met, with every job that rests midway; where each is, and when due."""
    redis.flushall()
    pipe = redis.pipeline(transaction=False)
    for key, (value, ttl) in call.database.items():
        pipe.restore(key, ttl and ttl + 3_600_000, value)
    pipe.execute()
    found: dict[tuple[bytes, bytes], Any] = {}
    for key in call.database:
        if key.endswith(b":meta"):
            # One more that the call has nothing to do with.
            base = key.removesuffix(b":meta")
            redis.hset(base + b":midway", mapping={"name": "work", "timestamp": 1})
            redis.zadd(base + b":delayed", {"midway": 1})
    for key in redis.keys("*"):
        base, _, state = key.rpartition(b":")
        if state == b"delayed" and redis.type(key) == b"zset":
            for rank, id in enumerate(redis.zrange(key, 0, -1)):
                redis.zadd(key, {id: LATE_MS * 4096 + rank})
                found[base, id] = LATE_MS * 4096 + rank
        elif state == b"prioritized" and redis.type(key) == b"zset":
            found |= {(base, id): None for id in redis.zrange(key, 0, -1)}
        elif state in (b"wait", b"paused") and redis.type(key) == b"list":
            found |= {(base, id): None for id in redis.lrange(key, 0, -1)}
    jobs = {at: due for at, due in found.items() if redis.type(b":".join(at)) == b"hash"}
    for at in jobs:
        redis.hset(b":".join(at), mapping={**DONE, b"ats": b"1"})
    return jobs


def lost(redis: Any, call: Call, met: set[str]) -> list[str]:
    """What jobs have lost by this call; scripts that met one are noted."""
    name = call.script.name
    jobs = planted(redis, call)
    met |= {name} if jobs else set()
    redis.eval(call.script.source, call.keys, *call.slots)
    wrong: list[str] = []
    for (base, id), due in jobs.items():
        job = base + b":" + id
        kept = redis.hgetall(job)
        if not kept and name in REMOVES:
            continue
        parked = DONE if name not in MOVES else {**DONE, b"waits": kept.get(b"waits", b"")}
        if {field: kept.get(field) for field in DONE} != parked:
            wrong.append(f"{name} took steps from {job!r}")
        if due and name not in MOVES and redis.zscore(base + b":delayed", id) != due:
            wrong.append(f"{name} moved {job!r}")
    return wrong


@pytest.mark.slow
async def test_no_script_costs_a_job_midway_what_it_has_done(
    own_server: Ephemeral, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = Redis.from_url(own_server.url)
    with recorded(redis, monkeypatch) as calls:
        await bullmq.walk(own_server.url)

    mine = [call for call in calls if call.script.package == "waystation.bullmq.redis"]
    met = set[str]()
    wrong = {each for call in mine for each in lost(redis, call, met)}
    assert not wrong, "\n".join(sorted(wrong))
    scripts = LuaScript.of("waystation.bullmq.redis").values()
    able = {each.name for each in scripts if "delayed" in each.header.keys and writes(each)}
    assert able - met == set(), "the walk leads past no job with these scripts"
