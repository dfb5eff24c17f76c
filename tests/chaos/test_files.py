"""Workers of files that are killed, frozen and cut off; the files are counted afterwards."""

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.queues.files.hands import Hands, hands_on
from tests.support.project import ROOT

from .files_process import HEARTBEAT_S, STEPS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@contextmanager
def worker(url: str, ledger: Path, step: str) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.chaos.files_process", url, str(ledger), step]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


async def until(condition: Callable[[], object], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not (found := condition()) or (asyncio.iscoroutine(found) and not await found):
            await asyncio.sleep(0.02)


async def until_ended(hands: Hands, count: int) -> None:
    async with asyncio.timeout(60):
        while await hands.redis.llen(hands.keys.completed) < count:
            await asyncio.sleep(0.05)


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


async def left_over(hands: Hands) -> dict[str, int]:
    """What is anywhere but in the completed list."""
    kept = {hands.keys.completed, hands.keys.events, hands.keys.workers, hands.keys.wake}
    names = [key.decode() for key in await hands.redis.keys("jobqueue:*")]
    lists = [name for name in names if name not in kept and "processing:worker" not in name]
    return {name: await hands.redis.exists(name) for name in lists}


@pytest.mark.parametrize("step", STEPS)
async def test_a_worker_killed_at_any_step_leaves_one_completion(
    redis_url: str, tmp_path: Path, step: str
) -> None:
    ledger = tmp_path / "ledger"
    async with hands_on(redis_url) as hands:
        await hands.add("/inbox/a.pdf")
        with worker(redis_url, ledger, step) as dying:
            await asyncio.to_thread(dying.wait, 30)
        assert dying.returncode == -signal.SIGKILL
        with worker(redis_url, second := tmp_path / "second", "none") as good:
            await until_ended(hands, 1)
            await until(lambda: "ready" in lines(second))
            good.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(good.wait, 20) == 0

        assert "/inbox/a.pdf" in [*lines(ledger), *lines(second)]
        assert await hands.redis.llen(hands.keys.completed) == 1
        assert await left_over(hands) == {}


async def test_a_frozen_worker_loses_its_work_and_its_late_completion_is_refused(
    redis_url: str, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    async with hands_on(redis_url) as hands:
        id = await hands.add("/inbox/a.pdf")
        with worker(redis_url, ledger, "frozen") as frozen:
            await until(lambda: f"begun {id}" in lines(ledger))
            frozen.send_signal(signal.SIGSTOP)
            with worker(redis_url, tmp_path / "other", "none") as good:
                await until_ended(hands, 1)
                frozen.send_signal(signal.SIGCONT)
                # Either its handler is stopped because the work is lost, or its outcome is refused.
                await asyncio.sleep(HEARTBEAT_S)
                assert await hands.redis.llen(hands.keys.completed) == 1
                good.send_signal(signal.SIGTERM)
                await asyncio.to_thread(good.wait, 20)
        assert await hands.redis.llen(hands.keys.completed) == 1
        (raw,) = await hands.redis.lrange(hands.keys.completed, 0, -1)
        assert json.loads(raw)["retries"] == 1


async def test_a_job_longer_than_the_heartbeat_is_not_reaped(
    redis_url: str, tmp_path: Path
) -> None:
    async with hands_on(redis_url) as hands:
        await hands.add("/inbox/a.pdf")
        hands.set(heartbeat_ttl_s=0.3)
        source = hands.source()
        (claim,) = (await source.settle([], claim=1)).claims
        async with source.keeper() as extend:
            for _ in range(8):
                await asyncio.sleep(0.15)
                assert await hands.reaper().reap() == 0
            assert list(await extend([claim])) == []


async def test_every_file_is_accounted_for_while_workers_die_at_random(
    redis_url: str, tmp_path: Path
) -> None:
    count, dice, ledger = 600, random.Random(7), tmp_path / "ledger"
    async with hands_on(redis_url) as hands:
        paths = [f"/inbox/{number}.pdf" for number in range(count)]
        for path in paths:
            await hands.add(path)
        for _ in range(4):
            with worker(redis_url, ledger, "slow") as first, worker(redis_url, ledger, "slow"):
                await until(lambda: "ready" in lines(ledger))
                await asyncio.sleep(dice.uniform(0.3, 0.8))
                first.kill()
        with worker(redis_url, ledger, "none") as good:
            await until_ended(hands, count)
            good.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(good.wait, 20) == 0

        done = await hands.redis.lrange(hands.keys.completed, 0, -1)
        assert Counter(json.loads(raw)["filepath"] for raw in done) == Counter(paths)
        assert set(paths) <= set(lines(ledger))
        assert await left_over(hands) == {}
