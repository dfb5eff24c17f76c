"""The consistency checks of the last refresh, read without Spark."""

from collections.abc import Sequence
from typing import NamedTuple

from waystation.core.errors import TablesDisagree
from waystation.pipeline.ask.active_files import read_rows
from waystation.pipeline.tables import QUALITY


class Check(NamedTuple):
    """One count in a table and its expected value."""

    table: str
    what: str
    wanted: int
    found: int

    @property
    def passed(self) -> bool:
        """Whether both are equal."""
        return self.wanted == self.found

    def __str__(self) -> str:
        """The check in one line."""
        return f"{self.table}: {self.what}: wanted {self.wanted:,}, found {self.found:,}"


def last_checks(root: str) -> list[Check]:
    """The checks of the last refresh of the history at `root`."""
    return sorted(Check(**row) for row in read_rows(root, QUALITY, Check._fields))


def require_consistent(failed: Sequence[str]) -> None:
    """Raise `TablesDisagree` when checks failed."""
    if failed:
        raise TablesDisagree(
            f"{'; '.join(failed)}. No event is lost: "
            "`waystation pipeline rebuild` builds the tables again from the events"
        )
