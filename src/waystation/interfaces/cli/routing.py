"""`waystation routing`: look after jobs that ask for a kind of worker."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar, cast

import msgspec
import typer

from waystation.core.codec import decode
from waystation.core.errors import InvalidOption, Malformed
from waystation.core.runtime.service import until_asked_to_stop
from waystation.interfaces import compose
from waystation.interfaces.cli.loading import loaded
from waystation.interfaces.settings import Settings
from waystation.queues.routing import (
    JobOptions,
    Limit,
    Queue,
    Schedule,
    Scheduler,
    Target,
    bridge_scripts,
)
from waystation.queues.routing.coverage import Covered
from waystation.queues.routing.keys import NAMESPACE
from waystation.queues.routing.registry import RegisteredWorker
from waystation.queues.routing.results import DeadLetter
from waystation.queues.routing.stats import Stats

T = TypeVar("T")

EXAMPLES = """\b
Examples:
  waystation routing stats
  waystation routing coverage
  waystation routing dispatch resize '{"file": "a.png"}' --capability gpu
  waystation routing dead --error TimeoutError
  waystation routing requeue --error TimeoutError
  waystation routing limit email --concurrent 5 --per-minute 100
"""

SCRIPTS = {
    door.name: door
    for door in (
        bridge_scripts.claim_job,
        bridge_scripts.process_delayed,
        bridge_scripts.process_cron,
        bridge_scripts.release_lock,
    )
}

app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLES)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
OfError = Annotated[str | None, typer.Option("--error", help="Only those that died of it.")]


class Given(msgspec.Struct, frozen=True):
    """What the options before a verb say."""

    settings: Settings
    namespace: str


@app.callback()
def routing(
    context: typer.Context,
    namespace: Annotated[str, typer.Option(help="What every key starts with.")] = NAMESPACE,
) -> None:
    """Look after jobs that ask for a kind of worker."""
    context.obj = Given(loaded(context).settings, namespace)


@app.command()
def stats(context: typer.Context, as_json: AsJson = False) -> None:
    """Print how much is where, and who works."""

    async def ask(queue: Queue) -> Stats:
        return await queue.stats()

    found = _on_the_queue(context, ask)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    for name in ("waiting", "active", "delayed", "held", "cron", "dead"):
        typer.echo(f"{name:<8}  {getattr(found, name):>9,}")
    for name, alive in found.workers.items():
        typer.echo(f"worker    {name} {'is alive' if alive else 'is dead'}")
    for name, count in found.concurrent.items():
        typer.echo(f"running   {name} {count:,}")
    for name in found.paused:
        typer.echo(f"paused    {name}")


@app.command()
def coverage(
    context: typer.Context,
    as_json: AsJson = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what somebody can serve.")
    ] = False,
) -> None:
    """Print which waiting jobs no live worker can serve, and what is missing.

    Ends with 0 when everything that waits can be served, else with 1.
    """

    async def ask(queue: Queue) -> list[Covered]:
        return await queue.coverage()

    found = _on_the_queue(context, ask)
    unserved = [row for row in found if not row.served]
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
    who = f"{row.workers} workers fit" if row.served else f"missing: {'; '.join(row.missing)}"
    return f"{row.waiting:>9,}  {row.type}  {who}  (first: {row.first})"


@app.command()
def workers(context: typer.Context, as_json: AsJson = False) -> None:
    """Print who works, and what they offer."""

    async def ask(queue: Queue) -> list[RegisteredWorker]:
        return await queue.workers()

    found = _on_the_queue(context, ask)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    for each in found:
        offers = " ".join((each.stack, each.region, *each.capabilities)).strip()
        typer.echo(f"{'alive' if each.alive else 'dead':<5}  {each.server_id}  {offers}")


@app.command()
def dispatch(
    context: typer.Context,
    type: Annotated[str, typer.Argument(help="The type of the job.")],
    payload: Annotated[str, typer.Argument(help="JSON.")] = "{}",
    capability: Annotated[list[str] | None, typer.Option(help="What it needs.")] = None,
    region: Annotated[list[str] | None, typer.Option(help="Where it may run.")] = None,
    stack: Annotated[list[str] | None, typer.Option(help="On what it may run.")] = None,
    server: Annotated[str | None, typer.Option(help="The one that shall run it.")] = None,
    priority: Annotated[int, typer.Option(help="1 to 10; from 7 on it goes first.")] = 5,
    delay: Annotated[int | None, typer.Option(help="Milliseconds from now.")] = None,
    cron: Annotated[str | None, typer.Option(help="Again and again.")] = None,
    timezone: Annotated[str | None, typer.Option(help="In which the schedule is meant.")] = None,
) -> None:
    """Put a job into the line, and print its id."""
    try:
        data = decode(payload)
    except Malformed as error:
        raise InvalidOption(f"the payload must be JSON, got {payload[:40]!r} ({error})") from None
    options = JobOptions(
        target=Target(
            server=server,
            capabilities=tuple(capability or ()),
            region=tuple(region or ()),
            stack=tuple(stack or ()),
        ),
        schedule=Schedule(delay=delay, cron=cron, timezone=timezone),
        priority=priority,
    )

    async def put(queue: Queue) -> str:
        return await queue.dispatch(type, data, options)

    typer.echo(_on_the_queue(context, put))


@app.command()
def show(context: typer.Context, job_id: str) -> None:
    """Print what is known about one job, as JSON."""

    async def ask(queue: Queue) -> dict[str, Any]:
        job = await queue.job(job_id)
        return {
            "status": await queue.status(job_id),
            "result": await queue.result(job_id),
            "progress": await queue.progress(job_id),
            "job": msgspec.Raw(job.raw) if job else None,
        }

    typer.echo(msgspec.json.encode(_on_the_queue(context, ask)).decode())


@app.command()
def cancel(context: typer.Context, job_ids: list[str]) -> None:
    """Stop jobs that have not ended, running ones too."""

    async def stop(queue: Queue) -> int:
        return await queue.cancel(*job_ids)

    typer.echo(f"{_on_the_queue(context, stop):,} stopped")


@app.command()
def dead(
    context: typer.Context,
    error: OfError = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1)] = 20,
) -> None:
    """Print the jobs that failed for good, the newest first."""

    async def ask(queue: Queue) -> list[DeadLetter]:
        found: list[DeadLetter] = []
        async for letter in await queue.dead_letters():
            if error is None or letter.error.name == error:
                found.append(letter)
            if len(found) == count:
                break
        return found

    for letter in _on_the_queue(context, ask):
        typer.echo(f"{letter.id}  {letter.reason}  {letter.error.name}: {letter.error.message}")


@app.command()
def requeue(
    context: typer.Context,
    job_ids: Annotated[list[str] | None, typer.Argument()] = None,
    error: OfError = None,
) -> None:
    """Try dead jobs again: those named, all of one error, or all."""

    async def again(queue: Queue) -> int:
        letters = await queue.dead_letters()
        return await (letters.requeue(*job_ids) if job_ids else letters.requeue_all(error=error))

    typer.echo(f"{_on_the_queue(context, again):,} back in line")


@app.command()
def purge(
    context: typer.Context,
    job_ids: Annotated[list[str] | None, typer.Argument()] = None,
    error: OfError = None,
    yes: Yes = False,
) -> None:
    """Remove dead jobs for good: those named, all of one error, or all."""
    if not yes:
        typer.confirm("Remove these dead jobs for good?", abort=True)

    async def remove(queue: Queue) -> int:
        letters = await queue.dead_letters()
        return await (letters.purge(*job_ids) if job_ids else letters.purge_all(error=error))

    typer.echo(f"{_on_the_queue(context, remove):,} removed")


@app.command()
def pause(context: typer.Context, type: str) -> None:
    """Hand out no more jobs of a type."""

    async def stop(queue: Queue) -> bool:
        return await queue.pause(type)

    typer.echo("paused" if _on_the_queue(context, stop) else "was paused already")


@app.command()
def resume(context: typer.Context, type: str) -> None:
    """Hand out jobs of a type again."""

    async def go_on(queue: Queue) -> bool:
        return await queue.resume(type)

    typer.echo("resumed" if _on_the_queue(context, go_on) else "was not paused")


@app.command()
def limit(
    context: typer.Context,
    type: str,
    concurrent: Annotated[int | None, typer.Option(help="At once, over all workers.")] = None,
    per_minute: Annotated[int | None, typer.Option(help="Started in a minute.")] = None,
) -> None:
    """Set the limits of a type; without any, lift them."""
    chosen = None
    if concurrent is not None or per_minute is not None:
        chosen = Limit(max_concurrent=concurrent, max_per_minute=per_minute)

    async def put(queue: Queue) -> None:
        await queue.limit(type, chosen)

    _on_the_queue(context, put)
    typer.echo("limited" if chosen else "no limit")


@app.command()
def scheduler(context: typer.Context) -> None:
    """Stand for election and do the upkeep while elected, until asked to stop."""
    given = cast(Given, context.obj)

    async def run() -> None:
        async with (
            compose.store(given.settings) as store,
            compose.telemetry(given.settings.telemetry),
        ):
            candidate = asyncio.create_task(Scheduler(store, namespace=given.namespace).run())
            await until_asked_to_stop()
            candidate.cancel()
            await asyncio.wait([candidate])

    asyncio.run(run())


@app.command()
def script(
    name: Annotated[str, typer.Argument(help="One of BridgeMQ's four scripts.")],
) -> None:
    """Print a script, ready for SCRIPT LOAD from any language."""
    if name not in SCRIPTS:
        raise InvalidOption(f"wanted one of {', '.join(SCRIPTS)}, got {name!r}")
    typer.echo(SCRIPTS[name].source)


def _on_the_queue(context: typer.Context, step: Callable[[Queue], Coroutine[Any, Any, T]]) -> T:
    given = cast(Given, context.obj)

    async def run() -> T:
        async with compose.store(given.settings) as store:
            return await step(Queue(store, namespace=given.namespace))

    return asyncio.run(run())
