"""`waystation drill`: says which handlers of a module are not idempotent."""

from typing import Annotated, Any, cast

import typer

from waystation.core.app.imports import import_module
from waystation.core.errors import InvalidOption
from waystation.core.store import embedded
from waystation.testing.drill import Drill, run_drill

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def drill(
    module: Annotated[str, typer.Argument(metavar="MODULE", help="Has a list of Drill, `drills`.")],
    only: Annotated[str, typer.Option(help="Only the drill with this title.")] = "",
    goes_on: Annotated[bool, typer.Option("--all", help="Find every fault.")] = False,
) -> None:
    """Run handlers under kills, double deliveries, lost replies and late acknowledgements.

    Ends with 1 when one of them is not idempotent. Each run has an empty server and directory.
    """
    found: Any = getattr(import_module(module), "drills", None)
    if not isinstance(found, list) or not found:
        raise InvalidOption(f"{module!r} must have a list of Drill called `drills`, got {found!r}")
    drills = [each for each in cast(list[Any], found) if not only or each.title == only]
    if not drills:
        titles = ", ".join(repr(each.title) for each in cast(list[Any], found))
        raise InvalidOption(f"{module!r} has no drill with the title {only!r}; it has {titles}")
    if wrong := [each for each in drills if not isinstance(each, Drill)]:
        raise InvalidOption(f"`drills` must hold Drill, got {wrong[0]!r}")
    width = max((len(each.title) for each in drills), default=0)
    failed = stopped = 0
    with embedded.ephemeral() as server:
        for each in drills:
            verdict = run_drill(each, server.url, goes_on=goes_on)
            failed += verdict.completes and not verdict.is_idempotent
            stopped += not verdict.completes
            many = f"{verdict.runs} run{'s' if verdict.runs > 1 else ''}"
            typer.echo(f"{verdict.title:<{width}}  {verdict}  ({many})")
            for finding in verdict.findings:
                typer.echo(f"    {finding}")
    unfinished = f", {stopped} could not be judged: not completed undisturbed" if stopped else ""
    typer.echo(f"{failed} of {len(drills)} are not idempotent{unfinished}")
    raise typer.Exit(1 if failed or stopped else 0)
