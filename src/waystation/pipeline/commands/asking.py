"""The history of a command that asks, and the engine over it."""

from collections.abc import Generator
from contextlib import contextmanager

import typer

from waystation.core.errors import InvalidOption
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.commands.place import root_of
from waystation.pipeline.storage.places import is_remote


@contextmanager
def asking(context: typer.Context, history: str | None) -> Generator[Engine]:
    """The engine over the history of a command."""
    root = root_of(context, history)
    if is_remote(root):
        raise InvalidOption(
            f"DuckDB answers about directories only, got {root}; `sql --engine spark` asks Spark"
        )
    with Engine(root) as engine:
        yield engine
