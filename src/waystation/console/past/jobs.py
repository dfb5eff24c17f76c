"""Jobs of the past, found in the history that the pipeline keeps."""

from typing import Any

from waystation.console.products.views import short
from waystation.console.query import PastJob, Query, folded
from waystation.pipeline.ask.engine import Engine, quoted
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare

LONGEST_DATA = 2000
THREADS = 2
"""Threads of one question; a console is not the only one on its machine."""


def find(root: str, query: Query, limit: int) -> list[PastJob]:
    """The jobs that fit, the newest first."""
    selection = selection_of(query)
    with Engine(root, threads=THREADS) as engine:
        prepare(engine, selection, limit)
        found = engine.ask(jobs_sql(selection), limit)
    return [_job(dict(zip(found.names, row, strict=True))) for row in found.rows]


def selection_of(query: Query) -> Selection:
    """What is searched for, as the history takes it."""
    paths = [(name, value) for name, value in query.fields if name.startswith("data.")]
    return Selection(
        ids=[query.get("id")] if query.get("id") else (),
        product=query.get("product"),
        queue=query.get("queue"),
        name=query.get("name"),
        state=query.get("state").lower(),
        error=query.get("error"),
        paths={_path(name.removeprefix("data.")): value for name, value in paths},
        where=" and ".join(_mentions(word) for word in query.words),
    )


def _path(text: str) -> str:
    """`items.0.sku` as the history writes it: `$.items[0].sku`."""
    steps = (f"[{step}]" if step.isdigit() else f".{step}" for step in text.split("."))
    return "$" + "".join(steps)


def _mentions(word: str) -> str:
    parts = ("job_id", "name", "reason", "data")
    text = " || ' ' || ".join(f"coalesce({part}, '')" for part in parts)
    # As `folded` does it, where the jobs are.
    plain = f"replace(replace(lower({text}), '\u0131', 'i'), '\u0307', '')"
    return f"contains({plain}, {quoted(folded(word))})"


def _job(row: dict[str, Any]) -> PastJob:
    return PastJob(
        product=row["product"],
        queue=row["queue"],
        id=row["job_id"],
        name=row["name"],
        state=row["state"],
        added_at=row["added_at"],
        ended_at=row["ended_at"],
        attempts=row["attempts"],
        error=short(row["reason"]) if row["reason"] else None,
        data=None if row["data"] is None else beginning(row["data"]),
    )


def beginning(value: str) -> str:
    """The beginning of a text that is too long to be shown."""
    return value if len(value) <= LONGEST_DATA else f"{value[:LONGEST_DATA]}…"
