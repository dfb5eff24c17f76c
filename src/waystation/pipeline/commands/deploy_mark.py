"""`waystation deploy-mark`: deploys, marked in the history."""

import datetime as dt
from typing import Annotated

import msgspec
import typer

from waystation.core.errors import InvalidInput
from waystation.pipeline.ask import Answer
from waystation.pipeline.commands.selecting import instant
from waystation.pipeline.commands.shared import AS_JSON, HISTORY, print_answer, root_of
from waystation.pipeline.deploys import Deploy, deploys, mark

EXAMPLES = """\b
Examples:
  waystation deploy-mark v42
  waystation deploy-mark v42 --note "new mail provider" --at 2026-03-01T14:00
  waystation deploy-mark
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog=EXAMPLES)
def deploy_mark(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="Version; without one, the marks are listed.", show_default=False)
    ] = "",
    note: Annotated[str, typer.Option(help="What is new.")] = "",
    at: Annotated[str, typer.Option(help="When: 2026-03-01T14:00, or 10m ago; default now.")] = "",
    most: Annotated[int, typer.Option(help="Marks to list.", min=1)] = 20,
    as_json: AS_JSON = False,
    history: HISTORY = None,
) -> None:
    """Mark a deploy in the history, or list the marks.

    The report then says which failures began soon after it, and `find` what each job ran under.
    """
    root = root_of(context, history)
    now = dt.datetime.now(dt.UTC)
    if not name:
        if note or at:
            raise InvalidInput("wanted the name of a deploy, got none")
        known = deploys(root)
        rows = [msgspec.structs.astuple(each) for each in reversed(known[-most:])]
        print_answer(Answer(list(Deploy.__struct_fields__), rows), as_json=as_json)
        if len(known) > most:
            typer.echo(f"{most:,} of {len(known):,} are shown: --most", err=True)
        return
    deployed_at = instant(at, now) or now
    if deployed_at > now:
        raise InvalidInput(f"wanted an instant of the past, got {at}")
    mark(root, Deploy(name=name, deployed_at=deployed_at, note=note or None))
    typer.echo(f"deploy {name} marked at {deployed_at:%Y-%m-%d %H:%M:%S} UTC", err=True)
