"""SQL over the history: one SELECT of a caller, with limits."""

from typing import Any

from waystation.console.past.jobs import LONGEST_DATA, THREADS
from waystation.console.past.views import Selected, TableView
from waystation.pipeline.ask.active_files import duckdb_type
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.products import product_tables
from waystation.pipeline.tables import every


def answer(root: str, query: str, most: int, seconds: float) -> Selected:
    """Answer one SELECT, with so many rows at most and in so many seconds."""
    with Engine(root, threads=THREADS) as engine:
        engine.add_tables(product_tables())
        found = engine.ask(query, most + 1, seconds=seconds)
    rows = [[_short(value) for value in row] for row in found.rows]
    return Selected(columns=found.names, rows=rows[:most], complete=len(rows) <= most)


def read(root: str) -> list[TableView]:
    """The tables that a SELECT may name; all histories have the same."""
    return [
        TableView(
            name=table.name,
            a_row_is=table.meaning,
            columns={
                each.name: f"{duckdb_type(each.type)}, {each.meaning}" for each in table.columns
            },
        )
        for table in (*every(), *product_tables())
    ]


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_DATA:
        return f"{value[:LONGEST_DATA]}…"
    return value
