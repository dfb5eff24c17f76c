"""`waystation pipeline queues`: what was in the queues at an instant."""

import datetime as dt
from typing import Annotated

import typer

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.active_files import Wanted
from waystation.pipeline.ask.engine import Engine, literal, quoted
from waystation.pipeline.commands.asking import asking
from waystation.pipeline.commands.options import AS_JSON, HISTORY
from waystation.pipeline.commands.printing import print_answer
from waystation.pipeline.commands.selecting import instant
from waystation.pipeline.tables import EVENTS, GAPS

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def queues(
    context: typer.Context,
    as_of: Annotated[
        str, typer.Option(help="Instant: 2026-03-01T14:00, or 24h ago; default now.")
    ] = "",
    queue: Annotated[str, typer.Option(help="Queue.")] = "",
    state: Annotated[str, typer.Option(help="State, such as waiting or active.")] = "",
    jobs: Annotated[bool, typer.Option("--jobs", help="List the jobs.")] = False,
    most: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 100,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Show what was in the queues at an instant.

    How many jobs were in which state, or with --jobs each of them; rebuilt from stored events.
    """
    now = dt.datetime.now(dt.UTC)
    at = instant(as_of, now) or now
    if at > now:
        raise InvalidInput(f"wanted an instant of the past, got {at:%Y-%m-%d %H:%M:%S} UTC")
    chosen = {"queue": queue, "state": state}
    conditions = [f"{name} = {quoted(value)}" for name, value in chosen.items() if value]
    rows = f"from as_of({literal(at)}) where {' and '.join(conditions) or 'true'}"
    with asking(context, history) as engine:
        wanted = Wanted({"queue": [queue]} if queue else {}, until=at.date())
        engine.add_table(EVENTS, wanted=wanted)
        engine.add_table(GAPS)
        engine.add_as_of()
        counted = "select line, queue, state, count(*) as jobs"
        query = f"{rows} order by all" if jobs else f"{counted} {rows} group by all order by all"
        answer = engine.ask(query, most)
        missing = _missing(engine, queue, at)
    if answer.rows:
        print_answer(answer, as_json=as_json)
    else:
        typer.echo("no job was in the queues then", err=True)
    if missing:
        typer.echo(
            f"{missing:,} events before then were trimmed before they could be stored, "
            "so some jobs may be missing or in another state",
            err=True,
        )


def _missing(engine: Engine, queue: str, at: dt.datetime) -> int:
    ours = f"queue = {quoted(queue)}" if queue else "true"
    # A server that does not count them has lost one at least.
    found = engine.ask(
        f"select coalesce(sum(coalesce(lost, 1)), 0)::bigint from gaps "
        f"where before_at <= {literal(at)} and {ours}"
    )
    return found.rows[0][0]
