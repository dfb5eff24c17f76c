"""`waystation pipeline status`: lag, consistency checks and lost jobs."""

import typer

from waystation.pipeline import health
from waystation.pipeline.commands.shared import (
    AS_JSON,
    HISTORY,
    json_line,
    prefixes,
    root_of,
    store_url,
)
from waystation.pipeline.refresh.quality import require_consistent
from waystation.pipeline.sources.streams import EventOptions

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def status(context: typer.Context, history: HISTORY = None, as_json: AS_JSON = False) -> None:
    """Show lag, consistency checks and lost jobs.

    Exits with 1 when a check fails or jobs are lost.
    """
    place = root_of(context, history)
    with store_url(context) as url:
        found = health.status(place, EventOptions(url=url, prefix=prefixes(context)))
    if as_json:
        typer.echo(json_line(found))
    else:
        _print(found)
    require_consistent(found.failed_checks)
    if found.lost:
        raise typer.Exit(1)


def _print(found: health.Status) -> None:
    for each in found.streams:
        many = "?" if each.events is None else f"{each.events:,}"
        typer.echo(f"{each.stream:<40} {many:>10} events to be read")
    if found.last_at is None:
        typer.echo("the history is empty: `waystation pipeline run` stores events")
    else:
        last = f"{found.last_at:%Y-%m-%d %H:%M:%S} UTC"
        typer.echo(f"{found.events:,} events stored; the last one happened {last}")
    for check in found.checks:
        typer.echo(f"{'ok    ' if check.passed else 'FAILED'}  {check}")
    for each in found.lost:
        typer.echo(f"lost  {each}")
