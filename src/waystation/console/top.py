"""The screen of `waystation top`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from waystation.core.errors import StoreError

if TYPE_CHECKING:
    from textual.app import App, ComposeResult

    from waystation.console.measures.live import Row

COLUMNS = (
    "product", "name", "waiting", "", "active", "delayed", "failed", "workers", "oldest", "in/s",
    "out/s", "failed/s",
)  # fmt: skip
SORTED_BY = ("name", "waiting", "active", "failed", "oldest", "out/s")
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 20


def screen(
    rows: Callable[[], Awaitable[Sequence[Row]]],
    explain: Callable[[str, str], Awaitable[str]],
    *,
    every_s: float = 2.0,
    title: str = "",
) -> App[None]:
    """The application that shows these rows, measured anew every so often."""
    # Only who watches needs Textual, which is an extra.
    from textual.app import App
    from textual.widgets import DataTable, Footer, Header, Static

    class Top(App[None]):
        """All queues and rooms of a store."""

        TITLE = "waystation top"
        SUB_TITLE = title
        BINDINGS: ClassVar[Any] = [
            ("q", "quit", "Quit"),
            ("s", "sort", "Sort"),
            ("r", "refresh", "Refresh"),
        ]
        CSS = "#why { height: auto; max-height: 5; padding: 0 1; } DataTable { height: 1fr; }"

        def __init__(self) -> None:
            super().__init__()
            self.sort_by = 0
            self.shown: list[Row] = []

        def compose(self) -> ComposeResult:
            yield Header()
            yield DataTable[str](cursor_type="row", zebra_stripes=True)
            yield Static("Enter says why the chosen queue does or does not move.", id="why")
            yield Footer()

        async def on_mount(self) -> None:
            table = cast("DataTable[str]", self.query_one("DataTable"))
            for number, column in enumerate(COLUMNS):
                table.add_column(column, key=str(number))
            await self.action_refresh()
            self.set_interval(every_s, self.action_refresh)

        async def action_refresh(self) -> None:
            try:
                self.shown = ordered(await rows(), SORTED_BY[self.sort_by])
            except StoreError as error:
                self.sub_title = f"{title}: {error}"
                return
            self.sub_title = f"{title}  by {SORTED_BY[self.sort_by]}"
            table = cast("DataTable[str]", self.query_one("DataTable"))
            at = table.cursor_row
            table.clear()
            for row in self.shown:
                table.add_row(*cells(row), key=f"{row.product}/{row.name}")
            table.move_cursor(row=min(at, max(0, len(self.shown) - 1)))

        async def action_sort(self) -> None:
            self.sort_by = (self.sort_by + 1) % len(SORTED_BY)
            await self.action_refresh()

        async def on_data_table_row_selected(self, event: Any) -> None:
            chosen = self.shown[int(event.cursor_row)]
            try:
                said = await explain(chosen.product, chosen.name)
            except StoreError as error:
                said = str(error)
            self.query_one("#why", Static).update(said)

    return Top()


def ordered(rows: Sequence[Row], by: str) -> list[Row]:
    """The rows by one column: the largest first, names from A."""
    if by == "name":
        return sorted(rows, key=lambda row: (row.product, row.name))
    field = {
        "waiting": "ready", "active": "active", "failed": "failed", "oldest": "oldest_s",
        "out/s": "completed_per_s",
    }[by]  # fmt: skip
    return sorted(rows, key=lambda row: (-getattr(row, field), row.product, row.name))


def cells(row: Row) -> tuple[str, ...]:
    """A queue as a line of the table."""
    return (
        row.product,
        f"{row.name} (paused)" if row.paused else row.name,
        f"{row.ready:,}",
        sparkline(row.recent),
        f"{row.active:,}",
        f"{row.delayed:,}",
        f"{row.failed:,}",
        "" if row.workers is None else f"{row.workers:,}",
        f"{row.oldest_s:,.0f} s" if row.oldest_s else "",
        f"{row.added_per_s:,.1f}",
        f"{row.completed_per_s:,.1f}",
        f"{row.failed_per_s:,.1f}",
    )


def sparkline(numbers: Sequence[int]) -> str:
    """The latest numbers as a line of bars; empty while there is nothing to see."""
    latest = list(numbers[-_WIDTH:])
    most = max(latest, default=0)
    if not most:
        return ""
    return "".join(_BARS[round(each / most * (len(_BARS) - 1))] for each in latest)
