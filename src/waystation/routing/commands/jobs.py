"""What `waystation routing` says about where jobs stand, and why."""

from typing import Annotated, Any

import msgspec
import typer

from waystation.core.app.commands import AsJson
from waystation.core.errors import NotFound
from waystation.routing import Covered, Queue, Why
from waystation.routing.commands.context import on_the_queue


def coverage(
    context: typer.Context,
    as_json: AsJson = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that a worker can be given.")
    ] = False,
    ignore: Annotated[
        list[Why] | None,
        typer.Option(help="A reason to ignore: paused, limited, held or unmatched."),
    ] = None,
) -> None:
    """Print the waiting jobs that no worker can be given now, and why.

    That is: the type is paused, a limit is reached, it waits for a dead job, or no live worker
    fits. Ends with 0 when everything that waits can be served, else with 1.
    """
    found = on_the_queue(context, lambda queue: queue.coverage())
    unserved = [row for row in found if any(each.why not in (ignore or ()) for each in row.reasons)]
    shown = found if everything else unserved
    if as_json:
        typer.echo(msgspec.json.encode(shown).decode())
    elif not shown:
        typer.echo("everything that waits can be served")
    else:
        for row in shown:
            typer.echo(_covered(row))
    if unserved:
        raise typer.Exit(1)


def _covered(row: Covered) -> str:
    why = "; ".join(each.text for each in row.reasons) or f"{row.workers:,} workers fit"
    return f"{row.waiting:>9,}  {row.type}  {why}  (first: {row.first})"


def show(
    context: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
) -> None:
    """Print what is known about one job, as JSON; `why` says why it is where it is."""

    async def ask(queue: Queue) -> dict[str, Any]:
        # Asked first, because it enters into the index what others have pushed.
        why = await queue.why(job_id)
        status = await queue.state(job_id)
        if status is None and not why:
            raise _unknown(queue, job_id)
        job = await queue.get_job(job_id)
        return {
            "status": status,
            "why": why,
            "result": await queue.result(job_id),
            "progress": await queue.progress(job_id),
            "job": msgspec.Raw(job.raw) if job else None,
        }

    typer.echo(msgspec.json.encode(on_the_queue(context, ask)).decode())


def cancel(
    context: typer.Context,
    job_ids: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of jobs.")],
) -> None:
    """Stop jobs that have not ended, running ones too.

    Ends with 1 when there is nothing to stop about one of them, and says why.
    """

    async def stop(queue: Queue) -> tuple[int, list[str]]:
        left = [job_id for job_id in job_ids if not await queue.cancel(job_id)]
        return len(job_ids) - len(left), [await _why_not(queue, job_id) for job_id in left]

    stopped, complaints = on_the_queue(context, stop)
    typer.echo(f"{stopped:,} stopped")
    if complaints:
        raise NotFound("; ".join(complaints))


async def _why_not(queue: Queue, job_id: str) -> str:
    reasons = await queue.why(job_id)
    if not reasons:
        return str(_unknown(queue, job_id))
    return f"job {job_id} cannot be stopped: {'; '.join(each.text for each in reasons)}"


def _unknown(queue: Queue, job_id: str) -> NotFound:
    return NotFound(f"no job {job_id} is known in {queue.prefix!r}")
