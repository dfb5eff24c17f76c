"""Payloads outside the store are read in threads, so that the loop goes on meanwhile."""

import threading
from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S
from waystation.bullmq import DirectoryBlobs, Job, PayloadOptions, Queue, Worker
from waystation.errors import UnreadableData


class Watched(DirectoryBlobs):
    """A directory that knows which threads have read from it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.readers: list[int] = []

    def read(self, name: str) -> bytes:
        """Read a file, and note who does."""
        self.readers.append(threading.get_ident())
        return super().read(name)


async def test_looking_at_a_job_reads_no_blob_on_the_loop(redis_url: str, tmp_path: Path) -> None:
    blobs = Watched(tmp_path)
    payloads = PayloadOptions(blobs=blobs, above=10)

    async def long_word() -> str:
        return "long word"

    async def handle(job: Job) -> str:
        return await job.step("think", long_word) + " and more"

    async with Queue("mail", redis_url, payloads=payloads) as queue:
        added = await queue.add("send", {"to": "ada@example.org"})
        async with Worker("mail", handle, redis_url, payloads=payloads):
            await added.wait(timeout=LIMIT_S)
        [listed] = await queue.get_jobs("completed")
        await listed.refresh()
        found = await queue.get_job(added.id)
        assert found
        blobs.readers = [each for each in blobs.readers if each == threading.get_ident()]
        for job in (found, listed):
            assert job.data == {"to": "ada@example.org"}
            assert (job.result, job.steps) == ("long word and more", {"think": "long word"})
    assert blobs.readers == []


async def test_a_job_whose_blob_is_gone_is_still_found(redis_url: str, tmp_path: Path) -> None:
    blobs = Watched(tmp_path)
    async with Queue("mail", redis_url, payloads=PayloadOptions(blobs=blobs, above=10)) as queue:
        added = await queue.add("send", {"to": "ada@example.org"})
        for blob in blobs.of("mail"):
            blobs.delete(blob.name)
        found = await queue.get_job(added.id)
        assert found
        blobs.readers.clear()
        with pytest.raises(UnreadableData, match="is gone"):
            _ = found.data
    assert (found.name, blobs.readers) == ("send", [])
