"""`waystation tasks`: run the workers of typed tasks, and export their schema."""

import asyncio
from typing import Annotated

import msgspec
import typer

from waystation.bullmq.settings import BullmqSettings
from waystation.core.app import commands, compose, fleet
from waystation.core.app.commands import list_rows
from waystation.core.app.invocation import loaded
from waystation.core.app.reload import Reload, supervise
from waystation.core.app.settings import StoreSettings, TelemetrySettings, WorkerSettings
from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidOption
from waystation.core.runtime.metered import Metered
from waystation.core.runtime.service import serve
from waystation.core.settings.load import Settings
from waystation.tasks.tasks import Tasks

EXAMPLES = """\b
Examples:
  waystation tasks work shop.app:tasks --reload
  waystation tasks work shop.app:tasks mail sms -o concurrency=20
  waystation tasks work shop.app:tasks --processes 4
  waystation tasks list shop.app:tasks
  waystation tasks schema shop.app:tasks > tasks.json
  waystation tasks sweep shop.app:tasks --older 168h
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLES)

OfTasks = Annotated[str, typer.Argument(metavar="MODULE:TASKS", help="The Tasks object.")]


@app.callback()
def tasks() -> None:
    """Run the workers of typed tasks, and export their schema."""


@app.command()
def work(
    context: typer.Context,
    place: OfTasks,
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="Names of queues; else all.")
    ] = None,
    concurrency: commands.Concurrency = None,
    options: commands.Options = None,
    wait: commands.Wait = None,
    processes: commands.Processes = 1,
    reload: Reload = False,
) -> None:
    """Run a worker for each queue until asked to stop.

    Every option of the worker is a setting under bullmq.worker, and can be given with --option.
    With --processes each process has its own workers of that concurrency; one that dies is started
    again, and the metrics of all are served as one page.
    """
    supervise(reload)
    settings = commands.with_options(
        loaded(context),
        ("bullmq", "worker"),
        wait=wait,
        options=options,
        concurrency=concurrency,
    )
    compose.log_to_stderr(settings[TelemetrySettings])
    fleet.supervise(processes, settings[TelemetrySettings])
    asyncio.run(_work(_tasks_at(place), queues or [], settings))


@app.command("list")
def list_tasks(place: OfTasks) -> None:
    """Print every task: its queue, its name and its parameters."""
    rows = [(each.queue, each.name, str(each.signature)) for each in _tasks_at(place)]
    list_rows(rows, none=f"{place} has no tasks", head=("queue", "task", "parameters"))


@app.command()
def schema(place: OfTasks) -> None:
    """Print the JSON Schema of every task's data and result."""
    typer.echo(msgspec.json.format(msgspec.json.encode(_tasks_at(place).schema()), indent=2))


@app.command()
def sweep(
    context: typer.Context,
    place: OfTasks,
    older: Annotated[str, typer.Option(help="Only those older than this, such as 12h.")] = "168h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Delete payloads outside the store that no job mentions any more."""
    many = asyncio.run(_sweep(_tasks_at(place), parse_duration(older), dry_run, loaded(context)))
    typer.echo(f"{many:,} {'would be deleted' if dry_run else 'deleted'}")


async def _sweep(tasks: Tasks, older: float, dry_run: bool, settings: Settings) -> int:
    async with compose.store(_place_of(tasks, settings)) as store:
        return await tasks.sweep_blobs(store, older=older, dry_run=dry_run)


async def _work(tasks: Tasks, queues: list[str], settings: Settings) -> None:
    names = list(dict.fromkeys(queues)) or tasks.queues
    if not names:
        raise InvalidOption("there is no task to run")
    place = _place_of(tasks, settings)
    watched = fleet.telemetry_of_this_process(settings[TelemetrySettings])
    async with (
        compose.telemetry(watched, queues=names) as telemetry,
        compose.store(place, wait_s=place.wait) as store,
        fleet.membership(telemetry.metrics),
        tasks.connected(store),
    ):
        workers = [
            tasks.worker(
                name,
                store,
                options=settings[BullmqSettings].worker,
                listener=Metered(telemetry.metrics, product="bullmq", queue=name),
            )
            for name in names
        ]
        telemetry.health.watch(store, workers)
        await serve(workers, watchdog_s=settings[WorkerSettings].watchdog)


def _place_of(tasks: Tasks, settings: Settings) -> StoreSettings:
    place = settings[StoreSettings]
    return place if tasks.url is None else msgspec.structs.replace(place, url=tasks.url)


def _tasks_at(place: str) -> Tasks:
    found = commands.object_at(place, "a Tasks object")
    if not isinstance(found, Tasks):
        raise InvalidOption(f"{place} must be a Tasks object, got {found!r}")
    return found
