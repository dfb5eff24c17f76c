"""Files that a program adds by name."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.files.harness import Harness, harness_on
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.files import job as jobs
from waystation.files.directory.intake import entry
from waystation.files.directory.scan import ScannedFile, ScanOptions
from waystation.files.options import Layout
from waystation.files.producer import Producer, ProducerOptions
from waystation.files.queue import Queue
from waystation.files.redis.keys import FileKeys


async def test_a_path_and_its_priority_are_put_in_line(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_text("hello")
    job = await Queue(harness.store).add(str(tmp_path / "a.pdf"), priority="high")
    assert job is not None
    assert (job.path, job.size, job.priority) == (tmp_path / "a.pdf", 5, "high")
    (claim,) = (await harness.source().settle([], claim=1)).claims
    assert claim.work == job


async def test_a_relative_path_is_put_in_line_as_an_absolute_one(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    monkeypatch.chdir(tmp_path)
    job = await Queue(harness.store).add("./a")
    assert job is not None
    assert (job.path, job.priority) == (tmp_path / "a", "low")


async def test_a_file_is_put_in_line_once_whoever_names_it(
    harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "a").touch()
    queue = Queue(harness.store)
    scan = ScanOptions(scan_dir=str(tmp_path), settle=0)
    await Producer(queue, ProducerOptions(scan=scan)).scan()
    assert await queue.add(tmp_path / "a") is None
    again = await queue.add(tmp_path / "a", force=True)
    assert again is not None
    assert (await queue.get_jobs("waiting", priority="low"))[1].id == again.id
    # Added again or for the first time, a file is known from then on.
    (tmp_path / "b").touch()
    assert await queue.add(tmp_path / "b", force=True)
    tally = await Producer(queue, ProducerOptions(scan=scan)).scan()
    assert (tally.enqueued, tally.known) == (0, 2)
    assert await harness.redis.llen(harness.keys.queues[1]) == 3


async def test_many_paths_give_a_job_for_each(harness: Harness, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}" for number in range(1_200)]
    for path in paths:
        path.touch()
    queue = Queue(harness.store)
    await queue.add(paths[7])
    added = await queue.add_many(iter(paths))
    assert added[7] is None
    assert [job.path for job in added if job] == [*paths[:7], *paths[8:]]
    assert await queue.add_many([]) == []


async def test_without_a_priority_it_is_the_least_urgent(redis_url: str, tmp_path: Path) -> None:
    layout = Layout(priorities=("now", "later", "never"))
    (tmp_path / "a").touch()
    async with harness_on(redis_url, layout) as harness:
        job = await Queue(harness.store, layout=layout).add(tmp_path / "a")
    assert job is not None
    assert job.priority == "never"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["/etc/hostname"], "add takes one path, and add_many takes several, got ['/etc"),
        ((b"", 1, "7", b"{}", "/a", 1), "add takes one path, and add_many takes several, got"),
        (7, "a path must be text or a Path, got 7"),
        (None, "a path must be text or a Path, got None"),
        ("", "a path must not be empty"),
        ("no such file", "a file must be there, got 'no such file' (No such file"),
        (os.devnull, "a path must be of a regular file, got '/dev/null'"),
        (".", "a path must be of a regular file, got '.'"),
        ("a\0b", "a path must be one that a file can have, got 'a\\x00b'"),
        ("\ud800", "a path must be one that a file can have, got '\\ud800'"),
    ],
)  # fmt: skip
async def test_what_is_no_file_is_refused_in_a_sentence(
    harness: Harness, given: Any, sentence: str
) -> None:
    queue = Queue(harness.store)
    with pytest.raises(InvalidInput) as refused:
        await queue.add(given)
    assert str(refused.value).startswith(sentence)
    with pytest.raises(InvalidInput):
        await queue.add_many([__file__, given])
    assert await harness.redis.keys("jobqueue*") == []


async def test_a_single_path_is_no_list_of_paths(harness: Harness) -> None:
    for path in (__file__, __file__.encode(), Path(__file__), 7):
        with pytest.raises(InvalidInput, match="add_many takes a list of paths, and add takes one"):
            await Queue(harness.store).add_many(path)  # type: ignore[arg-type]


async def test_a_priority_without_a_queue_is_refused(harness: Harness) -> None:
    with pytest.raises(InvalidOption, match="priority must be one of high, low, got 'urgent'"):
        await Queue(harness.store).add(__file__, priority="urgent")


async def test_nothing_can_be_put_in_line_that_was_not_made_from_a_file(harness: Harness) -> None:
    raw: Any = (b"", 2, "7", b"{}", "/a", 1)
    with pytest.raises(InvalidInput, match=r"files are added as what entry\(\) makes"):
        await Queue(harness.store).intake.put([raw])
    assert await harness.redis.keys("jobqueue*") == []


@given(
    path=st.binary(min_size=1, max_size=300).filter(lambda path: b"\0" not in path),
    size=st.integers(0, 2**62),
    mtime_ns=st.integers(-(2**62), 2**62),
    priority=st.sampled_from(["high", "low"]),
)
def test_what_is_made_from_a_file_can_be_read_by_a_worker(
    path: bytes, size: int, mtime_ns: int, priority: str
) -> None:
    found = ScannedFile(os.fsdecode(path), size, mtime_ns)
    made = entry(FileKeys(), found, priority=priority, now_ns=0)
    job = jobs.read(made.payload)
    assert (os.fsencode(job.path), job.size) == (os.fsencode(Path(os.fsdecode(path))), size)
    assert (job.id, job.priority) == (made.id, priority)
