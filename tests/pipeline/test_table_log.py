"""A table that is kept open shows everything that was committed, whoever committed it."""

from deltalake import DeltaTable

from tests.pipeline.saved import save
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.table_log import files_of, kept_open, opened
from waystation.pipeline.tables import WORKERS


def add_a_file(root: str, number: int) -> None:
    rows = pa.Table.from_pylist([dict.fromkeys(WORKERS.names)], schema=schema_of(WORKERS.schema))
    save(rows, root, WORKERS, BatchId("test", number))


def test_every_commit_is_seen(root: str) -> None:
    path = WORKERS.path(root)
    with kept_open():
        assert opened(path) is None
        for number in range(1, 4):
            add_a_file(root, number)
            assert files_of(path).num_rows == delta.count(path) == number
            assert delta.last_batch(path, "test") == number
        DeltaTable(path).optimize.compact()
        assert files_of(path).num_rows == 1
        assert table_log.version(path) == DeltaTable(path).version()


def test_a_table_is_opened_once_in_a_block_and_again_in_the_next(root: str) -> None:
    path = WORKERS.path(root)
    add_a_file(root, 1)
    with kept_open():
        first = opened(path)
        assert opened(path) is first
        with kept_open():
            assert opened(path) is not first
        assert opened(path) is first
    assert opened(path) is not first
    assert opened(path) is not opened(path)


def test_a_conflict_is_seen_though_a_reader_looked_in_between(root: str) -> None:
    path = WORKERS.path(root)
    add_a_file(root, 1)

    def check(_: DeltaTable) -> list[BatchId]:
        add_a_file(root, 2)
        assert files_of(path).num_rows == 2
        return []

    with kept_open():
        assert files_of(path).num_rows == 1
        stood_for = delta.commit(path, WORKERS.schema, [], BatchId("test", 2), check=check)
    assert not stood_for
    assert files_of(path).num_rows == 2
