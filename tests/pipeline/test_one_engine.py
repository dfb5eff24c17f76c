"""Rows of tables are written by Spark's tasks; the driver commits them."""

import random
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import pytest
from deltalake.writer import writer
from redis import Redis

from tests.pipeline.raw_streams import tell
from tests.pipeline.rounds import history_at, keep, told_by_products
from waystation.pipeline.runner import RunOptions, run
from waystation.pipeline.sources.streams import EventOptions
from waystation.pipeline.storage.parts import PartWriter


@contextmanager
def written_here() -> Generator[set[str]]:
    """The tables of which this process writes files in the block."""
    seen: set[str] = set()
    begin, write = "try_get_table_and_table_uri", PartWriter.write
    whole = getattr(writer, begin)

    def noted(self: Any, batch: Any) -> None:
        seen.add(PurePosixPath(self._root).name)
        write(self, batch)

    def begun(table: Any, *given: Any) -> Any:
        seen.add(PurePosixPath(str(getattr(table, "table_uri", table))).name)
        return whole(table, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartWriter, "write", noted)
        patch.setattr(writer, begin, begun)
        yield seen


def test_rows_of_tables_are_written_by_tasks(store: Redis, redis_url: str, root: str) -> None:
    keep(root, told_by_products(random.Random(1)), 0)
    tell(store, 20)
    history = history_at(root)
    with written_here() as seen:
        result = run(history, RunOptions(events=EventOptions(url=redis_url)))
    assert (result.events, result.failed_checks) == (20, ())
    assert sorted(seen) == []
