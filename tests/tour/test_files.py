"""Files.

A directory is turned into jobs: a producer adds every file once, a worker runs your function for
it, and whatever happens to either of them, each file is completed or becomes a dead letter with a
reason. As a process it is `waystation files --role=all --config=files.yaml`; here it is used from
Python.
"""

import asyncio
from pathlib import Path

import pytest

from waystation import files
from waystation.errors import InvalidInput


async def done(queue: files.Queue, count: int) -> None:
    """Wait until that many files are completed or failed for good."""
    while True:
        counts = await queue.counts("completed", "failed")
        if sum(counts.values()) >= count:
            return
        await asyncio.sleep(0.02)


async def test_every_file_is_added_once(redis_url: str, tmp_path: Path) -> None:
    """A scan walks the directory, never leaves it, and leaves out files that may still be written
    to. A file that was added before, and has not changed since, is not added again, also after a
    restart.
    """
    (tmp_path / "report.pdf").write_text("urgent")
    (tmp_path / "notes.txt").write_text("not so urgent")
    options = files.ProducerOptions(scan=files.ScanOptions(scan_dir=str(tmp_path), settle=0))

    async with files.Queue(redis_url) as queue:
        first = await files.Producer(queue, options).scan()
        again = await files.Producer(queue, options).scan()
        (urgent,) = await queue.get_jobs("waiting", priority="high")

    assert (first.enqueued, again.enqueued, again.known) == (2, 0, 2)
    assert urgent.path.name == "report.pdf"


async def test_a_program_adds_files_by_name(redis_url: str, tmp_path: Path) -> None:
    """`add` takes one path and `add_many` takes several. A file that was added before, by a
    scan or by name, gives None; `force=True` adds it all the same. What is no file is refused
    before anything is written.
    """
    (tmp_path / "report.pdf").write_text("urgent")
    (tmp_path / "notes.txt").write_text("not so urgent")

    async with files.Queue(redis_url) as queue:
        job = await queue.add(tmp_path / "report.pdf", priority="high")
        many = await queue.add_many([tmp_path / "report.pdf", tmp_path / "notes.txt"])
        again = await queue.add(tmp_path / "report.pdf", force=True)

        with pytest.raises(InvalidInput, match="a file must be there"):
            await queue.add(tmp_path / "missing.txt")

    assert job
    assert job.priority == "high"
    assert [each and each.path.name for each in many] == [None, "notes.txt"]
    assert again
    assert again.id != job.id


async def test_a_worker_runs_the_function_for_the_kind_of_file(
    redis_url: str, tmp_path: Path
) -> None:
    """Functions are registered by pattern or by ending; the first that fits is run. Write
    `async def` for work that waits, plain `def` for work that blocks. A file that a worker has no
    function for is left to workers that have one.
    """
    read: list[str] = []
    handlers = files.Handlers()

    @handlers.handler(".txt", "letters/**/*")
    def note(job: files.Job) -> None:
        read.append(job.path.read_text())

    (tmp_path / "notes.txt").write_text("hello")
    options = files.ProducerOptions(scan=files.ScanOptions(scan_dir=str(tmp_path), settle=0))
    async with files.Queue(redis_url) as queue:
        await files.Producer(queue, options).scan()
        async with files.Worker(handlers, redis_url):
            await done(queue, 1)

    assert read == ["hello"]


async def test_a_file_that_fails_for_good_is_a_dead_letter_with_a_reason(
    redis_url: str, tmp_path: Path
) -> None:
    """A failure is retried after a delay that doubles, `max_retries` times. What a retry would not
    change, such as a file that has vanished, is a dead letter at once. `queue.dead_letters` lists
    them, retries them and deletes them.
    """
    handlers = files.Handlers()

    @handlers.handler("**/*")
    def read(job: files.Job) -> str:
        return job.path.read_text()

    (tmp_path / "here today").write_text("gone tomorrow")
    options = files.ProducerOptions(scan=files.ScanOptions(scan_dir=str(tmp_path), settle=0))
    async with files.Queue(redis_url) as queue:
        await files.Producer(queue, options).scan()
        (tmp_path / "here today").unlink()
        async with files.Worker(handlers, redis_url):
            await done(queue, 1)
        (letter,) = await queue.dead_letters.list()
        assert letter.reason == "VANISHED"

        (tmp_path / "here today").write_text("back again")
        await queue.retry(letter.id)
        async with files.Worker(handlers, redis_url):
            await done(queue, 1)
        assert await queue.dead_letters.count() == 0
