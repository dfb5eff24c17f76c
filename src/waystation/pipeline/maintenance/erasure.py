"""Retention and erasure: rows older than a day, and every trace of a person.

The log of a Delta table holds minima and maxima of its files, and the predicates of deletions. So
the log must be purged, too.
"""

import contextlib
import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from deltalake import DeltaTable
from pyspark.sql import Column
from pyspark.sql import functions as F

from waystation.core.errors import InvalidInput, WrongState
from waystation.pipeline.ask.active_files import active_files
from waystation.pipeline.gold.cells import CELLS
from waystation.pipeline.history import History
from waystation.pipeline.maintenance.compaction import tables_of
from waystation.pipeline.maintenance.rebuild import refresh_all
from waystation.pipeline.products import folded_tables
from waystation.pipeline.products.cron_slots import CRON_SLOTS, SCHEDULES
from waystation.pipeline.products.routing import ROUTED_JOBS
from waystation.pipeline.products.waitingroom import SESSIONS, VISITS
from waystation.pipeline.refresh.fold import drop_changes, fold
from waystation.pipeline.silver.moves import OPEN, OPEN_ATTEMPTS, OPEN_FAILURES, OPEN_ITEMS, STEPS
from waystation.pipeline.silver.steps import SUBJECT, Subject
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import OFFSETS_NOTE
from waystation.pipeline.storage import delta, filesystems
from waystation.pipeline.storage.arrow import Invalid, fs, pa, pc, pq
from waystation.pipeline.storage.delta import BatchId
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
AT_ONCE = 200
"""Subjects in one deletion."""

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
    if _exists(history.root, CELLS):
        # Sums over all days are counted again from what is left.
        delta.delete_where(history.root, CELLS, "true")
    return {
        table.name: delta.delete_where(history.root, table, predicate)
        for table in tables_of(history.root)
        if table is not CELLS and (predicate := _older(table, since)) is not None
    }


def retain_payloads(root: str, since: dt.date) -> int:
    """Delete what is kept of jobs that were read before a day; returns the rows deleted.

    The days are those of files, so that a day without any costs nothing.
    """
    gone = 0
    for table in (PAYLOADS, FIELD_VALUES):
        files = active_files(table.path(root))
        if any(each.date is not None and each.date < since for each in files):
            gone += delta.delete_where(root, table, f"date < '{since.isoformat()}'")
    return gone


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
    _delete_examples(history.root)
    # First: whatever goes wrong later, nothing is left of what was deleted.
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
    for predicate in _predicates(_ENTRY, mine):
        gone[EVENTS.name] += delta.delete_where(history.root, EVENTS, predicate)
    if _exists(history.root, WORKERS):
        columns = (*_WHOSE, "worker")
        rows = delta.read_arrow(history.root, WORKERS, columns).to_pylist()
        known = {(row["product"], row["queue"], row["worker"] or "") for row in rows}
        workers = [
            each
            for each in known
            if word.search(each[2]) and _is_of(each[0], each[1], queue, product)
        ]
        gone[WORKERS.name] = sum(
            delta.delete_where(history.root, WORKERS, predicate)
            for predicate in _predicates(columns, workers)
        )
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


def _delete_examples(root: str) -> None:
    """Delete what names examples of jobs: the next refresh counts it again."""
    for table in (FAILURES, FAILURE_DAYS, CELLS):
        if _exists(root, table):
            delta.delete_where(root, table, "true")


def _delete_subjects(history: History, subjects: Sequence[Subject]) -> dict[str, int]:
    tables = _existing(history)
    gone = dict.fromkeys((table.name for table in tables), 0)
    for predicate in _predicates(SUBJECT, subjects):
        for table in tables:
            gone[table.name] += delta.delete_where(history.root, table, predicate)
    for table, columns in _NAMED.items():
        if _exists(history.root, table):
            for predicate in _predicates(columns, [each[1:] for each in subjects]):
                delta.delete_where(history.root, table, predicate)
    _remove_lost_ids(history.root, subjects)
    return gone


def _queues_with(history: History, key: str) -> set[tuple[str, str]]:
    """Product and name of the queues that have something with this id."""
    mine = pc.field("job_id") == key
    found = {(product, queue) for product, queue, job_id in _lost(history.root) if job_id == key}
    for table in _existing(history):
        rows = delta.read_arrow(history.root, table, _WHOSE, mine, by=("job_id",))
        found |= set(zip(*(rows[name].to_pylist() for name in _WHOSE), strict=True))
    return found


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
        DeltaTable(path).create_checkpoint()
        _delete_files(path)
        _cut_log(path, before=version)


def _lost(root: str) -> set[Subject]:
    """What the ledger names as lost."""
    rows = delta.read_arrow(root, LEDGER, (*_WHOSE, "lost_ids")).to_pylist()
    return {(row["product"], row["queue"], each) for row in rows for each in row["lost_ids"] or ()}


def _remove_lost_ids(root: str, subjects: Sequence[Subject]) -> None:
    """Remove ids from the ledger; its counts stay."""
    for product, queue, job_id in _lost(root).intersection(subjects):
        named = _quoted(job_id)
        DeltaTable(LEDGER.path(root)).update(
            updates={"lost_ids": f"array_remove_all(lost_ids, {named})"},
            predicate=f"{_equals(_WHOSE, (product, queue))} AND array_has(lost_ids, {named})",
        )


def _delete_files(path: str) -> None:
    """Delete files that a table no longer needs, and files that killed tasks have left."""
    files, root = filesystems.filesystem(path)
    table = DeltaTable(path)
    held = set(pa.table(table.get_add_actions())["path"].to_pylist())
    for name in _removed_files(path) - held:
        with contextlib.suppress(FileNotFoundError):
            files.delete_file(f"{root}/{name}")
    # In no commit, unless a task is writing them right now.
    table.vacuum(
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
    files, root = filesystems.filesystem(path)
    held = set(pa.table(DeltaTable(path).get_add_actions())["path"].to_pylist())
    found: list[Any] = files.get_file_info(fs.FileSelector(root, recursive=True))
    names = [each.path for each in found if each.path.endswith(".parquet")]
    mine = [name for name in names if "/_delta_log/" not in name]
    return [name for name in mine if name.removeprefix(f"{root}/") not in held]


def _rows(file: str) -> list[Row]:
    """The rows of a file; none of one that is not finished."""
    files, _ = filesystems.filesystem(file)
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
    files, _ = filesystems.filesystem(path)
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
    batch, found = BatchId("purge", stored.version()), offsets.reached(stored).offsets
    notes = {OFFSETS_NOTE: offsets.to_json(found)} if found else {}
    delta.commit(path, table.schema, [], batch, partitions=table.partitions, notes=notes)
    return DeltaTable(path).version()


def _cut_log(path: str, *, before: int) -> None:
    """Delete the entries of a log before a version, which a checkpoint stands for."""
    DeltaTable(path).create_checkpoint()
    files, _ = filesystems.filesystem(path)
    for each in _log(path):
        number = each.base_name.partition(".")[0]
        if number.isdigit() and int(number) < before:
            files.delete_file(each.path)


def _log(path: str) -> list[Any]:
    files, root = filesystems.filesystem(path)
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


def _predicates(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for first in range(0, len(rows), AT_ONCE):
        yield " OR ".join(f"({_equals(columns, row)})" for row in rows[first : first + AT_ONCE])


def _equals(columns: Sequence[str], row: Sequence[str]) -> str:
    pairs = zip(columns, row, strict=True)
    return " AND ".join(f"{name} = {_quoted(value)}" for name, value in pairs)


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


def _older(table: Table, first: dt.date) -> str | None:
    if table is ROUTED_JOBS:
        # A schedule goes on without events of its own.
        midnight = f"{first.isoformat()}T00:00:00+00:00"
        return f"date < '{first.isoformat()}' AND (cron IS NULL OR ended_at < '{midnight}')"
    if "date" in table.partitions:
        return f"date < '{first.isoformat()}'"
    by_time = next((name for name in ("hour", "minute") if name in table.key), None)
    column = by_time or _OLDER_BY.get(table.name)
    return None if column is None else f"{column} < '{first.isoformat()}T00:00:00+00:00'"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
