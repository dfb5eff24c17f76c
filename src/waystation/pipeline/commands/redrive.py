"""`waystation redrive`: jobs of the history, added to their queues again."""

from typing import Annotated

import typer

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.selection import Selection
from waystation.pipeline.commands.asking import asking
from waystation.pipeline.commands.options import HISTORY
from waystation.pipeline.commands.place import pipeline_settings
from waystation.pipeline.commands.selecting import selecting
from waystation.pipeline.commands.store import store_url
from waystation.pipeline.payloads.rules import Sealer
from waystation.pipeline.redrive.driver import Outcome, Redrive, RedriveOptions
from waystation.pipeline.redrive.plan import Plan, name_of, plan
from waystation.pipeline.sources.store import Store

EXAMPLES = """\b
Examples:
  waystation redrive --failure 8a41f0c2d9e37b15
  waystation redrive --failure 8a41f0c2d9e37b15 --go
  waystation redrive --queue pay --since 24h --where "tenant = 'acme'" --go --cap 50
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EXAMPLES)
@selecting
def redrive(
    context: typer.Context,
    selection: Selection,
    go: Annotated[
        bool, typer.Option("--go/--dry-run", help="Add the jobs, or say what would be added.")
    ] = False,
    canary: Annotated[
        int, typer.Option(help="Jobs that must all end well before others follow.", min=0)
    ] = 10,
    cap: Annotated[int, typer.Option(help="Most added jobs that have not ended.", min=1)] = 1000,
    tolerate: Annotated[
        int, typer.Option(help="Jobs that may fail again before it stops.", min=0)
    ] = 0,
    most: Annotated[
        int | None, typer.Option(help="Most jobs, the oldest first.", min=1, show_default=False)
    ] = None,
    to: Annotated[str, typer.Option(help="Another queue to add them to.")] = "",
    redrive_name: Annotated[
        str,
        typer.Option(
            "--as", metavar="NAME", help="Name of the redrive; the same one adds no job twice."
        ),
    ] = "",
    patience: Annotated[
        float, typer.Option(help="Seconds to wait for a job to end.", min=1)
    ] = 600.0,
    history: HISTORY = None,
) -> None:
    """Add failed jobs of the history to their queues again.

    Works when the queues have forgotten them. Adds each job once, however often it is started.
    """
    payloads = pipeline_settings(context).payloads
    with asking(context, history) as engine:
        planned = plan(
            engine,
            selection,
            name=redrive_name or name_of(selection, to),
            sealer=Sealer(payloads.keys),
            declared=list(payloads.fields),
            most=most,
        )
    _print_plan(planned, to)
    if not go:
        typer.echo("nothing was added; --go adds them")
        return
    if not planned.jobs:
        raise InvalidInput("there is no job that can be added again")
    options = RedriveOptions(canary=canary, cap=cap, tolerate=tolerate, patience=patience, to=to)
    with store_url(context) as url:
        driver = Redrive(Store(url), planned, options, tell=lambda text: typer.echo(text, err=True))
        if driver.is_closed():
            raise InvalidInput(
                f"the redrive {planned.name} has added all its jobs; "
                "another name adds them again: --as NAME"
            )
        _finish(driver.run())


def _print_plan(planned: Plan, to: str) -> None:
    counts: dict[str, int] = {}
    for each in planned.jobs:
        kind = f"{to or each.queue} {each.name}"
        counts[kind] = counts.get(kind, 0) + 1
    typer.echo(f"redrive {planned.name}: {len(planned.jobs):,} jobs")
    for kind, many in sorted(counts.items()):
        typer.echo(f"  {many:>9,}  {kind}")
    for reason, many in sorted(planned.impossible.items()):
        typer.echo(f"  {many:>9,}  cannot be added again: {reason}")


def _finish(outcome: Outcome) -> None:
    typer.echo(
        f"{outcome.added:,} added, {outcome.completed:,} completed, "
        f"{outcome.failed:,} failed again, {outcome.open:,} open, {outcome.left:,} not added"
    )
    for reason in outcome.reasons:
        typer.echo(f"  {reason}")
    if outcome.stopped:
        typer.echo(f"stopped: {outcome.stopped}", err=True)
        raise typer.Exit(1)
