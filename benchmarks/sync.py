"""Adding without a loop, beside a bare loop over redis-py that sends the same script."""

import time
from collections.abc import Callable

from redis import Redis

from benchmarks.report import Report, Row
from benchmarks.turns import medians
from waystation.bullmq.options import JobOptions
from waystation.bullmq.redis import scripts
from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.redis.packing import NewJob, Packer
from waystation.core.clock import SERVER_TIME
from waystation.core.codec import PAYLOAD_LIMIT
from waystation.core.store import embedded
from waystation.sync import Queue

JOBS = 20_000
ALONE = 2_000
AT_ONCE = 250
ROUNDS = 5
DATA = {"to": "ada@example.org", "template": "welcome", "attempt": 1}


def run() -> Report:
    """Measure both ways of adding, one at a time and many at once."""
    with (
        embedded.ephemeral() as server,
        Redis.from_url(server.url, protocol=2) as client,
        Queue("bench", server.url) as queue,
    ):
        subjects: list[Callable[[], float]] = [
            lambda: _rate(client, JOBS, lambda: queue.add_many([("send", DATA)] * JOBS)),
            lambda: _rate(client, JOBS, lambda: _pipelined(client)),
            lambda: _rate(client, ALONE, lambda: [queue.add("send", DATA) for _ in range(ALONE)]),
            lambda: _rate(client, ALONE, lambda: _one_by_one(client)),
        ]
        many, pipelined, alone, bare = medians(
            [[measure() for measure in subjects] for _ in range(ROUNDS)]
        )
    return Report(
        title="Adding jobs from code that waits",
        unit="jobs/s",
        beside="redis-py",
        rows=[
            Row(f"add_many, beside pipelines of {AT_ONCE} calls", many, pipelined),
            Row("add, beside one call after the other", alone, bare),
        ],
        remark="redis-py sends the same script with arguments that were encoded before",
    )


def _rate(client: Redis, jobs: int, add: Callable[[], object]) -> float:
    client.flushdb()
    began = time.perf_counter()
    add()
    took = time.perf_counter() - began
    counted = client.llen(QueueKeys("bench").wait)
    if counted != jobs:
        raise RuntimeError(f"wanted {jobs} jobs, got {counted}")
    return jobs / took


def _pipelined(client: Redis) -> None:
    sha, slots = _call(client)
    for _ in range(JOBS // AT_ONCE):
        pipe = client.pipeline(transaction=False)
        for _ in range(AT_ONCE):
            pipe.execute_command("EVALSHA", sha, *slots)
        pipe.execute()


def _one_by_one(client: Redis) -> None:
    sha, slots = _call(client)
    for _ in range(ALONE):
        client.execute_command("EVALSHA", sha, *slots)


def _call(client: Redis) -> tuple[str, list[str | int | bytes]]:
    keys = QueueKeys("bench")
    client.script_load(scripts.add.source)
    [packed] = Packer(JobOptions(), PAYLOAD_LIMIT).pack([NewJob("send", DATA)])
    names = [getattr(keys, name) for name in scripts.add.header.keys]
    arguments = {"base": keys.base, "now": SERVER_TIME}
    given = [arguments[name] for name in scripts.add.header.args]
    return scripts.add.sha, [len(names), *names, *given, *packed]
