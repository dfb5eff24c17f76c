"""Where scenes are shown: with bars on a terminal, in plain lines anywhere else."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import TypeAlias

import msgspec
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from waystation.core.app.progress import Count

Show: TypeAlias = Callable[[int], None]
"""Tell how far it is by now."""

_GOOD = "[bold green]Nothing was lost and nothing happened twice.[/]"
_BAD = "[bold red]The account does not add up: something was lost or happened twice.[/]"


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What came in and what became of it; the two must be the same number."""

    title: str
    what: str
    """What is counted, in the plural: purchases, tickets, visitors."""
    came_in: int
    ends: dict[str, int]
    """How many ended in which way, each way a short sentence."""
    twice: int = 0
    """How many had an effect more than once."""
    remarks: tuple[str, ...] = ()
    """What else a visitor might like to know."""

    @property
    def lost(self) -> int:
        """How many nobody can account for."""
        return self.came_in - sum(self.ends.values())

    @property
    def balanced(self) -> bool:
        """Whether nothing was lost and nothing happened twice."""
        return self.lost == 0 and self.twice == 0


class Stage:
    """Speaks to whoever watches."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._began = time.monotonic()

    def open(self, title: str, part: str = "") -> None:
        """Begin a scene, and say which part of waystation it shows."""
        self._console.print(f"\n[bold]{title}[/]  [dim]{part}[/]\n", soft_wrap=True)

    def say(self, sentence: str) -> None:
        """Say one sentence."""
        self._console.print(f"  {sentence}", soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """Show a table, or a few."""
        self._console.print(Padding(what, (1, 2)))

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

    def _steps(self, what: str, total: int) -> Show:
        shown = 0

        def show(done: int) -> None:
            nonlocal shown
            if (fifths := done * 5 // total) > shown:
                shown = fifths
                self.say(f"{done:>7,} of {total:,} {what}")

        return show


async def until(count: Callable[[], Awaitable[int]], goal: int, show: Show) -> None:
    """Show the count until it has reached the goal."""
    async with asyncio.timeout(120):
        while (done := await count()) < goal:
            show(done)
            await asyncio.sleep(0.1)
    show(done)


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
