"""`waystation bullmq groups`, `pause-group`, `resume-group`, `set-group` and `reset-group`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from waystation.bullmq.commands.reach import InAdvance, OfQueue, on, on_known
from waystation.core import codec
from waystation.core.app.commands import AsJson, list_rows
from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidOption

if TYPE_CHECKING:
    from waystation.bullmq import GroupState, Limit, Queue

OfGroup = Annotated[
    str,
    typer.Argument(
        metavar="GROUP", help="The group: acme, or acme/key where it has a parent; %2F for a slash."
    ),
]
OfSettings = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        help="As `groups` prints it; '*' for all groups, '*/*' for all that have a parent, "
        "'' for the jobs without a group.",
    ),
]

Rate = Annotated[
    str | None, typer.Option(help="How much may start in a stretch of time, such as 100/60s.")
]


def groups(
    context: typer.Context,
    queue: OfQueue,
    group: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="Only this one; it may have no jobs.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="The most to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print the groups whose jobs wait, those with the most first, and what holds one back."""
    from waystation.bullmq.groups import group_named

    async def ask(queue: Queue) -> list[GroupState]:
        if group is not None:
            return [await queue.groups.get(group_named(group))]
        return await queue.groups.list(limit=count + 1)

    found = on_known(context, queue, ask)
    if as_json:
        typer.echo(codec.encode([_shown(each) for each in found[:count]]).decode())
        return
    rows = [_cells(each) for each in found]
    head = ("group", "waiting", "active", "spent", "today", "weight", "held by")
    list_rows(rows, none=f"no groups wait in {queue}", head=head, most=count)


def pause_group(context: typer.Context, queue: OfQueue, group: OfGroup) -> None:
    """Start no jobs of a group until it is resumed; active ones go on."""
    from waystation.bullmq.groups import group_named

    on_known(context, queue, lambda queue: queue.groups.pause(group_named(group)))
    typer.echo("paused")


def resume_group(context: typer.Context, queue: OfQueue, group: OfGroup) -> None:
    """Start jobs of a paused group again."""
    from waystation.bullmq.groups import group_named

    on_known(context, queue, lambda queue: queue.groups.resume(group_named(group)))
    typer.echo("resumed")


def set_group(
    context: typer.Context,
    queue: OfQueue,
    group: OfSettings,
    concurrency: Annotated[
        int | None, typer.Option(help="How many of its jobs may run at once.")
    ] = None,
    rate: Rate = None,
    budget: Annotated[
        float | None, typer.Option(help="How much cost may start on one day, in UTC.")
    ] = None,
    weight: Annotated[
        float | None, typer.Option(help="Its part of the turns; 2 gets twice as many as 1.")
    ] = None,
    max_size: Annotated[
        int | None, typer.Option(help="How many of its jobs may wait; another one is refused.")
    ] = None,
    in_advance: InAdvance = False,
) -> None:
    """Set limits and the weight of a group, or of all, while workers run; the others stay."""
    from waystation.bullmq.groups import GroupSettings, set_named

    given = GroupSettings(
        concurrency=concurrency,
        rate=parse_rate(rate),
        budget=budget,
        weight=weight,
        max_size=max_size,
    )
    if given == GroupSettings():
        every = "--concurrency, --rate, --weight, --budget or --max-size"
        raise InvalidOption(f"name what to set: {every}")
    (on if in_advance else on_known)(
        context, queue, lambda queue: set_named(queue.groups, group, given)
    )
    typer.echo("set")


def reset_group(context: typer.Context, queue: OfQueue, group: OfSettings) -> None:
    """Forget the limits and the weight that were set for a group, or for all; pauses stay."""
    from waystation.bullmq.groups import reset_named

    on_known(context, queue, lambda queue: reset_named(queue.groups, group))
    typer.echo("reset")


def parse_rate(text: str | None) -> Limit | None:
    """What `--rate` says, such as 100/60s."""
    from waystation.bullmq import Limit

    if text is None:
        return None
    most, slash, window = text.partition("/")
    if not slash or not most.isdecimal():
        raise InvalidOption(f"--rate is a number and a time, such as 100/60s, got {text!r}")
    return Limit(int(most), parse_duration(window))


def _cells(each: GroupState) -> tuple[str, ...]:
    settings = each.settings
    active, spent, held = f"{each.active:,}", f"{each.spent:,g}", each.held_by or ""
    if settings.concurrency is not None:
        active += f" of {settings.concurrency:,}"
    if settings.rate is not None:
        spent += f" of {settings.rate.max:,} in {settings.rate.duration_ms / 1000:g} s"
    today = ""
    if settings.budget is not None:
        today = f"{each.spent_today:,g} of {settings.budget:,g}"
    if held in ("rate", "budget") and each.held_for_s:
        held += f", {each.held_for_s:,.0f} s more"
    return each.path, f"{each.waiting:,}", active, spent, today, f"{settings.weight or 1:g}", held


def _shown(each: GroupState) -> dict[str, Any]:
    settings = each.settings
    rate = settings.rate
    return {
        "group": each.path,
        "waiting": each.waiting,
        "active": each.active,
        "spent": each.spent,
        "spent_today": each.spent_today,
        "held_by": each.held_by,
        "held_for_s": None if each.held_for_s in (None, math.inf) else each.held_for_s,
        "concurrency": settings.concurrency,
        "rate": rate and {"max": rate.max, "duration_s": rate.duration_ms / 1000},
        "budget": settings.budget,
        "weight": settings.weight,
        "max_size": settings.max_size,
        "paused": settings.paused,
    }
