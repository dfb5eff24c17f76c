"""Shows how far something long is: a bar on a terminal, a line for each part anywhere else."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text


class Count(ProgressColumn):
    """How many of how many, with their thousands apart; nothing where that is not known."""

    def render(self, task: Task) -> Text:
        """Write it."""
        if task.total is None or task.total <= 1:
            return Text()
        total = f"{task.total:,.0f}"
        return Text(f"{task.completed:>{len(total)},.0f} of {total}")


class Plain:
    """Says in a line what begins."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Say it."""
        typer.echo(f"{what} …", err=True)

    def reach(self, done: int) -> None:
        """Say nothing: lines that tell each step would bury the others."""


class Bars:
    """Shows a bar for what is under way."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def begin(self, what: str, total: int | None = None) -> None:
        """Put the last bar to rest and start another."""
        if self._task is not None:
            task = self._bars.tasks[self._task]
            self._bars.update(self._task, total=task.completed or 1, completed=task.completed or 1)
        self._task = self._bars.add_task(what, total=total)

    def reach(self, done: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bars.update(self._task, completed=done)


@contextmanager
def watching() -> Generator[Plain | Bars]:
    """Watch something for as long as it takes."""
    if not sys.stderr.isatty():
        yield Plain()
        return
    columns = (
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        BarColumn(),
        Count(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Bars(bars)
