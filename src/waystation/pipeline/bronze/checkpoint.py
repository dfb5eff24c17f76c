"""Spark's checkpoint of a query, checked before it is used."""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path

from waystation.core.errors import CheckpointDamaged, Malformed, WaystationError
from waystation.pipeline.sources.offsets import Offset, from_json

_OWN = "waystation.json"
_HEAD = "v1"


def application(folder: str) -> str:
    """The application that a checkpoint's batches are committed as; a new one gets a new name."""
    file = Path(folder) / _OWN
    if file.exists():
        try:
            return str(json.loads(file.read_text())["application"])
        except (ValueError, KeyError, TypeError):
            raise _damaged(folder, f"{file.name} cannot be read") from None
    if (Path(folder) / "offsets").exists():
        raise _damaged(folder, f"{file.name} is missing")
    file.parent.mkdir(parents=True, exist_ok=True)
    name = f"bronze-{uuid.uuid4()}"
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"application": name}))
    fresh.replace(file)
    return name


def check(folder: str, *, archived: int | None, reached: Mapping[str, Offset]) -> None:
    """Refuse a checkpoint that is damaged, incomplete, or contradicts the tables.

    `archived` is the last of its batches in the tables, `reached` the offsets that they hold.
    """
    offsets, commits = _batches(folder, "offsets"), _batches(folder, "commits")
    if (offsets or commits) and not _is_whole(Path(folder) / "metadata", lines=1, headed=False):
        raise _damaged(folder, "metadata cannot be read")
    last, committed = max(offsets, default=-1), max(commits, default=-1)
    held = -1 if archived is None else archived
    if committed > last:
        raise _damaged(folder, f"batch {committed} is committed, but its offsets are missing")
    if held > last:
        raise _damaged(folder, f"it ends at batch {last}, but the tables hold {held}")
    if last > max(committed, 0) and last - 1 not in offsets:
        raise _damaged(folder, f"the offsets of batch {last - 1} are missing")
    for batch in sorted(offsets)[-2:]:
        ends = _offsets(folder, batch)
        # Those without events are in no table.
        if batch == max(held, committed) and any(
            reached.get(name) != end for name, end in ends.items()
        ):
            raise _damaged(folder, f"batch {batch} ends at other offsets than the tables")
    if committed >= 0 and not _is_whole(Path(folder) / "commits" / str(committed), lines=1):
        raise _damaged(folder, f"the commit of batch {committed} cannot be read")


def _offsets(folder: str, batch: int) -> dict[str, Offset]:
    """The offsets at which a batch ends."""
    file = Path(folder) / "offsets" / str(batch)
    try:
        if not _is_whole(file, lines=2):
            raise Malformed("torn")
        return from_json(json.loads(file.read_text().splitlines()[2]))
    except WaystationError:
        raise _damaged(folder, f"the offsets of batch {batch} cannot be read") from None


def _batches(folder: str, kind: str) -> set[int]:
    path = Path(folder) / kind
    names = [each.name for each in path.iterdir()] if path.is_dir() else []
    return {int(name) for name in names if name.isdigit()}


def _is_whole(file: Path, *, lines: int, headed: bool = True) -> bool:
    try:
        head, *rest = file.read_text().splitlines()
        documents = rest if headed else [head, *rest]
        for each in documents:
            json.loads(each)
    except (OSError, ValueError):
        return False
    return len(documents) >= lines and (not headed or head == _HEAD)


def _damaged(folder: str, what: str) -> CheckpointDamaged:
    return CheckpointDamaged(
        f"the checkpoint {folder} cannot be used: {what}. Nothing was read or written. "
        "Delete that folder and start again: the tables hold the offsets, and the next run "
        "continues from there, with nothing lost and nothing twice"
    )
