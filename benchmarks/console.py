"""The console over many queues: its overview beside a load, and what it costs the store."""

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import httpx2

from benchmarks.report import Report, Row
from waystation.console.serving import running
from waystation.console.settings import ConsoleSettings
from waystation.core.store.connection import Store, connect
from waystation.core.store.embedded import Ephemeral

QUEUES = int(os.environ.get("BENCH_QUEUES", "200"))
JOBS = int(os.environ.get("BENCH_JOBS", "1000000"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "15"))
EVERY_S = 0.2
ALLOWED_MS = 100.0
ALLOWED_SHARE = 3.0

# One call a queue: the jobs themselves are not what is measured.
_FILL = """
local base, many, now = KEYS[1], tonumber(ARGV[1]), ARGV[2]
redis.call('HSET', base .. 'meta', 'opts.maxLenEvents', '10000')
for n = 1, many do
  redis.call('HSET', base .. n, 'name', 'send', 'data', '{"n":1}', 'opts', '{"attempts":1}',
    'timestamp', now, 'delay', 0, 'priority', 0)
  redis.call('LPUSH', base .. 'wait', n)
end
redis.call('SET', base .. 'id', many)
for n = 1, 20 do redis.call('XADD', base .. 'events', '*', 'event', 'added', 'jobId', n) end
"""
_LOAD = """
import asyncio, sys
from waystation.bullmq import Queue, Worker

async def handle(job): pass

async def main(url):
    async with Queue("load", url) as queue, Worker("load", handle, url, concurrency=50):
        while True:
            await queue.add_many([("send", {"n": n}) for n in range(200)])
            await asyncio.sleep(0.1)

asyncio.run(main(sys.argv[1]))
"""


def run() -> list[Report]:
    """Measure the overview and the store's share."""
    with Ephemeral({"save": ""}) as server:
        return asyncio.run(_measure(server.url))


async def _measure(url: str) -> list[Report]:
    async with await connect(url) as store:
        await _fill(store)
        settings = ConsoleSettings(port=_port(), local_role="viewer")
        address = f"http://127.0.0.1:{settings.port}"
        async with (
            running(settings, store) as app,
            httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as client,
        ):
            await client.get("/api/v1/overview")
            share, quiet = await _watched(store, client)
            with _load(url):
                await asyncio.sleep(2)
                _, busy = await _watched(store, client)
            latest = app.console.sampler.latest
            sampling, every_ms = latest.took_ms, latest.every_s * 1000
    title = f"Overview of {QUEUES} queues with {JOBS:,} jobs"
    rows = [
        Row("p95, quiet", _p95([wall for wall, _ in quiet]), ALLOWED_MS),
        Row("p95, beside a load", _p95([wall for wall, _ in busy]), ALLOWED_MS),
        Row("p95 by processor time, beside a load", _p95([cpu for _, cpu in busy]), ALLOWED_MS),
        Row("one sample of all queues, beside a load", sampling, every_ms),
    ]
    used = [Row("while somebody looks, without a load", share, ALLOWED_SHARE)]
    return [
        Report(title=title, unit="ms", beside="allowed", rows=rows),
        Report(title="The store's time", unit="%", beside="allowed", rows=used),
    ]


async def _watched(
    store: Store, client: httpx2.AsyncClient
) -> tuple[float, list[tuple[float, float]]]:
    """The store's share in percent, and the time of each call in milliseconds: wall, processor."""
    took: list[tuple[float, float]] = []
    began, before = time.monotonic(), await _store_s(store)
    while time.monotonic() - began < SECONDS:
        wall, cpu = time.perf_counter(), time.process_time()
        answer = await client.get("/api/v1/overview")
        took.append(((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
        assert len(answer.json()["queues"]) >= QUEUES, answer.text[:200]
        await asyncio.sleep(EVERY_S)
    used = await _store_s(store) - before
    return 100 * used / (time.monotonic() - began), took


async def _store_s(store: Store) -> float:
    """Seconds of processor time that the store has used."""
    redis: Any = store.redis
    info = await redis.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


async def _fill(store: Store) -> None:
    now = str(int(time.time() * 1000))
    for number in range(QUEUES):
        base = f"bull:queue-{number}:"
        await store.ask("EVAL", _FILL, 1, base, JOBS // QUEUES, now)


@contextlib.contextmanager
def _load(url: str) -> Generator[None]:
    process = subprocess.Popen([sys.executable, "-c", _LOAD, url])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def _port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
