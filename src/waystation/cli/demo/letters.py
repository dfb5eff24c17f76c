"""The letters: a folder turned into work, scanned twice, read by two, one of whom is killed."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

from waystation import files
from waystation.cli.demo.crew import at_work, work
from waystation.cli.demo.stage import Account, Stage, until

TITLE = "Letters"
PART = "waystation.files: a directory as a queue"

LETTERS = 2_000
LOST_IN_THE_POST = 12
"""Letters that are deleted after they were added."""
READ_S = 0.004

# Short heartbeats, so that the watching world need not wait long for a dead reader's letters.
OPTIONS = files.WorkerOptions(
    concurrency=8,
    lease=1.0,
    poll=0.1,
    backoff=0.05,
    reaper=files.ReaperOptions(interval=0.3),
)


async def read(job: files.Job) -> str:
    """Read one letter; it takes a moment."""
    await asyncio.sleep(READ_S)
    return await asyncio.to_thread(job.path.read_text)


def reader(url: str) -> files.Worker:
    """A worker that reads letters."""
    return files.Worker(read, url, options=OPTIONS)


async def run(stage: Stage, url: str) -> Account:
    """Let letters arrive in a folder, and see every one of them read or accounted for."""
    with tempfile.TemporaryDirectory() as folder:
        await asyncio.to_thread(_write, Path(folder))
        async with files.Queue(url) as queue:
            await _scan_twice(stage, queue, folder)
            for number in range(LOST_IN_THE_POST):
                (Path(folder) / f"{number:05}.letter").unlink()
            stage.say("Two readers begin. Half-way the first one is killed, without a word.")
            with stage.progress("letters done with", LETTERS) as show:
                async with at_work(__name__, url) as doomed, at_work(__name__, url):
                    await until(lambda: _settled(queue), LETTERS // 2, show)
                    doomed.kill()
                    await until(lambda: _settled(queue), LETTERS, show)
            return await _account(queue)


async def _scan_twice(stage: Stage, queue: files.Queue, folder: str) -> None:
    options = files.ProducerOptions(scan=files.ScanOptions(scan_dir=folder, settle=0))
    first = await files.Producer(queue, options).scan()
    again = await files.Producer(queue, options).scan()
    stage.say(
        f"{first.enqueued:,} letters are in a folder and are added; "
        f"a second scan finds {again.known:,} of them known and adds {again.enqueued}."
    )


async def _settled(queue: files.Queue) -> int:
    return sum((await queue.counts("completed", "failed")).values())


async def _account(queue: files.Queue) -> Account:
    done = await queue.get_jobs("completed", limit=2 * LETTERS)
    read = Counter(job.filepath for job in done)
    reasons = Counter(letter.reason for letter in await queue.dead_letters.list())
    return Account(
        title=TITLE,
        what="letters",
        came_in=LETTERS,
        ends={
            "were read": len(read),
            "had vanished when their turn came": reasons.pop("VANISHED", 0),
            "could not be read for another reason": reasons.total(),
        },
        twice=sum(count > 1 for count in read.values()),
        remarks=(
            f"The killed reader held {sum(job.retries > 0 for job in done)} letters; "
            "they were taken back and read by the other.",
        ),
    )


def _write(folder: Path) -> None:
    for number in range(LETTERS):
        letter = folder / f"{number:05}.letter"
        letter.write_text(f"Dear box office, a seat for {number}, please.")


if __name__ == "__main__":
    work(reader)
