"""Where scenes are shown: with bars on a terminal, in plain lines anywhere else."""

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TypeAlias

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from examples.ticket_sale.account import Account
from waystation.core.app.progress import Count

Show: TypeAlias = Callable[[int], None]
"""Tell how far it is by now."""


_GOOD = "[bold green]Nothing was lost and nothing happened twice.[/]"
_BAD = "[bold red]The account does not add up: something was lost or happened twice.[/]"


class Stage:
    """Speaks to whoever watches."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._began = time.monotonic()

    def welcome(self, scenes: int) -> None:
        """Say what is about to be seen."""
        self._console.print(
            f"\nA ticket sale in {scenes} scenes, in one to three minutes. Workers are killed on\n"
            "the way; at the end every ticket is counted. Ctrl-C ends it at any time."
        )

    def open(self, title: str, part: str) -> None:
        """Begin a scene, and say which part of waystation it shows."""
        self._console.print(f"\n[bold]{title}[/]  [dim]{part}[/]\n")

    def say(self, sentence: str) -> None:
        """Say one sentence."""
        self._console.print(f"  {sentence}", soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """Show a table, or a few."""
        self._console.print()
        self._console.print(Padding(what, (0, 2)))
        self._console.print()

    @contextlib.contextmanager
    def progress(self, what: str, total: int) -> Generator[Show]:
        """Show how far something is, from 0 to the total."""
        if not self._console.is_terminal:
            yield self._steps(what, total)
            return
        columns = (
            TextColumn("  "),
            BarColumn(),
            Count(),
            TextColumn(what),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    def show_account(self, account: Account) -> None:
        """Show what became of everything in a scene."""
        width = len(f"{account.came_in:,}")
        self._console.print()
        self.say(f"[bold]{account.came_in:,} {account.what} came in[/]")
        for sentence, count in account.ends.items():
            self.say(f"{count:>{width},} {sentence}")
        for remark in account.remarks:
            self.say(f"[dim]{remark}[/]")

    def close(self, accounts: Sequence[Account]) -> None:
        """Show what became of everything, and say whether it adds up."""
        self._console.print("\n[bold]The account[/]")
        self._console.print(_table(accounts))
        took = f"[dim]({time.monotonic() - self._began:.0f} s)[/]"
        verdict = _GOOD if all(account.balanced for account in accounts) else _BAD
        self._console.print(f"{verdict} {took}\n", soft_wrap=True)

    def part(self, page: Path) -> None:
        """Say where to go from here."""
        ways = {
            str(page): "the report of the last scene; open it in a browser",
            "make demo ARGS=--serve": "then the sale goes on, in a console in the browser",
            "README.md": "a first program, and the way to all pages",
            "docs/tour/bullmq.md": "all that a queue can do, in a dozen short programs",
            ".venv/bin/waystation --help": "the same from a shell",
        }
        self._console.print("[bold]From here[/]\n")
        for where, what in ways.items():
            self._console.print(f"  {where:<28}  [dim]{what}[/]", soft_wrap=True)
        self._console.print()

    def _steps(self, what: str, total: int) -> Show:
        shown = 0

        def show(done: int) -> None:
            nonlocal shown
            if (fifths := done * 5 // total) > shown:
                shown = fifths
                self.say(f"{done:>7,} of {total:,} {what}")

        return show


def _table(accounts: Sequence[Account]) -> Table:
    table = Table(box=box.SIMPLE)
    table.add_column("scene")
    for heading in ("came in", "accounted for", "lost", "twice"):
        table.add_column(heading, justify="right", no_wrap=True)
    for account in accounts:
        table.add_row(
            account.title,
            f"{account.came_in:,} {account.what}",
            f"{sum(account.ends.values()):,}",
            _good_if_none(account.lost),
            _good_if_none(account.twice),
        )
    return table


def _good_if_none(count: int) -> str:
    return f"[red]{count:,}[/]" if count else "[green]0[/]"
