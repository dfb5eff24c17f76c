"""What a simulation says, next to what real workers did."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.pipeline.rounds import history_at
from tests.support.patience import limit
from waystation.bullmq import Job, Queue, Worker
from waystation.pipeline import runner
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.runner import RunOptions
from waystation.pipeline.simulation.comparison import recorded_attempts
from waystation.pipeline.simulation.replay import Setup, Work, percentile, replay
from waystation.pipeline.sources.streams import EventOptions

pytestmark = pytest.mark.slow

Arrivals = Sequence[tuple[float, float]]
"""Seconds after which each job is added, and seconds for which it runs."""


async def really(redis_url: str, root: Path, arrivals: Arrivals, workers: int) -> Work:
    """What the history has recorded after real workers have done these jobs."""

    async def handle(job: Job) -> None:
        await asyncio.sleep(job.data["run"])

    name = f"real-{workers}"
    async with (
        Queue(name, redis_url) as queue,
        Worker(name, handle, redis_url, concurrency=workers),
        asyncio.timeout(limit(300)),
    ):
        start = asyncio.get_running_loop().time()
        for at, run in arrivals:
            await asyncio.sleep(max(0.0, start + at - asyncio.get_running_loop().time()))
            await queue.add("sleep", {"run": run})
        while (await queue.counts("completed"))["completed"] < len(arrivals):
            await asyncio.sleep(0.05)
    history = history_at(str(root))
    options = RunOptions(events=EventOptions(url=redis_url))
    await asyncio.to_thread(runner.run, history, options)
    with Engine(history.root, threads=1) as engine:
        return recorded_attempts(engine, "bullmq", name)


def rush(dice: random.Random, jobs: int, mean_s: float) -> Arrivals:
    """Jobs that come in bursts, with run times of all lengths."""
    at = 0.0
    found: list[tuple[float, float]] = []
    for _ in range(jobs):
        at += dice.expovariate(1 / mean_s) if dice.random() < 0.2 else 0.0
        found.append((at, min(dice.expovariate(1 / mean_s), 5 * mean_s)))
    return found


async def test_nobody_waits_longer_in_a_replay_than_with_as_many_real_workers(
    redis_url: str, tmp_path: Path
) -> None:
    """Real workers lose time between two jobs, and a busy machine more of it; a replay none."""
    work = await really(redis_url, tmp_path, rush(random.Random(2), 60, 0.05), 3)
    assert len(work) == 60
    assert 1 <= work.most_at_once <= 4
    again = replay(work, Setup(workers=3))
    # Instants are recorded in whole milliseconds.
    rounding = 0.002 * len(work)
    for part in (0.5, 0.95, 0.99):
        assert again.percentile(part) <= percentile(work.waits, part) + rounding


@pytest.mark.long
async def test_a_replay_foresees_the_waits_with_another_number_of_workers(
    redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded with four workers, foretold for eight and for two, and compared with real ones."""
    arrivals = rush(random.Random(4), 400, 0.4)
    work = await really(redis_url, tmp_path / "four", arrivals, 4)
    for workers in (2, 8):
        forecast = replay(work, Setup(workers=workers)).percentile(0.95)
        real = await really(redis_url, tmp_path / f"{workers}", arrivals, workers)
        was = percentile(real.waits, 0.95)
        with capsys.disabled():
            print(f"\n  {workers} workers: p95 forecast {forecast:.2f} s, really {was:.2f} s")
        assert forecast == pytest.approx(was, rel=0.15)
