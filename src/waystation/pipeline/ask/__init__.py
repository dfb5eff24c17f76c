"""Questions to the history, answered by DuckDB without Java and without importing Spark."""

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """Rows of an answer."""

    names: list[str]
    rows: list[tuple[Any, ...]]
    complete: bool = True
    """False where there are more than were asked for."""
