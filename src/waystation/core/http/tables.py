"""CSV answers, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

from waystation.core.http.exchange import NO_STORE, Answer

KIND = b"text/csv; charset=utf-8; header=present"
_RUNS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a cell begins with that a spreadsheet takes for a formula."""


def table(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Answer:
    """A file to be saved under this name."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(heads)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    saved = (b"content-disposition", f'attachment; filename="{name}.csv"'.encode())
    return Answer(200, text.getvalue().encode(), KIND, [NO_STORE, saved])


def _harmless(cell: object) -> object:
    if cell is None or isinstance(cell, int | float):
        return cell
    text = str(cell).replace("\r", " ").replace("\n", " ")
    return f"'{text}" if text.startswith(_RUNS) or str(cell).startswith(_RUNS) else text
