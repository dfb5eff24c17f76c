"""The history of a command that asks, and the engine over it."""

from collections.abc import Generator
from contextlib import contextmanager

import typer

from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.commands.place import root_of


@contextmanager
def asking(context: typer.Context, history: str | None) -> Generator[Engine]:
    """The engine over the history of a command."""
    with Engine(root_of(context, history)) as engine:
        engine.too_large = "`waystation pipeline sql --engine spark` can answer it"
        yield engine
