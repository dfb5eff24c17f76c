"""The screen of `waystation top`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Literal, cast

from rich.text import Text
from textual.app import App, ComposeResult
from textual.widgets import DataTable, Footer, Header, Static

from waystation.console.measures import Row
from waystation.core.errors import StoreError

COLUMNS = (
    "product", "name", "waiting", "", "active", "delayed", "failed", "workers", "oldest", "in/s",
    "out/s", "failed/s",
)  # fmt: skip
NUMBERS = frozenset(COLUMNS) - {"product", "name", ""}
SORTED_BY = ("name", "waiting", "active", "failed", "oldest", "out/s")
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 20


class Top(App[None]):
    """All queues and rooms of a store, measured anew every so often."""

    TITLE = "waystation top"
    BINDINGS: ClassVar[Any] = [
        ("q", "quit", "Quit"),
        ("s", "sort", "Sort"),
        ("r", "refresh", "Refresh"),
    ]
    CSS = """
    #why { height: auto; max-height: 5; padding: 0 1; }
    #away { height: auto; padding: 0 1; background: $warning; color: $background; }
    #away { display: none; }
    DataTable { height: 1fr; }
    """

    def __init__(
        self,
        rows: Callable[[], Awaitable[Sequence[Row]]],
        explain: Callable[[str, str], Awaitable[str]],
        *,
        every_s: float = 2.0,
        title: str = "",
    ) -> None:
        super().__init__()
        self._rows = rows
        self._explain = explain
        self._every_s = every_s
        self._place = title
        self.sort_by = 0
        self.shown: list[Row] = []

    def compose(self) -> ComposeResult:
        """The parts of the screen, from top to bottom."""
        yield Header()
        yield Static("", id="away")
        yield DataTable[Text](cursor_type="row", zebra_stripes=True)
        yield Static("Enter says why the chosen queue does or does not move.", id="why")
        yield Footer()

    async def on_mount(self) -> None:
        """Measure for the first time."""
        for column in COLUMNS:
            self._table.add_column(Text(column, justify=_side(column)), key=column)
        await self.action_refresh()
        self.set_interval(self._every_s, self.action_refresh)

    async def action_refresh(self) -> None:
        """Measure and show all rows; while the store is away the last ones stay."""
        away = self.query_one("#away", Static)
        try:
            self.shown = ordered(await self._rows(), SORTED_BY[self.sort_by])
        except StoreError as error:
            away.update(f"{str(error).capitalize()}; what you see was measured before.")
            away.display = True
            return
        away.display = False
        self.sub_title = f"{self._place}  by {SORTED_BY[self.sort_by]}"
        self._show()

    async def action_sort(self) -> None:
        """Sort by the next column."""
        self.sort_by = (self.sort_by + 1) % len(SORTED_BY)
        await self.action_refresh()

    async def on_data_table_row_selected(self, event: Any) -> None:
        """Explain why the queue does or does not move."""
        chosen = next(row for row in self.shown if _key(row) == event.row_key.value)
        try:
            said = await self._explain(chosen.product, chosen.name)
        except StoreError as error:
            said = str(error)
        self.query_one("#why", Static).update(said)

    @property
    def _table(self) -> DataTable[Text]:
        return cast(DataTable[Text], self.query_one(DataTable))

    def _show(self) -> None:
        table = self._table
        chosen, seen = self._chosen(), table.scroll_offset
        table.clear()
        for row in self.shown:
            table.add_row(*_painted(row), key=_key(row))
        # Whoever watches a queue goes on watching it, wherever it is sorted to.
        keys = [_key(row) for row in self.shown]
        if chosen in keys:
            table.move_cursor(row=keys.index(chosen), scroll=False)
        table.scroll_to(seen.x, seen.y, animate=False)

    def _chosen(self) -> str | None:
        table = self._table
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value


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
        age(row.oldest_s) if row.oldest_s else "",
        f"{row.added_per_s:,.1f}",
        f"{row.completed_per_s:,.1f}",
        f"{row.failed_per_s:,.1f}",
    )


def _painted(row: Row) -> list[Text]:
    """The cells: numbers at the right, nothing loud unless somebody should look."""
    return [
        Text(cell, style=_style(row, column, cell), justify=_side(column))
        for column, cell in zip(COLUMNS, cells(row), strict=True)
    ]


def _side(column: str) -> Literal["left", "right"]:
    return "right" if column in NUMBERS else "left"


def _key(row: Row) -> str:
    return f"{row.product}/{row.name}"


def _style(row: Row, column: str, cell: str) -> str:
    if column == "failed" and row.failed:
        return "red"
    if column == "name" and row.paused:
        return "yellow"
    return "dim" if column == "product" or cell in ("0", "0.0") else ""


def age(seconds: float) -> str:
    """How long something has waited, in two words at most."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def sparkline(numbers: Sequence[int]) -> str:
    """The latest numbers as a line of bars; empty while there is nothing to see."""
    latest = list(numbers[-_WIDTH:])
    most = max(latest, default=0)
    if not most:
        return ""
    if min(latest) == most:
        # What stands still is neither full nor empty.
        return _BARS[3] * len(latest)
    return "".join(_BARS[round(each / most * (len(_BARS) - 1))] for each in latest)
