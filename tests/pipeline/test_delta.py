"""Tables without Spark: what tasks and driver do, called in the order Spark calls them."""

import hashlib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from redis import Redis

from tests.pipeline.disk import small_disk
from tests.pipeline.raw_streams import ALL, write_events
from waystation.core.errors import InvalidInput, InvalidOption, Overtaken, WrongSchema
from waystation.pipeline import tables
from waystation.pipeline.bronze import commits
from waystation.pipeline.bronze.archive import ArchiveOptions, ArchiveStream
from waystation.pipeline.bronze.ingest import commit
from waystation.pipeline.payloads.rules import PayloadSettings
from waystation.pipeline.storage import delta, parts, table_log
from waystation.pipeline.storage.arrow import pa, pq
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.tables import (
    DAY,
    EVENTS,
    FIELDS,
    INSTANT,
    INT,
    PAYLOADS,
    TEXT,
    Column,
    Layer,
    Layout,
    Table,
)

DATE = Column("date", DAY, "on which day")
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
        DATE,
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
    with PartWriter(SIGHTINGS.path(root), SIGHTINGS.schema, SIGHTINGS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(SIGHTINGS.schema)))
    return writer.parts


def committed(
    root: str, parts: list[Part], batch: int, *, replace: bool | list[date] = False
) -> bool:
    """What the driver does."""
    return delta.commit(
        SIGHTINGS.path(root),
        SIGHTINGS.schema,
        parts,
        BatchId("counting", batch),
        partitions=SIGHTINGS.partitions,
        notes={"upto": batch},
        replace=replace,
    )


def birds(root: str) -> list[str]:
    table: Any = DeltaTable(SIGHTINGS.path(root))
    return sorted(table.to_pyarrow_table().column("bird").to_pylist())


def files(root: str) -> set[Path]:
    return set(Path(SIGHTINGS.path(root)).glob("date=*/*.parquet"))


def named(root: str, file: Path) -> str:
    """A file as a commit names it."""
    return str(file.relative_to(SIGHTINGS.path(root)))


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


@pytest.mark.parametrize("application", ["counting", "compacting"])
def test_a_commit_that_lost_a_race_leaves_no_files(
    root: str, monkeypatch: pytest.MonkeyPatch, application: str
) -> None:
    committed(root, written(root, "owl"), 0)
    mine, theirs = written(root, "wren"), written(root, "wren")
    opened = delta.open_table

    def raced(*given: Any) -> DeltaTable:
        """What another driver commits after this one has looked."""
        table = opened(*given)
        monkeypatch.setattr(delta, "open_table", opened)
        if application == "counting":
            committed(root, theirs, 1)
        else:
            delta.discard(SIGHTINGS.path(root), theirs)
            DeltaTable(SIGHTINGS.path(root)).delete()
        return table

    monkeypatch.setattr(delta, "open_table", raced)
    if application == "counting":
        assert not committed(root, mine, 1)
        assert birds(root) == ["owl", "wren"]
        assert {part.path for part in theirs} <= {named(root, file) for file in files(root)}
    else:
        # Replacing what somebody else has changed meanwhile.
        with pytest.raises(CommitFailedError):
            committed(root, mine, 1, replace=True)
        assert birds(root) == []
    assert not {part.path for part in mine} & {named(root, file) for file in files(root)}


@pytest.mark.parametrize("way", ["compacted", "deleted", "replaced"])
def test_files_computed_from_others_are_refused_where_those_have_changed_meanwhile(
    root: str, way: str
) -> None:
    path, old = SIGHTINGS.path(root), [*written(root, "owl"), *written(root, "wren")]
    committed(root, old, 0)
    mine = written(root, "owl and wren")
    if way == "compacted":
        DeltaTable(path).optimize.compact()
    elif way == "deleted":
        DeltaTable(path).delete("bird = 'owl'")
    else:
        committed(root, written(root, "owl", "wren", "crow"), 1, replace=True)
    there = birds(root)
    with pytest.raises(Overtaken, match="another run has changed"):
        delta.commit(
            path,
            SIGHTINGS.schema,
            mine,
            BatchId("counting", 2),
            partitions=SIGHTINGS.partitions,
            gone=[part.path for part in old],
        )
    assert birds(root) == there
    assert not {part.path for part in mine} & {named(root, file) for file in files(root)}


def test_old_files_have_what_there_was_and_nothing_newer_however_they_are_rewritten(
    root: str,
) -> None:
    path = SIGHTINGS.path(root)
    for number, bird in enumerate(("owl", "wren")):
        committed(root, written(root, bird), number)
    before = DeltaTable(path).version()
    DeltaTable(path).optimize.compact()
    (joined,) = DeltaTable(path).file_uris()
    committed(root, written(root, "crow"), 2)
    DeltaTable(path).optimize.compact()
    committed(root, written(root, "rook"), 3)
    old = table_log.old_files(path, after=before, until=DeltaTable(path).version())
    assert old == {named(root, Path(joined))}


def test_files_without_a_value_are_told_apart_however_soon_they_are_compacted(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, (wren,) = SIGHTINGS.path(root), written(root, "wren")
    committed(root, [*written(root, "owl"), wren], 0)
    look = delta.files_of

    def compacted(path: str) -> Any:
        found = look(path)
        DeltaTable(path).optimize.compact()
        return found

    monkeypatch.setattr(delta, "files_of", compacted)
    assert delta.names_without(path, "bird", "owl") == {wren.path}


def test_days_are_replaced_with_what_others_have_added_to_them_meanwhile(root: str) -> None:
    committed(root, written(root, "owl"), 0)
    mine = written(root, "wren")
    committed(root, written(root, "crow") + written(root, "rook", day=TUESDAY), 1)
    assert committed(root, mine, 2, replace=[MONDAY])
    assert birds(root) == ["rook", "wren"]


def test_files_that_are_given_up_are_deleted_unless_they_were_committed(root: str) -> None:
    kept, lost = written(root, "owl"), written(root, "wren")
    committed(root, kept, 0)
    delta.discard(SIGHTINGS.path(root), [*kept, *lost])

    assert birds(root) == ["owl"]
    assert {named(root, file) for file in files(root)} == {part.path for part in kept}


def test_a_commit_says_what_its_files_hold_at_least_and_at_most(root: str) -> None:
    committed(root, written(root, "owl", "crow") + written(root, "wren", day=TUESDAY), 0)
    committed(root, written(root, "x" * 100), 1)
    found: Any = pa.table(DeltaTable(SIGHTINGS.path(root)).get_add_actions(flatten=True))
    held = {
        (row["min.bird"], row["max.bird"]): (row["min.at"], row["max.count"], row["null_count.at"])
        for row in found.to_pylist()
    }
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert held == {
        ("crow", "owl"): (noon, 1, 0),
        ("wren", "wren"): (noon, 1, 0),
        ("x" * 32, None): (noon, 1, 0),
    }


def test_bounds_hold_for_instants_between_milliseconds_and_for_columns_without_values(
    root: str,
) -> None:
    instant = datetime(2026, 3, 2, 12, 0, 0, 999_500, tzinfo=UTC)
    sighted(root, SIGHTINGS, 0, bird="owl", at=instant)
    table = DeltaTable(SIGHTINGS.path(root))
    (row,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert row["min.at"] <= instant <= row["max.at"]
    assert (row["min.count"], row["null_count.count"]) == (None, 1)


def test_only_the_files_of_the_days_asked_for_are_read(root: str) -> None:
    committed(root, written(root, "owl") + written(root, "wren", day=TUESDAY), 0)
    place = SIGHTINGS.path(root)
    assert (delta.count(place), delta.count(place, days=[TUESDAY])) == (2, 1)
    assert (delta.count(place, days=[]), delta.count(f"{place}-elsewhere")) == (0, 0)
    read = delta.read_arrow(root, SIGHTINGS, ("bird", "date"), days=[TUESDAY])
    assert read.to_pylist() == [{"bird": "wren", "date": TUESDAY}]


def test_what_was_written_and_never_committed_is_seen_by_nobody(root: str) -> None:
    written(root, "owl")
    assert committed(root, written(root, "owl"), 0)

    assert birds(root) == ["owl"]


def test_batches_of_two_applications_do_not_stand_in_each_others_way(root: str) -> None:
    committed(root, written(root, "owl"), 5)
    delta.commit(
        SIGHTINGS.path(root),
        SIGHTINGS.schema,
        written(root, "wren"),
        BatchId("another", 0),
        partitions=SIGHTINGS.partitions,
    )

    assert birds(root) == ["owl", "wren"]
    assert delta.last_batch(SIGHTINGS.path(root), "counting") == 5


def test_replacing_leaves_only_the_new_rows_and_happens_once(root: str) -> None:
    committed(root, written(root, "owl", "crow"), 0)
    assert committed(root, written(root, "wren"), 1, replace=True)
    assert not committed(root, written(root, "jay"), 1, replace=True)

    assert birds(root) == ["wren"]


def test_a_batch_without_rows_is_noted_all_the_same(root: str) -> None:
    assert committed(root, [], 3)

    assert delta.last_batch(SIGHTINGS.path(root), "counting") == 3
    assert table_log.last_note(SIGHTINGS.path(root), "upto") == 3
    assert birds(root) == []


def test_the_last_note_is_found_behind_commits_without_one(root: str) -> None:
    committed(root, written(root, "owl"), 7)
    for _ in range(2):
        DeltaTable(SIGHTINGS.path(root)).optimize.compact()
    delta.commit(
        SIGHTINGS.path(root), SIGHTINGS.schema, [], BatchId("another", 0), partitions=("date",)
    )

    assert table_log.last_note(SIGHTINGS.path(root), "upto") == 7


WIDER = msgspec.structs.replace(
    SIGHTINGS, columns=(*SIGHTINGS.columns[:-1], Column("song", TEXT, "its song"), DATE)
)


def sighted(root: str, table: Table, batch: int, **row: Any) -> bool:
    """One row through task and driver, in the columns that a version of the program has."""
    rows = pa.RecordBatch.from_pylist([{"date": MONDAY, **row}], schema=schema_of(table.schema))
    with PartWriter(table.path(root), table.schema, table.partitions) as writer:
        writer.write(rows)
    return delta.commit(
        table.path(root),
        table.schema,
        writer.parts,
        BatchId("counting", batch),
        partitions=table.partitions,
    )


def songs(root: str) -> dict[str, str | None]:
    table: Any = DeltaTable(WIDER.path(root))
    rows = table.to_pyarrow_table(columns=["bird", "song"]).to_pylist()
    return {row["bird"]: row["song"] for row in rows}


def test_a_column_that_is_new_stays_when_the_table_is_compacted(root: str) -> None:
    sighted(root, SIGHTINGS, 0, bird="owl")
    sighted(root, WIDER, 1, bird="wren", song="trill")
    assert songs(root) == {"owl": None, "wren": "trill"}

    DeltaTable(WIDER.path(root)).optimize.compact()

    (file,) = DeltaTable(WIDER.path(root)).file_uris()
    assert "song" in pq.read_schema(file).names
    assert songs(root) == {"owl": None, "wren": "trill"}


def test_a_table_that_is_opened_for_new_columns_has_them(root: str) -> None:
    sighted(root, SIGHTINGS, 0, bird="owl")
    here = delta.read_arrow(root, WIDER, ("bird", "song"))
    assert here.to_pylist() == [{"bird": "owl", "song": None}]

    delta.open_table(WIDER.path(root), WIDER.schema, WIDER.partitions)

    assert songs(root) == {"owl": None}


def test_an_older_program_does_not_write_into_a_newer_table(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "VERSION", tables.VERSION + 1)
    sighted(root, WIDER, 0, bird="wren", song="trill")
    monkeypatch.undo()
    before = files(root)

    with pytest.raises(WrongSchema, match=r"sightings has the column song, .* a newer version"):
        sighted(root, SIGHTINGS, 1, bird="owl")

    assert songs(root) == {"wren": "trill"}
    assert files(root) == before


@pytest.mark.parametrize(
    ("layer", "remedy"), [(Layer.BRONZE, "begin a new history"), (Layer.GOLD, "pipeline rebuild")]
)
def test_a_column_that_nobody_knows_is_refused(root: str, layer: Layer, remedy: str) -> None:
    wider, ours = (msgspec.structs.replace(each, layer=layer) for each in (WIDER, SIGHTINGS))
    sighted(root, wider, 0, bird="wren", song="trill")
    with pytest.raises(WrongSchema, match=rf"the column song, .*something else.*{remedy}"):
        sighted(root, ours, 1, bird="owl")


def test_a_column_of_another_type_is_refused(root: str) -> None:
    sighted(root, SIGHTINGS, 0, bird="owl")
    before = files(root)
    columns = tuple(
        each._replace(type=TEXT) if each.name == "count" else each for each in SIGHTINGS.columns
    )
    other = msgspec.structs.replace(SIGHTINGS, columns=columns)

    with pytest.raises(WrongSchema, match="the column count as integer, wanted string"):
        sighted(root, other, 1, bird="wren", count="many")

    assert birds(root) == ["owl"]
    assert files(root) == before


def test_a_place_without_a_table_has_no_batch_and_no_note(root: str) -> None:
    assert delta.last_batch(SIGHTINGS.path(root), "counting") is None
    assert table_log.last_note(SIGHTINGS.path(root), "upto") is None


def test_a_row_without_a_partition_value_is_kept(root: str) -> None:
    committed(root, written(root, "dodo", day=None), 0)

    assert birds(root) == ["dodo"]


def test_a_partition_that_cannot_be_a_folder_is_refused(root: str) -> None:
    writer = PartWriter(root, SIGHTINGS.schema, ["bird"])
    row: dict[str, Any] = {"bird": "a/b", "count": 1, "at": None, "notes": [], "date": MONDAY}

    with pytest.raises(InvalidInput, match="a plain word, number or date, got 'a/b'"):
        writer.write(pa.RecordBatch.from_pylist([row], schema=schema_of(SIGHTINGS.schema)))


@pytest.mark.parametrize(
    ("held", "group_rows", "one_each"),
    [(parts.MOST_HELD, 1000, True), (parts.MOST_HELD, 1, False), (1, 1000, False)],
)
def test_a_task_writes_one_file_for_each_day_while_it_can_hold_them(
    root: str, monkeypatch: pytest.MonkeyPatch, held: int, group_rows: int, one_each: bool
) -> None:
    monkeypatch.setattr(parts, "MOST_HELD", held)
    layout = Layout(group_rows=group_rows)
    writer = PartWriter.of(root, msgspec.structs.replace(SIGHTINGS, layout=layout))
    rows: list[dict[str, Any]] = [
        {"bird": f"b{day}", "count": 1, "at": None, "notes": [], "date": date(2026, 1, day)}
        for day in range(1, 31)
    ]
    for _ in range(3):
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(SIGHTINGS.schema)))
    committed(root, writer.close(), 0)

    assert len(birds(root)) == 3 * 30
    assert (len(writer.parts) == 30) is one_each


def test_a_task_holds_few_rows_and_writes_the_rest_as_it_goes(root: str) -> None:
    writer = PartWriter.of(root, msgspec.structs.replace(SIGHTINGS, layout=Layout(group_rows=10)))
    row: dict[str, Any] = {"bird": "owl", "count": 1, "at": None, "notes": [], "date": MONDAY}
    for _ in range(5):
        writer.write(pa.RecordBatch.from_pylist([row] * 10, schema=schema_of(SIGHTINGS.schema)))
    (part,) = writer.close()

    file = pq.ParquetFile(f"{SIGHTINGS.path(root)}/{part.path}")
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


@pytest.mark.parametrize("is_cut", [False, True])
def test_files_that_the_driver_does_not_see_are_not_committed(root: str, is_cut: bool) -> None:
    committed(root, written(root, "owl"), 0)
    parts = written(root, "wren") + written(root, "crow", day=TUESDAY)
    away = Path(SIGHTINGS.path(root), parts[1].path)
    if is_cut:
        away.write_bytes(away.read_bytes()[:100])
    else:
        away.unlink()
    with pytest.raises(InvalidOption, match=r"all executors share: of 2 .*, 1 are not visible"):
        committed(root, parts, 1)
    with pytest.raises(InvalidOption, match="all executors share"):
        delta.rewrite(SIGHTINGS.path(root), SIGHTINGS, written_away(root), (), is_same=True)
    assert birds(root) == ["owl"]
    assert len(files(root)) == 1


def written_away(root: str) -> list[Part]:
    """What a task has written to the disk of another machine."""
    parts = written(root, "jay")
    for each in parts:
        Path(SIGHTINGS.path(root), each.path).unlink()
    return parts


@pytest.mark.parametrize("away", [EVENTS, PAYLOADS])
def test_offsets_stay_where_the_files_of_a_batch_are_on_the_disks_of_executors(
    away: Table, store: Redis, redis_url: str, root: str
) -> None:
    store.hset("bull:mail:1", mapping={"name": "send", "data": "{}"})
    store.xadd("bull:mail:events", {"event": "added", "jobId": "1", "name": "send"})
    stream = ArchiveStream(ArchiveOptions(url=redis_url, root=root), PayloadSettings())
    start = stream.initialOffset()
    shares = stream.partitions(start, stream.latestOffset(start, ALL))
    kept = [row for share in shares for rows in stream.read(share) for row in rows.to_pylist()]
    for file in Path(away.path(root)).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(InvalidOption, match="all executors share"):
        commit(root, kept)
    assert commits.offsets_in(root) == {}
    assert not list(Path(root).rglob("*.parquet"))


def test_what_a_task_archives_is_seen_when_it_is_committed(
    store: Redis, redis_url: str, root: str
) -> None:
    written = write_events(store, 30)
    stream = ArchiveStream(ArchiveOptions(url=redis_url, root=root), PayloadSettings())
    start = stream.initialOffset()
    shares = stream.partitions(start, stream.latestOffset(start, ALL))
    kept = [row for share in shares for rows in stream.read(share) for row in rows.to_pylist()]
    assert not DeltaTable.is_deltatable(EVENTS.path(root))
    commit(root, kept)

    table: Any = DeltaTable(EVENTS.path(root))
    assert sorted(table.to_pyarrow_table().column("entry_id").to_pylist()) == sorted(written)
