"""The worker as a program makes one."""

from pathlib import Path

import pytest

from tests.support.patience import LIMIT_S
from waystation import files
from waystation.errors import InvalidOption


async def test_one_function_processes_every_file(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("hello")
    seen: list[str] = []

    async def read(job: files.Job) -> None:
        seen.append(job.path.read_text())

    async with files.Queue(redis_url) as queue:
        job = await queue.add(tmp_path / "a")
        assert job is not None
        async with files.Worker(read, redis_url, concurrency=2, name="w1"):
            await queue.wait(job.id, timeout=LIMIT_S)
            assert [worker.name for worker in await queue.workers()] == ["w1"]
    assert seen == ["hello"]


def test_keywords_count_before_the_options() -> None:
    with pytest.raises(InvalidOption, match="concurrency must be at least 1, got 0"):
        files.Worker(print, options=files.WorkerOptions(concurrency=3), concurrency=0)


def test_a_worker_without_handlers_is_refused() -> None:
    with pytest.raises(InvalidOption, match="a worker needs a handler"):
        files.Worker(files.Handlers())
    with pytest.raises(InvalidOption, match="handlers must be a Handlers or a function, got 5"):
        files.Worker(5)  # pyright: ignore[reportArgumentType]
    table = files.Handlers()
    table.handler("**/*")(print)
    with pytest.raises(InvalidOption, match="process is for one function"):
        files.Worker(table, process=True)


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in files.__all__ if getattr(files, name, None) is None] == []
