"""`waystation bring`: move what waits in queues of Celery and RQ to ours."""

from typing import Annotated

import typer

from waystation.bullmq.settings import BullmqSettings
from waystation.core.app import commands
from waystation.core.app.invocation import loaded
from waystation.core.app.settings import StoreSettings
from waystation.core.errors import InvalidOption, NotFound
from waystation.tasks import Tasks
from waystation_bring.bridge import Bridge, TaskMap
from waystation_bring.celery import CeleryQueue
from waystation_bring.message import Source
from waystation_bring.rq import RqQueue

EXAMPLES = """\b
Examples:
  waystation bring celery --dry-run
  waystation bring celery mail --tasks shop.app:tasks
  waystation bring celery --from redis://old:6379/0 --to mail --name shop.tasks.send=send
  waystation bring rq default low --tasks shop.app:tasks --limit 10
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLES)

From = Annotated[
    str, typer.Option("--from", metavar="URL", help="Where they are; else the store itself.")
]
OfTasks = Annotated[
    str, typer.Option("--tasks", metavar="MODULE:TASKS", help="The tasks that they become.")
]
To = Annotated[str, typer.Option("--to", metavar="QUEUE", help="The queue of all jobs.")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="TASK=[QUEUE/]NAME", help="The job that a task becomes; repeat it."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be moved.")]
Limit = Annotated[int | None, typer.Option(help="Move at most so many of each queue.")]


@app.callback()
def bring() -> None:
    """Move what waits in queues of Celery and RQ to ours; what cannot be a job stays.

    Ends with 1 when something has stayed.
    """


@app.command()
def celery(
    context: typer.Context,
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="Queues of Celery; else celery.")
    ] = None,
    from_url: From = "",
    tasks: OfTasks = "",
    to: To = "",
    names: Names = None,
    key_prefix: Annotated[str, typer.Option(help="Celery's global_keyprefix.")] = "",
    unacked: Annotated[
        bool, typer.Option("--unacked", help="Also what workers held when they were stopped.")
    ] = False,
    limit: Limit = None,
    dry_run: DryRun = False,
) -> None:
    """Move the messages of Celery's queues in Redis, with their delays, priorities and limits."""
    sources = [
        CeleryQueue(each, key_prefix=key_prefix, unacked=unacked) for each in queues or ["celery"]
    ]
    _bring(context, sources, from_url, _mapping(tasks, to, names), limit, dry_run)


@app.command()
def rq(
    context: typer.Context,
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="Queues of RQ; else default.")
    ] = None,
    from_url: From = "",
    tasks: OfTasks = "",
    to: To = "",
    names: Names = None,
    limit: Limit = None,
    dry_run: DryRun = False,
) -> None:
    """Move the jobs of RQ's queues, scheduled ones too, with their retries and limits."""
    sources = [RqQueue(each) for each in queues or ["default"]]
    _bring(context, sources, from_url, _mapping(tasks, to, names), limit, dry_run)


def _mapping(tasks: str, to: str, names: list[str] | None) -> TaskMap:
    found = commands.object_at(tasks, "a Tasks object") if tasks else None
    if found is not None and not isinstance(found, Tasks):
        raise InvalidOption(f"{tasks} must be a Tasks object, got {found!r}")
    pairs = [each.partition("=") for each in names or []]
    if wrong := [each for each in pairs if not each[0] or not each[2]]:
        raise InvalidOption(f"a name is given as task=name, got {''.join(wrong[0])!r}")
    return TaskMap(tasks=found, queue=to or None, names={theirs: ours for theirs, _, ours in pairs})


def _bring(
    context: typer.Context,
    sources: list[CeleryQueue] | list[RqQueue],
    from_url: str,
    mapping: TaskMap,
    limit: int | None,
    dry_run: bool,
) -> None:
    settings = loaded(context)
    stayed = 0
    for source in sources:
        with Bridge(
            source,
            settings[StoreSettings].url,
            from_url=from_url or None,
            mapping=mapping,
            prefix=settings[BullmqSettings].prefix,
        ) as bridge:
            stayed += _report(source, bridge, limit, dry_run)
    raise typer.Exit(1 if stayed else 0)


def _report(source: Source, bridge: Bridge, limit: int | None, dry_run: bool) -> int:
    found = bridge.bring(dry_run=dry_run, limit=limit)
    done = "would be brought" if dry_run else "brought"
    if found.others is not None:
        known = ", ".join(found.others) or "none"
        raise NotFound(f"{source.system} has no queue {source.name} there; it has: {known}")
    typer.echo(f"{source.name}: {found.jobs.total():,} {done}, {len(found.left):,} stay")
    for name, many in sorted(found.jobs.items()):
        typer.echo(f"  {many:>7,}  {name}")
    for each in found.left:
        typer.echo(f"  stays: {' '.join(filter(None, [each.id, each.task]))}: {each.reason}")
    if found.held:
        typer.echo(f"  not looked at: {found.held}")
    return len(found.left)
