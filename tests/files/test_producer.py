"""From a directory into the line."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.files.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.core.errors import InvalidOption
from waystation.core.telemetry.metrics import Metrics
from waystation.files.directory.scan import ScanOptions, Skip
from waystation.files.options import QueueOptions
from waystation.files.producer import Producer, ProducerOptions
from waystation.files.queue import Queue


def producer(harness: Harness, root: Path, settle: float = 0, **options: Any) -> Producer:
    scan = ScanOptions(scan_dir=str(root), settle=settle)
    return Producer(Queue(harness.store), ProducerOptions(scan=scan, **options), metrics=Metrics())


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


async def waiting(harness: Harness, priority: str) -> list[str]:
    found = await Queue(harness.store).get_jobs("waiting", priority=priority)
    return sorted(Path(job.filepath).name for job in found)


async def test_the_ending_of_a_file_decides_its_priority(harness: Harness, tmp_path: Path) -> None:
    """T-3: high_priority_exts in any case, everything else gets default_priority."""
    make(tmp_path, "a.txt", "b.pdf", "c.PDF", "sub/d.zip", "e")
    made = producer(harness, tmp_path)
    tally = await made.scan()
    assert await waiting(harness, "high") == ["b.pdf", "c.PDF", "d.zip"]
    assert await waiting(harness, "low") == ["a.txt", "e"]
    assert (tally.found, tally.enqueued, tally.known) == (5, 5, 0)


async def test_an_ending_may_be_written_without_its_dot(harness: Harness, tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.PDF", "pdf")
    await producer(harness, tmp_path, high_priority_exts=("pdf",)).scan()
    assert await waiting(harness, "high") == ["b.PDF"]


async def test_a_restart_puts_nothing_in_line_twice(harness: Harness, tmp_path: Path) -> None:
    """F-T16: (path, size, mtime) tells whether a file was there before."""
    make(tmp_path, "a", "b", "c")
    await producer(harness, tmp_path).scan()
    tally = await producer(harness, tmp_path).scan()
    assert (tally.enqueued, tally.known) == (0, 3)
    (tmp_path / "b").write_text("something longer")
    tally = await producer(harness, tmp_path).scan()
    assert (tally.enqueued, tally.known) == (1, 2)


async def test_two_producers_at_once_put_each_file_in_line_once(
    harness: Harness, tmp_path: Path
) -> None:
    make(tmp_path, *[f"{number}" for number in range(300)])
    tallies = await asyncio.gather(*(producer(harness, tmp_path).scan() for _ in range(3)))
    assert sum(tally.enqueued for tally in tallies) == 300
    assert await harness.redis.llen(harness.keys.queues[1]) == 300


async def test_what_is_still_there_is_remembered_for_longer_than_the_span(
    harness: Harness, tmp_path: Path
) -> None:
    """F-T16: what was seen is kept in two pages, and a file that is seen again moves over."""
    make(tmp_path, "a")
    queue = Queue(harness.store, options=QueueOptions(remember=1000))
    await producer(harness, tmp_path).scan()
    for _ in range(4):
        # The page is older than its span, so the next look turns it.
        await harness.redis.expire(harness.keys.seen, 10)
        assert (await producer(harness, tmp_path).scan()).known == 1
        assert await harness.redis.ttl(harness.keys.seen) > 10
        assert 0 < await harness.redis.ttl(harness.keys.seen_before) <= 10
    assert await queue.intake.known([]) == []


async def test_a_single_scan_waits_for_files_that_are_still_written(
    harness: Harness, tmp_path: Path
) -> None:
    make(tmp_path, "a")
    tally = await producer(harness, tmp_path, settle=0.2).scan()
    assert tally.enqueued == 1
    assert tally.skipped[Skip.FRESH] == 1


async def test_what_has_to_wait_is_put_in_line_later(harness: Harness, tmp_path: Path) -> None:
    make(tmp_path, *[f"{number}" for number in range(90)])
    runs = (producer(harness, tmp_path, rate_limit_per_sec=400).scan() for _ in range(2))
    tallies = await asyncio.gather(*runs)
    assert sum(tally.enqueued for tally in tallies) == 90
    assert [tally.enqueued + tally.known for tally in tallies] == [90, 90]
    assert await harness.redis.llen(harness.keys.queues[1]) == 90


async def test_files_that_are_known_cost_no_allowance(harness: Harness, tmp_path: Path) -> None:
    make(tmp_path, *[f"{number}" for number in range(200)])
    await producer(harness, tmp_path).scan()
    tally = await asyncio.wait_for(
        producer(harness, tmp_path, rate_limit_per_sec=1).scan(), LIMIT_S
    )
    assert tally.known == 200


async def test_a_watched_directory_is_followed(harness: Harness, tmp_path: Path) -> None:
    make(tmp_path, "before")
    made = producer(harness, tmp_path, settle=0.05, rescan=3600)
    watching = asyncio.create_task(made.watch())
    try:
        await _until(made, 1)
        make(tmp_path, "after", "new/deep/inside")
        await _until(made, 3)
        (tmp_path / "elsewhere").write_text("moved in")
        os.rename(tmp_path / "elsewhere", tmp_path / "new" / "moved")
        await _until(made, 4)
    finally:
        watching.cancel()
    assert await waiting(harness, "low") == ["after", "before", "inside", "moved"]


async def test_a_directory_nobody_tells_about_is_walked_now_and_then(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waystation.files.directory.watch.sys.platform", "plan9")
    made = producer(harness, tmp_path, rescan=0.05)
    watching = asyncio.create_task(made.watch())
    await asyncio.sleep(0.05)
    make(tmp_path, "late")
    try:
        await _until(made, 1)
    finally:
        watching.cancel()


async def _until(made: Producer, enqueued: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while made.tally.enqueued < enqueued:
            await asyncio.sleep(0.01)


async def test_what_is_put_in_line_is_counted(harness: Harness, tmp_path: Path) -> None:
    """T-36: jobs_produced_total{queue}; and what is left out, by one of a few reasons."""
    make(tmp_path, "a", "b.pdf", "c.tmp")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    metrics = Metrics()
    scan = ScanOptions(scan_dir=str(tmp_path), settle=0)
    made = Producer(Queue(harness.store), ProducerOptions(scan=scan), metrics=metrics)
    await made.scan()
    await made.scan()
    for queue in harness.keys.queues:
        assert metrics.registry.get_sample_value("jobs_produced_total", {"queue": queue}) == 1
    for reason in ("excluded", "vanished"):
        assert metrics.registry.get_sample_value("files_skipped_total", {"reason": reason}) == 2


async def test_a_priority_without_a_queue_is_refused(harness: Harness, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="default_priority must be one of high, low"):
        producer(harness, tmp_path, default_priority="urgent")
