"""Spark's note of how far a query has come: looked at before it is trusted."""

import json
import uuid
from pathlib import Path

from waystation.pipeline.errors import CheckpointDamaged

_OWN = "waystation.json"
_HEAD = "v1"


def application(folder: str) -> str:
    """The name under which a checkpoint's batches are committed; a new checkpoint gets its own."""
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


def check(folder: str, *, archived: int | None) -> None:
    """Refuse a checkpoint that is torn, has holes, or is older than the tables it belongs to."""
    offsets, commits = _batches(folder, "offsets"), _batches(folder, "commits")
    if (offsets or commits) and not _is_whole(Path(folder) / "metadata", lines=1, headed=False):
        raise _damaged(folder, "metadata cannot be read")
    if archived is not None and archived > max(offsets, default=-1):
        raise _damaged(
            folder, f"it ends at batch {max(offsets, default=-1)}, but the tables hold {archived}"
        )
    if commits and max(commits) not in offsets:
        raise _damaged(folder, f"batch {max(commits)} is committed, but its offsets are missing")
    for batch in sorted(offsets)[-2:]:
        if not _is_whole(Path(folder) / "offsets" / str(batch), lines=2):
            raise _damaged(folder, f"the offsets of batch {batch} cannot be read")
    for batch in sorted(commits)[-1:]:
        if not _is_whole(Path(folder) / "commits" / str(batch), lines=1):
            raise _damaged(folder, f"the commit of batch {batch} cannot be read")


def _batches(folder: str, kind: str) -> set[int]:
    place = Path(folder) / kind
    names = [each.name for each in place.iterdir()] if place.is_dir() else []
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
        f"the checkpoint {folder} cannot be gone on from: {what}. Nothing was read or written. "
        "Remove that folder and start again: the tables know how far they have come, and the next "
        "run goes on from there, with nothing lost and nothing twice"
    )
