"""`waystation webhooks`: who hears what happens to jobs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from waystation.core.app.commands import AsJson, list_rows, on_store

if TYPE_CHECKING:
    from waystation.console.webhooks import Hook, Hooks, State
    from waystation.core.store.connection import Store

T = TypeVar("T")

EXAMPLES = """\b
Examples:
  waystation webhooks add https://shop.example.com/jobs --event failed --queue bullmq/mail
  waystation webhooks list
  waystation webhooks test wh_4m1pQ2vXz7aB
"""

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog=EXAMPLES,
    help="Send what happens to jobs to URLs; `waystation console` sends it while it runs.",
)

OfHook = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `list` prints it.")]


@app.command(name="list")
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Print the webhooks, and how their deliveries go."""
    found = _on(context, lambda store, hooks: hooks.every())
    if as_json:
        import msgspec

        from waystation.console.webhooks import view_of

        typer.echo(msgspec.json.encode([view_of(*each) for each in found]).decode())
        return
    rows = [
        (
            hook.id,
            hook.url,
            ",".join(hook.queues) or "all queues",
            ",".join(hook.events),
            _standing(state),
        )
        for hook, state in found
    ]
    head = ("id", "url", "queues", "events", "deliveries")
    list_rows(rows, none="there are no webhooks", head=head)


@app.command()
def add(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to; https.")],
    event: Annotated[
        list[str] | None, typer.Option(help="An event; else those that end a job.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Only this queue, such as bullmq/mail; else all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send what happens to jobs from now on to a URL; prints its id and its secret, once."""
    from waystation.core.webhooks import delivery

    inside = _networks(context)

    async def make(store: Store, hooks: Hooks) -> Hook:
        hook = await hooks.add(delivery.checked(url, inside), event or [], queue or [])
        after = {"id": hook.id, "url": hook.url, "events": hook.events, "queues": hook.queues}
        await _note(store, "add-webhook", after)
        return hook

    made = _on(context, make)
    if as_json:
        from waystation.core import codec

        typer.echo(codec.encode({"id": made.id, "secret": made.secret}).decode())
        return
    typer.echo(f"id      {made.id}")
    typer.echo(f"events  {', '.join(made.events)}")
    typer.echo(f"secret  {made.secret}")


@app.command()
def remove(context: typer.Context, id: OfHook) -> None:
    """Send nothing there any more."""

    async def drop(store: Store, hooks: Hooks) -> None:
        await hooks.remove(id)
        await _note(store, "remove-webhook", {"id": id})

    _on(context, drop)
    typer.echo("removed")


@app.command()
def test(context: typer.Context, id: OfHook) -> None:
    """Send a test event from this machine; ends with 1 when it is not taken."""
    from waystation.console.webhooks import try_out
    from waystation.core.webhooks.delivery import Sender

    sender = Sender(_networks(context))

    async def attempt(store: Store, hooks: Hooks) -> str:
        hook, _ = await hooks.get(id)
        return await try_out(sender, hook)

    if wrong := _on(context, attempt):
        typer.echo(f"not taken: {wrong}", err=True)
        raise typer.Exit(1)
    typer.echo("taken")


@app.command()
def resume(context: typer.Context, id: OfHook) -> None:
    """Try again at once, also one that was given up, from where it was."""

    async def revive(store: Store, hooks: Hooks) -> None:
        await hooks.resume(id)
        await _note(store, "resume-webhook", {"id": id})

    _on(context, revive)
    typer.echo("resumed")


def _standing(state: State) -> str:
    if state.dead:
        return f"given up: {state.last_error}"
    if state.failures:
        return f"failed {state.failures} times: {state.last_error}"
    return f"{state.delivered:,} delivered"


def _networks(context: typer.Context) -> Any:
    from waystation.console.settings import ConsoleSettings
    from waystation.core.app.invocation import loaded
    from waystation.core.http.addresses import networks

    return networks(loaded(context)[ConsoleSettings].webhook_networks, "webhook_networks")


async def _note(store: Store, action: str, after: dict[str, Any]) -> None:
    from waystation.core.clock import SystemClock
    from waystation.core.identity import person
    from waystation.core.operators.operators import Operator, Operators
    from waystation.core.operators.roles import Role

    who = Operator(name=person(), role=Role.ADMIN)
    await Operators(store, SystemClock()).note(who, action, "webhooks", before=None, after=after)


def _on(context: typer.Context, step: Callable[[Store, Hooks], Coroutine[Any, Any, T]]) -> T:
    # These take long to load, and help needs none of them.
    from waystation.console.webhooks import Hooks
    from waystation.core.app.invocation import loaded

    return on_store(loaded(context), lambda store: step(store, Hooks(store)))
