"""Deploys, marked in the history so that what began with one can be seen."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow  # pyright: ignore[reportMissingTypeStubs]
from deltalake import (
    CommitProperties,
    write_deltalake,  # pyright: ignore[reportUnknownVariableType]
)

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.active_files import read_rows
from waystation.pipeline.storage.places import is_remote
from waystation.pipeline.storage.table_log import metadata
from waystation.pipeline.tables import DEPLOYS

pa: Any = pyarrow
_write: Any = write_deltalake

LONGEST = 100
"""Characters of a name."""
SOON = dt.timedelta(days=1)
"""How long after a deploy something new may be its doing."""
_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("deployed_at", pa.timestamp("us", tz="UTC")),
        ("note", pa.string()),
    ]
)


class Deploy(msgspec.Struct, frozen=True, kw_only=True):
    """One deploy."""

    name: str
    """A version, or whatever it was called."""
    deployed_at: dt.datetime
    note: str | None = None

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable() or len(self.name) > LONGEST:
            raise InvalidInput(
                f"the name of a deploy must be up to {LONGEST} printable characters, "
                f"got {self.name!r}"
            )


def mark(root: str, deploy: Deploy) -> None:
    """Add the mark of a deploy to the history."""
    if not is_remote(root) and not Path(root).is_dir():
        raise InvalidInput(f"there is no history at {root}; `waystation pipeline run` keeps one")
    rows = pa.Table.from_pylist([msgspec.structs.asdict(deploy)], schema=_SCHEMA)
    properties = CommitProperties(custom_metadata=metadata({}))
    _write(DEPLOYS.path(root), rows, mode="append", commit_properties=properties)


def deploys(root: str) -> list[Deploy]:
    """The deploys that were marked, the oldest first."""
    rows = read_rows(root, DEPLOYS, DEPLOYS.names)
    found = [
        Deploy(
            name=row["name"],
            deployed_at=row["deployed_at"].astimezone(dt.UTC),
            note=row["note"],
        )
        for row in rows
    ]
    return sorted(found, key=lambda each: (each.deployed_at, each.name))


def last_before(instant: dt.datetime | None, among: Sequence[Deploy]) -> Deploy | None:
    """The last deploy up to an instant, of deploys in their order."""
    if instant is None:
        return None
    return next((each for each in reversed(among) if each.deployed_at <= instant), None)


def soon_before(instant: dt.datetime | None, among: Sequence[Deploy]) -> Deploy | None:
    """The last deploy up to an instant, unless it was long before."""
    found = last_before(instant, among)
    return found if found and instant and instant - found.deployed_at <= SOON else None
