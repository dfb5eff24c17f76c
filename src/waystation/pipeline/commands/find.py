"""`waystation pipeline find`: jobs of any day, with what they were and where they are now."""

from typing import Annotated, Any

import typer

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.active_files import contents
from waystation.pipeline.ask.answers import Answer
from waystation.pipeline.ask.selection import Selection, jobs_sql, prepare
from waystation.pipeline.commands.asking import asking
from waystation.pipeline.commands.options import AS_JSON, HISTORY
from waystation.pipeline.commands.place import pipeline_settings
from waystation.pipeline.commands.printing import json_line, print_answer, say_if_cut
from waystation.pipeline.commands.selecting import selecting
from waystation.pipeline.deploys import deploys, last_before
from waystation.pipeline.tables import EVENTS, ITEMS

SHOWN = ("queue", "subject", "name", "state", "added_at", "attempts", "reason", "data")
WIDEST = 60


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@selecting
def find(
    context: typer.Context,
    selection: Selection,
    most: Annotated[int, typer.Option(help="Jobs to show.", min=1)] = 20,
    live: Annotated[bool, typer.Option(help="Whether to ask the queues, too.")] = True,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Find jobs of any day.

    By id, field, name, error, state, time or data; with the state that each has in its queue now.
    """
    if selection.is_empty:
        raise InvalidInput("wanted an id or an option that chooses jobs, got neither")
    declared = list(pipeline_settings(context).payloads.fields)
    with asking(context, history) as engine:
        prepare(engine, selection, most)
        found = engine.ask(jobs_sql(selection, declared), most)
        root = engine.root
    jobs = [dict(zip(found.names, row, strict=True)) for row in found.rows]
    _add_deploys(root, jobs)
    if live and jobs:
        _add_present_state(context, jobs)
    _print(jobs, as_json=as_json)
    say_if_cut(found)
    if not jobs:
        has_any = any(contents(table.path(root)) for table in (EVENTS, ITEMS))
        typer.echo("no such job in the history" if has_any else f"no history at {root}", err=True)
        raise typer.Exit(1)


def _add_deploys(root: str, jobs: list[dict[str, Any]]) -> None:
    """Add to each job the deploy that was in effect when it was first claimed."""
    marks = deploys(root) if jobs else []
    for job in jobs if marks else ():
        newest = last_before(job["started_at"], marks)
        job["deploy"] = newest and newest.name


def _add_present_state(context: typer.Context, jobs: list[dict[str, Any]]) -> None:
    # The client of the store is imported only when there are jobs to ask about.
    from waystation.pipeline.ask.live import states_of
    from waystation.pipeline.commands.prefixes import bullmq_prefixes
    from waystation.pipeline.commands.store import store_url
    from waystation.pipeline.sources.store import Store

    mine = [each for each in jobs if each["line"] == "bullmq"]
    with store_url(context) as url:
        asked = [(each["queue"], each["subject"]) for each in mine]
        states = states_of(Store(url), asked, bullmq_prefixes(context))
    for job, state in zip(mine, states, strict=True):
        job["now"] = state or "gone"


def _print(jobs: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for each in jobs:
            typer.echo(json_line({**each, "fields": dict(each["fields"] or ())}))
    elif len(jobs) == 1:
        for name, value in jobs[0].items():
            if value is not None:
                typer.echo(f"{name:<14} {_plain(value)}")
    elif jobs:
        names = [*SHOWN, *(["now"] if "now" in jobs[0] else [])]
        rows = [tuple(_short(each.get(name)) for name in names) for each in jobs]
        print_answer(Answer(names, rows), as_json=False)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return json_line(value)
    return f"{value:%Y-%m-%d %H:%M:%S.%f}"[:-3] if hasattr(value, "strftime") else str(value)


def _short(value: Any) -> Any:
    text = None if value is None else _plain(value)
    return text if text is None or len(text) <= WIDEST else text[: WIDEST - 1] + "…"
