"""What `waystation routing` does with jobs that failed for good."""

from typing import Annotated

import msgspec
import typer

from waystation.core.app.commands import AsJson, Yes, list_rows
from waystation.core.errors import InvalidOption
from waystation.routing import DeadLetter, Queue
from waystation.routing.commands.context import on_the_queue

JobIds = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of dead jobs.")]
OfError = Annotated[
    str | None, typer.Option("--error", help="Those that died of it, such as TimeoutError.")
]
All = Annotated[bool, typer.Option("--all", help="All that are dead.")]


def dead(
    context: typer.Context,
    error: OfError = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="The most to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print the jobs that failed for good and why, the newest first."""

    async def ask(queue: Queue) -> list[DeadLetter]:
        found: list[DeadLetter] = []
        async for letter in queue.dead_letters:
            if error is None or letter.error.name == error:
                found.append(letter)
            if len(found) > count:
                break
        return found

    found = on_the_queue(context, ask)
    if as_json:
        typer.echo(msgspec.json.encode(found[:count]).decode())
        return
    rows = [
        (letter.id, letter.reason, f"{letter.error.name}: {letter.error.message}")
        for letter in found
    ]
    list_rows(rows, none="nothing is dead", head=("id", "reason", "error"), most=count)


def requeue(
    context: typer.Context, job_ids: JobIds = None, error: OfError = None, everything: All = False
) -> None:
    """Try dead jobs again: those named, those of one error, or all."""
    _one_of(job_ids, error, everything)

    async def again(queue: Queue) -> int:
        letters = queue.dead_letters
        return await (letters.retry(*job_ids) if job_ids else letters.retry_all(error=error))

    typer.echo(f"{on_the_queue(context, again):,} added again")


def purge(
    context: typer.Context,
    job_ids: JobIds = None,
    error: OfError = None,
    everything: All = False,
    yes: Yes = False,
) -> None:
    """Remove dead jobs: those named, those of one error, or all."""
    _one_of(job_ids, error, everything)
    if not yes:
        typer.confirm("Remove these dead jobs for good?", abort=True)

    async def remove(queue: Queue) -> int:
        letters = queue.dead_letters
        return await (letters.remove(*job_ids) if job_ids else letters.purge(error=error))

    typer.echo(f"{on_the_queue(context, remove):,} removed")


def _one_of(job_ids: list[str] | None, error: str | None, everything: bool) -> None:
    given = [bool(job_ids), error is not None, everything]
    if sum(given) != 1:
        raise InvalidOption("say which dead jobs: by their ids, with --error, or with --all")
