"""`waystation routing`: look after jobs that ask for a kind of worker."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast

import msgspec
import typer

from waystation.core.app import commands, compose
from waystation.core.app.commands import AsJson, list_rows
from waystation.core.app.invocation import loaded
from waystation.core.app.reload import Reload, supervise
from waystation.core.app.settings import TelemetrySettings
from waystation.core.codec import decode
from waystation.core.errors import InvalidOption, Malformed, NotFound
from waystation.core.store.script import LuaScript
from waystation.routing import (
    JobOptions,
    JobState,
    Limit,
    Queue,
    Retry,
    Schedule,
    Target,
)
from waystation.routing.commands import dead_letters as dead
from waystation.routing.commands import jobs as standing
from waystation.routing.commands import work as running
from waystation.routing.commands.context import CliContext, on_the_queue
from waystation.routing.reasons import instant
from waystation.routing.redis import scripts as redis_scripts
from waystation.routing.settings import RoutingSettings

EXAMPLES = """\b
Examples:
  waystation routing add resize '{"file": "a.png"}' --capability gpu
  waystation routing work shop:handlers --capability gpu --region eu
  waystation routing coverage
  waystation routing dead --error TimeoutError
  waystation routing requeue --error TimeoutError
  waystation routing limit email --concurrent 5 --per-minute 100
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLES)

OfType = Annotated[str, typer.Argument(metavar="TYPE", help="A type of job, such as email.")]


@app.callback()
def routing(
    context: typer.Context,
    namespace: Annotated[
        str | None,
        typer.Option(help="What every key starts with; else the setting routing.namespace."),
    ] = None,
) -> None:
    """Send jobs to the workers that can do them, and administer both.

    A job says what it needs, a worker what it offers. `coverage` prints what nobody can do.
    """
    settings = loaded(context)
    context.obj = CliContext(settings, namespace or settings[RoutingSettings].namespace)


class _Stats(NamedTuple):
    counts: Mapping[JobState, int]
    workers: Mapping[str, bool]
    running: Mapping[str, int]
    paused: Sequence[str]


@app.command("stats", hidden=True)
@app.command()
def counts(context: typer.Context, as_json: AsJson = False) -> None:
    """Print how many jobs are in each state, and the workers."""

    async def ask(queue: Queue) -> _Stats:
        return _Stats(
            counts=await queue.counts(),
            workers={each.server: each.alive for each in await queue.workers()},
            running=await queue.limits.running(),
            paused=await queue.paused_types(),
        )

    found = on_the_queue(context, ask)
    if as_json:
        shown = {
            **found.counts,
            "workers": found.workers,
            "concurrent": found.running,
            "paused": found.paused,
        }
        typer.echo(msgspec.json.encode(shown).decode())
        return
    for name, count in found.counts.items():
        typer.echo(f"{name:<8}  {count:>9,}")
    for name, alive in found.workers.items():
        typer.echo(f"worker    {name} {'is alive' if alive else 'is dead'}")
    for name, count in found.running.items():
        typer.echo(f"running   {name} {count:,}")
    for name in found.paused:
        typer.echo(f"paused    {name}")


@app.command()
def workers(context: typer.Context, as_json: AsJson = False) -> None:
    """Print the workers and what they offer."""
    found = on_the_queue(context, lambda queue: queue.workers())
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    rows = [
        (
            "alive" if each.alive else "dead",
            each.server,
            " ".join((each.stack, each.region, *each.capabilities)).strip(),
        )
        for each in found
    ]
    list_rows(rows, none="there are no workers", head=("state", "name", "offers"))


@app.command()
def schedules(context: typer.Context, as_json: AsJson = False) -> None:
    """Print the schedules, the next to fire first; cancel ends one."""
    found = on_the_queue(context, lambda queue: queue.schedules.list())
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    rows = [
        (instant(each.next_ms), each.id, each.type, f"{each.cron} ({each.timezone})")
        for each in found
    ]
    list_rows(rows, none="nothing is scheduled", head=("next", "id", "type", "pattern"))


@app.command()
def add(
    context: typer.Context,
    type: OfType,
    payload: Annotated[str, typer.Argument(help="What its handler gets, as JSON.")] = "{}",
    capability: Annotated[
        list[str] | None, typer.Option(help="What its worker must be able to do.")
    ] = None,
    region: Annotated[
        list[str] | None, typer.Option(help="The regions that it may run in.")
    ] = None,
    stack: Annotated[list[str] | None, typer.Option(help="The stacks that it may run on.")] = None,
    server: Annotated[str | None, typer.Option(help="The only worker that may run it.")] = None,
    mode: Annotated[
        str, typer.Option(help="any or all: how many of the values given are needed.")
    ] = "any",
    match: Annotated[
        str,
        typer.Option(help="category-all or category-any: whether all of the above must fit."),
    ] = "category-all",
    priority: Annotated[int, typer.Option(help="1 to 10; 7 and above go first.")] = 5,
    delay: Annotated[int | None, typer.Option(help="Milliseconds from now.")] = None,
    cron: Annotated[
        str | None, typer.Option(help="Add it on a schedule, such as '*/5 * * * *'.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="The time zone of --cron, such as Europe/Vienna.")
    ] = None,
    attempts: Annotated[int, typer.Option(help="Tries in all.")] = 3,
    after: Annotated[
        list[str] | None, typer.Option(help="Id of a job that must be completed first.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="An idempotency key: for a day, no second job with it is added."),
    ] = None,
) -> None:
    """Add a job, and print its id."""
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
            mode=cast(Any, mode),
            match=cast(Any, match),
        ),
        schedule=Schedule(
            delay=None if delay is None else delay / 1000, cron=cron, timezone=timezone
        ),
        retry=Retry(attempts=attempts),
        priority=priority,
        depends_on=tuple(after or ()),
        idempotency_key=key,
    )
    typer.echo(on_the_queue(context, lambda queue: queue.add(type, data, options)).id)


app.command()(standing.coverage)
app.command()(standing.show)
app.command()(standing.cancel)
app.command()(dead.dead)
app.command()(dead.requeue)
app.command()(dead.purge)


@app.command()
def pause(
    context: typer.Context,
    type: OfType,
    in_advance: Annotated[
        bool, typer.Option("--in-advance", help="Even if no worker or job of the type is known.")
    ] = False,
) -> None:
    """Pause a type: workers get no jobs of it until it is resumed."""

    async def stop(queue: Queue) -> bool:
        if not (in_advance or await queue.knows(type)):
            raise NotFound(
                f"{_unknown(queue, type)}, "
                "so nothing was paused; --in-advance pauses it all the same"
            )
        return await queue.pause(type)

    typer.echo("paused" if on_the_queue(context, stop) else "was paused already")


@app.command()
def resume(context: typer.Context, type: OfType) -> None:
    """Resume a type."""

    async def go_on(queue: Queue) -> bool:
        resumed = await queue.resume(type)
        if not (resumed or await queue.knows(type)):
            raise NotFound(f"{_unknown(queue, type)}, and it was not paused; is the name right?")
        return resumed

    typer.echo("resumed" if on_the_queue(context, go_on) else "was not paused")


@app.command()
def limit(
    context: typer.Context,
    type: OfType,
    concurrent: Annotated[
        int | None, typer.Option(help="How many may run at once, over all workers.")
    ] = None,
    per_minute: Annotated[int | None, typer.Option(help="How many may start in a minute.")] = None,
    lift: Annotated[bool, typer.Option("--lift", help="No limit any more.")] = False,
) -> None:
    """Set or lift the limits of a type; without options, print them."""
    wanted = concurrent is not None or per_minute is not None
    if wanted and lift:
        raise InvalidOption("either set limits or --lift them")

    async def put(queue: Queue) -> Limit | None:
        if wanted:
            chosen = Limit(max_concurrent=concurrent, max_per_minute=per_minute)
            await queue.limits.set(type, chosen)
        elif lift:
            await queue.limits.remove(type)
        return await queue.limits.get(type)

    found = on_the_queue(context, put)
    if found is None:
        typer.echo(f"{type} has no limit")
        return
    if found.max_concurrent is not None:
        typer.echo(f"{found.max_concurrent:,} at once")
    if found.max_per_minute is not None:
        typer.echo(f"{found.max_per_minute:,} in a minute")


@app.command()
def work(
    context: typer.Context,
    handlers: Annotated[
        str, typer.Argument(metavar="MODULE:HANDLERS", help="A dictionary of functions by type.")
    ],
    type: Annotated[
        list[str] | None, typer.Option(help="Take only these types; else all that are there.")
    ] = None,
    capability: Annotated[
        list[str] | None, typer.Option(help="What it can do, as in gpu or 'video:*'.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="Where it is.")] = None,
    stack: Annotated[str | None, typer.Option(help="What it runs on.")] = None,
    server: Annotated[str | None, typer.Option(help="The name it is known by.")] = None,
    concurrency: commands.Concurrency = None,
    process: commands.InProcesses = False,
    options: commands.Options = None,
    wait: commands.Wait = None,
    reload: Reload = False,
) -> None:
    """Run a worker until asked to stop.

    What is left out here comes from the settings under routing. One function is enough when --type
    names the jobs it is for. Every option of the worker is a setting under routing.worker, and can
    be given with --option.
    """
    supervise(reload)
    given = cast(CliContext, context.obj)
    settings = commands.with_options(
        given.settings,
        ("routing",),
        wait=wait,
        namespace=given.namespace,
        capabilities=capability,
        region=region,
        stack=stack,
        server=server,
    )
    settings = commands.with_options(
        settings, ("routing", "worker"), options=options, concurrency=concurrency
    )
    compose.log_to_stderr(settings[TelemetrySettings])
    asyncio.run(
        running.run(commands.handler_at(handlers), settings, types=type or (), process=process)
    )


@app.command()
def scheduler(context: typer.Context) -> None:
    """Run the maintenance of the queue until asked to stop: delays, cron, stalled jobs.

    Of all that run, one is elected. Workers do it themselves, unless the setting
    routing.scheduler.enabled says otherwise.
    """
    given = cast(CliContext, context.obj)
    compose.log_to_stderr(given.settings[TelemetrySettings])
    asyncio.run(running.schedule(given.settings, namespace=given.namespace))


@app.command()
def script(
    name: Annotated[str | None, typer.Argument(help="One of those that are listed.")] = None,
) -> None:
    """Print a script for other languages, or list them.

    What is printed can be given to SCRIPT LOAD as it is.
    """
    every = LuaScript.of(redis_scripts.settle.package).values()
    # BridgeMQ's own come first: a client in another language begins with these.
    ordered = sorted(every, key=lambda each: "/bridge/" not in each.script.where)
    scripts = {each.name: each for each in ordered}
    if name is None:
        for each, script in scripts.items():
            typer.echo(f"{each:<16}  {script.header.summary}")
    elif name in scripts:
        typer.echo(scripts[name].source)
    else:
        raise InvalidOption(f"wanted one of {', '.join(scripts)}, got {name!r}")


def _unknown(queue: Queue, type: str) -> str:
    return f"no worker or job of type {type} is known in {queue.prefix!r}"
