"""Which jobs a command is about: named by their ids, or all that are as asked for.

The latter are counted, shown and confirmed before they are changed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
import typer

from waystation.bullmq.commands.reach import agreed, on_known
from waystation.bullmq.states import STATES, known_states
from waystation.core import codec
from waystation.core.app.commands import Yes, list_rows
from waystation.core.durations import parse_duration, seconds
from waystation.core.errors import InvalidOption, NotFound
from waystation.core.identity import person

if TYPE_CHECKING:
    from waystation.bullmq import Job, Queue, State
    from waystation.bullmq.changing import Change

_PAGE = 200
LOOK = 10_000
"""Jobs of a state that are looked at, unless more are asked for."""
_SHOWN = 5

InState = Annotated[
    list[str] | None, typer.Option("--state", help=f"Only in this state: {', '.join(STATES)}.")
]
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


Command: TypeAlias = Callable[..., None]


def _option(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


_OPTIONS = (
    _option("state", InState),
    _option("name", Names),
    _option("data", Data),
    _option("error", Errors),
    _option("since", Since),
    _option("until", Until),
    _option("look", Look, LOOK),
    _option("dry_run", DryRun, False),
    _option("yes", Yes, False),
)
_ALWAYS = {"name", "data", "since", "until", "look"}


def choosing(*more: Literal["state", "error", "dry_run", "yes"]) -> Callable[[Command], Command]:
    """Give a command the options by which jobs are chosen; it gets them as one, `asked`."""
    options = [each for each in _OPTIONS if each.name in _ALWAYS or each.name in more]

    def decorated(command: Command) -> Command:
        def run(**given: Any) -> None:
            chosen = {each.name: given.pop(each.name) for each in options}
            command(**given, asked=_asked(**chosen))

        signature = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for each in signature.parameters.values():
            parameters += options if each.name == "asked" else [each]
        made: Any = functools.wraps(command)(run)
        made.__signature__ = signature.replace(parameters=parameters)
        made.__annotations__ = {each.name: each.annotation for each in parameters}
        return made

    return decorated


def _asked(
    *,
    name: Sequence[str] | None,
    data: Sequence[str] | None,
    since: str | None,
    until: str | None,
    look: int,
    state: Sequence[str] | None = None,
    error: Sequence[str] | None = None,
    dry_run: bool = False,
    yes: bool = True,
) -> BulkRequest:
    return BulkRequest(
        names=name or (),
        data=[_pair(each) for each in data or ()],
        errors=[each.lower() for each in error or ()],
        since=_moment("--since", since),
        until=_moment("--until", until),
        states=known_states(state or ()),
        look=look,
        dry_run=dry_run,
        yes=yes,
    )


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are meant, by what they are, and whether they are to be changed."""

    names: Sequence[str]
    data: Sequence[tuple[str, str]]
    """Paths into the data and the texts that must stand there."""
    errors: Sequence[str]
    """Texts that must stand in the error, in capitals or not."""
    since: datetime | None
    until: datetime | None
    states: Sequence[State]
    """The only ones; all that the change may concern when there are none."""
    look: int
    """Jobs of a state that are looked at."""
    dry_run: bool
    yes: bool
    """Do not ask."""

    @property
    def is_any(self) -> bool:
        """True when every job fits."""
        return not (self.names or self.data or self.errors or self.since or self.until)

    def fits(self, job: Job) -> bool:
        """Whether a job is meant."""
        if self.names and job.name not in self.names:
            return False
        if self.since and job.created_at < self.since:
            return False
        if self.until and job.created_at > self.until:
            return False
        said = (job.failed_reason or "").lower()
        if not all(each in said for each in self.errors):
            return False
        return all(codec.text_at(job.data_text, path) == text for path, text in self.data)

    def instead_of(self, ids: Sequence[str] | None) -> bool:
        """Whether jobs are asked for by what they are; InvalidOption when by their ids as well."""
        if self.is_any and not self.states and not self.dry_run:
            return False
        if ids:
            raise InvalidOption("name either ids or what the jobs must be, not both")
        return True


def _pair(text: str) -> tuple[str, str]:
    path, equals, value = text.partition("=")
    if not path or not equals:
        raise InvalidOption(f"--data wants PATH=VALUE such as user.id=7, got {text!r}")
    return path, value


def _moment(option: str, text: str | None) -> datetime | None:
    """An instant: a date and time, or how long ago."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.now(UTC) - timedelta(seconds=seconds(parse_duration(text)))
        except InvalidOption:
            raise InvalidOption(
                f"{option} wants a time such as 2026-11-16T09:00 or 90m, got {text!r}"
            ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


async def pick(
    queue: Queue, states: Sequence[State], asked: BulkRequest, *, count: int, oldest: bool
) -> tuple[list[tuple[State, Job]], bool]:
    """Jobs that are asked for, with their states, and whether every job was looked at."""
    found: list[tuple[State, Job]] = []
    complete = True
    for state in states:
        offset = 0
        while len(found) < count:
            page = await queue.get_jobs(state, offset=offset, limit=_PAGE, newest_first=not oldest)
            found.extend((state, job) for job in page if asked.fits(job))
            offset += _PAGE
            if len(page) < _PAGE:
                break
            if offset >= asked.look:
                complete = False
                break
    return found[:count], complete


def named(ids: Sequence[str] | None) -> Sequence[str]:
    """The ids of jobs; InvalidOption when there are none, for nothing is changed by accident."""
    if not ids:
        raise InvalidOption("name the ids of jobs, or what they must be: --name, --data, --since …")
    return ids


async def found(queue: Queue, job_id: str) -> Job:
    """The job of this id; NotFound when there is none."""
    job = await queue.get_job(job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id} in the queue {queue.name}")
    return job


async def change_named(
    queue: Queue, ids: Sequence[str], change: Callable[[Job], Awaitable[object]]
) -> int:
    """Change jobs one after the other, up to one that is not there or cannot be changed."""
    for job_id in ids:
        await change(await found(queue, job_id))
    return len(ids)


def change_matching(
    context: typer.Context,
    name: str,
    what: Change,
    past: str,
    asked: BulkRequest,
    *,
    reason: str = "",
) -> None:
    """Change all jobs of a queue that are as asked for, and print how many there were."""
    from waystation.bullmq.changing import STATES_OF, change

    looked = asked.states or STATES_OF[what]
    if odd := sorted(set(looked) - set(STATES_OF[what])):
        raise InvalidOption(f"jobs that are {', '.join(odd)} cannot be {past}")

    async def act(queue: Queue) -> int:
        done = 0
        for state, job in found:
            done += await change(queue, what, job.id, state, reason=reason, by=person())
        return done

    most = asked.look * len(looked)
    found, complete = on_known(
        context, name, lambda queue: pick(queue, looked, asked, count=most, oldest=True)
    )
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
    if found:
        head, rows = rows_of(found[:_SHOWN], with_state=True)
        list_rows(rows, none="", head=head)
    if len(found) > _SHOWN:
        typer.echo(f"… and {len(found) - _SHOWN:,} more")


def rows_of(
    found: Sequence[tuple[State, Job]], *, with_state: bool
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Jobs as lines of a table, and their headings; a job that was completed shows no error."""
    rows: list[Sequence[str]] = [
        (
            job.id,
            *((state,) if with_state else ()),
            job.created_at.isoformat(timespec="seconds"),
            job.name,
            "" if state == "completed" else " ".join((job.failed_reason or "").split()),
        )
        for state, job in found
    ]
    return ("id", *(("state",) if with_state else ()), "created", "name", "error"), rows
