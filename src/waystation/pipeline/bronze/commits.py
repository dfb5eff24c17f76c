"""Commits of events: a batch with the offsets it reached, in the tables `events` and `gaps`.

Every commit of events takes the next number of the intake. So two drivers that have read the same
entries cannot both commit them, whoever they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from deltalake import DeltaTable

from waystation.core.errors import CheckpointDamaged
from waystation.pipeline.sources import offsets
from waystation.pipeline.sources.offsets import BEGINNING, Offset, id_order
from waystation.pipeline.storage import delta
from waystation.pipeline.storage.arrow import pa, schema_of
from waystation.pipeline.storage.delta import BatchId
from waystation.pipeline.storage.parts import Part, PartWriter
from waystation.pipeline.tables import EVENTS, GAPS, Table

OFFSETS_NOTE = "places"
"""The note in a commit with the offsets reached; its text is part of existing tables."""
WRITER_NOTE = "writer"
"""The note with the application that has committed it."""
INTAKE = "intake"
"""The application whose batches number all commits of events."""


def store(
    root: str,
    parts: Sequence[Part],
    reports: Sequence[Any],
    batch: BatchId,
    more: Mapping[Table, Sequence[Part]] | None = None,
) -> bool:
    """Commit events, gaps and files of other tables; False when this batch was committed before.

    Refused when another run has stored entries of the same streams meanwhile.
    """
    # Gaps first: once the events are there, the batch counts as read.
    _store_gaps(root, reports, batch)
    for table, files in (more or {}).items():
        if files:
            delta.commit(table.path(root), table.schema, files, batch, partitions=table.partitions)
    is_numbered = batch.application == INTAKE

    def next_number(table: DeltaTable) -> Iterator[BatchId]:
        _require_unmoved(table, reports)
        if not is_numbered:
            yield BatchId(INTAKE, number_of(table) + 1)

    notes = {OFFSETS_NOTE: _reached(root, reports), WRITER_NOTE: batch.application}
    return delta.commit(
        EVENTS.path(root),
        EVENTS.schema,
        parts,
        batch,
        partitions=EVENTS.partitions,
        notes=notes,
        check=next_number,
    )


def number_of(table: DeltaTable) -> int:
    """The number of the last commit of events; 0 before the first."""
    return table.transaction_version(INTAKE) or 0


def offsets_in(root: str) -> dict[str, Offset]:
    """The offsets that the tables have reached."""
    noted = delta.last_note(EVENTS.path(root), OFFSETS_NOTE)
    return offsets.from_json(noted) if noted else {}


def _require_unmoved(table: DeltaTable, reports: Sequence[Any]) -> None:
    """Refuse ranges that do not begin where the tables end."""
    noted = delta.noted(table, OFFSETS_NOTE)
    reached = offsets.from_json(noted) if noted else {}
    for report in reports:
        stream, after = report["stream"], report["_range"]["after"]
        here = reached.get(stream, Offset())
        if here.id != after:
            raise CheckpointDamaged(
                f"another run has stored events of {stream} meanwhile: this one has read on from "
                f"{after}, the tables hold those up to {here.id}. Nothing was written; start again"
            )


def _store_gaps(root: str, reports: Sequence[Any], batch: BatchId) -> None:
    rows = [gap(report) for report in reports if is_gap(report["_range"])]
    if not rows:
        return
    with PartWriter(GAPS.path(root), GAPS.schema, GAPS.partitions) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema_of(GAPS.schema)))
    delta.commit(GAPS.path(root), GAPS.schema, writer.parts, batch)


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
        "line": report["line"],
        "queue": report["queue"],
        "stream": report["stream"],
        "after": account["after"],
        "before": before,
        "lost": account["lost"],
        "reason": "recreated" if account["recreated"] else "trimmed",
        "after_at": None if account["after"] == BEGINNING else _instant(account["after"]),
        "before_at": _instant(before),
    }


def _reached(root: str, reports: Sequence[Any]) -> dict[str, Any]:
    """The offsets of all streams, this batch included."""
    reached = offsets_in(root)
    for report in reports:
        account = report["_range"]
        reached[report["stream"]] = Offset(account["until"], account["added"])
    return offsets.to_json(reached)


def _instant(entry_id: str) -> datetime:
    return datetime.fromtimestamp(min(id_order(entry_id)[0], 253_402_300_799_999) / 1000, UTC)
