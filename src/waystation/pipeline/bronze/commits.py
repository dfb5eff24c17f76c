"""Commits of events: a batch with the offsets it reached, and the gaps and jobs that go with it.

Every commit of events takes the next number of the intake. So two drivers that have read the same
entries cannot both commit them, whoever they are.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Never

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from waystation.core.errors import HistoryCut, Overtaken
from waystation.pipeline.sources import offsets, redis_streams
from waystation.pipeline.sources.offsets import (
    BEGINNING,
    OFFSETS_NOTE,
    WHOLE_EVERY_MS,
    EventStream,
    Offset,
    Reached,
    StreamRange,
    id_order,
)
from waystation.pipeline.storage import delta, table_log
from waystation.pipeline.storage.arrow import pa
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, PartWriter, require_visible
from waystation.pipeline.storage.schemas import schema_of
from waystation.pipeline.storage.table_log import opened
from waystation.pipeline.tables import EVENTS, FIELD_VALUES, GAPS, LAST_MS, PAYLOADS, Table

BESIDE_NOTE = "beside"
"""The note with the number of a commit of events, and the files of other tables that go with it."""
BESIDE = (GAPS, PAYLOADS, FIELD_VALUES)
"""The tables with rows that go with events."""
INTAKE = "intake"
"""The application whose batches number all commits of events."""


def store(
    root: str, parts: Mapping[Table, Sequence[Part]], reports: Sequence[Mapping[str, Any]]
) -> None:
    """Commit events and what belongs to them.

    The commit of events decides. It names the files of the other tables, so that whoever comes
    next commits them, should this process end in between. Refused when another run has stored
    entries of the same streams meanwhile.
    """
    path, reports = EVENTS.path(root), joined(reports)
    others = {table: list(files) for table, files in parts.items() if table is not EVENTS}
    others[GAPS] = _gap_parts(root, reports)
    known = opened(path)
    number = 1 if known is None else number_of(known) + 1
    rows = {each.name: [part.row for part in files] for each, files in others.items()}
    noting: dict[str, Any] = {BESIDE_NOTE: {"number": number, "files": rows}}

    def check(table: DeltaTable) -> Iterable[Never]:
        for each, files in others.items():
            require_visible(each.path(root), files)
        reached = _reached(table)
        _require_unmoved(reached.offsets, reports)
        # Whoever has made the commit before this one may have ended before they came so far.
        _commit_beside(root, table_log.noted(table, BESIDE_NOTE))
        noting[OFFSETS_NOTE] = reached.note(_ends(reports), int(time.time() * 1000))
        return ()

    is_stored = False
    try:
        is_stored = delta.commit(
            path,
            EVENTS.schema,
            parts.get(EVENTS, ()),
            BatchId(INTAKE, number),
            partitions=EVENTS.partitions,
            notes=noting,
            check=check,
        )
    finally:
        if not is_stored:
            discard(root, others)
    if not is_stored:
        raise delta.overtaken(path)
    delta.make_durable(path, parts.get(EVENTS, ()))
    complete(root)


def joined(reports: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """One report on each range, also where several tasks have read pieces of it."""
    ranges: list[list[Mapping[str, Any]]] = []
    for piece in sorted(reports, key=_place):
        if ranges and _follows(piece, ranges[-1][-1]):
            ranges[-1].append(piece)
        else:
            ranges.append([piece])
    return [_whole(pieces) for pieces in ranges]


def _place(report: Mapping[str, Any]) -> tuple[str, tuple[int, int]]:
    return report["stream"], id_order(report["_range"]["after"])


def _follows(piece: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    is_same = piece["stream"] == before["stream"]
    return is_same and piece["_range"]["after"] == before["_range"]["until"]


def _whole(pieces: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The report on a range from those on its pieces."""
    one, *others = accounts = [each["_range"] for each in pieces]
    if not others:
        return pieces[0]
    stream = EventStream(*(pieces[0][name] for name in ("product", "queue", "stream")))
    # Where it is cut, no more entries are counted than at its beginning.
    span = StreamRange(
        stream,
        Offset(one["after"], one["added"]),
        Offset(others[-1]["until"], others[-1]["added"]),
    )
    first = next((each["first"] for each in accounts if each["first"]), None)
    account = redis_streams.account_of(span, sum(each["read"] for each in accounts), first)
    return {**pieces[0], "_range": account}


def complete(root: str) -> None:
    """Commit the files of other tables that the last commit of events names, if need be.

    Where that is long ago, its notes are written again: rewriting commits, too, and as it does so
    the entries of the log that hold them are deleted after some weeks.
    """
    table = opened(EVENTS.path(root))
    if table is None:
        return
    last = next(table_log.every_noted(table, BESIDE_NOTE), None)
    _commit_beside(root, None if last is None else last.value)
    if last is None or int(time.time() * 1000) - last.at_ms >= WHOLE_EVERY_MS:
        _renew_notes(root, table.version())


def _renew_notes(root: str, version: int) -> None:
    noting: dict[str, Any] = {}

    def present_number(table: DeltaTable) -> Iterator[BatchId]:
        _commit_beside(root, table_log.noted(table, BESIDE_NOTE))
        for name, note in lasting_notes(table).items():
            noting[name] = note
        # Events that others store meanwhile must not be followed by these offsets.
        yield BatchId(INTAKE, number_of(table))

    # Who was faster has written such notes.
    with suppress(CommitFailedError):
        table = DeltaTable(EVENTS.path(root))
        if lasting_notes(table):
            delta.commit(
                EVENTS.path(root),
                EVENTS.schema,
                [],
                BatchId("notes", version),
                partitions=EVENTS.partitions,
                notes=noting,
                check=present_number,
            )


def lasting_notes(table: DeltaTable) -> dict[str, Any]:
    """The notes of events without which nobody could read on; none where they are lost already.

    All files of other tables that the last commit names must have been committed.
    """
    with suppress(HistoryCut):
        if found := _reached(table).offsets:
            beside: dict[str, Any] = {"number": number_of(table), "files": {}}
            return {OFFSETS_NOTE: offsets.to_json(found), BESIDE_NOTE: beside}
    return {}


def discard(root: str, parts: Mapping[Table, Sequence[Part]]) -> None:
    """Delete files that are in no commit, and that the last commit of events does not name."""
    noted: Any = table_log.last_note(EVENTS.path(root), BESIDE_NOTE) or {"files": {}}
    for table, files in parts.items():
        named: set[str] = {row["path"] for row in noted["files"].get(table.name, ())}
        delta.discard(table.path(root), [each for each in files if each.path not in named])


def _commit_beside(root: str, noted: Mapping[str, Any] | None) -> None:
    if noted is None:
        return
    for table in BESIDE:
        if rows := noted["files"].get(table.name):
            files = list(map(Part.of, rows))
            if delta.commit(
                table.path(root),
                table.schema,
                files,
                BatchId(INTAKE, noted["number"]),
                partitions=table.partitions,
                keep_files=True,
            ):
                delta.make_durable(table.path(root), files)


def number_of(table: DeltaTable) -> int:
    """The number of the last commit of events; 0 before the first."""
    return table.transaction_version(INTAKE) or 0


def offsets_in(root: str) -> dict[str, Offset]:
    """The offsets that the tables have reached."""
    table = opened(EVENTS.path(root))
    return {} if table is None else dict(_reached(table).offsets)


def _reached(table: DeltaTable) -> Reached:
    """The offsets that a table has reached; refuses to begin anew where they are lost."""
    reached = offsets.reached(table)
    if reached.whole_ms is None and number_of(table):
        raise offsets.lost(table)
    return reached


def _require_unmoved(reached: Mapping[str, Offset], reports: Sequence[Mapping[str, Any]]) -> None:
    """Refuse ranges that do not begin where the tables end."""
    for report in reports:
        stream, after = report["stream"], report["_range"]["after"]
        here = reached.get(stream, Offset())
        if here.id != after:
            raise Overtaken(
                f"another run has stored events of {stream} meanwhile: this one has read on from "
                f"{after}, the tables hold those up to {here.id}. Nothing was written; start again"
            )


def _gap_parts(root: str, reports: Sequence[Mapping[str, Any]]) -> list[Part]:
    """A file with the gaps of some ranges; none when nothing was lost."""
    rows = [gap(report) for report in reports if is_gap(report["_range"])]
    if not rows:
        return []
    with PartWriter.of(root, GAPS) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(GAPS.schema)))
    return writer.parts


def is_gap(account: Mapping[str, Any]) -> bool:
    """Whether entries of a range were gone, or may have been."""
    if account["lost"] is not None:
        return bool(account["lost"] > 0)
    return bool(account["recreated"])


def gap(report: Mapping[str, Any]) -> dict[str, Any]:
    """The row of `gaps` for a range with lost entries."""
    account = report["_range"]
    before = account["first"] or account["until"]
    return {
        "product": report["product"],
        "queue": report["queue"],
        "stream": report["stream"],
        "after": account["after"],
        "before": before,
        "lost": account["lost"],
        "reason": "recreated" if account["recreated"] else "trimmed",
        "after_at": None if account["after"] == BEGINNING else _instant(account["after"]),
        "before_at": _instant(before),
    }


def _ends(reports: Sequence[Mapping[str, Any]]) -> dict[str, Offset]:
    """The offsets at which a batch ends."""
    ranges = {report["stream"]: report["_range"] for report in reports}
    return {stream: Offset(each["until"], each["added"]) for stream, each in ranges.items()}


def _instant(entry_id: str) -> datetime:
    return datetime.fromtimestamp(min(id_order(entry_id)[0], LAST_MS) / 1000, UTC)
