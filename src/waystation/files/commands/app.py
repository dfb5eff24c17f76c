"""`waystation files`: a directory turned into work, as a process that an operations team runs."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import msgspec
import typer

from waystation.core.app import commands
from waystation.core.app.commands import AsJson, Yes, list_rows
from waystation.core.app.invocation import loaded
from waystation.core.app.reload import Reload, supervise
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.settings.load import Settings
from waystation.core.settings.schema import schema as json_schema
from waystation.files.commands import roles
from waystation.files.commands import wiring as composed
from waystation.files.commands.roles import counted
from waystation.files.dead_letters import DeadLetter
from waystation.files.job import read
from waystation.files.queue import Queue
from waystation.files.settings import FilesFile, FilesSettings, load_files

T = TypeVar("T")

EXAMPLES = """\b
Examples:
  waystation files --role=all --config=files.yaml
  waystation files --role=producer --watch
  waystation files --role=admin counts
  waystation files --role=admin peek low --count 5
  WORKER_COUNT=4 waystation files --role=worker
"""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    epilog=EXAMPLES,
)


class Role(StrEnum):
    """What a process does."""

    PRODUCER = "producer"
    WORKER = "worker"
    ALL = "all"
    ADMIN = "admin"


class CliContext(msgspec.Struct, frozen=True):
    """What the options before a verb say."""

    files: FilesFile
    general: Settings

    @property
    def settings(self) -> FilesSettings:
        """The line's settings in force."""
        return self.files.settings


@app.callback()
def files(
    context: typer.Context,
    role: Annotated[
        Role | None, typer.Option(help="Add files, process them, both, or administer the queue.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings of this queue; else the section `files` of waystation.yaml."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on scanning (producer, all).")] = False,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="End when nothing is left to do (worker, all).")
    ] = False,
    wait: commands.Wait = None,
    reload: Reload = False,
) -> None:
    """Turn a directory into jobs: scan it, process its files, administer both."""
    supervise(reload and role in (Role.WORKER, Role.ALL))
    general = commands.with_options(loaded(context), (), wait=wait)
    found = load_files(config)
    if found.missing:
        typer.echo(f"waystation: there is no file {found.missing}; the defaults apply", err=True)
    composed.layout(found.settings)  # Keys that collide are refused before anything is touched.
    given = CliContext(found, general)
    context.obj = given
    verb = context.invoked_subcommand
    if verb is not None:
        if verb != "config" and role not in (None, Role.ADMIN):
            raise InvalidOption(f"{verb} wants --role=admin, got --role={role}")
        return
    match role:
        case Role.PRODUCER | Role.WORKER | Role.ALL:
            produce, work = role is not Role.WORKER, role is not Role.PRODUCER
            if watch and not produce:
                raise InvalidOption("--watch wants --role=producer or --role=all, got worker")
            if watch and until_done:
                raise InvalidOption("--watch goes on for ever, so it cannot go with --until-done")
            asyncio.run(
                roles.run(
                    given.files,
                    given.general,
                    produce=produce,
                    work=work,
                    watch=watch,
                    until_done=until_done,
                )
            )
        case Role.ADMIN:
            verbs = "counts, peek, requeue, purge-dlq, bench"
            raise InvalidOption(f"--role=admin wants one of {verbs}, got nothing")
        case None:
            raise InvalidOption("--role wants producer, worker, all or admin, got nothing")


@app.command("stats", hidden=True)
@app.command()
def counts(
    context: typer.Context,
    as_json: AsJson = False,
) -> None:
    """Print how many jobs are in each list."""

    async def count(queue: Queue) -> dict[str, int]:
        return {**await queue.lengths(), **await queue.orphans()}

    counts = _on_the_queue(context, count)
    if as_json:
        typer.echo(json.dumps(counts))
        return
    width = max(len(name) for name in counts)
    for name, count_of in counts.items():
        typer.echo(f"{name:<{width}}  {count_of:>9,}")


@app.command()
def peek(
    context: typer.Context,
    queue: Annotated[
        str, typer.Argument(help="A priority, completed, dead_letter, or the key of a list.")
    ],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100)] = 10,
) -> None:
    """Print the next jobs of a list as they are in Redis, dead letters with their reasons."""

    async def look(line: Queue) -> list[str]:
        if queue in ("dead_letter", line.keys.dead_letter):
            return [_letter(letter) for letter in await line.dead_letters.list(limit=count + 1)]
        return [_job(payload) for payload in await line.payloads(queue, count + 1)]

    lines = _on_the_queue(context, look)
    list_rows([(line,) for line in lines], none="nothing is there", most=count)


def _job(payload: bytes) -> str:
    try:
        read(payload)
    except Malformed:
        return repr(payload)
    return payload.decode(errors="backslashreplace")


def _letter(letter: DeadLetter) -> str:
    shown = {
        "id": letter.id,
        "reason": letter.reason,
        "error": letter.error,
        "worker": letter.worker,
        "at": letter.failed_at.isoformat() if letter.failed_at else "",
        "payload": letter.payload.decode(errors="backslashreplace"),
    }
    return json.dumps(shown)


@app.command()
def requeue(
    context: typer.Context,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1)] = None,
) -> None:
    """Add dead letters to the queue again, the oldest first."""
    moved = _on_the_queue(context, lambda queue: queue.dead_letters.retry_all(count))
    typer.echo(f"{moved:,} added again")


@app.command("purge-dlq")
def purge_dlq(
    context: typer.Context,
    yes: Yes = False,
) -> None:
    """Delete all dead letters."""
    if not yes:
        many = _on_the_queue(context, lambda queue: queue.dead_letters.count())
        typer.confirm(f"Throw {counted(many, 'dead letter')} away, for good?", abort=True)
    thrown = _on_the_queue(context, lambda queue: queue.dead_letters.purge())
    typer.echo(f"{thrown:,} thrown away")


@app.command()
def config(
    context: typer.Context,
    show: Annotated[
        bool, typer.Option("--show", help="Print the settings in force; secrets are masked.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of the file, for editors.")
    ] = False,
) -> None:
    """Show the settings of the queue."""
    if schema:
        typer.echo(json.dumps(json_schema(FilesSettings), indent=2))
    if not show:
        if not schema:
            raise InvalidOption("config wants --show or --schema, got neither")
        return
    rows = list(cast(CliContext, context.obj).files.shown())
    list_rows([(row.name, row.value, row.origin) for row in rows], none="there are no settings")


def _on_the_queue(context: typer.Context, step: Callable[[Queue], Coroutine[Any, Any, T]]) -> T:
    given = cast(CliContext, context.obj)
    options, layout = composed.queue_options(given.settings), composed.layout(given.settings)

    async def run() -> T:
        async with composed.store(given.settings, given.general) as store:
            return await step(Queue(store, layout=layout, options=options))

    return asyncio.run(run())
