"""`waystation redrive`: jobs of the history, added to their queues again."""

import secrets
from typing import Annotated

import msgspec
import typer

from waystation.bullmq.redis.keys import PREFIX
from waystation.bullmq.redis.prefixes import Prefixes
from waystation.core.errors import InvalidInput
from waystation.pipeline.ask.selection import Selection
from waystation.pipeline.commands.selecting import asking, selecting
from waystation.pipeline.commands.shared import (
    HISTORY,
    bullmq_prefixes,
    pipeline_settings,
    store_url,
)
from waystation.pipeline.payloads.rules import Sealer
from waystation.pipeline.redrive import (
    Outcome,
    Plan,
    Redrive,
    RedriveOptions,
    name_of,
    plan,
    sandboxed,
)
from waystation.pipeline.sources.store import Store

EXAMPLES = """\b
Examples:
  waystation redrive --failure 8a41f0c2d9e37b15
  waystation redrive --failure 8a41f0c2d9e37b15 --sandbox trial --go
  waystation redrive --failure 8a41f0c2d9e37b15 --go
  waystation redrive --queue pay --since 24h --where "tenant = 'acme'" --go --cap 50
"""

TRIED = 10
"""Jobs that a sandbox tries unless more or fewer are asked for."""

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
    sandbox: Annotated[
        str,
        typer.Option(
            metavar="PREFIX",
            help="Try each job once under another key prefix; 10 jobs without --most.",
        ),
    ] = "",
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
    prefixes = bullmq_prefixes(context)
    taken = {*prefixes.every, PREFIX}
    if sandbox and (sandbox in taken or not sandbox.replace("-", "").isalnum()):
        raise InvalidInput(
            "the sandbox must be a prefix of letters, digits and hyphens other than "
            f"{', '.join(prefixes.every)}, got {sandbox!r}"
        )
    payloads = pipeline_settings(context).payloads
    with asking(context, history) as engine:
        planned = plan(
            engine,
            selection,
            name=redrive_name or name_of(selection, to) + (_another_trial() if sandbox else ""),
            sealer=Sealer(payloads.keys),
            declared=list(payloads.fields),
            most=(most or TRIED) if sandbox else most,
        )
    for queue in {to or each.queue for each in planned.jobs}:
        prefixes.required(queue)
    _print_plan(planned, to)
    if not go:
        typer.echo("nothing was added; --go adds them")
        return
    if not planned.jobs:
        raise InvalidInput("there is no job that can be added again")
    options = RedriveOptions(canary=canary, cap=cap, tolerate=tolerate, patience=patience, to=to)
    with store_url(context) as url:
        if sandbox:
            _try(Store(url), sandboxed(planned, prefixes, to), options, sandbox)
            return
        _finish(Redrive(Store(url), planned, options, prefixes=prefixes, tell=_tell).run())


def _try(store: Store, planned: Plan, options: RedriveOptions, sandbox: str) -> None:
    """Run the jobs where nobody else looks, and say what became of them."""
    queues = " ".join(sorted({each.queue for each in planned.jobs}))
    _tell(f"waiting for workers of `waystation bullmq --prefix {sandbox}` on {queues}")
    # All of them are tried, however many fail.
    all_of_them = len(planned.jobs)
    trial = msgspec.structs.replace(options, canary=0, tolerate=all_of_them, to="")
    outcome = Redrive(store, planned, trial, prefixes=Prefixes((sandbox,)), tell=_tell).run()
    failed = outcome.failed > options.tolerate and not outcome.stopped
    why = f"{outcome.failed} failed again in the sandbox" if failed else outcome.stopped
    _finish(outcome._replace(stopped=why))


def _another_trial() -> str:
    return f"-{secrets.token_hex(3)}"


def _tell(text: str) -> None:
    typer.echo(text, err=True)


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
        + (f", {outcome.gone:,} removed before they were judged" if outcome.gone else "")
    )
    for reason in outcome.reasons:
        typer.echo(f"  {reason}")
    if outcome.stopped:
        typer.echo(f"stopped: {outcome.stopped}", err=True)
        raise typer.Exit(1)
