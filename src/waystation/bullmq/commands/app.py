"""`waystation bullmq`: administer queues that Node's BullMQ shares, and run workers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import msgspec
import typer

from waystation.bullmq.commands import admin
from waystation.bullmq.commands.matching import (
    BulkRequest,
    change_matching,
    change_named,
    choosing,
    found,
    named,
    pick,
    rows_of,
)
from waystation.bullmq.commands.reach import (
    CliContext,
    InAdvance,
    OfQueue,
    agreed_on,
    check_known,
    on,
    on_known,
    on_sealed,
)
from waystation.bullmq.states import STATES, known_states
from waystation.core import codec
from waystation.core.app import commands
from waystation.core.app.commands import AsJson, Yes, list_rows
from waystation.core.app.reload import Reload, supervise
from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidOption, Malformed, NotFound
from waystation.core.identity import person

if TYPE_CHECKING:
    from datetime import datetime

    from waystation.bullmq import Job, Queue, State


EXAMPLES = """\b
Examples:
  waystation bullmq counts mail
  waystation bullmq jobs mail failed --name send --data tenant=acme --since 1h
  waystation bullmq job mail 17
  waystation bullmq add mail send '{"to": "ada"}' --priority 1
  waystation bullmq retry mail
  waystation bullmq retry mail --error timeout --data tenant=acme --dry-run
  waystation bullmq work shop.mail:send mail --reload
  waystation bullmq work shop:handlers mail sms -o timeout=30s -o concurrency=20
  waystation bullmq work shop:handlers mail --processes 4
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXAMPLES)

OfState = Annotated[str, typer.Argument(metavar="STATE", help=f"One of {', '.join(STATES)}.")]


@app.callback()
def bullmq(
    context: typer.Context,
    prefix: Annotated[
        str | None,
        typer.Option(help="The prefix of every key; else the setting bullmq.prefix."),
    ] = None,
) -> None:
    """Administer queues that Node's BullMQ shares, and run workers."""
    from waystation.bullmq.settings import BullmqSettings
    from waystation.core.app.invocation import loaded

    settings = loaded(context)
    context.obj = CliContext(settings, prefix or settings[BullmqSettings].prefix)


@app.command()
def counts(context: typer.Context, queue: OfQueue, as_json: AsJson = False) -> None:
    """Print how many jobs are in each state."""

    async def ask(queue: Queue) -> tuple[dict[State, int], bool]:
        return await queue.counts(), await queue.is_paused()

    found, paused = on_known(context, queue, ask)
    if as_json:
        typer.echo(msgspec.json.encode({**found, "paused": paused}).decode())
        return
    for state, count in found.items():
        typer.echo(f"{state:<16}  {count:>9,}")
    if paused:
        typer.echo("the queue is paused")


@app.command()
@choosing("error")
def jobs(
    context: typer.Context,
    queue: OfQueue,
    state: Annotated[
        str, typer.Argument(metavar="STATE", help=f"One of {', '.join(STATES)}; or all.")
    ] = "waiting",
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="The most to print.")] = 20,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest instead.")] = False,
    *,
    asked: BulkRequest,
    as_json: AsJson = False,
) -> None:
    """Print the newest jobs of a state, or of all, with why they failed if they did."""
    states = STATES if state == "all" else known_states(state)
    listed, complete = on_known(
        context, queue, lambda queue: pick(queue, states, asked, count=count + 1, oldest=oldest)
    )
    if as_json:
        typer.echo(codec.encode_shown([_listed(*each) for each in listed[:count]]).decode())
        return
    of_all = state == "all"
    like = "" if asked.is_any else ", or none like that"
    that_are = "" if of_all else f" that are {state}"
    head, rows = rows_of(listed, with_state=of_all)
    list_rows(rows, none=f"{queue} has no jobs{that_are}{like}", head=head, most=count)
    if not complete:
        typer.echo(f"only {asked.look:,} jobs of a state were looked at; --look more", err=True)


def _listed(state: State, job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": state,
        "data": codec.decode_or_text(job.data_text),
        "created_at": _iso(job.created_at),
        "started_at": _iso(job.started_at),
        "finished_at": _iso(job.finished_at),
        "attempts_made": job.attempts_made,
        "worker": job.processed_by,
        "failed_reason": job.failed_reason,
    }


@app.command()
def job(
    context: typer.Context,
    queue: OfQueue,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job's id.")],
    logs: Annotated[int, typer.Option(min=0, help="Newest log lines to show.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print what is known about one job: its steps, and the tracebacks of its failed attempts."""

    async def ask(queue: Queue) -> dict[str, Any]:
        from waystation.bullmq.payloads.notes import note_on

        job = await found(queue, job_id)
        return {
            "id": job.id,
            "name": job.name,
            "state": await job.state(),
            "data": codec.decode_or_text(job.data_text),
            "payload": note_on(job),
            "options": job.options.raw,
            "progress": job.progress,
            "attempts_made": job.attempts_made,
            "attempts_started": job.attempts_started,
            "stalled_count": job.stalled_count,
            "processed_by": job.processed_by,
            "created_at": _iso(job.created_at),
            "started_at": _iso(job.started_at),
            "finished_at": _iso(job.finished_at),
            "parent": job.parent_key,
            "steps": job.steps,
            "result": job.result,
            "failed_reason": job.failed_reason,
            "stacktrace": job.stacktrace,
            "logs": (await job.logs(limit=logs, newest_first=True)).lines[::-1] if logs else [],
        }

    shown = on_known(context, queue, ask)
    if not as_json:
        typer.echo(sheet(shown))
        return
    known = codec.encode_shown(shown)
    # The formatter takes neither any depth nor halves of characters; then it is printed as it is.
    with contextlib.suppress(RecursionError, msgspec.DecodeError):
        known = msgspec.json.format(known, indent=2)
    typer.echo(known.decode())


@app.command()
def add(
    context: typer.Context,
    queue: OfQueue,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job's name.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="The job's data, as JSON.")] = "{}",
    priority: Annotated[int, typer.Option(help="0 runs first, then 1, 2, …")] = 0,
    delay: Annotated[str, typer.Option(help="How long it waits first, such as 90s or 1h.")] = "0s",
    attempts: Annotated[int, typer.Option(help="Tries in all.")] = 3,
    job_id: Annotated[str | None, typer.Option(help="A custom id.")] = None,
) -> None:
    """Add a job, and print its id."""
    try:
        value = codec.decode(data)
    except Malformed as error:
        raise InvalidOption(f"the data must be JSON, got {data[:40]!r} ({error})") from None
    after = parse_duration(delay)
    added = on_sealed(
        context,
        queue,
        lambda queue: queue.add(
            name, value, priority=priority, delay=after, attempts=attempts, job_id=job_id
        ),
    )
    typer.echo(added.id)


@app.command()
@choosing("error", "dry_run")
def retry(
    context: typer.Context,
    queue: OfQueue,
    job_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of failed jobs.")
    ] = None,
    *,
    asked: BulkRequest,
) -> None:
    """Retry failed jobs: those named, those that are as asked for, or all."""
    if asked.instead_of(job_ids):
        change_matching(context, queue, "retry", "retried", asked)
        return

    async def again(queue: Queue) -> int:
        if not job_ids:
            return await queue.retry_all()
        return await change_named(queue, job_ids, lambda job: job.retry())

    typer.echo(f"{on_known(context, queue, again):,} retried")


@app.command()
@choosing("state", "dry_run", "yes")
def cancel(
    context: typer.Context,
    queue: OfQueue,
    job_ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of jobs.")] = None,
    reason: Annotated[str, typer.Option(help="Why; it is shown with the failed job.")] = "",
    *,
    asked: BulkRequest,
) -> None:
    """Make jobs fail that have not ended, running ones too: those named, or as asked for.

    Ends with 1 when one of them is not there.
    """
    reason = reason or f"cancelled by {person()}"
    if asked.instead_of(job_ids):
        change_matching(context, queue, "cancel", "cancelled", asked, reason=reason)
        return
    ids = named(job_ids)

    async def stop(queue: Queue) -> tuple[int, list[str]]:
        gone = [id for id in ids if await queue.state(id) == "unknown"]
        return await queue.cancel(*ids, reason=reason), gone

    many, gone = on_known(context, queue, stop)
    typer.echo(f"{many:,} cancelled")
    if gone:
        raise NotFound("; ".join(f"there is no job {id}" for id in gone))


@app.command()
def clean(
    context: typer.Context,
    queue: OfQueue,
    state: OfState = "completed",
    older: Annotated[
        str, typer.Option(help="Only those older than this, such as 90s or 1h.")
    ] = "0s",
    limit: Annotated[int, typer.Option(help="At most so many; 0 means all.")] = 0,
    yes: Yes = False,
) -> None:
    """Remove jobs of a state for good."""
    from waystation.bullmq import Cleanable

    known_states(state)
    if state not in get_args(Cleanable):
        able = ", ".join(get_args(Cleanable))
        raise InvalidOption(f"jobs can be cleaned that are {able}, got {state!r}")
    age = parse_duration(older)
    agreed_on(context, queue, f"Remove {state} jobs of {queue} for good?", yes)
    of_state = cast("Cleanable", state)
    removed = on_known(context, queue, lambda queue: queue.clean(age, limit, of_state))
    typer.echo(f"{len(removed):,} removed")


@app.command()
def drain(
    context: typer.Context,
    queue: OfQueue,
    delayed: Annotated[bool, typer.Option("--delayed", help="Delayed jobs, too.")] = False,
    yes: Yes = False,
) -> None:
    """Remove all waiting jobs for good; schedulers go on."""
    agreed_on(context, queue, f"Remove all waiting jobs of {queue} for good?", yes)
    removed = on_known(context, queue, lambda queue: queue.drain(delayed))
    typer.echo(f"{removed:,} removed")


@app.command()
def pause(
    context: typer.Context,
    queue: OfQueue,
    in_advance: InAdvance = False,
) -> None:
    """Pause the queue: workers get no jobs until it is resumed."""
    (on if in_advance else on_known)(context, queue, lambda queue: queue.pause(by=person()))
    typer.echo("paused")


@app.command()
def resume(context: typer.Context, queue: OfQueue) -> None:
    """Resume the queue."""
    on_known(context, queue, lambda queue: queue.resume())
    typer.echo("resumed")


@app.command()
def workers(context: typer.Context, queue: OfQueue, as_json: AsJson = False) -> None:
    """Print the workers of the queue, Node's included."""
    rows = [
        (named[1] if named else "unnamed", each["addr"], int(each["age"]))
        for each in on(context, queue, lambda queue: queue.workers())
        for named in [re.search(r":w:(.+)$", each["rawname"])]
    ]
    if not rows:
        check_known(context, queue)
    if as_json:
        shown = [{"name": name, "address": address, "age_s": age} for name, address, age in rows]
        typer.echo(codec.encode(shown).decode())
        return
    list_rows(
        [(name, address, f"{age} s") for name, address, age in rows],
        none=f"{queue} has no workers",
        head=("name", "address", "connected"),
    )


@app.command()
def work(
    context: typer.Context,
    handler: Annotated[str, typer.Argument(metavar="MODULE:HANDLER", help="The handler.")],
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE", help="Names of queues.")],
    concurrency: commands.Concurrency = None,
    process: commands.InProcesses = False,
    options: commands.Options = None,
    wait: commands.Wait = None,
    processes: commands.Processes = 1,
    reload: Reload = False,
) -> None:
    """Run a worker for each queue until asked to stop.

    The handler is a function that takes the job, or a dictionary of functions by the job's name.
    Every option of the worker is a setting under bullmq.worker, and can be given with --option.
    With --processes each process has its own workers of that concurrency; one that dies is started
    again, and the metrics of all are served as one page. --process is something else: one worker
    that runs plain functions in processes.
    """
    import asyncio

    from waystation.bullmq.commands import work as running
    from waystation.core.app import compose, fleet
    from waystation.core.app.settings import TelemetrySettings

    supervise(reload)
    given = cast(CliContext, context.obj)
    settings = commands.with_options(
        given.settings,
        ("bullmq", "worker"),
        wait=wait,
        options=options,
        concurrency=concurrency,
        process=process or None,
    )
    compose.log_to_stderr(settings[TelemetrySettings])
    fleet.supervise(processes, settings[TelemetrySettings])
    asyncio.run(running.run(commands.handler_at(handler), queues, settings, prefix=given.prefix))


# Behind what is asked for daily: help lists commands in this order.
admin.register(app)


def _iso(instant: datetime | None) -> str | None:
    return None if instant is None else instant.isoformat(timespec="milliseconds")


_BLOCKS = ("stacktrace", "logs")
_NAMES = 16


def sheet(known: Mapping[str, Any]) -> str:
    """The fields of a job; those without a value are left out."""
    return "\n".join(_lines(known))


def _lines(known: Mapping[str, Any]) -> Iterator[str]:
    for name, value in known.items():
        if value is None or value == [] or (name == "steps" and not value):
            continue
        if name == "steps":
            yield f"{name}:"
            yield from (
                f"  {step:<{_NAMES - 2}}  {codec.text_of(done)}" for step, done in value.items()
            )
        elif name in _BLOCKS:
            yield f"{name}:"
            for text in value:
                yield from (f"  {line}" for line in str(text).splitlines())
        else:
            yield f"{name:<{_NAMES}}  {codec.text_of(value)}"
