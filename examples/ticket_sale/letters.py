"""The letters: a folder turned into work, scanned twice, read by two, one of whom is killed."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from examples.ticket_sale.account import Account
from examples.ticket_sale.crew import at_work
from examples.ticket_sale.stage import Show, Stage
from waystation import files
from waystation.core.store import embedded
from waystation.core.store.connection import Store, connect

TITLE: str = "The letters"
PART: str = "waystation.files: a directory turned into work"

LETTERS = 3_000
LOST_IN_THE_POST = 12
"""Letters that are deleted after they were added."""


async def run(stage: Stage) -> Account:
    """Let letters arrive in a folder, and see every one of them read or accounted for."""
    with embedded.ephemeral() as server, tempfile.TemporaryDirectory() as folder:
        await asyncio.to_thread(_write, Path(folder))
        async with await connect(server.url) as store:
            queue = files.Queue(store)
            scan = files.ScanOptions(scan_dir=folder, settle=0)
            first = await files.Producer(queue, files.ProducerOptions(scan=scan)).scan()
            again = await files.Producer(queue, files.ProducerOptions(scan=scan)).scan()
            stage.say(
                f"{first.enqueued:,} letters are in a folder and are added; "
                f"a second scan finds {again.known:,} of them known and adds {again.enqueued}."
            )
            for number in range(LOST_IN_THE_POST):
                (Path(folder) / f"{number:05}.letter").unlink()
            stage.say("Two readers begin. Half-way the first one is killed, without a word.")
            await _read(stage, store, queue, server.url)
            return await _account(store, queue)


async def _read(stage: Stage, store: Store, queue: files.Queue, url: str) -> None:
    with stage.progress("letters done with", LETTERS) as show:
        async with at_work("reader", url) as doomed, at_work("reader", url):
            await _until(store, queue, LETTERS // 2, show)
            doomed.kill()
            await _until(store, queue, LETTERS, show)


async def _until(store: Store, queue: files.Queue, count: int, show: Show) -> None:
    while True:
        done = sum((await queue.counts("completed", "failed")).values())
        show(min(done, LETTERS))
        if done >= count:
            return
        await asyncio.sleep(0.1)


async def _account(store: Store, queue: files.Queue) -> Account:
    done: list[bytes] = await store.redis.lrange(queue.keys.completed, 0, -1)  # type: ignore[misc]
    read = Counter(msgspec.json.decode(raw)["filepath"] for raw in done)
    again = sum(msgspec.json.decode(raw)["retries"] > 0 for raw in done)
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
            f"The killed reader held {again} letters; they were taken back and read by the other.",
        ),
    )


def _write(folder: Path) -> None:
    for number in range(LETTERS):
        (folder / f"{number:05}.letter").write_text(
            f"Dear box office, a seat for {number}, please."
        )
