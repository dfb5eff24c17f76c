"""Our worker beside the other workers of Python, each emptying the same queue its quickest way."""

import asyncio

from redis.asyncio import Redis

from benchmarks.peers.run import measure, measure_ours
from benchmarks.report import Report, Row
from benchmarks.turns import interleaved
from waystation.core.store import embedded

JOBS = 3_000
OUR_JOBS = 20_000
"""More of ours, or the clock would be read before it has moved."""
AT_A_TIME = {"celery": 1, "rq": 1, "huey": 1, "dramatiq": 8, "bullmq": 40}
"""Where it is not 200: no threads, Dramatiq's own number, and what suits the port best."""
PEERS = ("celery", "rq", "dramatiq", "huey", "arq", "saq", "taskiq", "bullmq")


def run() -> Report:
    with embedded.ephemeral() as server:
        return asyncio.run(_run(server.url))


async def _run(url: str) -> Report:
    async def ours() -> float:
        return (await measure_ours("drain", url, jobs=OUR_JOBS))["perSecond"]

    async def theirs(peer: str) -> float:
        await _emptied(url)
        at_a_time = AT_A_TIME.get(peer, 200)
        told = await measure(f"drain_{peer}", url, jobs=JOBS, concurrency=at_a_time)
        return told["perSecond"]

    fast, *others = await interleaved(ours, *(lambda peer=peer: theirs(peer) for peer in PEERS))
    return Report(
        title="Jobs that do nothing, one worker process, one server",
        unit="ours, jobs/s",
        beside="theirs",
        rows=[Row(f"beside {peer}", fast, rate) for peer, rate in zip(PEERS, others, strict=True)],
        remark="each from its first job to its last, keeping no results where it can be told so; "
        "bullmq is the official port. Ours settles every job under a lease and keeps its result.",
    )


async def _emptied(url: str) -> None:
    async with Redis.from_url(url) as client:
        await client.flushall()
