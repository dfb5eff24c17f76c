"""`waystation bullmq limit`, `schedulers`, `remove`, `promote`, `obliterate` and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from waystation.bullmq.commands import groups
from waystation.bullmq.commands.matching import (
    BulkRequest,
    change_matching,
    change_named,
    choosing,
    named,
)
from waystation.bullmq.commands.reach import (
    InAdvance,
    OfQueue,
    agreed_on,
    on,
    on_expected,
    on_known,
    on_sealed,
)
from waystation.core import codec
from waystation.core.app.commands import AsJson, Yes, list_rows
from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidOption, NotFound
from waystation.core.identity import person

if TYPE_CHECKING:
    from waystation.bullmq import Limit, Queue, QueueEvent, Scheduler

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="ID", help="Ids of jobs; after -- any text.")
]
OfScheduler = Annotated[str, typer.Argument(metavar="SCHEDULER", help="Its id.")]


def schedulers(context: typer.Context, queue: OfQueue, as_json: AsJson = False) -> None:
    """Print the schedulers, the next to fire first."""
    found = on_known(context, queue, lambda queue: queue.schedulers.list(limit=None))
    if as_json:
        typer.echo(codec.encode([_scheduler(each) for each in found]).decode())
        return
    rows = [
        (
            each.id,
            each.name,
            each.pattern or f"every {(each.every_ms or 0) / 1000:g} s",
            each.tz or ("this machine's" if each.pattern else ""),
            _next(each),
        )
        for each in found
    ]
    head = ("id", "name", "schedule", "time zone", "next")
    list_rows(rows, none=f"{queue} has no schedulers", head=head)


def _next(each: Scheduler) -> str:
    if each.paused_at:
        by = f" by {each.paused_by}" if each.paused_by else ""
        return f"paused since {each.paused_at.isoformat(timespec='seconds')}{by}"
    again = " (paused, and started again by a program in Node)" if each.started_again else ""
    return f"{each.next_at.isoformat(timespec='seconds') if each.next_at else 'never'}{again}"


def _scheduler(each: Scheduler) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(each),
        "next_at": each.next_at.isoformat() if each.next_at else None,
        "paused_at": each.paused_at.isoformat() if each.paused_at else None,
    }


def pause_scheduler(context: typer.Context, queue: OfQueue, scheduler_id: OfScheduler) -> None:
    """Make no jobs of a scheduler until it is resumed; a job of it that is due already stays."""
    paused = on_known(
        context, queue, lambda queue: queue.schedulers.pause(scheduler_id, by=person())
    )
    typer.echo("paused" if paused else "it was paused already")


def resume_scheduler(context: typer.Context, queue: OfQueue, scheduler_id: OfScheduler) -> None:
    """Make jobs of a paused scheduler again, without those that were missed."""

    async def resume(queue: Queue) -> Scheduler | None:
        await queue.schedulers.resume(scheduler_id)
        return await queue.schedulers.get(scheduler_id)

    found = on_known(context, queue, resume)
    typer.echo(f"resumed, next at {_next(found)}" if found else "resumed")


def remove_scheduler(context: typer.Context, queue: OfQueue, scheduler_id: OfScheduler) -> None:
    """Remove a scheduler; a job of it that is due already stays."""
    if not on_known(context, queue, lambda queue: queue.schedulers.remove(scheduler_id)):
        raise NotFound(f"{queue} has no scheduler {scheduler_id}")
    typer.echo("removed")


@choosing("state", "error", "dry_run", "yes")
def remove(
    context: typer.Context,
    queue: OfQueue,
    job_ids: Ids = None,
    keep_children: Annotated[
        bool, typer.Option("--keep-children", help="Leave the jobs that they wait for.")
    ] = False,
    *,
    asked: BulkRequest,
) -> None:
    """Remove jobs for good, and by default their children: those named, or as asked for.

    Ends with 1 when one of them is held by a worker or not there; `cancel` stops running jobs.
    """
    if asked.instead_of(job_ids):
        if keep_children:
            raise InvalidOption("--keep-children goes with ids")
        change_matching(context, queue, "remove", "removed", asked)
        return
    ids = named(job_ids)

    async def take(queue: Queue) -> list[str]:
        left: list[str] = []
        for job_id in ids:
            if await queue.state(job_id) == "unknown":
                left.append(f"there is no job {job_id}")
            elif not await queue.remove(job_id, remove_children=not keep_children, by=person()):
                left.append(f"job {job_id}, or a child of it, is held by a worker")
        return left

    left = on_known(context, queue, take)
    typer.echo(f"{len(ids) - len(left):,} removed")
    if left:
        raise NotFound("; ".join(left))


@choosing("dry_run")
def promote(
    context: typer.Context,
    queue: OfQueue,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of delayed jobs; else all.")
    ] = None,
    *,
    asked: BulkRequest,
) -> None:
    """Make delayed jobs ready to run now: those named, those that are as asked for, or all."""
    if asked.instead_of(job_ids):
        change_matching(context, queue, "promote", "promoted", asked)
        return

    async def now(queue: Queue) -> int:
        if not job_ids:
            return await queue.promote_all()
        return await change_named(queue, job_ids, lambda job: job.promote())

    typer.echo(f"{on_known(context, queue, now):,} promoted")


def obliterate(
    context: typer.Context,
    queue: OfQueue,
    force: Annotated[bool, typer.Option("--force", help="Also while jobs are active.")] = False,
    yes: Yes = False,
) -> None:
    """Delete a queue with everything in it, for good."""
    agreed_on(context, queue, f"Delete the queue {queue} with everything in it for good?", yes)
    on_known(context, queue, lambda queue: queue.obliterate(force=force))
    typer.echo("deleted")


def sweep(
    context: typer.Context,
    queue: OfQueue,
    older: Annotated[str, typer.Option(help="Only those older than this, such as 12h.")] = "168h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Delete payloads outside the store, under bullmq.payloads.blobs, that no job mentions."""
    age = parse_duration(older)
    many = on_sealed(context, queue, lambda queue: queue.sweep_blobs(older=age, dry_run=dry_run))
    typer.echo(f"{many:,} {'would be deleted' if dry_run else 'deleted'}")


def limit(
    context: typer.Context,
    queue: OfQueue,
    concurrency: Annotated[
        int | None, typer.Option(help="How many jobs may run at once, over all workers.")
    ] = None,
    rate: groups.Rate = None,
    lift: Annotated[bool, typer.Option("--lift", help="No limit any more.")] = False,
    in_advance: InAdvance = False,
) -> None:
    """Set or lift the limits of all workers of a queue; without options, print them."""
    chosen = groups.parse_rate(rate)
    if lift and (concurrency is not None or chosen):
        raise InvalidOption("either set limits or --lift them")

    async def put(queue: Queue) -> tuple[int | None, Limit | None]:
        limits = queue.limits
        if concurrency is not None:
            await limits.set_concurrency(concurrency)
        if chosen:
            await limits.set_rate_limit(chosen.max, chosen.duration)
        if lift:
            await limits.remove_concurrency()
            await limits.remove_rate_limit()
        return await limits.get_concurrency(), await limits.get_rate_limit()

    at_once, pace = (on if in_advance else on_known)(context, queue, put)
    if at_once:
        typer.echo(f"{at_once:,} at once")
    if pace:
        typer.echo(f"{pace.max:,} in {pace.duration_ms / 1000:g} s")
    if not (at_once or pace):
        typer.echo(f"{queue} has no limit")


def follow(
    context: typer.Context,
    queue: OfQueue,
    after: Annotated[
        str | None, typer.Option(help="Begin behind the event of this id; 0-0 is the oldest.")
    ] = None,
    count: Annotated[int, typer.Option(help="End after so many; 0 means never.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Print what happens to the jobs of a queue, as it happens, until Ctrl-C."""

    async def listen(queue: Queue) -> None:
        seen = 0
        async for event in queue.events(after):
            typer.echo(_as_json(event) if as_json else _as_line(event))
            seen += 1
            if count and seen >= count:
                return

    try:
        on_expected(context, queue, listen)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _as_json(event: QueueEvent) -> str:
    return codec.encode(msgspec.to_builtins(event)).decode()


def _as_line(event: QueueEvent) -> str:
    more = event.failed_reason or ("" if event.data is None else codec.encode(event.data).decode())
    at = event.at.isoformat(timespec="milliseconds")
    return f"{at}  {event.name:<16}  {event.job_id or '':<16}  {more}".rstrip()


def register(app: typer.Typer) -> None:
    """Add these commands to those of `waystation bullmq`."""
    for command in (
        follow,
        limit,
        promote,
        remove,
        schedulers,
        pause_scheduler,
        resume_scheduler,
        remove_scheduler,
        groups.groups,
        groups.pause_group,
        groups.resume_group,
        groups.set_group,
        groups.reset_group,
        sweep,
        obliterate,
    ):
        app.command()(command)
