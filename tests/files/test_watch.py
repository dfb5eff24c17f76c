"""Watching a directory costs what has changed in it, not what is there."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.files.harness import Harness
from tests.support.patience import LIMIT_S
from waystation.files.directory import intake, scan
from waystation.files.directory.scan import Known, KnownFiles, ScannedFile, ScanOptions, Skip, Walk
from waystation.files.directory.watch import LONGEST_PAUSE_S, OpenFiles
from waystation.files.producer import Producer, ProducerOptions
from waystation.files.queue import Queue

THERE = 300
MODIFY, CLOSE_NOWRITE, OPEN, CREATE = 0x2, 0x10, 0x20, 0x100
"""Of inotify."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for number in range(THERE):
        folder = tmp_path / f"{number % 3}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.txt").touch()
    return tmp_path


@asynccontextmanager
async def watching(harness: Harness, root: Path, **options: Any) -> AsyncGenerator[Producer]:
    wanted = ScanOptions(scan_dir=str(root), settle=0)
    producer = Producer(Queue(harness.store), ProducerOptions(scan=wanted, **options))
    task = asyncio.create_task(producer.watch())
    try:
        await until(lambda: producer.tally.enqueued >= THERE)
        yield producer
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.01)


async def rescans(producer: Producer, count: int = 2) -> None:
    """Wait until everything was looked at so many times more."""
    found = producer.tally.found
    await until(lambda: producer.tally.found >= found + (count + 1) * THERE)


async def asked(harness: Harness) -> int:
    """How many files the store was asked for."""
    stats = await harness.redis.info("commandstats")
    return stats.get("cmdstat_sismember", {"calls": 0})["calls"]


# --- what the kernel names -----------------------------------------------------------------------


async def test_of_a_new_file_only_that_file_is_looked_at(harness: Harness, tree: Path) -> None:
    async with watching(harness, tree, rescan=3600) as producer:
        await until(lambda: producer.tally.found == THERE)
        before = await asked(harness)
        (tree / "1" / "new.txt").touch()
        await until(lambda: producer.tally.enqueued == THERE + 1)
        # Made and closed are two events, which may or may not come together.
        assert THERE < producer.tally.found <= THERE + 2
        assert await asked(harness) - before <= 8


async def test_a_file_changed_in_place_is_put_in_line_again(harness: Harness, tree: Path) -> None:
    async with watching(harness, tree, rescan=3600) as producer:
        (tree / "1" / "1.txt").write_text("changed")
        await until(lambda: producer.tally.enqueued == THERE + 1)
        assert producer.tally.found < 2 * THERE


async def test_directories_that_come_are_walked_and_followed(harness: Harness, tree: Path) -> None:
    async with watching(harness, tree, rescan=3600) as producer:
        (tree / "new" / "deep").mkdir(parents=True)
        (tree / "new" / "deep" / "a").touch()
        await until(lambda: producer.tally.enqueued == THERE + 1)
        os.rename(tree / "new", tree / "moved")
        # By another name it is another file, and the kernel goes on reporting it.
        await until(lambda: producer.tally.enqueued == THERE + 2)
        (tree / "moved" / "deep" / "b").touch()
        await until(lambda: producer.tally.enqueued == THERE + 3)
        assert producer.tally.found < 2 * THERE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has closed a file")
@pytest.mark.parametrize("name", ["new.txt", "1.txt"])
async def test_a_writer_that_pauses_is_waited_for_until_it_closes(
    harness: Harness, tree: Path, name: str
) -> None:
    path = tree / "1" / name
    async with watching(harness, tree, rescan=0.02) as producer:
        with path.open("a") as file:
            file.write("half")
            file.flush()
            # As if it had been written long ago, and been paused since.
            os.utime(path, (0, 0))
            await rescans(producer, 3)
            assert producer.tally.enqueued == THERE
            (tree / "2" / "other.txt").touch()
            await until(lambda: producer.tally.enqueued == THERE + 1)
            file.write(" and the rest")
        await until(lambda: producer.tally.enqueued == THERE + 2)
        await rescans(producer)
    assert producer.tally.enqueued == THERE + 2
    jobs = await Queue(harness.store).get_jobs("waiting", limit=2 * THERE)
    assert {job.size for job in jobs if job.path == path} >= {len("half and the rest")}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has closed a file")
async def test_a_file_without_a_writer_is_not_waited_for(harness: Harness, tree: Path) -> None:
    async with watching(harness, tree, rescan=0.02) as producer:
        os.link(tree / "1" / "1.txt", tree / "1" / "link.txt")
        await until(lambda: producer.tally.enqueued == THERE + 1)
        with (tree / "2" / "2.txt").open():
            os.truncate(tree / "0" / "0.txt", 5)
            await until(lambda: producer.tally.enqueued == THERE + 2)
        (tree / "0" / "3.txt").write_text("a")
        os.rename(tree / "0" / "3.txt", tree / "0" / "renamed.txt")
        await until(lambda: producer.tally.enqueued >= THERE + 3)


def test_files_whose_writer_is_gone_are_forgotten() -> None:
    now = [0.0]
    files = OpenFiles(lambda: now[0])
    for mask in (CREATE, OPEN, MODIFY):
        files.record("/a", mask)
    assert "/a" in files
    files.record("/a", CLOSE_NOWRITE)
    assert "/a" in files
    files.forget_links()
    now[0] += LONGEST_PAUSE_S
    assert "/a" not in files
    files.record("/a", MODIFY)
    assert "/a" in files
    files.forget()
    assert "/a" not in files


# --- what a rescan asks --------------------------------------------------------------------------


async def test_a_rescan_asks_the_store_for_nothing_that_it_has_known(
    harness: Harness, tree: Path
) -> None:
    async with watching(harness, tree, rescan=0.02) as producer:
        await rescans(producer)
        before = await asked(harness)
        await rescans(producer, 3)
        assert await asked(harness) == before
        assert producer.tally.enqueued == THERE
        assert producer.tally.known >= 3 * THERE


async def test_a_rescan_sees_what_nobody_told_of(
    harness: Harness, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waystation.files.directory.watch.sys.platform", "plan9")
    async with watching(harness, tree, rescan=0.02) as producer:
        await rescans(producer)
        (tree / "1" / "1.txt").write_text("changed in place")
        await until(lambda: producer.tally.enqueued == THERE + 1)
        (tree / "1" / "new.txt").touch()
        await until(lambda: producer.tally.enqueued == THERE + 2)


async def test_a_store_that_has_forgotten_is_noticed(harness: Harness, tree: Path) -> None:
    async with watching(harness, tree, rescan=0.02) as producer:
        await rescans(producer)
        await harness.redis.flushdb()
        await until(lambda: producer.tally.enqueued == 2 * THERE)
        assert await harness.redis.llen(harness.keys.queues[1]) == THERE


async def test_files_that_are_still_there_move_to_the_new_page(
    harness: Harness, tree: Path
) -> None:
    """Else a restart would add everything again that was not asked for meanwhile."""
    async with watching(harness, tree, rescan=0.02) as producer:
        await rescans(producer)
        # The page is older than its span, so the next look turns it.
        await harness.redis.expire(harness.keys.seen, 10)
        async with asyncio.timeout(LIMIT_S):
            while await harness.redis.scard(
                harness.keys.seen
            ) <= THERE or not await harness.redis.exists(harness.keys.seen_before):
                await asyncio.sleep(0.01)
        assert producer.tally.enqueued == THERE


async def test_what_is_known_holds_for_one_page_of_one_server(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Queue(harness.store).intake
    assert [await taken.still_holds("a") for _ in range(3)] == [False, True, True]
    assert await taken.still_holds("b") is False
    assert await harness.redis.ttl(harness.keys.seen) > 0

    async def started_anew(redis: Any) -> str:
        return "another run"

    monkeypatch.setattr(intake, "_run_id", started_anew)
    assert [await taken.still_holds("a") for _ in range(2)] == [False, True]


# --- the parts -----------------------------------------------------------------------------------


def test_beyond_what_is_known_is_everything_else(tmp_path: Path) -> None:
    for name in ("a.txt", "b.tmp", "sub/c.txt", "sub/deep/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "out").symlink_to("/etc/hostname")
    (tmp_path / "round").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    walk = Walk(ScanOptions(scan_dir=str(tmp_path), settle=0))
    known = KnownFiles()
    assert sorted(map(str, walk.unknown(known))) == sorted(map(str, walk))
    first, *others = [each for each in walk if isinstance(each, ScannedFile)]
    known.add([hash(first)])
    found = list(walk.unknown(known))
    assert [each for each in found if isinstance(each, ScannedFile)] == others
    assert [each for each in found if isinstance(each, Known)] == [Known([hash(first)])]


def test_known_files_are_forgotten_when_it_is_not_seen_again() -> None:
    known = KnownFiles(limit=3)
    known.add([1, 2])
    known.begin_pass()
    known.add([1])
    known.end_pass()
    assert known.hashes == (set(), {1})
    known.add([2, 3])
    known.add([4])
    assert known.hashes == (set(), {1, 2, 3})
    known.forget()
    assert known.hashes == (set(), set())


def test_what_is_named_is_looked_at_and_what_is_gone_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").touch()
    (tmp_path / "link").symlink_to(tmp_path / "sub" / "a")
    walk = Walk(ScanOptions(scan_dir=str(tmp_path), settle=0))

    def seen(*names: str) -> list[str]:
        found = walk.named(str(tmp_path / name) for name in names)
        return [
            Path(each.path).name if isinstance(each, ScannedFile) else str(each) for each in found
        ]

    assert seen("sub/a", "link", "gone", "gone/too") == ["a", "link"]
    assert seen("sub") == ["a"]
    # What was a directory of the tree leads out of it now.
    os.rename(tmp_path / "sub", tmp_path / "elsewhere")
    (tmp_path / "sub").symlink_to("/etc")
    assert seen("sub/hostname") == [str(Skip.OUTSIDE)]


def test_files_that_may_still_be_written_are_named_unless_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}").touch()
    walk = Walk(ScanOptions(scan_dir=str(tmp_path), settle=3600))
    assert list(walk) == [Skip.FRESH] * 3
    assert walk.take_unsettled() == {str(tmp_path / f"{number}") for number in range(3)}
    assert walk.take_unsettled() == set()
    monkeypatch.setattr(scan, "MOST_UNSETTLED", 2)
    list(walk)
    assert walk.take_unsettled() == {str(tmp_path)}
