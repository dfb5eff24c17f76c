"""Tables without Spark: what tasks and driver do, called in the order Spark calls them."""

import hashlib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from redis import Redis

from waystation.core.errors import InvalidInput
from waystation.pipeline.bronze.archive import ArchiveOptions, ArchiveStream
from waystation.pipeline.bronze.sink import BronzeOptions, BronzeStream, Kept
from waystation.pipeline.storage import delta, parts
from waystation.pipeline.storage.arrow import pa, pq, schema_of
from waystation.pipeline.storage.delta import Identity
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.tables import DAY, EVENTS, FIELDS, INSTANT, INT, TEXT, Column, Layer, Table

from .disk import small_disk
from .streams import ALL, tell

SIGHTINGS = Table(
    name="sightings",
    layer=Layer.SILVER,
    meaning="one row for each bird",
    key=("bird",),
    partitions=("date",),
    columns=(
        Column("bird", TEXT, "which"),
        Column("count", INT, "how many"),
        Column("at", INSTANT, "when"),
        Column("notes", FIELDS, "what else"),
        Column("date", DAY, "on which day"),
    ),
)
MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)


def written(root: str, *birds: str, day: date | None = MONDAY) -> list[Part]:
    """What one task does."""
    instant = datetime(2026, 3, 2, 12, tzinfo=UTC)
    rows = [
        {"bird": bird, "count": 1, "at": instant, "notes": [("sung", "yes")], "date": day}
        for bird in birds
    ]
    with PartWriter(SIGHTINGS.place(root), SIGHTINGS.schema, SIGHTINGS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(SIGHTINGS.schema)))
    return writer.parts


def committed(root: str, parts: list[Part], batch: int, *, replace: bool = False) -> bool:
    """What the driver does."""
    return delta.commit(
        SIGHTINGS.place(root),
        SIGHTINGS.schema,
        parts,
        Identity("counting", batch),
        partitions=SIGHTINGS.partitions,
        notes={"upto": batch},
        replace=replace,
    )


def birds(root: str) -> list[str]:
    table: Any = DeltaTable(SIGHTINGS.place(root))
    return sorted(table.to_pyarrow_table().column("bird").to_pylist())


def files(root: str) -> set[Path]:
    return set(Path(SIGHTINGS.place(root)).rglob("*.parquet"))


def test_the_rows_of_all_tasks_appear_in_one_commit(root: str) -> None:
    parts = written(root, "owl") + written(root, "wren", "crow", day=TUESDAY)
    assert committed(root, parts, 0)

    assert birds(root) == ["crow", "owl", "wren"]
    assert {file.parent.name for file in files(root)} == {"date=2026-03-02", "date=2026-03-03"}


def test_a_batch_that_was_committed_is_skipped_and_leaves_no_files(root: str) -> None:
    committed(root, written(root, "owl"), 0)
    before = files(root)

    assert not committed(root, written(root, "owl"), 0)

    assert birds(root) == ["owl"]
    assert files(root) == before


def test_what_was_written_and_never_committed_is_seen_by_nobody(root: str) -> None:
    written(root, "owl")
    assert committed(root, written(root, "owl"), 0)

    assert birds(root) == ["owl"]


def test_batches_of_two_applications_do_not_stand_in_each_others_way(root: str) -> None:
    committed(root, written(root, "owl"), 5)
    delta.commit(
        SIGHTINGS.place(root),
        SIGHTINGS.schema,
        written(root, "wren"),
        Identity("another", 0),
        partitions=SIGHTINGS.partitions,
    )

    assert birds(root) == ["owl", "wren"]
    assert delta.last_batch(SIGHTINGS.place(root), "counting") == 5


def test_replacing_leaves_only_the_new_rows_and_happens_once(root: str) -> None:
    committed(root, written(root, "owl", "crow"), 0)
    assert committed(root, written(root, "wren"), 1, replace=True)
    assert not committed(root, written(root, "jay"), 1, replace=True)

    assert birds(root) == ["wren"]


def test_a_batch_without_rows_is_noted_all_the_same(root: str) -> None:
    assert committed(root, [], 3)

    assert delta.last_batch(SIGHTINGS.place(root), "counting") == 3
    assert delta.last_notes(SIGHTINGS.place(root), "upto") == 3
    assert birds(root) == []


def test_the_last_note_is_found_behind_commits_without_one(root: str) -> None:
    committed(root, written(root, "owl"), 7)
    for _ in range(2):
        DeltaTable(SIGHTINGS.place(root)).optimize.compact()
    delta.commit(
        SIGHTINGS.place(root), SIGHTINGS.schema, [], Identity("another", 0), partitions=("date",)
    )

    assert delta.last_notes(SIGHTINGS.place(root), "upto") == 7


def test_a_place_without_a_table_has_no_batch_and_no_note(root: str) -> None:
    assert delta.last_batch(SIGHTINGS.place(root), "counting") is None
    assert delta.last_notes(SIGHTINGS.place(root), "upto") is None


def test_a_row_without_a_partition_value_is_kept(root: str) -> None:
    committed(root, written(root, "dodo", day=None), 0)

    assert birds(root) == ["dodo"]


def test_a_partition_that_cannot_be_a_folder_is_refused(root: str) -> None:
    writer = PartWriter(root, SIGHTINGS.schema, ["bird"])
    row: dict[str, Any] = {"bird": "a/b", "count": 1, "at": None, "notes": [], "date": MONDAY}

    with pytest.raises(InvalidInput, match="a plain word, number or date, got 'a/b'"):
        writer.write(pa.RecordBatch.from_pylist([row], schema=schema_of(SIGHTINGS.schema)))


def test_more_days_than_files_may_be_open_are_written_all_the_same(root: str) -> None:
    writer = PartWriter(SIGHTINGS.place(root), SIGHTINGS.schema, SIGHTINGS.partitions)
    rows: list[dict[str, Any]] = [
        {"bird": f"b{day}", "count": 1, "at": None, "notes": [], "date": date(2026, 1, day)}
        for day in range(1, 31)
    ]
    writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(SIGHTINGS.schema)))
    committed(root, writer.close(), 0)

    assert len(birds(root)) == 30


def test_a_task_holds_few_rows_and_writes_the_rest_as_it_goes(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "GROUP_ROWS", 10)
    writer = PartWriter(SIGHTINGS.place(root), SIGHTINGS.schema, SIGHTINGS.partitions)
    row: dict[str, Any] = {"bird": "owl", "count": 1, "at": None, "notes": [], "date": MONDAY}
    for _ in range(5):
        writer.write(pa.RecordBatch.from_pylist([row] * 10, schema=schema_of(SIGHTINGS.schema)))
    (part,) = writer.close()

    file = pq.ParquetFile(f"{SIGHTINGS.place(root)}/{part.path}")
    assert (file.metadata.num_row_groups, file.metadata.num_rows) == (5, 50)


def test_a_full_disk_loses_nothing_that_was_committed_and_leaves_nothing_half_done(
    root: str,
) -> None:
    too_many = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(20_000)]
    with small_disk(Path(root), "300k"):
        committed(root, written(root, "owl"), 0)
        before = files(root)

        with pytest.raises(OSError, match="No space left"):
            written(root, *too_many)

        assert files(root) == before
        assert committed(root, written(root, "wren"), 1)
        assert birds(root) == ["owl", "wren"]


def test_a_batch_of_bronze_committed_twice_is_there_once(root: str) -> None:
    row = {"line": "bullmq", "queue": "mail", "stream": "s", "entry_id": "1-0", "event": "waiting"}
    rows = pa.RecordBatch.from_pylist([row], schema=schema_of(EVENTS.schema))
    stream = BronzeStream(BronzeOptions(root=root, application="drill"))

    for _ in range(2):
        with PartWriter(EVENTS.place(root), EVENTS.schema, EVENTS.partitions) as writer:
            writer.write(rows)
        stream.commit([Kept(writer.parts, [])], 0)

    kept: Any = DeltaTable(EVENTS.place(root))
    assert len(list(Path(EVENTS.place(root)).rglob("*.parquet"))) == 1
    assert kept.to_pyarrow_table().num_rows == 1


def test_what_a_task_archives_is_seen_when_it_is_committed(
    store: Redis, redis_url: str, root: str
) -> None:
    told = tell(store, 30)
    stream = ArchiveStream(ArchiveOptions(url=redis_url, root=root))
    start = stream.initialOffset()
    shares = stream.partitions(start, stream.latestOffset(start, ALL))
    sink = BronzeStream(BronzeOptions(root=root, application="drill"))

    kept: list[Any] = [sink.write(stream.read(share)) for share in shares]
    assert not DeltaTable.is_deltatable(EVENTS.place(root))
    sink.commit(kept, 0)

    table: Any = DeltaTable(EVENTS.place(root))
    assert sorted(table.to_pyarrow_table().column("entry_id").to_pylist()) == sorted(told)
