"""The engine of a command that asks, and the options that choose jobs of the history."""

import datetime as dt
import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any

import typer

from waystation.core.durations import parse_duration
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.pipeline.ask.engine import Engine
from waystation.pipeline.ask.selection import Selection
from waystation.pipeline.commands.shared import root_of


def _options(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of jobs.", show_default=False)
    ] = None,
    queue: Annotated[str, typer.Option(help="Queue.")] = "",
    name: Annotated[str, typer.Option(help="Name of the jobs.")] = "",
    state: Annotated[str, typer.Option(help="State, such as failed or completed.")] = "",
    error: Annotated[str, typer.Option(help="A part of the error message.")] = "",
    failure: Annotated[
        str, typer.Option(metavar="GROUP", help="Fingerprint in the table `failures`.")
    ] = "",
    field: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Value of a declared field; may be repeated."),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUE", help="Value in the data, such as $.order.id=7; may be repeated."
        ),
    ] = None,
    since: Annotated[
        str, typer.Option(help="Added since: 2026-03-01, 2026-03-01T14:00, or 24h ago.")
    ] = "",
    until: Annotated[str, typer.Option(help="Added before, in the same forms.")] = "",
    where: Annotated[
        str, typer.Option(metavar="SQL", help="Any condition over the columns of the answer.")
    ] = "",
) -> Selection:
    now = dt.datetime.now(dt.UTC)
    return Selection(
        ids=ids or (),
        queue=queue,
        name=name,
        state=state,
        error=error,
        failure=failure,
        fields=dict(_pair(each, "--field tenant=acme") for each in field or ()),
        paths=dict(_pair(each, "--path $.order.id=7") for each in path or ()),
        since=instant(since, now),
        until=instant(until, now),
        where=where,
    )


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `selection` the options that choose jobs."""
    chosen = inspect.signature(_options).parameters
    own = inspect.signature(command).parameters

    @wraps(command)
    def wrapper(**given: Any) -> None:
        selection = _options(**{name: given.pop(name) for name in chosen})
        command(selection=selection, **given)

    parameters: Sequence[inspect.Parameter] = [
        *(each for name, each in own.items() if name == "context"),
        *chosen.values(),
        *(each for name, each in own.items() if name not in ("context", "selection")),
    ]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper


def instant(text: str, now: dt.datetime) -> dt.datetime | None:
    """An instant that somebody wrote: in UTC unless it names a zone, or a duration before now."""
    if not text:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        try:
            return now - dt.timedelta(seconds=parse_duration(text))
        except (InvalidOption, OverflowError):
            raise InvalidInput(
                f"wanted an instant such as 2026-03-01T14:00 or a duration such as 24h or 7d, "
                f"got {text!r}"
            ) from None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


def _pair(text: str, example: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found or not name:
        raise InvalidInput(f"wanted {example}, got {text!r}")
    return name.strip(), value.strip()


@contextmanager
def asking(context: typer.Context, history: str | None) -> Generator[Engine]:
    """The engine over the history of a command."""
    with Engine(root_of(context, history)) as engine:
        engine.too_large = "`waystation pipeline sql --engine spark` can answer it"
        yield engine
