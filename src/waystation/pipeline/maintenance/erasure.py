"""Retention and erasure: rows older than a day, and every trace of a person.

The log of a Delta table holds minima and maxima of its files, and the predicates of deletions. So
the log must be purged, too.
"""

import contextlib
import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import msgspec
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from waystation.core.errors import InvalidInput, WrongState
from waystation.pipeline.bronze import commits
from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import tables_of
from waystation.pipeline.maintenance.rebuild import drop_kept_snapshots, refresh_all
from waystation.pipeline.products import folded_tables
from waystation.pipeline.products.cron_slots import CRON_SLOTS, SCHEDULES
from waystation.pipeline.products.routing import ROUTED_JOBS
from waystation.pipeline.products.waitingroom import SESSIONS, VISITS
from waystation.pipeline.refresh.fold import drop_changes, fold
from waystation.pipeline.silver.moves import OPEN, OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS, STEPS
from waystation.pipeline.silver.steps import SUBJECT, Subject
from waystation.pipeline.storage import delta, places, rewriting
from waystation.pipeline.storage.arrow import Invalid, fs, pa, pc, pq
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.rewriting import EVERY, Change, FileChange, Rows, Where
from waystation.pipeline.storage.turns import alone
from waystation.pipeline.tables import (
    ATTEMPTS,
    EVENTS,
    FAILED_ITEMS,
    FAILURE_DAYS,
    FAILURES,
    FIELD_VALUES,
    GAPS,
    ITEMS,
    LEDGER,
    PAYLOADS,
    TEXT,
    WORKERS,
    Table,
)

SHORTEST = 4
"""Least characters of a text to search for; a shorter one would match too much."""
ORPHAN_H = 1
"""Hours after which a file in no commit counts as left by a killed task."""

Row: TypeAlias = Mapping[str, Any]
EVERY_QUEUE = "*"
"""Stands for all queues that have an id."""

_NAMED = {
    VISITS: ("queue", "visitor"),
    SESSIONS: ("queue", "session"),
    SCHEDULES: ("queue", "schedule"),
    CRON_SLOTS: ("queue", "schedule"),
}
"""Tables that are computed from others, and the columns with the queue and the id."""
_WHOSE = ("product", "queue")
_ENTRY = ("stream", "entry_id")


def first_day_kept(days: int, today: dt.date) -> dt.date:
    """The oldest day to keep when so many days are retained."""
    if days < 1:
        raise InvalidInput(f"at least one day must be retained, got {days}")
    return today - dt.timedelta(days=min(days, (today - dt.date.min).days))


@alone("retain")
def retain(history: History, since: dt.date) -> dict[str, int]:
    """Delete rows older than a day; returns the rows deleted from each table."""
    fold(history)
    old = {table: _older(table, since) for table in tables_of(history.root)}
    # Sums over all days are counted again from what is left.
    rewriting.delete(history, {table: EVERY for table in old if table is CELLS})
    kept = {table: each for table, each in old.items() if each is not None and table is not CELLS}
    return rewriting.delete(history, kept)


def retain_payloads(history: History, since: dt.date) -> int:
    """Delete what is kept of jobs that were read before a day; returns the rows deleted.

    The days are those of files, so that nobody reads one.
    """
    old = dict.fromkeys((PAYLOADS, FIELD_VALUES), _before("date", since))
    return sum(rewriting.delete(history, old).values())


def forget(
    history: History, key: str, *, queue: str = "", product: str = "", mentioned: bool = False
) -> dict[str, int]:
    """Delete every row about one job, file or visitor, and every trace in files and logs.

    An id that several queues have needs the queue, or `EVERY_QUEUE`, or the product. With
    `mentioned`, `key` is a name, an address or a number: events and payloads that contain it as a
    whole word, however JSON spells it, select the jobs, files and visitors, of one queue or of all.
    Returns the rows deleted from each table.
    """
    if not key:
        raise InvalidInput("wanted the id of a job, file or visitor, got nothing")
    if mentioned and len(key) < SHORTEST:
        raise InvalidInput(f"wanted at least {SHORTEST} characters to search for, got {key!r}")
    return _forget(history, key, queue, product, mentioned)


@alone("forget")
def _forget(
    history: History, key: str, queue: str, product: str, mentioned: bool
) -> dict[str, int]:
    delete = _delete_mentioned if mentioned else _delete_subject
    gone = delete(history, key, queue, product)
    # First: whatever goes wrong later, nothing is left of what was deleted.
    drop_kept_snapshots(history.root)
    _purge(history, tables_of(history.root))
    refresh_all(history)
    _purge(history, tables_of(history.root))
    word = re.compile(_word(key))

    def is_meant(row: Row) -> bool:
        if mentioned:
            return any(map(word.search, _texts_in(row.values())))
        of = row.get("product", ""), row.get("queue", "")
        return row.get("job_id") == key and _is_of(*of, queue, product)

    _require_no_trace(history.root, is_meant)
    return gone


def _delete_subject(history: History, key: str, queue: str, product: str) -> dict[str, int]:
    fold(history)
    found = [each for each in _queues_with(history, key) if product in ("", each[0])]
    named = sorted(f"{name} of {whose}" for whose, name in found if name)
    wanted = [each for each in found if each[1] and queue in ("", EVERY_QUEUE, each[1])]
    if len(wanted) > 1 and queue != EVERY_QUEUE:
        raise InvalidInput(
            f"{key} is in several queues: {', '.join(named)}. Say which with --queue and "
            f"--product, or all with --queue '{EVERY_QUEUE}'"
        )
    return _delete_subjects(history, _chosen([(*each, key) for each in found], queue, product))


def _delete_mentioned(history: History, key: str, queue: str, product: str) -> dict[str, int]:
    fold(history)
    word = re.compile(_word(key))
    found = history.events().where(_mentions(key))
    kept = history.read(PAYLOADS).where(_holds(key))
    named = found.where(F.col("job_id").isNotNull()).select(*SUBJECT)
    rows = named.union(kept.select(*SUBJECT)).distinct().collect()
    subjects: list[Subject] = [(row["product"], row["queue"], row["job_id"]) for row in rows]
    subjects += [each for each in _lost(history.root) if word.search(each[-1])]
    gone = _delete_subjects(history, _chosen(subjects, queue, product))
    # Events of a queue as a whole have no subject.
    entries = found.where(F.col("job_id").isNull()).select(*_WHOSE, *_ENTRY).collect()
    mine = [each[2:] for each in entries if _is_of(each[0], each[1], queue, product)]
    more: dict[Table, Change] = {EVENTS: Rows(_ENTRY, frozenset(mine))}
    if _exists(history.root, WORKERS):
        columns = (*_WHOSE, "worker")
        found = history.read(WORKERS, columns=columns).where("worker is not null").distinct()
        workers = [
            each
            for each in map(tuple[str, ...], found.collect())
            if word.search(each[2]) and _is_of(each[0], each[1], queue, product)
        ]
        more[WORKERS] = Rows(columns, frozenset(workers))
    for name, many in rewriting.delete(history, more).items():
        gone[name] = gone.get(name, 0) + many
    return gone


def _chosen(subjects: Sequence[Subject], queue: str, product: str) -> list[Subject]:
    """The subjects of a queue and a product.

    Some events of routing have no queue: they belong to the queue that has the same id.
    """
    mine = [each for each in subjects if each[1] and _is_of(each[0], each[1], queue, product)]
    if queue in ("", EVERY_QUEUE):
        return [each for each in subjects if product in ("", each[0])]
    ids = {(each[0], each[2]) for each in mine}
    return mine + [each for each in subjects if not each[1] and (each[0], each[2]) in ids]


def _delete_subjects(history: History, subjects: Sequence[Subject]) -> dict[str, int]:
    tables, theirs = _existing(history), frozenset(subjects)
    wanted: dict[Table, Change] = dict.fromkeys(tables, Rows(SUBJECT, theirs))
    named = frozenset(each[1:] for each in subjects)
    wanted |= {table: Rows(columns, named) for table, columns in _NAMED.items()}
    wanted[LEDGER] = WithoutIds(theirs)
    # They name examples of jobs: the next refresh counts them again.
    wanted |= dict.fromkeys((FAILURES, FAILURE_DAYS, CELLS), EVERY)
    gone = rewriting.delete(history, wanted)
    return {table.name: gone[table.name] for table in tables}


class WithoutIds(NamedTuple):
    """Removes ids from the ledger; its counts stay."""

    subjects: frozenset[Subject]

    looked_at = (*_WHOSE, "lost_ids")

    def among(self, files: Any) -> Any:
        """All files: nothing says which ids they name."""
        return files

    def of(self, file: str) -> FileChange:
        """The same for every file."""
        return self

    def concerns(self, rows: Any) -> bool:
        """Whether one names such an id."""
        return self.changed(rows) is not rows

    def changed(self, rows: Any) -> Any:
        """The rows without these ids."""
        before: list[Row] = rows.select(self.looked_at).to_pylist()
        after = [self._left(row) for row in before]
        if after == [row["lost_ids"] for row in before]:
            return rows
        place = rows.column_names.index("lost_ids")
        return rows.set_column(place, "lost_ids", pa.array(after, rows["lost_ids"].type))

    def _left(self, row: Row) -> list[str] | None:
        if row["lost_ids"] is None:
            return None
        whose = row["product"], row["queue"]
        return [each for each in row["lost_ids"] if (*whose, each) not in self.subjects]


def _queues_with(history: History, key: str) -> set[tuple[str, str]]:
    """Product and name of the queues that have something with this id."""
    found = {(product, queue) for product, queue, job_id in _lost(history.root) if job_id == key}
    theirs = [
        history.read(table, columns=SUBJECT).where(F.col("job_id") == key).select(*_WHOSE)
        for table in _existing(history)
    ]
    rows = reduce(DataFrame.union, theirs).distinct().collect() if theirs else []
    return found | {(row["product"], row["queue"]) for row in rows}


def _is_of(its_product: str, its_queue: str, queue: str, product: str) -> bool:
    return product in ("", its_product) and queue in ("", EVERY_QUEUE, its_queue)


def _purge(history: History, tables: Sequence[Table]) -> None:
    """Delete the files that tables no longer need, and the earlier part of their logs."""
    first_versions: dict[str, int] = {}
    for table in tables:
        path = table.path(history.root)
        first_versions[path] = _restate(path, table)
    # A fold finds new events in the log of the table, so it must run before the log is cut.
    fold(history)
    drop_changes(history.root)
    for path, version in first_versions.items():
        # Gold is counted from the version that was folded, and deleting files makes others.
        stored = DeltaTable(path)
        stored.create_checkpoint()
        _delete_files(stored, path)
        _cut_log(stored, path, before=version)


def _lost(root: str) -> set[Subject]:
    """What the ledger names as lost."""
    found = delta.read_arrow(root, LEDGER, (*_WHOSE, "lost_ids"), within=("lost", 1, None))
    rows = found.to_pylist()
    return {(row["product"], row["queue"], each) for row in rows for each in row["lost_ids"] or ()}


def _delete_files(stored: DeltaTable, path: str) -> None:
    """Delete files that a table no longer needs, and files that killed tasks have left."""
    files, root = places.filesystem(path)
    held = set(pa.table(stored.get_add_actions())["path"].to_pylist())
    for name in _removed_files(path) - held:
        with contextlib.suppress(FileNotFoundError):
            files.delete_file(f"{root}/{name}")
    # In no commit, unless a task is writing them right now.
    stored.vacuum(
        retention_hours=ORPHAN_H, dry_run=False, enforce_retention_duration=False, full=True
    )


def _require_no_trace(root: str, is_meant: Callable[[Row], bool]) -> None:
    """Refuse to say that all is gone while a file in no commit, perhaps being written, has it."""
    young = [file for table in tables_of(root) for file in _uncommitted(table.path(root))]
    held = [file for file in young if any(map(is_meant, _rows(file)))]
    if held:
        raise WrongState(
            f"all tables are rid of it, but {len(held)} files in no commit hold it, such as "
            f"{held[0]}: a run is writing them, or was killed less than {ORPHAN_H} h ago. "
            "Call it again when the run has stored them, or after that time"
        )


def _uncommitted(path: str) -> list[str]:
    files, root = places.filesystem(path)
    held = set(pa.table(DeltaTable(path).get_add_actions())["path"].to_pylist())
    found: list[Any] = files.get_file_info(fs.FileSelector(root, recursive=True))
    names = [each.path for each in found if each.path.endswith(".parquet")]
    mine = [name for name in names if "/_delta_log/" not in name]
    return [name for name in mine if name.removeprefix(f"{root}/") not in held]


def _rows(file: str) -> list[Row]:
    """The rows of a file; none of one that is not finished."""
    files, _ = places.filesystem(file)
    with contextlib.suppress(Invalid, OSError):
        return pq.read_table(file, filesystem=files, partitioning=None).to_pylist()
    return []


def _texts_in(values: Iterable[Any]) -> Iterator[str]:
    """Every text, however deep."""
    for each in values:
        if isinstance(each, str):
            yield each
        elif isinstance(each, list | tuple):
            yield from _texts_in(each)  # pyright: ignore[reportUnknownArgumentType]


def _removed_files(path: str) -> set[str]:
    files, _ = places.filesystem(path)
    found: set[str] = set()
    for each in _log(path):
        if each.extension == "json":
            with files.open_input_stream(each.path) as log:
                actions = [msgspec.json.decode(line) for line in log.read().splitlines() if line]
            found |= {action["remove"]["path"] for action in actions if "remove" in action}
    return found


def _restate(path: str, table: Table) -> int:
    """Commit again what readers need from earlier entries of a log; returns the version."""
    stored = DeltaTable(path)
    batch = BatchId("purge", stored.version())
    notes = commits.lasting_notes(stored) if table is EVENTS else {}
    delta.commit(path, table.schema, [], batch, partitions=table.partitions, notes=notes)
    stored.update_incremental()
    return stored.version()


def _cut_log(stored: DeltaTable, path: str, *, before: int) -> None:
    """Delete the entries of a log before a version, which a checkpoint stands for."""
    stored.update_incremental()
    stored.create_checkpoint()
    files, _ = places.filesystem(path)
    for each in _log(path):
        number = each.base_name.partition(".")[0]
        if number.isdigit() and int(number) < before:
            files.delete_file(each.path)


def _log(path: str) -> list[Any]:
    files, root = places.filesystem(path)
    found: list[Any] = files.get_file_info(fs.FileSelector(f"{root}/_delta_log"))
    return found


def _word(key: str) -> str:
    """A pattern for a text as a whole word, in any case and however JSON spells its letters.

    Java and Python read it alike.
    """
    letters = "".join(map(_letter, unicodedata.normalize("NFC", key)))
    # A letter before it may be the end of an escape, such as that of a new line.
    begins = r"(?:(?<![\w.@-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-f]{4}))"
    return rf"(?iu){begins}{letters}(?![\w@-])"


def _letter(letter: str) -> str:
    """A pattern for a letter: small or large, in one piece or with its accent apart."""
    ways = {letter, letter.lower(), letter.upper()}
    ways |= {unicodedata.normalize("NFD", each) for each in ways}
    return f"(?:{'|'.join(sorted(''.join(map(_sign, way)) for way in ways))})"


def _sign(sign: str) -> str:
    """A pattern for a character, or the escapes that JSON has for it."""
    numbered = "".join(rf"\\+u{unit}" for unit in _units(sign))
    before = "" if sign.isalnum() else r"\\*"
    return f"(?:{before}{re.escape(sign)}|{numbered})"


def _units(text: str) -> Iterator[str]:
    """The numbers of a text's letters, as JSON writes them."""
    raw = text.encode("utf-16-be")
    return (raw[at : at + 2].hex() for at in range(0, len(raw), 2))


def _holds(key: str) -> Column:
    """Condition: a row of `payloads` contains a text as a whole word."""
    texts = [
        column.name
        for column in PAYLOADS.columns
        if column.type == TEXT and column.name not in _WHOSE
    ]
    return F.concat_ws("\n", *texts, "logs", F.map_values("fields")).rlike(_word(key))


def _mentions(key: str) -> Column:
    """Condition: an event contains a text as a whole word, in its fields or in a name."""
    pattern = _word(key)
    said = F.exists(F.map_values("fields"), lambda value: value.rlike(pattern))
    named = [F.coalesce(F.col(each).rlike(pattern), F.lit(False)) for each in ("job_id", "worker")]
    return said | named[0] | named[1]


def _existing(history: History) -> list[Table]:
    shared = (EVENTS, PAYLOADS, FIELD_VALUES, ATTEMPTS, ITEMS, FAILED_ITEMS, *OPEN)
    tables = (*shared, *(each.table for each in folded_tables()))
    return [table for table in tables if _exists(history.root, table)]


def _exists(root: str, table: Table) -> bool:
    return DeltaTable.is_deltatable(table.path(root))


_OLDER_BY = {
    GAPS.name: "before_at",
    STEPS.name: "recorded_at",
    OPEN_ATTEMPTS.name: "started_at",
    OPEN_ITEMS.name: "last_recorded_at",
    OPEN_FAILURES.name: "last_recorded_at",
}
"""The instant by which rows are old, in tables without days and hours."""


def _older(table: Table, first: dt.date) -> Change | None:
    if table is ROUTED_JOBS:
        # A schedule goes on without events of its own.
        is_over = pc.field("cron").is_null() | (pc.field("ended_at") < _midnight(first))
        by_day = _before("date", first)
        looked_at = ("date", "cron", "ended_at")
        return Where(by_day.expression & is_over, looked_at, by_day.within)
    if "date" in table.partitions:
        return _before("date", first)
    by_time = next((name for name in ("hour", "minute") if name in table.key), None)
    column = by_time or _OLDER_BY.get(table.name)
    return None if column is None else _before(column, _midnight(first))


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def _before(column: str, bound: dt.date) -> Where:
    """Deletes rows with an earlier day, or instant."""
    return Where(pc.field(column) < pa.scalar(bound), (column,), (column, None, bound))
