"""Progress: a bar on a terminal, a line for each step anywhere else."""

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
    """The column `1,000 of 20,000`; empty while the total is not known."""

    def render(self, task: Task) -> Text:
        """The text."""
        if task.total is None or task.total <= 1:
            return Text()
        total = f"{task.total:,.0f}"
        return Text(f"{task.completed:>{len(total)},.0f} of {total}")


class Plain:
    """Prints a line for each step."""

    def begin(self, what: str, total: int | None = None) -> None:
        """Print it."""
        typer.echo(f"{what} …", err=True)

    def reach(self, done: int) -> None:
        """Print nothing."""


class Bars:
    """Shows a bar for the current step."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def begin(self, what: str, total: int | None = None) -> None:
        """Finish the last bar and start another."""
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
    """Show progress for as long as the block runs."""
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
