"""Commands on all jobs that are as asked for: counted, shown and confirmed before they change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from waystation.bullmq.commands import picking
from waystation.bullmq.commands.reach import agreed, on_known
from waystation.core.app.listing import list_rows
from waystation.core.errors import InvalidOption
from waystation.core.identity import person

if TYPE_CHECKING:
    from waystation.bullmq import Job, Queue, State
    from waystation.bullmq.changing import Change

_SHOWN = 5

Names = Annotated[list[str] | None, typer.Option("--name", help="Only jobs of this name.")]
Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="PATH=VALUE", help="Only where the data has this, as user.id=7."
    ),
]
Errors = Annotated[
    list[str] | None, typer.Option("--error", help="Only where the error has this text.")
]
Since = Annotated[
    str | None, typer.Option(help="Only those made since: a time, or how long ago as 90m.")
]
Until = Annotated[str | None, typer.Option(help="Only those made until then.")]
Look = Annotated[int, typer.Option(min=1, help="Jobs of a state to look at.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count them and print the first few, and do nothing.")
]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are to be changed, and whether they are."""

    wanted: picking.Wanted
    states: Sequence[State] = ()
    """The only ones; all that the change may concern when there are none."""
    look: int
    dry_run: bool
    yes: bool = True
    """Do not ask."""

    def instead_of(self, ids: Sequence[str] | None) -> bool:
        """Whether jobs are asked for by what they are; InvalidOption when by their ids as well."""
        if self.wanted.is_any and not self.states and not self.dry_run:
            return False
        if ids:
            raise InvalidOption("name either ids or what the jobs must be, not both")
        return True


def change_matching(
    context: typer.Context,
    name: str,
    what: Change,
    past: str,
    asked: Asked,
    *,
    reason: str = "",
) -> None:
    """Change all jobs of a queue that are as asked for, and print how many there were."""
    from waystation.bullmq.changing import STATES_OF, change

    looked = asked.states or STATES_OF[what]
    if odd := sorted(set(looked) - set(STATES_OF[what])):
        raise InvalidOption(f"jobs that are {', '.join(odd)} cannot be {past}")

    async def find(queue: Queue) -> tuple[list[tuple[State, Job]], bool]:
        most = asked.look * len(looked)
        return await picking.pick(
            queue, looked, asked.wanted, count=most, look=asked.look, oldest=True
        )

    async def act(queue: Queue) -> int:
        done = 0
        for state, job in found:
            done += await change(queue, what, job.id, state, reason=reason, by=person())
        return done

    found, complete = on_known(context, name, find)
    _show(found)
    if not complete:
        typer.echo(f"only {asked.look:,} jobs of a state were looked at; --look more", err=True)
    if asked.dry_run:
        typer.echo(f"{len(found):,} would be {past}")
        return
    if found:
        agreed(f"{len(found):,} jobs of {name} will be {past}. Go on?", asked.yes)
    done = on_known(context, name, act)
    left = len(found) - done
    more = f"; {left:,} had changed meanwhile and were left alone" if left else ""
    typer.echo(f"{done:,} {past}{more}")


def _show(found: Sequence[tuple[State, Job]]) -> None:
    rows = [
        (
            job.id,
            state,
            job.created_at.isoformat(timespec="seconds"),
            job.name,
            " ".join((job.failed_reason or "").split()),
        )
        for state, job in found[:_SHOWN]
    ]
    if rows:
        list_rows(rows, none="")
    if len(found) > _SHOWN:
        typer.echo(f"… and {len(found) - _SHOWN:,} more")
