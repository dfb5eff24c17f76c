"""Workers of files that are killed, frozen and cut off; the files are counted afterwards."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import RedisError

from tests.chaos.files_process import SLOW_HEARTBEAT_S, STEPS
from tests.files.harness import Harness, harness_on
from tests.support.patience import LIMIT_S
from tests.support.project import ROOT
from tests.support.size import size
from waystation.core.store import embedded

pytestmark = pytest.mark.slow


@contextmanager
def worker(url: str, ledger: Path, step: str) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.chaos.files_process", url, str(ledger), step]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


async def until(condition: Callable[[], object], seconds: float = LIMIT_S) -> None:
    async with asyncio.timeout(seconds):
        while not (found := condition()) or (asyncio.iscoroutine(found) and not await found):
            await asyncio.sleep(0.02)


async def until_ended(harness: Harness, count: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while await completed(harness) < count:
            await asyncio.sleep(0.05)


async def completed(harness: Harness) -> int:
    try:
        return await harness.redis.llen(harness.keys.completed)
    except (RedisError, OSError):  # It is being started anew.
        return 0


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


async def left_over(harness: Harness) -> dict[str, int]:
    """What is anywhere but in the completed list."""
    keys = harness.keys
    kept = {keys.completed, keys.events, keys.workers, keys.wake, keys.orphans}
    names = [key.decode() for key in await harness.redis.keys("jobqueue:*")]
    lists = [name for name in names if name not in kept and "processing:worker" not in name]
    return {name: await harness.redis.exists(name) for name in lists}


@pytest.mark.parametrize("step", STEPS)
async def test_a_worker_killed_at_any_step_leaves_one_completion(
    redis_url: str, tmp_path: Path, step: str
) -> None:
    ledger = tmp_path / "ledger"
    async with harness_on(redis_url) as harness:
        await harness.add("/inbox/a.pdf")
        with worker(redis_url, ledger, step) as dying:
            await asyncio.to_thread(dying.wait, 30)
        assert dying.returncode == -signal.SIGKILL
        with worker(redis_url, second := tmp_path / "second", "none") as good:
            await until_ended(harness, 1)
            await until(lambda: "ready" in lines(second))
            good.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(good.wait, 20) == 0

        assert "/inbox/a.pdf" in [*lines(ledger), *lines(second)]
        assert await harness.redis.llen(harness.keys.completed) == 1
        assert await left_over(harness) == {}


async def test_a_frozen_worker_loses_its_work_and_its_late_completion_is_refused(
    redis_url: str, tmp_path: Path
) -> None:
    """T-31, T-32: it stands still between the end of its handler and the word about it."""
    ledger = tmp_path / "ledger"
    async with harness_on(redis_url) as harness:
        id = await harness.add("/inbox/a.pdf")
        with worker(redis_url, ledger, "frozen") as frozen:
            await until(lambda: stopped(frozen))
            with worker(redis_url, other := tmp_path / "other", "none") as good:
                await until_ended(harness, 1)
                frozen.send_signal(signal.SIGCONT)
                await until(lambda: f"refused {id}" in lines(ledger))
                good.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(good.wait, 20) == 0
        assert lines(ledger).count("/inbox/a.pdf") == lines(other).count("/inbox/a.pdf") == 1
        (raw,) = await harness.redis.lrange(harness.keys.completed, 0, -1)
        assert json.loads(raw)["retries"] == 1


def stopped(process: subprocess.Popen[bytes]) -> bool:
    pid, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
    return pid == process.pid and os.WIFSTOPPED(status)


async def test_a_file_that_takes_longer_than_the_heartbeat_is_not_reaped(
    redis_url: str, tmp_path: Path
) -> None:
    """T-25, F-T1: the disk does not answer, the handler waits for it, and the heart beats on."""
    ledger, path = tmp_path / "ledger", tmp_path / "slow"
    os.mkfifo(path)
    async with harness_on(redis_url) as harness:
        id = await harness.add(str(path))
        with worker(redis_url, ledger, "blocked") as slow:
            await until(lambda: f"begun {id}" in lines(ledger))
            with worker(redis_url, other := tmp_path / "other", "watching") as good:
                await until(lambda: "ready" in lines(other))
                await asyncio.sleep(2 * SLOW_HEARTBEAT_S)
                assert await harness.where(id) == ["active"]
                await asyncio.to_thread(path.write_text, "read at last")
                await until_ended(harness, 1)
                for process in (slow, good):
                    process.send_signal(signal.SIGTERM)
                    assert await asyncio.to_thread(process.wait, 20) == 0
        assert lines(ledger).count("read at last") == 1
        (raw,) = await harness.redis.lrange(harness.keys.completed, 0, -1)
        assert json.loads(raw)["retries"] == 0
        assert await left_over(harness) == {}


@pytest.mark.full
async def test_a_restart_of_the_store_loses_no_file_and_completes_none_twice(
    tmp_path: Path,
) -> None:
    count, ledger = size(100, full=300), tmp_path / "ledger"
    durable = {"appendonly": "yes", "appendfsync": "always"}
    with embedded.ephemeral(durable) as server:
        async with harness_on(server.url) as harness:
            paths = [f"/inbox/{number}.pdf" for number in range(count)]
            for path in paths:
                await harness.add(path)
            with worker(server.url, ledger, "slow") as good:
                for part in size((20,), full=(20, 80)):
                    await until_ended(harness, part)
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.restart)
                await until_ended(harness, count)
                good.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(good.wait, 20) == 0
            done = await harness.redis.lrange(harness.keys.completed, 0, -1)
            assert Counter(json.loads(raw)["filepath"] for raw in done) == Counter(paths)
            assert await left_over(harness) == {}


@pytest.mark.full
async def test_every_file_is_accounted_for_while_workers_die_at_random(
    redis_url: str, tmp_path: Path
) -> None:
    count, dice, ledger = size(200, full=600), random.Random(7), tmp_path / "ledger"
    async with harness_on(redis_url) as harness:
        paths = [f"/inbox/{number}.pdf" for number in range(count)]
        for path in paths:
            await harness.add(path)
        for _ in range(size(1, full=4)):
            with worker(redis_url, ledger, "slow") as first, worker(redis_url, ledger, "slow"):
                await until(lambda: "ready" in lines(ledger))
                await asyncio.sleep(dice.uniform(0.3, 0.8))
                first.kill()
        with worker(redis_url, ledger, "none") as good:
            await until_ended(harness, count)
            good.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(good.wait, 20) == 0

        done = await harness.redis.lrange(harness.keys.completed, 0, -1)
        assert Counter(json.loads(raw)["filepath"] for raw in done) == Counter(paths)
        assert set(paths) <= set(lines(ledger))
        assert await left_over(harness) == {}
